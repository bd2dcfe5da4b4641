"""Boards of a labgrid coordinator: their places are acquired and released by `labgrid-client`."""
