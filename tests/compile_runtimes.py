"""Compiles edge-rt for every architecture before the tests, which then find it in their cache.

Otherwise the first test that needs it would be slow, its deadline notwithstanding.
"""

from __future__ import annotations

import sys

from tests import conftest  # sets the folders that tests use
from toolchain.runtime import ARCHES, ensure_runtime


def main() -> None:
    """Compile what is missing, and say how far it is."""
    try:
        for arch in ARCHES:
            ensure_runtime(arch, progress=lambda line: print(line, file=sys.stderr))
    finally:
        conftest.pytest_unconfigure()


if __name__ == "__main__":
    main()
