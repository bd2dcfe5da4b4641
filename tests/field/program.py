"""The board's checks of releases as a program without TVM, compiled with sanitizers in seconds."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from tests.fuzz.child import Child
from tests.fuzz.sanitized import FLAGS, compiler
from toolchain.runtime.fingerprint import NATIVE

SOURCE = Path(__file__).parent / "program"
FOLDER = Path(__file__).parents[2] / "build" / "field"
EDGE_REFUSED = 4
_TOOLS = Path(sys.executable).parent
_DEADLINE_S = 1800


def compile_checks(
    folder: Path, definitions: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> Path:
    """Compile what has changed since the last time; return the program."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"NATIVE": NATIVE, "CMAKE_MAKE_PROGRAM": _TOOLS / "ninja", **definitions}
    configure = [_TOOLS / "cmake", "-S", SOURCE, "-B", folder, "-G", "Ninja"]
    with FileLock(folder / "lock", timeout=_DEADLINE_S):
        for argv in (
            [*configure, *(f"-D{name}={value}" for name, value in settings.items())],
            [_TOOLS / "ninja", "-C", folder],
        ):
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                timeout=_DEADLINE_S,
                check=False,
                env={**os.environ, **(environment or {})},
            )
            assert done.returncode == 0, done.stdout + done.stderr
    return folder / "field"


def sanitized() -> Path:
    """Return the program with address and undefined-behaviour sanitizers."""
    return compile_checks(FOLDER, {"CMAKE_CXX_COMPILER": compiler(), "SANITIZE": FLAGS, "OPTIMIZE": "-O0"})


class RefusalError(Exception):
    """The board refuses, with this exit code and kind."""

    def __init__(self, code: int, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.code, self.kind, self.message = code, kind, message


class Checks:
    """Asks a program that is running; ends with its `Child`."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def ask(self, what: str, *words: bytes | str | int) -> Any:
        """Return the answer.

        Raises
        ------
        RefusalError
            The board refuses.
        AssertionError
            The program ended or gives no answer.
        """
        answer = json.loads(self.text(what, *words))
        if isinstance(answer, dict) and set(answer) == {"code", "kind", "message"}:
            raise RefusalError(**answer)
        return answer

    def text(self, what: str, *words: bytes | str | int) -> bytes:
        """Return the answer as it was written."""
        sent = [word if isinstance(word, bytes) else str(word).encode() for word in (what, *words)]
        request = struct.pack("<I", len(sent)) + b"".join(struct.pack("<I", len(w)) + w for w in sent)
        return self._child.ask(request, 4, lambda head: struct.unpack("<I", head)[0])[1]

    def refusal(self, what: str, *words: bytes | str | int) -> str:
        """Return the kind of a refusal.

        Raises
        ------
        AssertionError
            The board accepts it, or refuses it with another exit code.
        """
        try:
            answer = self.ask(what, *words)
        except RefusalError as refused:
            assert refused.code == EDGE_REFUSED, refused
            return refused.kind
        raise AssertionError(f"it is accepted: {answer}")


def changed(value: Any, path: Sequence[str | int], new: Any) -> Any:
    """Return a copy of JSON with another value at a path; a callable computes it from the old one."""
    if not path:
        return new(value) if callable(new) else new
    first, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[first] = changed(value.get(first) if isinstance(value, dict) else value[first], rest, new)
    return copy
