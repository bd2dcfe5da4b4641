"""Linking compiled networks into libraries for boards, and checking what came out."""

from toolchain.linking.choice import linker_named
from toolchain.linking.gate import check_library
from toolchain.linking.linker import Linker
from toolchain.linking.lld import ZigLinker

__all__ = ["Linker", "ZigLinker", "check_library", "linker_named"]
