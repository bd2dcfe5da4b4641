"""The output of `toolchain tune`: progress and results."""
