"""What goes into a bundle comes out of it, and equal inputs give equal bytes."""

from __future__ import annotations

import hashlib
import resource
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from toolchain.bundles import Manifest, RuntimeNeeds, read_bundle, write_bundle
from toolchain.errors import ToolchainError, UsageError


def test_bundle_round_trip(
    bundle: Path,
    manifest: Manifest,
    library: bytes,
    sample: dict[str, np.ndarray],
    expected: dict[str, np.ndarray],
) -> None:
    found = read_bundle(bundle)
    assert found.manifest.model_copy(update={"files": {}}) == manifest
    assert found.library == library
    assert found.sha256 == hashlib.sha256(bundle.read_bytes()).hexdigest()
    for arrays, back in ((sample, found.sample), (expected, found.expected)):
        assert list(back) == list(arrays)
        for name, array in arrays.items():
            assert back[name].dtype == array.dtype and back[name].shape == array.shape
            np.testing.assert_array_equal(back[name], array)


def test_the_library_may_be_a_file_and_the_sum_is_returned(
    bundle: Path,
    manifest: Manifest,
    library: bytes,
    sample: dict[str, np.ndarray],
    expected: dict[str, np.ndarray],
    tmp_path: Path,
) -> None:
    (tmp_path / "lib.so").write_bytes(library)
    digest = write_bundle(tmp_path / "again", manifest, tmp_path / "lib.so", sample, expected)
    assert (tmp_path / "again").read_bytes() == bundle.read_bytes()
    assert digest == hashlib.sha256(bundle.read_bytes()).hexdigest()


@pytest.mark.slow
def test_bytes_do_not_depend_on_folder_process_or_order_of_arrays(
    bundle: Path, manifest: Manifest, library: bytes, tmp_path: Path
) -> None:
    program = f"""
import numpy as np, sys
from pathlib import Path
from toolchain.bundles import Manifest, write_bundle
manifest = Manifest.model_validate_json({manifest.to_json()!r})
sample = {{"n": np.array(7, ">i8"), "gpu_0/data_0": np.asfortranarray([[1, 2, 3]], "float32")}}
expected = {{"gpu_0/prob": np.array([[0.1, 0.2, 0.3, 0.4]], "float32")}}
write_bundle(Path(sys.argv[1]), manifest, {library!r}, sample, expected)
"""
    other = tmp_path / "another folder" / "other"
    subprocess.run([sys.executable, "-c", program, other], check=True, timeout=60)
    assert other.read_bytes() == bundle.read_bytes()


def test_any_tar_program_reads_it_and_python_writes_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    with (
        tarfile.open(bundle) as archive,
        tarfile.open(tmp_path / "b", "w", format=tarfile.USTAR_FORMAT) as copy,
    ):
        names = archive.getnames()
        for name in names:
            plain = tarfile.TarInfo(name)
            plain.size = archive.getmember(name).size
            copy.addfile(plain, archive.extractfile(name))
    assert names == [
        *("manifest.json", "manifest.sha256", "library.so"),
        *("sample/0.npy", "sample/1.npy", "expected/0.npy"),
    ]
    assert (tmp_path / "b").read_bytes() == bundle.read_bytes()
    subprocess.run(["tar", "-xf", bundle, "-C", tmp_path], check=True, timeout=60)
    subprocess.run(["sha256sum", "-c", "manifest.sha256"], cwd=tmp_path, check=True, timeout=60)
    assert np.load(tmp_path / "sample/1.npy", allow_pickle=False) == 7


def test_android_bundle_round_trip(write: Callable[..., Path], manifest: Manifest, tmp_path: Path) -> None:
    target = manifest.target.model_copy(update={"triple": "aarch64-unknown-linux-android"})
    android = manifest.model_copy(update={"target": target, "glibc": None})
    found = read_bundle(write(tmp_path / "a", manifest=android)).manifest
    assert found.android and found.glibc is None and not manifest.android
    assert b'"glibc": null' in found.to_json()


def test_runtime_needs_round_trip(write: Callable[..., Path], manifest: Manifest, tmp_path: Path) -> None:
    assert manifest.runtime.device == "cpu"
    needs = RuntimeNeeds(devices=("vta",), functions=("edge.vta.run",))
    for device, runtime, used in (("vta:1x16x16", needs, "vta"), ("toy", RuntimeNeeds(), "cpu")):
        other = manifest.model_copy(update={"device": device, "runtime": runtime})
        found = read_bundle(write(tmp_path / "other", manifest=other)).manifest
        assert (found.device, found.runtime, found.runtime.device) == (device, runtime, used)


def test_objects_instead_of_a_library(write: Callable[..., Path], manifest: Manifest, tmp_path: Path) -> None:
    path = write(tmp_path / "t", manifest=manifest.model_copy(update={"format": "tar"}), library=b"objects")
    assert read_bundle(path).library == b"objects"
    with tarfile.open(path) as archive:
        assert archive.getnames()[2] == "library.tar"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"sample": {}}, "gpu_0/data_0"),
        (
            {"expected": {"gpu_0/prob": np.zeros((4, 1), "float32")}},
            r"float32\[4,1\], expected float32\[1,4\]",
        ),
        ({"expected": {"gpu_0/prob": np.zeros((1, 4))}}, "float64"),
    ],
)
def test_refuses_arrays_that_differ_from_manifest(
    write: Callable[..., Path], tmp_path: Path, changed: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        write(tmp_path / "new", **changed)
    assert not list(tmp_path.iterdir())


def test_refuses_missing_library(write: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"no\.so: No such file"):
        write(tmp_path / "new", library=tmp_path / "no.so")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_the_old_bundle_and_nothing_else(bundle: Path, write: Callable[..., Path]) -> None:
    before = bundle.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(ToolchainError, match=r"cannot write .*tiny\.bundle") as caught:
            write(bundle, library=bytes(10**6))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.exit_code == 1
    assert bundle.read_bytes() == before and list(bundle.parent.iterdir()) == [bundle]
