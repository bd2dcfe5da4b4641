"""Several shapes of a network on the command line: `build`, `verify`, `bench`, `run`, `tasks`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from tests.models.sequences import lstm_with_lengths
from toolchain.bundles.read import read_bundle
from toolchain.measuring.verifications import remember, verifications

SHAPE = ("--shape", "x={5,9},2,16")


@pytest.mark.slow  # edge-rt may have to be compiled
@pytest.mark.usefixtures("state")
def test_one_bundle_goes_the_whole_way(
    invoke: Toolchain, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(files / "data"))
    lstm_with_lengths(files / "lengths.onnx")
    ran = invoke("build", "lengths.onnx", "--board", "local", *SHAPE, "--pad", "-o", "out")
    assert ran.code == 0, ran.err
    assert "shapes: x=5,2,16 lengths=2; x=9,2,16 lengths=2" in ran.out
    assert "weights: stored once for all shapes" in ran.out and "2 shapes: samples and" in ran.err
    bundle = read_bundle(files / "out" / "lengths-local.bundle")
    place = (bundle.path, "--board", "local")

    ran = invoke("verify", *place, "--at", "x=5,2,16", "--json")
    assert ran.code == 0 and [each["inputs"]["x"] for each in ran.document["shapes"]] == [[5, 2, 16]]
    assert verifications(bundle.sha256) == {}, "one shape is not the bundle"
    ran = invoke("verify", *place, "--json")
    assert ran.code == 0 and ran.document["passed"] is True
    assert [each["inputs"]["x"][0] for each in ran.document["shapes"]] == [5, 9]
    assert set(verifications(bundle.sha256)) == {"x86_64"}

    ran = invoke("bench", *place, "--repeat", 2)
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[0] == "x=5,2,16 lengths=2" and ran.out.count("MEAN ") == 2

    for steps in (5, 7):
        np.save(files / f"x{steps}.npy", np.ones((steps, 2, 16), "float32"))
    np.save(files / "lengths.npy", np.array([3, 5], "int32"))
    given = ("--input", "lengths=lengths.npy", "-o", "out.npz")
    ran = invoke("run", *place, "--input", "x=x5.npy", *given, "--json")
    assert ran.code == 0 and ran.document["outputs"][0]["shape"] == [5, 2, 2, 16]
    exact = np.load(files / "out.npz")["y"]
    refused(
        *(invoke, files, 2, ["x=7,2,16", "x=5,2,16 lengths=2; x=9,2,16 lengths=2", "--pad"]),
        *("run", *place, "--input", "x=x7.npy", *given),
    )
    ran = invoke("run", *place, "--input", "x=x7.npy", *given, "--pad", "--json")
    assert ran.code == 0 and ran.document["outputs"][0]["shape"] == [9, 2, 2, 16]
    np.testing.assert_allclose(np.load(files / "out.npz")["y"][:5], exact, rtol=1e-5, atol=1e-6)
    refused(invoke, files, 2, ["--at x=6,2,16", "x=9,2,16"], "bench", *place, "--at", "x=6,2,16")
    ran = invoke("build", "lengths.onnx", "--board", "local", *SHAPE, "--pad", "--check", "-o", "again")
    assert ran.code == 0 and "checked: right on this host" in ran.out


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_a_wrong_shape_ends_verify_with_4(
    invoke: Toolchain, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from toolchain.bundles.write import write_bundle

    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(files / "data"))
    lstm_with_lengths(files / "lengths.onnx")
    assert invoke("build", "lengths.onnx", "--board", "local", *SHAPE, "-o", "out").code == 0
    good = read_bundle(files / "out" / "lengths-local.bundle")
    ((sample, expected),) = good.others
    others = [(sample, {name: array + 1 for name, array in expected.items()})]
    write_bundle(files / "wrong", good.manifest, good.library, good.sample, good.expected, others)
    ran = invoke("verify", "wrong", "--board", "local", "--json")
    assert ran.code == 4 and ran.document["passed"] is False
    assert [each["passed"] for each in ran.document["shapes"]] == [False, True]
    digest = read_bundle(files / "wrong").sha256
    assert verifications(digest) == {}
    remember(digest, "x86_64", 0.0, "cpu")
    for steps, known in ((9, {"x86_64"}), (5, set())):
        invoke("verify", "wrong", "--board", "local", "--at", f"x={steps},2,16")
        assert set(verifications(digest)) == known, "one wrong shape is enough"


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_tasks_of_all_shapes_are_listed_and_planned(invoke: Toolchain, files: Path) -> None:
    lstm_with_lengths(files / "lengths.onnx")
    ran = invoke("tasks", "lengths.onnx", "--board", "local", *SHAPE, "--json")
    listed = {task["id"] for task in ran.document}
    alone = [
        invoke("tasks", "lengths.onnx", "--board", "local", "--shape", f"x={steps},2,16", "--json").document
        for steps in (5, 9)
    ]
    assert listed == {task["id"] for tasks in alone for task in tasks} and len(listed) > len(alone[0])
    ran = invoke("tune", "lengths.onnx", "--board", "local", *SHAPE, "--dry-run", "--json")
    assert ran.code == 0 and {task["id"] for task in ran.document["tasks"]} <= listed


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--shape", "x={5,5},2,16"), ["--shape x={5,5},2,16: 5 occurs twice"]),
        (("--batch", "{1,2"), ["--batch {1,2: a brace without its partner"]),
        (("--shape", "x={1,2,3,4,5},{1,2,3,4},16"), ["20 shapes: a bundle has at most 16"]),
    ],
)
def test_refuses_malformed_shape_lists(
    invoke: Toolchain, files: Path, options: tuple[str, ...], says: list[str]
) -> None:
    for command in (("build", "-o", "out"), ("tune",), ("tasks",)):
        refused(invoke, files, 2, says, command[0], "net.onnx", *options, *command[1:])


def test_other_commands_take_one_shape(invoke: Toolchain, files: Path) -> None:
    says = ["--shape 'x={5,9},2,16': lists 2 shapes", "give one shape; `build`, `tune` and `tasks`"]
    refused(invoke, files, 2, says, "model", "inspect", "net.onnx", *SHAPE)
