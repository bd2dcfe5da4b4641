"""Maps the kernels of a device's library to the network's functions, by a comment in the kernel source.

Kernels are named by a hash of what they compute, so that networks share a driver's cached binaries. A
driver's message has this name; users know the function by another one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_SYMBOL = r"kernel_[0-9a-f]{32}"
_SAID = re.compile(_SYMBOL)
_LINE = re.compile(rf"// ({_SYMBOL}): (\w+(?:, \w+)*)\n".encode())


def as_comment(symbols: Mapping[str, str]) -> str:
    """Return the comment with the functions of each kernel.

    Parameters
    ----------
    symbols
        Name of a function -> common prefix of the names of its kernels.
    """
    names: dict[str, list[str]] = {}
    for name, symbol in symbols.items():
        names.setdefault(symbol, []).append(name)
    return "".join(f"// {symbol}: {', '.join(functions)}\n" for symbol, functions in sorted(names.items()))


def with_functions(message: str, library: bytes) -> str:
    """Return a message about kernels with the names of their functions added."""
    symbols = dict.fromkeys(_SAID.findall(message))
    if not symbols:
        return message
    known = {symbol.decode(): names.decode() for symbol, names in _LINE.findall(library)}
    explained = [f"{symbol} is of {known[symbol]}" for symbol in symbols if symbol in known]
    return f"{message} ({'; '.join(explained)})" if explained else message
