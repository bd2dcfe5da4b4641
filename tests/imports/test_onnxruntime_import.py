"""onnxruntime reports to nobody, and writes nothing into the user's folders."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import toolchain
from toolchain.imports.onnxruntime_import import NO_TELEMETRY


def test_it_is_imported_at_one_place_alone() -> None:
    package = Path(toolchain.__file__).parent
    importing = {
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if re.search(r"^\s*(import|from) onnxruntime\b", file.read_text(), re.MULTILINE)
    }
    assert importing == {"imports/onnxruntime_import.py"}


@pytest.mark.slow
def test_nothing_is_written_and_children_inherit_it(tmp_path: Path) -> None:
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    temporary.mkdir()
    environment = {key: value for key, value in os.environ.items() if key != NO_TELEMETRY}
    program = (
        "import os\n"
        "from toolchain.models.folding.evaluate import NodeEvaluator\n"
        "from toolchain.imports.onnxruntime_import import onnxruntime\n"
        "onnxruntime.SessionOptions()\n"
        f"os.execvp('printenv', ['printenv', {NO_TELEMETRY!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "HOME": str(home), "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1\n"
    assert [path for folder in (home, temporary) for path in folder.rglob("*")] == []
