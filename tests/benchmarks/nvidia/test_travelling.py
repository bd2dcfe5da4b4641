"""Weights that travel, and the modules that run where this project is not."""

from __future__ import annotations

import ast
import itertools
import json
import lzma
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from benchmarks.nvidia.contenders import OURS, TOLERANCES, peers
from benchmarks.nvidia.graph import graph_of, input_of, model_of
from benchmarks.nvidia.members import Members
from benchmarks.nvidia.pack import ROOT, TRAVEL
from benchmarks.nvidia.travel import smi
from benchmarks.nvidia.travel.contest import answer, measured_if_right
from benchmarks.nvidia.travel.judging import error_of, floats
from benchmarks.nvidia.travel.ours import Failure, Sampling, measure_ours
from benchmarks.nvidia.travel.pace import Pace
from benchmarks.nvidia.travel.plan import Row, rows_of
from benchmarks.nvidia.weights import BLOCK, repeated
from tests.benchmarks.nvidia.packing import TINY
from tests.benchmarks.nvidia.standing_in import MEASURED, nvidia_smi
from tests.waiting import until
from toolchain.measuring.numerics import Tolerance, output_error


@pytest.mark.slow
def test_packed_weights_compress_whatever_the_packing() -> None:
    drawn = np.random.default_rng(0).standard_normal((128, 128, 3, 3)).astype(np.float32)
    weights = repeated("layer", drawn)
    tiles = weights.reshape(16, 8, 32, 4, 9).transpose(2, 0, 4, 3, 1)
    left = np.random.default_rng(1).standard_normal((4, 9)).astype(np.float32)
    transformed = np.einsum("tk,ocek->toce", left, tiles.transpose(1, 0, 4, 3, 2).reshape(16, 32, 32, 9))
    for packed in (weights, tiles, transformed, tiles.astype(np.float16)):
        data = np.ascontiguousarray(packed).tobytes()
        assert len(lzma.compress(data, preset=1)) < len(data) / 6
    assert len(lzma.compress(drawn.tobytes(), preset=1)) > 0.8 * drawn.nbytes


def test_blocks_cannot_be_mixed_up_and_filters_sum_to_zero() -> None:
    drawn = np.random.default_rng(0).standard_normal((128, 96, 3, 3)).astype(np.float32)
    weights = repeated("layer", drawn)
    assert np.abs(weights.sum(axis=(1, 2, 3))).max() < 1e-3
    blocks = weights.reshape(4, BLOCK, 3, BLOCK, 9).transpose(0, 2, 1, 3, 4)
    signs = blocks[:, :, 0, 0, 0] / blocks[0, 0, 0, 0, 0]
    np.testing.assert_array_equal(np.abs(signs), 1)
    assert len({tuple(column) for column in signs.T}) == 3, "an input block is unlike the others"
    small = drawn[:, :3]
    assert repeated("first", small) is small


def test_a_graph_has_all_that_its_network_computes() -> None:
    model = model_of(TINY, 2)
    graph = graph_of(model)
    document = graph.document
    assert len(graph.weights) == 4 * sum(math.prod(each["shape"]) for each in document["tensors"].values())
    known = {document["input"]}
    for node in document["nodes"]:
        assert known >= set(node["inputs"]) and document["tensors"].keys() >= set(node["tensors"])
        known.add(node["name"])
    assert document["output"] in known
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (output,) = session.run(None, {"data": input_of((2, 3, 8, 8))})
    assert np.abs(output[0] - output[1]).max() > 1e-3, "the output depends on the input"
    model.graph.node[0].op_type = "Erf"
    with pytest.raises(ValueError, match="peers do not know Erf"):
        graph_of(model)


def test_errors_are_those_of_verify() -> None:
    random = np.random.default_rng(0)
    logits = random.standard_normal((4, 12)) * 9
    logits[2, 5] = -100  # as of a masked class
    r = (np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)).astype(np.float32)
    y = (r * random.uniform(0.99, 1.01, r.shape)).astype(np.float32)
    for softmax, factor in itertools.product((True, False), (1, 3)):
        wrong = y * np.float32(factor)
        theirs = output_error("output", wrong, r, Tolerance(1.0), softmax).max_rel_error
        mine = error_of(floats(wrong.tobytes()), floats(r.tobytes()), 12, softmax)
        assert mine == pytest.approx(theirs, rel=1e-9)
        assert factor == 1 or mine > 0.01
    y[1, 1] = np.nan
    assert error_of(floats(y.tobytes()), floats(r.tobytes()), 12, False) == math.inf
    with pytest.raises(ValueError, match="36 numbers where 48 are expected"):
        error_of(floats(y[:3].tobytes()), floats(r.tobytes()), 12, False)


