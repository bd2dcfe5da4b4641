"""The command line: one module for each noun, imported only when its command runs.

A command parses its options, calls one function and prints the result.
"""

from toolchain.cli.root import main

__all__ = ["main"]
