"""The command line: modules of commands, each imported only when one of its commands runs.

A command parses its options, calls one function and prints the result.
"""

from toolchain.cli.root import main

__all__ = ["main"]
