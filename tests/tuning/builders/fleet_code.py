"""Code for tests of builders: it compiles to what it says, or takes its time."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from toolchain.errors import ToolchainError


@dataclass(frozen=True)
class Said:
    """Compiles to its own text, after some seconds."""

    text: str
    takes_s: float = 0.0

    def objects(self, symbol: str) -> tuple[bytes, ...]:
        time.sleep(self.takes_s)
        return (f"{symbol} {self.text}".encode(),)


@dataclass(frozen=True)
class Refused:
    def objects(self, symbol: str) -> tuple[bytes, ...]:
        raise ToolchainError(f"{symbol}: no such instruction")


@dataclass(frozen=True)
class Crashing:
    """Ends its process, as LLVM does at some errors."""

    def objects(self, _symbol: str) -> tuple[bytes, ...]:
        os.abort()
