"""Which of a network's functions begin a kernel: a library for a device says it in a comment of its own.

Kernels are named by what they compute, so that networks share what a driver keeps of them. What a driver
says of one is about a function that people know by another name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_SYMBOL = r"kernel_[0-9a-f]{32}"
_SAID = re.compile(_SYMBOL)
_LINE = re.compile(rf"// ({_SYMBOL}): (\w+(?:, \w+)*)\n".encode())


def as_comment(symbols: Mapping[str, str]) -> str:
    """Return lines of comment.

    Parameters
    ----------
    symbols
        Name of a function -> what begins the names of its kernels.
    """
    names: dict[str, list[str]] = {}
    for name, symbol in symbols.items():
        names.setdefault(symbol, []).append(name)
    return "".join(f"// {symbol}: {', '.join(found)}\n" for symbol, found in sorted(names.items()))


def with_functions(message: str, library: bytes) -> str:
    """Return a message about kernels of a library, with the functions that begin them."""
    said = dict.fromkeys(_SAID.findall(message))
    if not said:
        return message
    known = {symbol.decode(): names.decode() for symbol, names in _LINE.findall(library)}
    found = [f"{symbol} is of {known[symbol]}" for symbol in said if symbol in known]
    return f"{message} ({'; '.join(found)})" if found else message
