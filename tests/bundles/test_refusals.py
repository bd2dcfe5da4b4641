"""Bundles that were changed, cut, or made by someone else."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolchain.bundles import layout, read_bundle
from toolchain.bundles.manifest import SCHEMA_VERSION
from toolchain.errors import CheckError, ToolchainError, UsageError

# Writes a manifest of the values of another one.
Change = Callable[[dict[str, Any]], bytes]


def refusal(path: Path, data: bytes | None = None) -> ToolchainError:
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ToolchainError) as caught:
        read_bundle(path)
    assert str(path) in caught.value.message
    return caught.value


def rebuilt(
    bundle: Path,
    *,
    manifest: Change | None = None,
    replace: dict[str, bytes] | None = None,
    fix_sums: bool = True,
) -> bytes:
    """Return the bundle with another manifest or other members, its sums made to agree."""
    with tarfile.open(bundle) as archive:
        members = {name: archive.extractfile(name).read() for name in archive.getnames()}
    members.update(replace or {})
    values = json.loads(members["manifest.json"])
    if fix_sums:
        for name in values["files"]:
            data = members[name]
            values["files"][name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    text = manifest(values) if manifest else json.dumps(values).encode()
    members["manifest.json"] = text
    members["manifest.sha256"] = layout.sum_line(hashlib.sha256(text).hexdigest())
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_rebuilt_bundle_is_accepted(bundle: Path) -> None:
    bundle.write_bytes(rebuilt(bundle))
    read_bundle(bundle)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(7))
def test_rejects_any_changed_byte(bundle: Path, first: int) -> None:
    """Go through the file in steps of 41 bytes: blocks have 512, so all their parts have their turn."""
    whole = bundle.read_bytes()
    for position in range(first * 6, len(whole), 41):
        changed = bytearray(whole)
        changed[position] ^= (0x01, 0x20, 0xFF)[position % 3]
        code = refusal(bundle, bytes(changed)).exit_code
        assert code == 4 or (code == 2 and position < layout.BLOCK), position


@pytest.mark.slow
@given(position=st.integers(0), value=st.integers(0, 255), length=st.integers(1, 600))
def test_changed_stretches_are_noticed(bundle: Path, position: int, value: int, length: int) -> None:
    whole = bundle.read_bytes()
    start = position % len(whole)
    changed = whole[:start] + bytes([value]) * len(whole[start : start + length]) + whole[start + length :]
    if changed != whole:
        other = bundle.with_name("changed")
        assert refusal(other, changed).exit_code in (2, 4)


@pytest.mark.slow
@given(data=st.binary(max_size=3000))
@example(b"")
def test_refuses_other_files(tmp_path: Path, data: bytes) -> None:
    assert refusal(tmp_path / "x", data).exit_code == 2


@given(length=st.integers(0))
@example(0)
@example(511)
@example(512)
@example(-1)
def test_refuses_truncated_bundle(bundle: Path, length: int) -> None:
    whole = bundle.read_bytes()
    error = refusal(bundle.with_name("cut"), whole[: length % len(whole)])
    assert error.exit_code == 2 and "truncated" in error.message


def test_refuses_trailing_bytes(bundle: Path) -> None:
    whole = bundle.read_bytes()
    assert refusal(bundle, whole + bytes(10240)).exit_code == 4
    assert refusal(bundle, whole + b"x").exit_code == 4


def test_refuses_missing_and_special_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none", tmp_path, tmp_path / "pipe", tmp_path / "none" / "below"):
        assert refusal(path).exit_code == 2


def hostile(bundle: Path, change: dict[str, object], where: int, tail: bytes = b"") -> bytes:
    """Return the bundle with one more member before its `where`-th one."""
    info = tarfile.TarInfo("extra")
    for key, value in change.items():
        setattr(info, key, value)
    block = info.tobuf(tarfile.GNU_FORMAT)
    with tarfile.open(bundle) as archive:
        offsets = [member.offset for member in archive.getmembers()]
    whole = bundle.read_bytes()
    last = len(whole.rstrip(b"\0")) + 511 & ~511
    at = [*offsets, last][where]
    return whole[:at] + block + tail + whole[at:]


@pytest.mark.parametrize("where", [0, 1, 2, 4, -1])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "../../etc/cron.d/x"}, "a path outside"),
        ({"name": "/etc/passwd"}, "a path outside"),
        ({"name": "library.so", "type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}, "not a regular file"),
        ({"name": "library.so", "type": tarfile.LNKTYPE, "linkname": "manifest.json"}, "not a regular file"),
        ({"name": "sample", "type": tarfile.DIRTYPE}, "not a regular file"),
        ({"name": "null", "type": tarfile.CHRTYPE}, "not a regular file"),
        ({"name": "library.so", "type": tarfile.GNUTYPE_SPARSE, "size": 2**32}, "not a regular file"),
        ({"name": "././@PaxHeader", "type": tarfile.XHDTYPE}, "not a regular file"),
        ({"name": "huge.bin", "size": 8**11 - 1}, "8589934591 bytes"),
        ({"name": "huge.bin", "size": 2**40}, "no valid size"),
    ],
)
def test_refuses_hostile_members(bundle: Path, change: dict[str, object], said: str, where: int) -> None:
    error = refusal(bundle, hostile(bundle, change, where))
    assert error.exit_code == 4 and said in error.message


@pytest.mark.parametrize("name", ["manifest.json", "library.so", "notes.txt"])
def test_refuses_unexpected_members(bundle: Path, name: str) -> None:
    for where in (1, 2, -1):
        assert refusal(bundle.with_name("x"), hostile(bundle, {"name": name}, where)).exit_code == 4


def test_refuses_other_tar(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("readme.txt"))
    error = refusal(tmp_path / "x.tar")
    assert error.exit_code == 2 and "readme.txt" in error.message


def changing(**changes: object) -> Change:
    return lambda values: json.dumps(values | changes).encode()


def test_a_newer_schema_asks_for_an_upgrade(bundle: Path) -> None:
    error = refusal(
        bundle, rebuilt(bundle, manifest=changing(schema_version=SCHEMA_VERSION + 1, anything="new"))
    )
    assert isinstance(error, UsageError) and "newer toolchain" in error.message and "upgrade" in error.hint


def with_flops(flops: float) -> Change:
    def change(values: dict[str, Any]) -> bytes:
        values["model"]["flops"] = flops
        return json.dumps(values).encode()

    return change


def sized(name: str, size: int) -> Change:
    def change(values: dict[str, Any]) -> bytes:
        values["files"][name]["size"] = size
        return json.dumps(values).encode()

    return change


def more(kind: str, count: int) -> Change:
    def change(values: dict[str, Any]) -> bytes:
        values[kind] = [{"name": str(i), "shape": [1], "dtype": "int8"} for i in range(count)]
        folder = {"inputs": "sample", "outputs": "expected"}[kind]
        one = {"size": 1, "sha256": "00" * 32}
        values["files"] |= {f"{folder}/{i}.npy": one for i in range(count)}
        return json.dumps(values).encode()

    return change


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (lambda _: b"{", "not JSON"),
        (lambda _: b"[" * 100_000, "not JSON"),
        (lambda _: b"[]", "manifest.json"),
        (changing(target={"triple": "aarch64-x", "mcpu": "", "definition": {"\ud800": 0}}), "not JSON"),
        (changing(target={"triple": "aarch64-x", "mcpu": "", "definition": {"x": math.nan}}), "definition.x"),
        (changing(model={"name": "x", "source_name": "x", "sha256": "ab" * 32, "flops": 10**300}), "flops"),
        (changing(glibc="2." + "9" * 5000), "glibc"),
        (lambda _: b"\xff\xfe\xfd", "not JSON"),
        (changing(schema_version=0), "schema_version"),
        (changing(schema_version=None), "schema_version"),
        (changing(surprise=1), "surprise"),
        (changing(device=""), "device"),
        (changing(device="OpenCL"), "device"),
        (changing(device="opencl:a b"), "device"),
        (changing(device="opencl:x\x1b[31m"), "device"),
        (changing(device=["cpu"]), "device"),
        (changing(runtime={"devices": ["opencl"]}), "device is cpu, but runtime.devices is ['opencl']"),
        (changing(device="x:y", runtime={"devices": ["opencl", "--output=/x"]}), "runtime.devices.1"),
        (changing(device="x:y", runtime={"devices": ["opencl"] * 17}), "runtime.devices"),
        (changing(runtime={"functions": ["edge.vta.run,x"]}), "runtime.functions.0"),
        (changing(runtime={"functions": ["x"] * 257}), "runtime.functions"),
        (changing(runtime={"memory": 1}), "runtime.memory"),
        (changing(runtime=None), "runtime"),
        (changing(threads=0), "threads"),
        (changing(threads=2**40), "threads"),
        (changing(tolerance=float("nan")), "tolerance"),
        (changing(tolerance=float("inf")), "tolerance"),
        (with_flops(10**300), "model.flops"),
        (with_flops(1e300), "model.flops"),
        (with_flops(float("nan")), "model.flops"),
        (lambda _: b'{"flops": ' + b"9" * 5000 + b"}", "not JSON"),
        (changing(glibc="new"), "glibc"),
        (changing(glibc=None), "glibc is None, but target.triple is aarch64-unknown-linux-gnu"),
        (changing(files={}), "library.so"),
        (changing(outputs=[]), "outputs"),
        (changing(outputs=[{"name": "y", "shape": [1] * 40_000, "dtype": "int8"}]), "outputs.0.shape"),
        (changing(outputs=[{"name": "y", "shape": [2**80], "dtype": "int8"}]), "outputs.0.shape"),
        (sized("library.so", layout.MAX_LIBRARY + 1), "more than"),
        (sized("sample/0.npy", layout.MAX_TENSOR + 1), "more than"),
        (sized("library.so", -1), "files.library.so.size"),
        (more("inputs", layout.MAX_TENSORS + 1), "inputs and outputs"),
        (lambda _: b" " * (layout.MAX_MANIFEST + 1), "more than"),
    ],
)
def test_refuses_wrong_manifest_with_valid_checksum(bundle: Path, text: Change, said: str) -> None:
    error = refusal(bundle, rebuilt(bundle, manifest=text))
    assert isinstance(error, CheckError) and said in error.message


def test_reports_first_of_many_errors(bundle: Path) -> None:
    """Each one that was told took a thousand bytes of memory, and a manifest may have a million."""
    error = refusal(bundle, rebuilt(bundle, manifest=changing(tasks=[{}] * 1000, requires=[0] * 1000)))
    assert "requires.0:" in error.message and "tasks.0.id:" in error.message
    assert "requires.1:" not in error.message and "tasks.1." not in error.message


def test_refuses_total_size_above_limit(bundle: Path) -> None:
    def change(values: dict[str, Any]) -> bytes:
        values["inputs"] = [{"name": str(i), "shape": [1], "dtype": "int8"} for i in range(4)]
        big = {"size": layout.MAX_TENSOR, "sha256": "00" * 32}
        values["files"] |= {f"sample/{i}.npy": big for i in range(4)}
        return json.dumps(values).encode()

    assert f"the {layout.MAX_TOTAL} allowed" in refusal(bundle, rebuilt(bundle, manifest=change)).message


def saved(array: np.ndarray, **options: object) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, **options)
    return out.getvalue()


GOOD = saved(np.ones((1, 3), "float32"))


@pytest.mark.parametrize(
    "data",
    [
        saved(np.array([[1, "x", None]], object)),
        saved(np.ones((3, 1), "float32")),
        saved(np.ones((1, 3), "float64")),
        saved(np.ones((1, 3), ">f4")),
        saved(np.ones((1, 3), "float32"), version=(2, 0)),
        saved(np.ones((3, 1), "float32")).replace(b"(3, 1)", b"(1, 3)").replace(b"False", b"True "),
        GOOD + b"more",
        GOOD[:-1],
        GOOD[:60],
        b"\x93NUMPY",
        b"",
        GOOD.replace(b"(1, 3)", b"(1, -)"),
        GOOD.replace(b"'<f4'", b"'xxx'"),
        GOOD.replace(b"'<f4'", b"[[[[["),
        GOOD.replace(b"'descr'", b"'other'"),
    ],
)
def test_refuses_wrong_tensors_with_valid_checksums(bundle: Path, data: bytes) -> None:
    error = refusal(bundle, rebuilt(bundle, replace={"sample/0.npy": data}))
    assert isinstance(error, CheckError) and "sample/0.npy" in error.message


@given(position=st.integers(0, 127), value=st.integers(0, 255))
def test_rejects_any_changed_header_byte(bundle: Path, position: int, value: int) -> None:
    data = bytearray(GOOD)
    data[position] = value
    path = bundle.with_name("changed")
    path.write_bytes(rebuilt(bundle, replace={"sample/0.npy": bytes(data)}))
    try:
        assert read_bundle(path).sample["gpu_0/data_0"].tolist() == [[1, 1, 1]]
    except CheckError as error:
        assert "sample/0.npy" in error.message


def test_compares_checksums(bundle: Path) -> None:
    size = read_bundle(bundle).manifest.files["library.so"].size
    assert (
        "library.so does not match its digest"
        in refusal(bundle, rebuilt(bundle, replace={"library.so": b"x" * size}, fix_sums=False)).message
    )


@pytest.mark.slow
def test_declared_size_allocates_nothing(bundle: Path) -> None:
    """Read in a process that may not have 1 GiB."""
    bundle.write_bytes(rebuilt(bundle, manifest=sized("library.so", layout.MAX_LIBRARY)))
    program = """
import resource, sys
from pathlib import Path
from toolchain.bundles import read_bundle
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
try:
    read_bundle(Path(sys.argv[1]))
except Exception as error:
    print(type(error).__name__)
"""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, bundle], capture_output=True, timeout=60, env=environment
    )
    assert done.stdout == b"CheckError\n", done.stderr


def test_sparse_file_allocates_nothing(bundle: Path) -> None:
    """A few kilobytes on the disk can be gigabytes to read: zeros, whose sums are easily right."""
    bundle.write_bytes(rebuilt(bundle, manifest=sized("library.so", layout.MAX_LIBRARY)))
    os.truncate(bundle, layout.MAX_LIBRARY)
    error = refusal(bundle)
    assert error.exit_code == 2 and "the rest is holes" in error.message
