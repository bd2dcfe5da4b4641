"""Arrays that users hand over, and those they get."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from toolchain.errors import ToolchainError, UsageError
from toolchain.measuring.arrays import read_inputs, write_outputs
from toolchain.models.spec import TensorSpec

SPECS = (TensorSpec("a", (2, 3), "float32"), TensorSpec("gpu_0/data_0", (4,), "int64"))
A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.arange(4)


def saved(folder: Path, name: str, array: np.ndarray) -> Path:
    np.save(folder / name, array)
    return folder / name


def test_inputs_come_in_the_networks_order(tmp_path: Path) -> None:
    a, b = saved(tmp_path, "x=1.npy", A), saved(tmp_path, "b.npy", B)
    found = read_inputs([f"gpu_0/data_0={b}", f"a={a}"], SPECS)
    assert list(found) == ["a", "gpu_0/data_0"]
    np.testing.assert_array_equal(found["a"], A)


def test_names_and_files_may_hold_equals_signs(tmp_path: Path) -> None:
    """The longest name counts, and without a known one the first `=`."""
    specs = [TensorSpec(name, A.shape, "float32") for name in ("a", "a=b", "a=b=c")]
    files = [saved(tmp_path, name, A + place) for place, name in enumerate(("x.npy", "b=.npy", "d=e.npy"))]
    found = read_inputs([f"{spec.name}={file}" for spec, file in zip(specs, files, strict=True)], specs)
    assert [array.flat[0] - A.flat[0] for array in found.values()] == [0, 1, 2]
    with pytest.raises(UsageError, match="--input q: the network has no input of this name"):
        read_inputs([f"q={files[1]}"], specs)


def test_fortran_and_big_endian_arrays_are_converted(tmp_path: Path) -> None:
    file = saved(tmp_path, "a.npy", np.asfortranarray(A.astype(">f4")))
    found = read_inputs([f"a={file}"], SPECS[:1])["a"]
    assert found.flags["C_CONTIGUOUS"]
    assert found.dtype == np.float32
    assert found.dtype.isnative
    np.testing.assert_array_equal(found, A)


def bad_file(folder: Path, kind: str) -> Path:
    file = folder / "bad.npy"
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "text":
        file.write_text("1 2 3\n")
    elif kind == "empty":
        file.write_bytes(b"")
    elif kind == "objects":
        np.save(file, np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    elif kind == "truncated":
        np.save(file, A)
        file.write_bytes(file.read_bytes()[:-4])
    elif kind == "huge":
        np.save(file, A)
        file.write_bytes(file.read_bytes().replace(b"(2, 3)", b"(9999999,9999999)")[:200])
    elif kind == "header":
        np.save(file, A)
        file.write_bytes(file.read_bytes().replace(b"{'descr'", b"{'descr("))
    elif kind == "npz":
        with file.open("wb") as opened:
            np.savez(opened, a=A)
    return file


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("missing", "no such file"),
        ("folder", "not a file"),
        ("pipe", "not a file"),
        ("text", r"not a \.npy file"),
        ("empty", r"not a \.npy file"),
        ("npz", r"not a \.npy file"),
        ("objects", "holds Python objects"),
        ("truncated", "cannot be read"),
        ("huge", "cannot be read"),
        ("header", "cannot be read"),
    ],
)
def test_error_names_file_without_array(tmp_path: Path, kind: str, says: str) -> None:
    file = bad_file(tmp_path, kind)
    with pytest.raises(UsageError, match=says) as raised:
        read_inputs([f"a={file}"], SPECS[:1])
    assert f"--input a={file}" in raised.value.message
    assert "numpy.save" in raised.value.hint


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 1: 2}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
        b"{'descr': [[('a',)]], 'fortran_order': False, 'shape': (1,)}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        b"{'descr': [], 'fortran_order': False, 'shape': (-1,)}",  # numpy ends the process by SIGFPE
    ],
    ids=["mixed keys", "64 bits", "lists", "negative", "nothing"],
)
@pytest.mark.filterwarnings("error")
def test_refuses_header_that_numpy_cannot_parse(tmp_path: Path, header: bytes) -> None:
    file = tmp_path / "x.npy"
    file.write_bytes(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(4))
    with pytest.raises(UsageError, match=r"cannot be read: .+"):
        read_inputs([f"a={file}"], SPECS[:1])


def test_huge_header_length_allocates_nothing(tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    file.write_bytes(b"\x93NUMPY\2\0" + b"\0\0\0\x70" + bytes(100))
    tracemalloc.start()
    with pytest.raises(UsageError, match="its header is too long"):
        read_inputs([f"a={file}"], SPECS[:1])
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < 2**20


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("x.npy", r"--input x.npy: not NAME=FILE.npy \(such as --input a=x.npy"),
        ("=x.npy", "not NAME=FILE.npy"),
        ("a=", "not NAME=FILE.npy"),
        ("b={a}", r"--input b: the network has no input of this name.*a \[2, 3\] float32"),
        ("a={b}", r"shape \[4\] where \[2, 3\]"),
        ("a={d}", "dtype float64 where float32"),
    ],
)
def test_refuses_wrong_name_shape_or_dtype(tmp_path: Path, argument: str, says: str) -> None:
    files = {
        "a": saved(tmp_path, "a.npy", A),
        "b": saved(tmp_path, "b.npy", B),
        "d": saved(tmp_path, "d.npy", A.astype(np.float64)),
    }
    with pytest.raises(UsageError, match=says):
        read_inputs([argument.format(**files)], SPECS[:1])


def test_errors_name_the_option_that_was_typed(tmp_path: Path) -> None:
    b = saved(tmp_path, "b.npy", B)
    for argument in ("a", f"a={tmp_path}/gone.npy", f"a={b}", f"z={b}"):
        with pytest.raises(UsageError, match=r"^--sample (a|z)"):
            read_inputs([argument], SPECS[:1], "--sample")
    with pytest.raises(UsageError, match="add --sample a="):
        read_inputs([], SPECS[:1], "--sample")


def test_refuses_duplicate_and_missing_inputs(tmp_path: Path) -> None:
    a = saved(tmp_path, "a.npy", A)
    with pytest.raises(UsageError, match="'a' is given twice"):
        read_inputs([f"a={a}", f"a={a}"], SPECS)
    with pytest.raises(UsageError, match=r"'gpu_0/data_0' is missing.*--input gpu_0/data_0="):
        read_inputs([f"a={a}"], SPECS)


def test_outputs_come_back_in_order_with_any_name(tmp_path: Path) -> None:
    outputs: dict[str, np.ndarray] = {"z/0:1": A, "file": B, "a": np.float32(3).reshape(())}
    write_outputs(tmp_path / "new" / "out", outputs)
    with np.load(tmp_path / "new" / "out") as found:
        assert list(found) == list(outputs)
        for name, array in outputs.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)
    write_outputs(tmp_path / "again.npz", outputs)
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "new" / "out").read_bytes()


def test_refuses_unwritable_output_path(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=f"cannot write {tmp_path}"):
        write_outputs(tmp_path, {"a": A})
    assert list(tmp_path.iterdir()) == []
