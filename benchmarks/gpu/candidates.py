"""What it takes to build a candidate of a tuner: a convolution's code for the host and its kernels."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from benchmarks.gpu.counts import BOARD, Convolution, model_of
from toolchain.backends.table import backend_for
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.tasks.backend import Network
from toolchain.tasks.candidate import DeviceCode
from toolchain.tasks.options import CodeOptions

LAYER = Convolution("resnet-18, 3x3", 128, 128, 3, 28)
GOAL_S = 0.6
_ALGORITHMS = {"direct": "off", "winograd": "auto"}


@dataclass(frozen=True)
class _Built:
    seconds: float
    cpu_s: float


def candidates(again: int) -> dict[str, Any]:
    """Return how long a warm process takes for a candidate, in turns of both algorithms.

    Parameters
    ----------
    again
        How often each is built, after the first time, which imports what it needs; the best counts.
    """
    times: dict[str, list[_Built]] = {name: [] for name in _ALGORITHMS}
    with tempfile.TemporaryDirectory(prefix="edge-benchmark-") as folder:
        file = Path(folder) / "layer.onnx"
        onnx.save(model_of(LAYER), file)
        for _ in range(1 + again):
            for name, built in _turn(file):
                times[name].append(built)
    return {
        "board": BOARD,
        "layer": LAYER.name,
        "goal_s": GOAL_S,
        "built_warm": {name: _best(found[1:]) for name, found in times.items()},
    }


def _turn(file: Path) -> Iterator[tuple[str, _Built]]:
    for name, winograd in _ALGORITHMS.items():
        backend = backend_for(load_profile(BOARD), CodeOptions(device="opencl", winograd=winograd))
        with backend.lower(load_model(str(file), ModelOptions()), backend.target()) as network:
            yield name, _built(network, name)


def _built(network: Network[Any], algorithm: str) -> _Built:
    (task,) = network.tasks
    space = network.space(task)
    point = space.default()
    if f'"algorithm":"{algorithm}"' not in space.candidate(point).entry.payload:
        raise AssertionError(f"the default is not {algorithm}")
    code = space.candidate(point).code
    assert isinstance(code, DeviceCode)  # noqa: S101 - this is for a GPU
    clock, cpu = time.perf_counter(), time.process_time()
    code.linkable([*code.objects("main")])
    return _Built(time.perf_counter() - clock, time.process_time() - cpu)


def _best(found: list[_Built]) -> dict[str, float]:
    return {
        "clock_s": round(min(each.seconds for each in found), 3),
        "cpu_s": round(min(each.cpu_s for each in found), 3),
    }
