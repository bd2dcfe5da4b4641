"""The commands of `toolchain image`: a module each, imported only when it runs."""
