"""The fused functions of a network: their tasks, hashes and definitions."""
