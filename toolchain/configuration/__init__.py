"""`toolchain.toml`, the environment and the defaults."""
