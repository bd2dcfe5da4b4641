"""Files of other people's making go the whole way on an emulated rk3399, as they are."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.test_demo import toolchain
from tests.people.files import FILES, PACKAGES, File, fetched

if TYPE_CHECKING:
    from toolchain.boards.board import Board

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "other-peoples-files.md"
CACHE = Path(os.environ["TOOLCHAIN_CACHE_DIR"])
QUICK = ("hey_marvin_v0.1.onnx", "timer_v0.1.onnx", "silero_vad_openvino_16k.onnx")


def test_there_are_fifteen_each_pinned_and_shown() -> None:
    """At least; and the page has what is typed for each."""
    text = PAGE.read_text()
    packages = {line.partition("==")[0] for line in PACKAGES.read_text().splitlines()}
    assert len(FILES) >= 15
    assert packages == {file.package for file in FILES}
    for file in FILES:
        folder = file.package.replace("-", "_")
        assert " ".join(f"    toolchain demo {folder}/{file.path} {file.options}".split(" ")).rstrip() in text


@pytest.mark.slow
@pytest.mark.parametrize("file", [file for file in FILES if file.name in QUICK], ids=lambda file: file.name)
def test_small_ones_are_built_and_right(file: File, rk3399: Board, tmp_path: Path) -> None:
    words = shlex.split(file.options)
    built = toolchain("build", str(fetched(file, CACHE)), *words, "--board", rk3399.name,
                      "-o", str(tmp_path), "--json", cwd=tmp_path)  # fmt: skip
    assert built.returncode == 0, built.stderr
    bundle = json.loads(built.stdout)["bundle"]
    verified = toolchain("verify", bundle, "--board", rk3399.name, "--json", cwd=tmp_path)
    assert verified.returncode == 0, verified.stdout
    assert json.loads(verified.stdout)["passed"] is True


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("people")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOOLCHAIN_STATE_DIR", str(folder / "state"))
        patch.setenv("TOOLCHAIN_DATA_DIR", str(folder / "data"))
        try:
            yield folder
        finally:
            toolchain("board", "emulate", "stop", "rk3399-emulated", cwd=folder)


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_each_goes_through_the_demo(file: File, home: Path) -> None:
    words = shlex.split(file.options)
    ended = toolchain("demo", str(fetched(file, CACHE)), *words, "--trials", "2", "-o", str(home / file.name),
                      "--json", cwd=home)  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    demo = json.loads(ended.stdout)
    assert (demo["machine"], demo["verify"]["passed"]) == ("aarch64", True)
