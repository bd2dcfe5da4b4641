"""libedge.so and edge-rt run a network in several shapes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.fuzz.sanitized import compiler
from tests.models.sequences import attention, recogniser
from tests.runtime.conftest import Edge
from tests.runtime.networks import CLASSES
from toolchain.boards.inventory.lookup import find_board, find_target
from toolchain.building.build import build
from toolchain.building.options import BuildOptions
from toolchain.bundles.read import Bundle, read_bundle
from toolchain.errors import UsageError
from toolchain.measuring.bench import bench_bundle
from toolchain.measuring.execution import OnBoard, Sampling
from toolchain.measuring.run import run_bundle
from toolchain.measuring.verify import verify_bundle
from toolchain.models.judging.reference import reference_outputs
from toolchain.models.load import Model
from toolchain.models.multi_shape import load_shapes
from toolchain.models.options import ModelOptions, shape_options
from toolchain.runtime import ensure_runtime
from toolchain.runtime.fingerprint import NATIVE
from toolchain.tasks.options import CodeOptions

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

ROOT = Path(__file__).parents[2]
WIDTHS = (16, 40, 64, 96)
MOST_NS = 2000.0
"""Goal for choosing a shape, of four."""


def made(
    folder: Path, source: Path, shape: str, board: str = "local", **options: Any
) -> tuple[Model, Bundle]:
    model = load_shapes(str(source), ModelOptions(**shape_options(None, [shape])))
    target = find_target(board)
    return model, read_bundle(build(model, target, None, folder, BuildOptions(**options)).bundle)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, Bundle, Path]:
    folder = tmp_path_factory.mktemp("lines")
    model, bundle = made(folder, recogniser(folder / "recogniser.onnx"), "x=1,3,16,{16,40,64,96}")
    library = folder / "net.so"
    library.write_bytes(bundle.library)
    return model, bundle, library


def client(library: Path, *words: object) -> dict[str, Any]:
    edge = ensure_runtime("x86_64").library
    command = [sys.executable, "-m", "tests.runtime.shapes_client", edge, library, *words]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def expected(model: Model, width: int) -> np.ndarray:
    (shape,) = [each for each in model.shapes if each.inputs[0].shape[3] == width]
    return reference_outputs(shape, {"x": np.ones((1, 3, 16, width), np.float32)})["y"]


def test_a_program_gets_the_shape_that_its_input_has(lines: tuple[Model, Bundle, Path]) -> None:
    model, _bundle, library = lines
    seen = client(library, 0, *(f"16x{width}" for width in (*WIDTHS, 41, 16)))
    assert seen["shapes"] == [[1, 3, 16, width] for width in sorted(WIDTHS, reverse=True)]
    assert seen["beyond"] == [False] * 4
    *runs, (code, kind, words), again = seen["runs"]
    for width, run in zip((*WIDTHS, 16), (*runs, again), strict=True):
        wanted = expected(model, width)
        assert tuple(run["shape"]) == wanted.shape
        np.testing.assert_allclose(run["values"], wanted.ravel(), rtol=1e-4, atol=1e-5)
    assert (code, kind) == (2, "shape")
    known = "; ".join(f"x=1,3,16,{width}" for width in (96, 64, 40, 16))
    assert words == f"the inputs have the shape x=1,3,16,41; there are: {known}"


def test_choosing_among_four_costs_less_than_two_microseconds(
    lines: tuple[Model, Bundle, Path], tmp_path: Path
) -> None:
    edge, source = ensure_runtime("x86_64").library, Path(__file__).with_name("choosing.c")
    assert edge
    words = ["-x", "c", "-std=c11", "-O2", f"-I{NATIVE}", source, "-x", "none", edge]
    words += [f"-Wl,-rpath,{edge.parent}", "-o", tmp_path / "choosing"]
    subprocess.run([compiler(), *words], check=True, timeout=120)
    done = subprocess.run(
        [tmp_path / "choosing", lines[2], "16"], capture_output=True, text=True, timeout=120, check=True
    )
    assert float(done.stdout) <= MOST_NS


def test_a_program_may_ask_for_zeros(lines: tuple[Model, Bundle, Path]) -> None:
    model, _bundle, library = lines
    padded, exact, (code, kind, words) = client(library, 1, "13x41", "16x40", "16x97")["runs"]
    (large,) = [shape for shape in model.shapes if shape.inputs[0].shape[3] == 64]
    sample = np.zeros((1, 3, 16, 64), np.float32)
    sample[..., :13, :41] = 1
    wanted = reference_outputs(large, {"x": sample})["y"]
    np.testing.assert_allclose(padded["values"], wanted.ravel(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(exact["values"], expected(model, 40).ravel(), rtol=1e-4, atol=1e-5)
    assert (code, kind) == (2, "shape") and "fits into none of: x=1,3,16,96" in words


def test_a_library_of_one_shape_lists_none(tmp_path: Path) -> None:
    _model, bundle = made(tmp_path, recogniser(tmp_path / "recogniser.onnx"), "x=1,3,16,16")
    (tmp_path / "net.so").write_bytes(bundle.library)
    seen = client(tmp_path / "net.so", 0, "16x16", "16x17")
    assert seen["shapes"] == [] and seen["beyond"] == [False] * 4
    run, (code, kind, _words) = seen["runs"]
    assert run["shape"] == [4, 1, 40] and (code, kind) == (2, "input")


def test_a_table_that_cannot_be_true_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(module: tvm.IRModule) -> tvm.IRModule:
        builder = relax.BlockBuilder(module)
        with builder.function("shapes", []):
            with builder.dataflow():
                row = relax.Tuple([relax.ShapeExpr([1, 3, 16, 16])] * 2)
                result = builder.emit_output(relax.Tuple([row, row]))
            builder.emit_func_output(result)
        return builder.finalize()

    monkeypatch.setattr("toolchain.lowering.fused.with_shapes", damaged)
    _model, bundle = made(tmp_path, recogniser(tmp_path / "recogniser.onnx"), "x=1,3,16,{16,40}")
    (tmp_path / "net.so").write_bytes(bundle.library)
    assert client(tmp_path / "net.so", 0) == {"error": "the library's table of shapes is damaged"}


def test_edge_rt_of_every_architecture_chooses_and_pads(edge: Edge, tmp_path: Path) -> None:
    source, board = recogniser(tmp_path / "recogniser.onnx"), CLASSES[edge.arch]
    model, bundle = made(tmp_path, source, "x=1,3,16,{16,40}", board)
    (tmp_path / "net.so").write_bytes(bundle.library)

    def run(width: int, *options: str) -> tuple[int, Any]:
        np.save(tmp_path / "x.npy", np.ones((1, 3, 16, width), np.float32))
        given = ("--input", tmp_path / "x.npy", "--output", tmp_path / "out.npz", "--state", tmp_path)
        return edge("run", tmp_path / "net.so", *given, "--threads", "1", *options)

    for width in (16, 40):
        assert run(width)[0] == 0
        with np.load(tmp_path / "out.npz") as outputs:
            np.testing.assert_allclose(outputs["output_0"], expected(model, width), rtol=1e-3, atol=1e-5)
    code, document = run(17)
    assert (code, document["error"]["kind"]) == (2, "shape")
    code, document = run(17, "--pad")
    assert code == 0 and document["outputs"][0]["shape"] == [10, 1, 40]


def test_an_input_that_was_never_set_is_named(lines: tuple[Model, Bundle, Path], native: Edge) -> None:
    code, document = native("run", lines[2], "--output", lines[2].with_name("out.npz"))
    assert code == 2 and "takes 1 input, --input gives 0" in document["error"]["message"]


def test_users_run_and_bench_each_shape(lines: tuple[Model, Bundle, Path]) -> None:
    model, bundle, _library = lines
    local = find_board("local")
    for width in WIDTHS:
        outputs = run_bundle(bundle, OnBoard(local), {"x": np.ones((1, 3, 16, width), np.float32)})
        np.testing.assert_allclose(outputs["y"], expected(model, width), rtol=1e-4, atol=1e-5)
    with pytest.raises(UsageError, match=r"--input: x=1,3,16,17 is none of the bundle's shapes"):
        run_bundle(bundle, OnBoard(local), {"x": np.ones((1, 3, 16, 17), np.float32)})
    for each in bundle.each():
        timed = bench_bundle(each, OnBoard(local), Sampling(repeat=2, profile=True))
        assert timed.runs == 2 and timed.operators


@pytest.mark.parametrize("device", ["cpu", "opencl"])
def test_masked_sequences_are_padded_on_the_board(tmp_path: Path, device: str) -> None:
    source, code = attention(tmp_path / "attention.onnx"), CodeOptions(device=device)
    model, bundle = made(tmp_path, source, "x=1,{16,24,64},32", pad=True, code=code)
    for each in bundle.each():
        assert verify_bundle(each, OnBoard(find_board("local"))).passed
    (middle,) = [shape for shape in model.shapes if shape.inputs[0].shape[1] == 24]
    generator = np.random.default_rng(0)
    x = generator.standard_normal((1, 20, 32), np.float32)
    inputs = {"x": x, "mask": np.ones((1, 20), bool)}
    whole = {"x": np.pad(x, [(0, 0), (0, 4), (0, 0)]), "mask": np.arange(24)[None] < 20}
    outputs = run_bundle(bundle, OnBoard(find_board("local")), inputs, pad=True)
    assert outputs["y"].shape == (1, 24, 32)
    np.testing.assert_allclose(outputs["y"], reference_outputs(middle, whole)["y"], rtol=1e-4, atol=1e-5)
    with pytest.raises(UsageError, match="none of the bundle's shapes") as caught:
        run_bundle(bundle, OnBoard(find_board("local")), inputs)
    assert "add --pad" in caught.value.hint
