"""Test beds for devices that are not here: no row but those of `toolchain.devices` names them."""
