"""Measures a library of ours with edge-rt: correctness, latency, then the time of each operator."""

from __future__ import annotations

import json
import os
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.nvidia.travel import child
from benchmarks.nvidia.travel.judging import error_of, floats, read_npz
from benchmarks.nvidia.travel.plan import Row
from benchmarks.nvidia.travel.smi import Watch

_PASSED = (
    *("PATH", "LD_LIBRARY_PATH", "EDGE_CUDA_DRIVER", "EDGE_CUDA_FAULT"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),  # else the first GPU would be another than that of peers
)
_WARM_UP = 10
_BEFORE = 2  # inferences before the one that is judged: the first one runs without the graph, and captures it


@dataclass(frozen=True)
class Sampling:
    """How a contender's latency is sampled: so many samples, each of at least so many milliseconds."""

    samples: int
    milliseconds: int


class Failure(Exception):  # noqa: N818
    """A contender failed; the status is what the table says of it, the log what it printed."""

    def __init__(self, status: str, reason: str, log: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.log = log

    @staticmethod
    def of(ended: child.Ended) -> Failure:
        """Return the failure of a process that was killed, crashed or ended with another code than 0."""
        if ended.code is None:
            return Failure("late", ended.reason, ended.log)
        return Failure("crashed" if ended.code < 0 else "failed", ended.reason, ended.log)


def measure_ours(
    program: Path,
    files: dict[str, Path],
    row: Row,
    tolerance: float,
    sampling: Sampling,
    seconds: float,
    scratch: Path,
    gpu: str | None,
) -> dict[str, Any]:
    """Return error, samples, operators and what nvidia-smi saw.

    Parameters
    ----------
    files
        Unpacked members: library, input and expected.
    gpu
        UUID of the GPU that nvidia-smi watches.

    Raises
    ------
    Failure
        edge-rt fails, does not end, its output is wrong, or it launched no graph where one is measured.
    """
    deadline = time.monotonic() + seconds
    options = [str(files["library"]), "--input", str(files["input"]), "--device", "cuda"]
    options += ["--state", str(scratch / "state"), *([] if row.graph else ["--graph", "off"])]
    output = scratch / "output.npz"
    judged_run = ["run", *options, "--warmup", str(_BEFORE), "--output", str(output)]
    _said(program, judged_run, deadline, scratch)
    result = judged(_read(output), files["expected"], row, tolerance)
    repeat = ["--repeat", str(sampling.samples), "--min-repeat-ms", str(sampling.milliseconds)]
    warm = _WARM_UP if sampling.milliseconds else 1
    with Watch(gpu) as watch:
        told = _said(program, ["bench", *options, "--warmup", str(warm), *repeat], deadline, scratch)
    if told["graph"] != row.graph:
        raise Failure("failed", "edge-rt launched no graph" if row.graph else "edge-rt launched a graph")
    result.update(times_ms=told["times_ms"], inferences=told["number"], device=told["device"])
    result.update(copies_ms=told["copies_ms"], peak_host_mib=told["peak_rss_mib"], gpu=watch.seen)
    if row.graph:
        profile = ["bench", *options, "--warmup", "1", "--repeat", "1", "--profile"]
        try:
            result["operators"] = _said(program, profile, deadline, scratch)["operators"]
        except Failure as failure:  # the times above are worth having without
            result["profile_problem"] = f"{failure.status}: {failure}"
    return result


def environment() -> dict[str, str]:
    """Return what edge-rt sees of this process's environment."""
    return {**{name: os.environ[name] for name in _PASSED if name in os.environ}, "LC_ALL": "C"}


def judged(output: Any, expected: Path, row: Row, tolerance: float) -> dict[str, Any]:
    """Return the error of an output.

    Raises
    ------
    Failure
        It is larger than the tolerance, or the output has another size.
    """
    classes = row.entry["expected"]["shape"][-1]
    try:
        error = error_of(output, floats(expected.read_bytes()), classes, row.entry["softmax"])
    except ValueError as problem:
        raise Failure("wrong", str(problem)) from problem
    if not error <= tolerance:
        raise Failure("wrong", f"its error is {error:.2e}, and {tolerance:.0e} is accepted")
    return {"error": error, "tolerance": tolerance}


def _read(output: Path) -> Any:
    try:
        return read_npz(output)
    except (OSError, ValueError, zipfile.BadZipFile, KeyError, SyntaxError) as problem:
        raise Failure("wrong", f"its output cannot be read: {problem}") from problem


def _said(program: Path, words: list[str], deadline: float, folder: Path) -> dict[str, Any]:
    left = max(1.0, deadline - time.monotonic())
    ended = child.run([str(program), *words], left, environment(), folder)
    if ended.code != 0:
        raise Failure.of(ended)
    try:
        document: dict[str, Any] = json.loads(ended.output)
    except ValueError as error:
        raise Failure("failed", f"its answer cannot be read: {error}", ended.log) from error
    return document
