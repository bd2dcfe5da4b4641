"""Emulated boards with the emulated CUDA driver: as processes, under qemu and in containers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from toolchain.boards.edge_rt.install import install
from toolchain.boards.emulation import emulated
from toolchain.boards.emulation.drivers import usual_device
from toolchain.boards.inventory.lookup import find_board
from toolchain.errors import ToolchainError, UsageError
from toolchain.profiles import load_profile
from toolchain.testbeds.cuda.driver import DRIVER_FILE


def test_classes_about_such_a_gpu_have_the_driver_unasked() -> None:
    usual = {name: usual_device(load_profile(name)) for name in ("cuda", "jetson-orin", "x86_64", "rk3399")}
    assert usual == {"cuda": "cuda", "jetson-orin": "cuda", "x86_64": "", "rk3399": ""}


@pytest.mark.usefixtures("state")
def test_a_class_without_such_a_gpu_is_refused() -> None:
    with pytest.raises(UsageError, match="boards of class rk3399 have no device for it") as caught:
        emulated.start("rk3399", "process", device="cuda")
    assert "a class with one: cuda" in str(caught.value.hint)


@pytest.mark.slow
@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("class_name", "kind", "device", "machine"),
    [
        ("cuda", "process", "", "x86_64"),
        ("x86_64", "process", "cuda", "x86_64"),
        ("jetson-orin", "process", "", "aarch64"),
        ("cuda", "container", "", "x86_64"),
    ],
)
def test_its_driver_answers_and_its_entry_says_so(
    class_name: str, kind: str, device: str, machine: str
) -> None:
    emulated.start(class_name, kind, name="gpu", device=device)
    try:
        board = find_board("gpu")
        (entry,) = [each for each in board.profile.devices if each.kind == "cuda"]
        assert (entry.name, entry.own["arch"]) == ("emulated", "emulated")
        facts = install(board, drivers=True).facts
        assert facts.machine == machine
        (found,) = [each for each in facts.devices if each.kind == "cuda"]
        assert (found.names, found.details[0].type) == (("emulated",), "cpu")
        assert board.emulated and board.record_class == f"{class_name}+emulated"
    finally:
        emulated.stop("gpu")


@pytest.mark.slow
def test_a_board_whose_driver_does_not_work_is_not_made(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = state.parent / "libcuda.so.1"
    broken.write_bytes(b"no library")
    file = replace(DRIVER_FILE, ensure=lambda _architecture: broken)
    monkeypatch.setattr("toolchain.testbeds.cuda.driver.DRIVER_FILE", file)
    with pytest.raises(ToolchainError, match=r"its driver for cuda fails: .*libcuda\.so\.1"):
        emulated.start("cuda", "process")
    assert not (state / "emulated" / "cuda-emulated").exists()
