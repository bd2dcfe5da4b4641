"""The command line: one module per noun, each imported only when it is asked for.

A command parses, calls one function and prints what it returned.
"""

from toolchain.cli.root import main

__all__ = ["main"]
