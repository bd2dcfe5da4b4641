"""Run a command of the toolchain and list the files of the package whose functions it enters.

    python -m tests.cli.traced FILES.json build model.onnx --board rk3399

Functions that only run while a module is imported do not count, nor do those of child processes.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType

PACKAGE = f"{Path(__file__).parents[2] / 'toolchain'}/"
_FUNCTION = 1  # CO_OPTIMIZED of the code object: the bodies of modules and classes lack it


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(PACKAGE):
            return True
        frame = frame.f_back
    return False


def main(output: Path, arguments: list[str]) -> None:
    """Run the command with these arguments; write the files it enters, in their order, to `output`."""
    known: set[CodeType] = set()
    files: dict[str, None] = {}

    def enter(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or code in known or not code.co_flags & _FUNCTION:
            return
        if code.co_filename.startswith(PACKAGE):
            if _importing(frame.f_back):
                return
            files.setdefault(code.co_filename.removeprefix(PACKAGE))
        known.add(code)

    from toolchain.cli import main as command_line

    sys.argv = ["toolchain", *arguments]
    threading.setprofile(enter)
    sys.setprofile(enter)
    try:
        command_line()
    finally:
        sys.setprofile(None)
        output.write_text(json.dumps(list(files)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
