"""`toolchain runtime`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.refusals import refused
from tests.cli.running import Toolchain


@pytest.mark.slow  # edge-rt may have to be compiled
def test_the_library_for_a_board_is_written_with_its_header(invoke: Toolchain, folder: Path) -> None:
    ran = invoke("runtime", "export", "--board", "rk3399", "-o", "out", "--json")
    assert ran.code == 0, ran.err
    assert ran.document["arch"] == "aarch64"
    written = {file.name for file in (folder / "out").iterdir()}
    assert {"libedge.so", "edge_rt.h"} <= written
    assert written == {Path(path).name for path in ran.document.values() if "/" in path}


@pytest.mark.usefixtures("state")
def test_a_board_that_is_none(invoke: Toolchain, folder: Path) -> None:
    refused(
        invoke, folder, 2, ["--board rk3388", "rk3399"], "runtime", "export", "--board", "rk3388", "-o", "out"
    )
