"""What `toolchain tune` shows: how far it is, and what came of it."""
