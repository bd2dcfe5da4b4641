"""Our code and TVM's own (DLight's schedules) for one network, on one OpenCL driver, in turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from benchmarks.gpu.stock import TARGET
from toolchain.bundles import read_bundle
from toolchain.linking import ZigLinker
from toolchain.lowering.objects.export import export_objects
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.runtime import ensure_runtime

GOAL = 0.05
_BOARD = "x86_64"
_SECONDS = 900.0


def against(model: str, rounds: int, samples: int) -> dict[str, Any]:
    """Time both with the first OpenCL driver of this machine; what it is stands in the answer.

    Parameters
    ----------
    rounds
        Of both in turn.
    samples
        Inferences of a round.
    """
    with tempfile.TemporaryDirectory(prefix="edge-benchmark-") as name:
        folder = Path(name)
        inputs, expected = _ours(model, folder)
        _dlight(model, folder / "dlight.so")
        errors = {who: _error(folder, who, inputs, expected) for who in ("ours", "dlight")}
        times: dict[str, list[float]] = {who: [] for who in errors}
        for _ in range(rounds):
            for who, found in times.items():
                found += _timed(folder, who, inputs, samples)
    best = {who: min(found) for who, found in times.items()}
    return {
        "model": model,
        "driver": "the CPU by PoCL, where no other driver is installed: nothing is said of a GPU",
        "largest_error": errors,
        "best_ms": {who: round(ms, 2) for who, ms in best.items()},
        "median_ms": {who: round(statistics.median(found), 2) for who, found in times.items()},
        "ours_over_dlight": round(best["ours"] / best["dlight"], 4),
        "goal": GOAL,
    }


def _ours(model: str, folder: Path) -> tuple[list[str], np.ndarray]:
    """Build a network; return the files of its inputs, and the output that onnxruntime gives."""
    words = ["build", model, "--board", _BOARD, "--device", "opencl", "-o", str(folder)]
    subprocess.run(
        [sys.executable, "-m", "toolchain", *words], check=True, timeout=_SECONDS, stdout=subprocess.DEVNULL
    )
    bundle = read_bundle(next(folder.glob("*.bundle")))
    (folder / "ours.so").write_bytes(bundle.library)
    inputs = []
    for number, array in enumerate(bundle.sample.values()):
        inputs += ["--input", str(folder / f"{number}.npy")]
        np.save(inputs[-1], array)
    return inputs, next(iter(bundle.expected.values()))


def _dlight(model: str, library: Path) -> None:
    """Compile the same network, batch norms folded alike, as TVM does by itself for such a target."""
    executable = tvm.compile(load_model(model, ModelOptions()).module, target=TARGET)
    with tempfile.TemporaryDirectory() as objects:
        ZigLinker().link(export_objects(executable, Path(objects)), library, load_profile(_BOARD))


def _error(folder: Path, who: str, inputs: list[str], expected: np.ndarray) -> float:
    """Return the largest error of an output, which the network computes for the first time."""
    _said(folder, "run", who, [*inputs, "--output", str(folder / f"{who}.npz")])
    with np.load(folder / f"{who}.npz") as found:
        (output,) = found.values()
    return float(np.abs(output.reshape(expected.shape) - expected).max())


def _timed(folder: Path, who: str, inputs: list[str], samples: int) -> list[float]:
    times: list[float] = json.loads(_said(folder, "bench", who, [*inputs, "--repeat", str(samples)]))[
        "times_ms"
    ]
    return times


def _said(folder: Path, verb: str, who: str, options: list[str]) -> str:
    program = ensure_runtime(_BOARD).program
    argv = [str(program), verb, str(folder / f"{who}.so"), "--device", "opencl", *options]
    ended = subprocess.run(
        [*argv, "--state", str(folder / "state")],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", "POCL_CACHE_DIR": str(folder / "pocl")},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if ended.returncode:
        raise SystemExit(f"{who}: {ended.stderr or ended.stdout}")
    return ended.stdout
