"""Measures a peer in a process of its own, which a crash or a hang costs and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from benchmarks.nvidia.travel import child
from benchmarks.nvidia.travel.judging import floats
from benchmarks.nvidia.travel.ours import Failure, Sampling, judged
from benchmarks.nvidia.travel.plan import Row

_MODULES = {"torch": "torch_peer", "tensorrt": "tensorrt_peer"}
_PACKAGE = "benchmarks.nvidia.travel"
_ASK_S = 240.0  # importing torch for the first time reads some gigabytes
_MOST = 64 * 2**20


def versions(python: str, root: Path) -> dict[str, Any]:
    """Return the version of each peer that Python can import here, or why it cannot."""
    found = {}
    for who in _MODULES:
        code = f"import json, {who}; print(json.dumps({who}.__version__))"
        ended = child.run([python, "-c", code], _ASK_S, dict(os.environ), root)
        try:
            version = json.loads(ended.output.strip().splitlines()[-1]) if ended.code == 0 else None
        except (ValueError, IndexError):
            version = None
        found[who] = {"version": version, "reason": None if version else ended.reason}
    return found


def measure_peer(
    python: str,
    root: Path,
    files: dict[str, Path],
    row: Row,
    tolerance: float,
    sampling: Sampling,
    device: str,
    seconds: float,
    scratch: Path,
    gpu: str | None,
) -> dict[str, Any]:
    """Return a peer's error, and what it answered: samples, and what nvidia-smi saw.

    Raises
    ------
    Failure
        It crashes, does not end, says why it cannot, or its output is wrong.
    """
    request, answer, output = (scratch / name for name in ("request.json", "answer.json", "output.f32"))
    asked = {
        **{name: str(file) for name, file in files.items()},
        **row.contender,
        "device": device,
        "samples": sampling.samples,
        "milliseconds": sampling.milliseconds,
        "answer": str(answer),
        "output": str(output),
        "classes": row.entry["expected"]["shape"][-1],
        "softmax": row.entry["softmax"],
        "tolerance": tolerance,
        "gpu": gpu,
    }
    request.write_text(json.dumps(asked))
    # Compiled kernels are kept from row to row, as they would be from run to run.
    kept = {"TORCHINDUCTOR_CACHE_DIR": str(scratch.parent / "inductor")}
    kept["TRITON_CACHE_DIR"] = str(scratch.parent / "triton")
    argv = [python, "-m", f"{_PACKAGE}.{_MODULES[row.who]}", str(request)]
    ended = child.run(argv, seconds, {**os.environ, **kept}, root)
    if ended.code != 0:
        raise Failure.of(ended)
    try:
        told: dict[str, Any] = json.loads(answer.read_text())
        if max(answer.stat().st_size, output.stat().st_size) > _MOST:
            raise ValueError("its answer is too large")
        result = judged(floats(output.read_bytes()), files["expected"], row, tolerance)
    except (OSError, ValueError) as error:
        raise Failure("failed", f"its answer cannot be read: {error}", ended.log) from error
    if not told.get("times_ms"):
        raise Failure("failed", "its answer has no times", ended.log)
    return {**told, **result}
