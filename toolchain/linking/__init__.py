"""Links compiled networks into libraries for boards, and checks the results."""

from toolchain.linking.library import check_library
from toolchain.linking.linker import Linker
from toolchain.linking.lld import ZigLinker
from toolchain.linking.table import linker_named

__all__ = ["Linker", "ZigLinker", "check_library", "linker_named"]