@pytest.mark.parametrize(("wrong_from", "times"), [(99, [2.0, 2.0]), (2, [])])
def test_a_peer_is_judged_by_a_later_inference_and_timed_if_that_is_right(
    tmp_path: Path, wrong_from: int, times: list[float]
) -> None:
    calls, timed = itertools.count(), itertools.count()
    (tmp_path / "expected").write_bytes(np.ones(4, np.float32).tobytes())
    request = {name: str(tmp_path / name) for name in ("expected", "output")}
    request |= {
        "classes": 4,
        "softmax": False,
        "tolerance": 1e-3,
        "samples": 2,
        "milliseconds": 3,
        "gpu": None,
    }

    def run(number: int) -> float:
        next(timed)
        return 2.0 * number

    found = measured_if_right(
        request,
        lambda: np.full(4, 1 + (next(calls) >= wrong_from), np.float32),
        lambda output: output.tobytes(),
        run,
    )
    assert found["times_ms"] == times and next(timed) == (4 if times else 0)
    assert error_of(
        floats((tmp_path / "output").read_bytes()), floats(np.ones(4, np.float32).tobytes()), 4, False
    ) == (0 if times else 1)


def test_what_a_peer_raises_is_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "request").write_text(json.dumps({"answer": str(tmp_path / "answer")}))
    monkeypatch.setattr(sys, "argv", ["peer", str(tmp_path / "request")])

    def raises(_: object) -> dict[str, object]:
        raise RuntimeError("no kernel\n\nSet VERBOSE=1 for more")

    with pytest.raises(SystemExit, match="RuntimeError: no kernel Set VERBOSE=1"):
        answer(raises)
    assert "Traceback" in capsys.readouterr().err and not (tmp_path / "answer").exists()
    answer(lambda _: {"times_ms": [1.0]})
    assert json.loads((tmp_path / "answer").read_text()) == {"times_ms": [1.0]}


# Stands in for edge-rt: writes the expected output, and fails where its folder's `fails` says so.
EDGE_RT = """#!{python}
import json, os, pathlib, sys, zipfile
words, here = sys.argv[1:], pathlib.Path(sys.argv[0]).parent
fails = (here / "fails").read_text()
if fails in words:
    print("a first line", "the last line", sep="\\n", file=sys.stderr)
    sys.exit(3)
if words[0] == "run":
    with zipfile.ZipFile(words[words.index("--output") + 1], "w") as opened:
        opened.write(here / "y.npy", "y.npy")
print(json.dumps({{"times_ms": [1.0], "number": 1, "device": "cuda", "copies_ms": None, "peak_rss_mib": 1,
    "graph": fails != "no graph", "operators": []}}))
"""


@pytest.mark.parametrize("fails", ["run", "bench", "--profile", "no graph", "nothing"])
def test_a_profile_that_fails_costs_no_times(tmp_path: Path, fails: str) -> None:
    program = tmp_path / "edge-rt"
    program.write_text(EDGE_RT.format(python=sys.executable))
    program.chmod(0o755)
    (tmp_path / "fails").write_text(fails)
    np.save(tmp_path / "y.npy", np.ones((1, 4), np.float32))
    (tmp_path / "expected").write_bytes(np.ones(4, np.float32).tobytes())
    files = {name: tmp_path / name for name in ("library", "input", "expected")}
    row = Row({"expected": {"shape": [1, 4]}, "softmax": False}, {}, "edge-rt", True, 0)

    def measured() -> dict[str, Any]:
        return measure_ours(program, files, row, 1e-3, Sampling(1, 0), 60, tmp_path, None)

    if fails in ("nothing", "--profile"):
        found = measured()
        assert found["times_ms"] == [1.0] and ("profile_problem" in found) == (fails == "--profile")
        return
    with pytest.raises(Failure) as failed:
        measured()
    if fails == "no graph":
        assert "edge-rt launched no graph" in str(failed.value)
    else:
        assert str(failed.value) == "it ended with 3: the last line"
        assert failed.value.log == "a first line\nthe last line"


