"""Event logs: files in which commands write their progress, and which `toolchain ui` follows."""
