"""Of the files of outputs one form is right, which edge-rt writes."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.lying.liar import npy, npz
from toolchain.bundles.manifest import Tensor
from toolchain.measuring.execute import npz_size, read_npz
from toolchain.quantities import counted

ARRAYS = (
    np.arange(6, dtype="float32").reshape(1, 2, 3),
    np.array(True),
    np.zeros((0, 4), "int8"),
    np.array([2**63 - 1], "int64"),
    np.array([[1.5]], "float16"),
)
SPECS = [
    Tensor(name=f"o{place}", shape=array.shape, dtype=array.dtype.name) for place, array in enumerate(ARRAYS)
]
RIGHT = npz([(f"{place}.npy", npy(array)) for place, array in enumerate(ARRAYS)])


def test_read_outputs_are_writable(tmp_path: Path) -> None:
    file = tmp_path / "out.npz"
    file.write_bytes(RIGHT)
    assert npz_size(SPECS) == len(RIGHT)
    found = read_npz(file, SPECS)
    assert list(found) == [spec.name for spec in SPECS]
    for array, expected in zip(found.values(), ARRAYS, strict=True):
        assert array.dtype == expected.dtype and array.shape == expected.shape
        assert array.tolist() == expected.tolist() and array.flags.writeable


def test_numpy_reads_the_same_npz(tmp_path: Path) -> None:
    file = tmp_path / "out.npz"
    file.write_bytes(RIGHT)
    assert zipfile.ZipFile(file).testzip() is None
    with np.load(file) as found:
        assert [found[name].tolist() for name in found.files] == [array.tolist() for array in ARRAYS]


@pytest.mark.slow
@settings(max_examples=200)
@given(st.integers(0, len(RIGHT) - 1), st.integers(1, 255))
def test_rejects_changed_byte(tmp_path_factory: pytest.TempPathFactory, place: int, by: int) -> None:
    changed = bytearray(RIGHT)
    changed[place] ^= by
    file = tmp_path_factory.getbasetemp() / "changed.npz"
    file.write_bytes(changed)
    with pytest.raises(ValueError, match=r"output|directory"):
        read_npz(file, SPECS)


@given(st.integers(0, len(RIGHT) - 1))
def test_rejects_truncated_file(tmp_path_factory: pytest.TempPathFactory, size: int) -> None:
    file = tmp_path_factory.getbasetemp() / "cut.npz"
    file.write_bytes(RIGHT[:size])
    with pytest.raises(ValueError, match=counted(size, "byte")):
        read_npz(file, SPECS)
