"""Emulated boards as whole machines: QEMU's system mode, with a kernel, systemd and a disk."""
