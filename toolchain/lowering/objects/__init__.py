"""Writes LLVM modules as object files."""
