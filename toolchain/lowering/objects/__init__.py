"""From LLVM's modules to object files, and to text for people."""
