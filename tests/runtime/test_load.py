"""Loading a library: what it costs, and what is refused."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from tests.runtime import networks
from tests.runtime.conftest import Case, Edge

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled


def test_constants_are_loaded_once(native: Edge, dense: Case, tmp_path: Path) -> None:
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


def test_refuses_a_library_of_another_version(native: Edge, dense: Case, tmp_path: Path) -> None:
    complete = networks.library("dense", "x86_64")
    version = b"\x04\0\0\0\0\0\0\x000.14"  # tvm/runtime/vm/executable.h
    assert complete.count(version) == 1
    dense.library.write_bytes(complete.replace(version, version[:-1] + b"9"))
    code, answer = native("run", *dense.arguments, "--output", tmp_path / "o.npz")
    assert (code, answer["error"]["kind"]) == (1, "load")
    assert "another version of TVM" in answer["error"]["message"]


@pytest.mark.parametrize("before", [8, 56], ids=["modules", "all"])
def test_refuses_zeroed_parts(native: Edge, dense: Case, tmp_path: Path, before: int) -> None:
    complete = networks.library("dense", "x86_64")
    at = complete.index(b"relax.VMExecutable") - before
    dense.library.write_bytes(complete[:at] + bytes(100) + complete[at + 100 :])
    code, answer = native("run", *dense.arguments, "--output", tmp_path / "o.npz")
    assert (code, answer["error"]["kind"]) == (1, "load")
    assert "is damaged" in answer["error"]["message"]


TENSOR = struct.pack("<Q", 0xDD5E40F096B4A13F)  # tvm/runtime/tensor.h: kTVMTensorMagic
RANK, DTYPE, SHAPE = 24, 28, 32


@pytest.mark.parametrize(
    ("at", "lie"),
    [
        (RANK, struct.pack("<i", -1)),
        (RANK, struct.pack("<i", 2**31 - 1)),
        (DTYPE, b"\x01\x04"),  # less room is made for 4 bits each than TVM fills
        (SHAPE, struct.pack("<q", -1)),
        (SHAPE, struct.pack("<q", 2**62)),  # a product that wraps around
        (SHAPE, struct.pack("<q", 2**40)),
    ],
)
def test_refuses_constants_with_a_wrong_size(
    native: Edge, dense: Case, tmp_path: Path, at: int, lie: bytes
) -> None:
    complete = networks.library("dense", "x86_64")
    first = complete.index(TENSOR) + at
    dense.library.write_bytes(complete[:first] + lie + complete[first + len(lie) :])
    code, answer = native("run", *dense.arguments, "--output", tmp_path / "o.npz")
    assert (code, answer["error"]["kind"]) == (1, "load")
    assert "is damaged" in answer["error"]["message"]


def test_refuses_embedded_parts_longer_than_their_symbol(native: Edge, dense: Case, tmp_path: Path) -> None:
    complete = networks.library("dense", "x86_64")
    with dense.library.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym").iter_symbols()
        (embedded,) = [symbol for symbol in symbols if symbol.name == "__tvm_ffi__library_bin"]
        (segment,) = [
            s
            for s in ELFFile(file).iter_segments("PT_LOAD")
            if 0 <= embedded["st_value"] - s["p_vaddr"] < s["p_filesz"]
        ]
    first = embedded["st_value"] - segment["p_vaddr"] + segment["p_offset"]
    size = embedded["st_size"] - 8
    assert struct.unpack_from("<Q", complete, first) == (size,)
    for lie in (size + 1, 2**40, 2**64 - 1):
        dense.library.write_bytes(complete[:first] + struct.pack("<Q", lie) + complete[first + 8 :])
        code, answer = native("run", *dense.arguments, "--output", tmp_path / "o.npz")
        assert (code, answer["error"]["kind"]) == (1, "load")
        assert "is damaged" in answer["error"]["message"]
