"""`toolchain tune`: what is said before anything is measured. tests/tuning measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from toolchain.errors import ToolchainError
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run import plan


@pytest.mark.usefixtures("state")
def test_a_dry_run_says_what_would_be_tuned_and_measures_nothing(
    invoke: Toolchain, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(files / "data"))
    assert (files / "good.onnx").exists()
    tasks = invoke("tasks", "good.onnx", "--board", "local", "--json").document
    common = ["tune", "good.onnx", "--board", "local", "--dry-run"]
    planned = invoke(*common, "--json")
    assert all(task["size"] >= 1 and task["measured"] == 0 for task in planned.document["tasks"])
    assert planned.document["at_most"] and planned.document["estimated_s"] > 0
    assert planned.code == 0 and {t["id"] for t in planned.document["tasks"]} == {t["id"] for t in tasks}
    one = invoke(*common, "--tasks", tasks[-1]["id"], "--trials", 9)
    assert "0 trials of 1 task on local" in one.out, "a softmax is computed in one way"
    assert "nothing was measured" in one.out
    plain = invoke(*common, "--layout", "NCHW", "--trials", 9)
    assert "9 trials of " in plain.out and "no end" in plain.out and "at most" in plain.out
    assert invoke("lab", "status", "--json").document["tracker"] is None
    assert invoke("records", "list", "--json").document == []


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("arguments", "ms"),
    [
        ([], 20),
        (["--device", "cuda", "--arch", "sm_90"], 300),
        (["--device", "cuda", "--arch", "sm_90", "--min-repeat-ms", "5"], 5),
    ],
)
def test_the_length_of_a_sample_follows_from_the_device(
    invoke: Toolchain, files: Path, arguments: list[str], ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[object] = []

    def plan_model(*arguments: object) -> None:
        found.append(arguments[-1])
        raise ToolchainError("enough")

    monkeypatch.setattr(plan, "plan_model", plan_model)
    common = ["tune", "good.onnx", "--board", "local", "--dry-run"]
    assert (files / "good.onnx").exists() and "enough" in invoke(*common, *arguments).err
    assert isinstance(found[0], TuneOptions) and found[0].min_repeat_ms == ms


NAMES = [
    (["tune", "good.onnx", "--board", "rk3399"], ["--board rk3399", "board emulate start rk3399"]),
    (
        ["tune", "good.onnx", "--board", "local", "--dry-run", "--tuner", "xbg"],
        ["--tuner xbg: no tuner of this name", "use one of: xgb"],
    ),
    (
        ["tune", "good.onnx", "--board", "local", "--dry-run", "--builders", "foo"],
        ["--builders foo: neither a number of processes", "such as --builders 4"],
    ),
    (
        ["tune", "good.onnx", "--board", "local", "--dry-run", "--max-mib", "48"],
        ["--max-mib: only --export writes a folder", "add --export DIR"],
    ),
    (
        ["tune", "good.onnx", "--board", "local", "--dry-run", "--runner", "board"],
        ["--runner board: no runner of this name", "use one of: boards"],
    ),
    (
        ["tune", "good.onnx", "--board", "pynq", "--device", "vta", "--dtype", "int8", "--export", "there"],
        ["--export: candidates for vta are not measured on boards", "tune without it"],
    ),
]


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(("arguments", "says"), NAMES, ids=[" ".join(row[0]) for row in NAMES])
def test_refuses_unknown_names_and_bad_options(
    invoke: Toolchain, files: Path, arguments: list[str], says: list[str]
) -> None:
    refused(invoke, files, 2, says, *arguments)


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("option", ["--report", "--export"])
def test_files_that_cannot_be_written_are_told_before_anything_is_measured(
    invoke: Toolchain, files: Path, option: str
) -> None:
    into = files / "good.onnx" / "there"
    says = [f"cannot write {into}: Not a directory", "choose another folder"]
    refused(invoke, files, 1, says, "tune", "good.onnx", "--board", "local", option, into)
    assert "tuning" not in invoke("tune", "good.onnx", "--board", "local", option, into).err
