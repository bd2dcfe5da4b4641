"""Test beds for devices that are absent; only rows of `toolchain.devices` name them."""
