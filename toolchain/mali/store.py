"""What the compiler said of kernels before, by their source, their work group and the compiler's version."""

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
from toolchain.mali.compiled import Compiled
from toolchain.mali.compiler import KernelError, version
from toolchain.mali.prepared import prepared

KIND = "mali"  # its folder in the cache
READ = "1"
"""Of the way that the compiler's output is read; another one where that changes what is read of a kernel."""


def fingerprint() -> str:
    """Return the name of the folder with what this version of compiler and reader said."""
    return f"{version()}-{READ}"


class CompiledStore:
    """What the compiler said of kernels, refusals included; what cannot be read is not there."""

    def __init__(self) -> None:
        self.folder = cache_dir() / KIND / fingerprint()

    def get(self, kernel: Kernel) -> Compiled | None:
        """Return what a kernel becomes; None where nobody has asked.

        Raises
        ------
        KernelError
            The compiler refused it.
        """
        try:
            document = json.loads(self._file(kernel).read_text())
            if "refused" in document:
                refused, hint = str(document["refused"]), str(document["hint"])
            else:
                return Compiled.from_json(document)
        except (OSError, ValueError, TypeError, KeyError):
            return None
        raise KernelError(refused, hint)

    def put(self, kernel: Kernel, compiled: Compiled | KernelError) -> None:
        """Keep what the compiler said, if that can be done."""
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
