"""The commands of `toolchain release`."""
