"""`toolchain runtime`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from toolchain.runtime.cache import SourceComparison


@pytest.mark.slow  # edge-rt may have to be compiled
def test_the_library_for_a_board_is_written_with_its_header(invoke: Toolchain, folder: Path) -> None:
    ran = invoke("runtime", "export", "--board", "rk3399", "-o", "out", "--json")
    assert ran.code == 0, ran.err
    assert ran.document["arch"] == "aarch64"
    written = {file.name for file in (folder / "out").iterdir()}
    assert {"libedge.so", "edge_rt.h"} <= written
    assert written == {Path(path).name for path in ran.document.values() if "/" in path}


@pytest.mark.usefixtures("state")
def test_refuses_unknown_board(invoke: Toolchain, folder: Path) -> None:
    refused(
        invoke, folder, 2, ["--board rk3388", "rk3399"], "runtime", "export", "--board", "rk3388", "-o", "out"
    )


@pytest.mark.slow
def test_a_file_that_its_sources_do_not_make_ends_with_4(
    invoke: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = {"edge-rt": "1" * 64, "libedge.so": "2" * 64}
    found = SourceComparison("x86_64", "f" * 32, digests, digests | {"edge-rt": "3" * 64}, None)
    monkeypatch.setattr("toolchain.runtime.cache.compare_with_sources", lambda *_: found)
    ran = invoke("runtime", "verify", "--board", "x86_64", "--json")
    assert ran.code == 4 and ran.document["equal"] is False
    ran = invoke("runtime", "verify", "--board", "x86_64")
    assert ran.code == 4 and ran.says("edge-rt for x86_64: 111", "333", "hint: "), ran.err
    same = replace(found, anew=digests)
    monkeypatch.setattr("toolchain.runtime.cache.compare_with_sources", lambda *_: same)
    ran = invoke("runtime", "verify", "--board", "x86_64")
    assert ran.code == 0 and f"edge-rt: {'1' * 64}, not of a release" in ran.out
