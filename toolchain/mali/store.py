"""Cache of compiler results, by source, work group and compiler version."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from toolchain.configuration.settings import cache_dir
from toolchain.devices.kernel import Kernel
from toolchain.errors import ToolchainError
from toolchain.files import atomic
from toolchain.mali.compiled import KernelStatistics
from toolchain.mali.compiler import KernelError, version
from toolchain.mali.prepared import prepared

KIND = "mali"  # its folder in the cache
READ = "1"
"""Version of our parser of the compiler's output; increase it when the parser's results change."""


def fingerprint() -> str:
    """Return the name of the cache folder for this version of compiler and parser."""
    return f"{version()}-{READ}"


class CompiledStore:
    """Cache of compiler results, errors included. Unreadable entries count as misses."""

    def __init__(self) -> None:
        self.folder = cache_dir() / KIND / fingerprint()

    def get(self, kernel: Kernel) -> KernelStatistics | None:
        """Return the statistics of a kernel; None on a cache miss.

        Raises
        ------
        KernelError
            The cached result is an error of the compiler.
        """
        try:
            document = json.loads(self._file(kernel).read_text())
            if "refused" in document:
                refused, hint = str(document["refused"]), str(document["hint"])
            else:
                return KernelStatistics.from_json(document)
        except (OSError, ValueError, TypeError, KeyError):
            return None
        raise KernelError(refused, hint)

    def put(self, kernel: Kernel, compiled: KernelStatistics | KernelError) -> None:
        """Store a result of the compiler; do nothing if the file system refuses."""
        document = (
            {"refused": compiled.message, "hint": compiled.hint}
            if isinstance(compiled, KernelError)
            else asdict(compiled)
        )
        with suppress(OSError, ToolchainError):
            file = self._file(kernel)
            file.parent.mkdir(parents=True, exist_ok=True)
            atomic.write_bytes(file, json.dumps(document).encode())

    def _file(self, kernel: Kernel) -> Path:
        return self.folder / f"{hashlib.sha256(prepared(kernel).encode()).hexdigest()}.json"