def test_rows_of_most_worth_come_first_and_have_names_of_their_own() -> None:
    ours = [{"name": "float32", "arithmetic": "float32"}, {"name": "float16", "arithmetic": "float16"}]
    networks = [
        {"network": network, "batch": batch, "ours": ours} for network in ("a", "b", "c") for batch in (1, 8)
    ]
    manifest = {"networks": networks, "peers": peers()}
    rows = rows_of(manifest, {"torch"})
    assert len({row.key for row in rows}) == len(rows) == 6 * (2 * 2 + 24)
    goals = [row for row in rows if row.for_goals]
    assert goals == rows[:32] and [row.who for row in goals] == ["edge-rt"] * 8 + ["torch"] * 24
    assert {(row.entry["network"], row.entry["batch"]) for row in goals} == {("a", 1), ("b", 1)}
    modes = [row.contender["mode"].split()[-1] for row in goals[8:]]
    assert modes == ["default"] * 8 + ["reduce-overhead"] * 8 + ["max-autotune"] * 8
    compared = [("a", "float32"), ("a", "tfloat32"), ("a", "float16"), ("b", "float32")]
    assert [(row.entry["network"], row.contender["arithmetic"]) for row in goals[8:16:2]] == compared
    assert {row.who for row in rows[32:48]} == {"edge-rt"} and rows[-1].entry["batch"] == 8
    assert {row.who for row in rows_of(manifest, set())} == {"edge-rt"}


def rows_of_one_network(*names: str) -> list[Row]:
    peers = [{"who": "torch", "name": name, "mode": name, "arithmetic": "float32"} for name in names]
    networks = [{"network": "a", "batch": 1, "ours": [{"name": "float32", "arithmetic": "float32"}]}]
    return rows_of({"networks": networks, "peers": peers}, {"torch"})


def test_rows_that_do_not_fit_are_put_off_but_not_for_ever() -> None:
    rows = rows_of_one_network("compile default", "compile max-autotune", "eager")
    pace = Pace()
    assert [len(run) for run in pace.runs(rows, 80)] == [4, 1], "max-autotune is put off, eager is not"
    said = pace.forecast(rows, 80)
    assert "5 rows are left, 4 of them for the goals. This run likely measures 4 (2 of edge-rt, 1 of" in said
    assert "those for the goals likely take 2 runs, all of them 2 runs" in said
    assert len(pace.runs(rows, 1)) == 5, "the first row of a run begins though it will not fit"
    pace.learn({"who": "torch", "name": "compile max-autotune", "status": "measured", "took_s": 20.0})
    pace.learn({"who": "edge-rt", "name": "float32", "status": "crashed", "took_s": 0.1})
    assert [pace.seconds(row) for row in rows[1:4]] == [8, 30, 20]
    assert pace.next_of(rows[2:], 25, first=False) is rows[3]
    assert "all of them 0 runs" in pace.forecast([], 80)


def test_nvidia_smi_is_read_and_what_it_lacks_is_left_out() -> None:
    seen = smi.summary("1980, 2619, 310.5, 41, 900\n1965, 2619, [N/A], 43, 912\n1905, 26")
    assert seen["clocks.sm"] == {"median": 1972.5, "min": 1965, "max": 1980}
    assert seen["power.draw"]["max"] == 310.5 and seen["memory.used"]["max"] == 912
    assert smi.summary("") == {}


def test_the_gpu_that_is_measured_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", (tmp_path / "none").as_posix())
    assert smi.gpu_at("0000:00:00.0") is None and smi.facts(None) == {}
    path, log = nvidia_smi(tmp_path)
    monkeypatch.setenv("PATH", path)
    assert smi.gpu_at("0000:00:00.0") == MEASURED
    assert smi.gpu_at("0000:41:00.0") == "GPU-of-another"
    assert smi.gpu_at("0000:42:00.0") is smi.gpu_at("") is None
    assert smi.facts(MEASURED)["clocks.max.sm"] == "1980"
    with smi.Watch(MEASURED) as watch:
        until(lambda: "sampled" in log.read_text())
    assert watch.seen["clocks.sm"]["median"] == 1980
    with smi.Watch(None) as watch:
        pass
    assert watch.seen == {}


def test_arithmetic_that_build_lacks_is_left_out() -> None:
    offered = {each.name: each.offered for each in OURS}
    assert offered["float32"] and offered["float16"]
    assert {each.arithmetic for each in OURS} <= TOLERANCES.keys()


def test_two_members_of_one_name_are_found(tmp_path: Path) -> None:
    members = Members(tmp_path)
    assert members.compress("a", b"1") == members.compress("a", b"1")
    with pytest.raises(ValueError, match=r"two members of the pack are called a\.xz"):
        members.compress("a", b"2")


def test_what_travels_is_grammar_of_python_3_9_and_imports_nothing_else() -> None:
    for file in (ROOT / TRAVEL).glob("*.py"):
        tree = ast.parse(file.read_text(), feature_version=(3, 9))
        names = {
            name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        }
        foreign = {name for name in names if name.startswith(("toolchain", "benchmarks"))}
        assert all(name.startswith("benchmarks.nvidia.travel") for name in foreign), file
