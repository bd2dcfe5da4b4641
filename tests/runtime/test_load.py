"""Loading a library: what it costs, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.runtime import networks
from tests.runtime.conftest import Case, Edge

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled


def test_constants_are_in_memory_once(native: Edge, dense: Case, tmp_path: Path) -> None:
    (tmp_path / "wide.so").write_bytes(networks.library("wide", "x86_64"))
    np.save(tmp_path / "row.npy", np.eye(1, networks.WIDE, dtype="float32"))
    wide = (tmp_path / "wide.so", "--input", tmp_path / "row.npy", "--state", tmp_path)
    size_mib = (tmp_path / "wide.so").stat().st_size / 2**20
    assert size_mib > 20
    peaks = [native("bench", *arguments, "--repeat", "1") for arguments in (dense.arguments, wide)]
    assert [code for code, _ in peaks] == [0, 0]
    small, large = (answer["peak_rss_mib"] for _, answer in peaks)
    assert large - small < 1.15 * size_mib
    assert native("run", *wide, "--output", tmp_path / "o.npz")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "o.npz")["output_0"][0], networks.wide_weight()[0])


def test_a_library_of_another_version_is_refused(native: Edge, dense: Case, tmp_path: Path) -> None:
    whole = networks.library("dense", "x86_64")
    version = b"\x04\0\0\0\0\0\0\x000.14"  # tvm/runtime/vm/executable.h
    assert whole.count(version) == 1
    dense.library.write_bytes(whole.replace(version, version[:-1] + b"9"))
    code, answer = native("run", *dense.arguments, "--output", tmp_path / "o.npz")
    assert (code, answer["error"]["kind"]) == (1, "load")
    assert "another version of TVM" in answer["error"]["message"]


@pytest.mark.parametrize("before", [8, 56], ids=["modules", "all"])
def test_zeros_where_something_was_not_copied(native: Edge, dense: Case, tmp_path: Path, before: int) -> None:
    whole = networks.library("dense", "x86_64")
    at = whole.index(b"relax.VMExecutable") - before
    dense.library.write_bytes(whole[:at] + bytes(100) + whole[at + 100 :])
    code, answer = native("run", *dense.arguments, "--output", tmp_path / "o.npz")
    assert (code, answer["error"]["kind"]) == (1, "load")
    assert "is damaged" in answer["error"]["message"]
