"""Android: built for, and nothing else; what cannot be done says so before it begins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.running import Toolchain
from tests.measuring.small_network import built, network


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("android-arm64", tmp_path_factory.mktemp("android")).path


@pytest.mark.parametrize(
    "command",
    [
        "verify {bundle} --board android-arm64",
        "run {bundle} --board android-arm64 --input gpu_0/data_0={sample} -o out.npz",
        "bench {bundle} --board android-arm64",
        "tune {model} --board android-arm64",
        "demo {model} --board android-arm64",
        "runtime export --board android-arm64 -o out",
        "lab start --board android-arm64",
        "board emulate start android-arm64",
        "board emulate start android-arm64 --kind process",
        "board add nowhere.invalid --class android-arm64",
    ],
)
def test_no_board_of_that_class_runs_anything(
    invoke: Toolchain, folder: Path, bundle: Path, command: str
) -> None:
    model = network(folder / "good.onnx")
    np.save(folder / "x.npy", np.zeros((1, 3, 16, 16), "float32"))
    ran = invoke(*command.format(bundle=bundle, model=model, sample=folder / "x.npy").split())
    assert ran.code == 2
    assert ran.says(
        "board class android-arm64: edge-rt does not run on Android; networks are built and checked here"
    )
    assert ran.says("toolchain build MODEL --board android-arm64 -o DIR")


def test_a_board_of_that_class_in_the_file_cannot_be_used(invoke: Toolchain, folder: Path) -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0W0aJq0z8H8nN1bq0yJm1Fh4m2s5mYtq0k3l5nqv1R"
    table = f'[boards.phone]\nclass = "android-arm64"\nhost = "127.0.0.1"\nport = 1\nhost_key = "{key}"\n'
    (folder / "toolchain.toml").write_text(table)
    assert "phone is broken" in invoke("board", "list").out
    ran = invoke("board", "provision", "phone")
    assert ran.code == 2 and ran.says(
        "[boards.phone]: board class android-arm64: edge-rt does not run on Android"
    )


def test_an_ndk_that_is_not_there_is_missed_before_anything_is_compiled(
    invoke: Toolchain, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = network(folder / "good.onnx")
    monkeypatch.delenv("TVM_NDK_CC", raising=False)
    ran = invoke("build", model, "--board", "android-arm64", "--linker", "ndk", "-o", "out")
    assert ran.code == 3 and ran.says("--linker ndk: TVM_NDK_CC is not set")
    monkeypatch.setenv("TVM_NDK_CC", "/nowhere/clang++")
    ran = invoke("build", model, "--board", "android-arm64", "--linker", "ndk", "-o", "out")
    assert ran.code == 2 and ran.says("TVM_NDK_CC=/nowhere/clang++ is not a program")
    ran = invoke("build", model, "--board", "rk3399", "--linker", "ndk", "-o", "out")
    assert ran.code == 2 and ran.says("it links for Android, but board class rk3399 is aarch64-unknown-linux")
    assert "compiling" not in ran.err and not (folder / "out").exists()


def test_the_class_is_shown(invoke: Toolchain) -> None:
    shown = invoke("board", "show", "android-arm64", "--json").document
    assert (shown["triple"], shown["glibc"]) == ("aarch64-unknown-linux-android", None)
