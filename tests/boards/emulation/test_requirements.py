"""Boards that cannot be emulated, here or at all, are refused before anything is made."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from toolchain.boards.emulation import emulated, stored
from toolchain.boards.emulation.qemu import check_host, emulator, user_modes
from toolchain.configuration.settings import configuration
from toolchain.errors import MissingError, UsageError
from toolchain.profiles import load_profile


@pytest.mark.usefixtures("state")
def test_refuses_unknown_kind() -> None:
    with pytest.raises(UsageError, match="--kind vm: unknown") as raised:
        emulated.start("rk3399", "vm")
    assert raised.value.hint == "the kinds are: auto, process, container, system"


@pytest.mark.usefixtures("state")
def test_missing_emulator_names_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCHAIN_SYSROOT_AARCH64", str(tmp_path))
    with pytest.raises(MissingError, match=r"no aarch64 C library.*libc6-arm64-cross"):
        emulated.start("rk3399", "process")
    configuration.cache_clear()
    monkeypatch.setenv("TOOLCHAIN_QEMU_AARCH64", "no-such-qemu")
    with pytest.raises(MissingError, match=r"no 'no-such-qemu'.*qemu-user-static"):
        emulated.start("rk3399", "process")
    assert stored.names() == []


@pytest.mark.usefixtures("state")
def test_the_emulator_may_be_named_without_static(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert user_modes()["aarch64"].program == "qemu-aarch64-static"
    for name in ("qemu-aarch64", "qemu-aarch64-static"):
        (tmp_path / name).touch(0o755)
        assert user_modes()["aarch64"].program == name


@pytest.mark.parametrize(
    ("class_name", "kind", "says"),
    [
        ("rk3399", "process", "a board that is a process has no driver of it"),
        ("pynq", "auto", "boards of class pynq have no device for it"),
    ],
)
def test_where_there_is_no_opencl_it_is_refused(class_name: str, kind: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as raised:
        emulated.start(class_name, kind, device="opencl")
    assert raised.value.hint


def test_an_arm64_host_needs_no_emulator_for_its_own_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setenv("PATH", str(tmp_path))  # nothing is installed
    check_host(load_profile("rk3399"))
    assert emulator(load_profile("rk3399")) == ()
    with pytest.raises(MissingError, match="no 'qemu-arm-static'"):
        check_host(load_profile("pynq"))
    with pytest.raises(UsageError, match="x86_64 cannot be emulated as a process on aarch64") as raised:
        check_host(load_profile("x86_64"))
    assert raised.value.hint == "use a class for aarch64, armv7a"
