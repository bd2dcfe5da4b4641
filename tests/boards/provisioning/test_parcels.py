"""What provisioning sends to a board: the program under its fingerprint, the C library when asked for."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from toolchain.boards.provisioning.run import parcels_for
from toolchain.configuration.settings import configuration
from toolchain.errors import UsageError
from toolchain.profiles import load_profile
from toolchain.runtime import arch_of, ensure_runtime, expected_fingerprint


@pytest.mark.slow  # where edge-rt is not compiled yet
def test_the_program_lies_under_a_name_of_its_version_and_can_be_executed() -> None:
    (parcel,) = parcels_for(load_profile("x86_64"), sdk=False)
    runtime = ensure_runtime("x86_64")
    (program,) = parcel.files
    assert program.content == runtime.program and program.size == runtime.program.stat().st_size > 0
    assert program.executable and runtime.fingerprint[:8] in program.remote
    assert (parcel.link, parcel.target, parcel.fingerprint) == (
        "edge-rt",
        program.remote,
        runtime.fingerprint,
    )


@pytest.mark.slow
def test_the_c_library_comes_with_its_header_in_a_folder_that_the_link_names() -> None:
    _, parcel = parcels_for(load_profile("rk3399"), sdk=True)
    assert [PurePosixPath(file.remote).name for file in parcel.files] == ["libedge.so", "edge_rt.h"]
    folder = PurePosixPath(parcel.link).parent / parcel.target
    assert {PurePosixPath(file.remote).parent for file in parcel.files} == {folder}
    assert not any(file.executable for file in parcel.files) and parcel.fingerprint is None
    assert parcel.files[0].content == ensure_runtime(arch_of(load_profile("rk3399"))).library


def test_a_plan_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCHAIN_CACHE_DIR", str(tmp_path / "cache"))
    configuration.cache_clear()
    program, sdk = parcels_for(load_profile("rk3399"), sdk=True, compiles=False)
    assert [file.size for file in program.files] == [None]
    assert [file.size is None for file in sdk.files] == [True, False], "the header is not compiled"
    assert program.fingerprint == expected_fingerprint()
    assert not (tmp_path / "cache").exists()


def test_a_class_on_which_it_does_not_run_is_refused() -> None:
    with pytest.raises(UsageError, match="edge-rt does not run on Android"):
        parcels_for(load_profile("android-arm64"), sdk=True)
