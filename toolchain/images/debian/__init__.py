"""The Debian systems that images and emulated boards stand on."""
