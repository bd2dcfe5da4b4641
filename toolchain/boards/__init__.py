"""Boards: the list of them, the connection to each, provisioning, emulation, and `edge-rt` on them."""
