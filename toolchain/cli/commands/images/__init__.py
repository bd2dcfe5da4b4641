"""The commands of `toolchain image`: one module for each, imported only when it runs."""
