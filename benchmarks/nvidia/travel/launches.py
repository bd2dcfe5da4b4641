"""What a launch and a barrier of the whole grid cost on this GPU: a row of results of their own."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.nvidia.travel import child
from benchmarks.nvidia.travel.members import Pack
from benchmarks.nvidia.travel.ours import Failure

MOST_S = 30.0
"""Deadline: a GPU that nobody has used takes some seconds to begin, and the measurement about one."""


def measure_launches(pack: Pack, samples: int, seconds: float, scratch: Path) -> dict[str, Any]:
    """Return what `chains.measure` found in a process of its own, or the status and the reason of a failure.

    Raises
    ------
    Stop
        A member of the pack does not unpack to what was packed.
    """
    begun = time.monotonic()
    request, answer = scratch / "launches.json", scratch / "launches-answer.json"
    images = {
        arch: str(pack.unpack(entry, scratch / f"launches-{arch}"))
        for arch, entry in pack.manifest["launches"].items()
    }
    request.write_text(json.dumps({"images": images, "samples": samples, "answer": str(answer)}))
    argv = [sys.executable, "-m", "benchmarks.nvidia.travel.chains", str(request)]
    try:
        ended = child.run(argv, seconds, dict(os.environ), pack.folder)
        if ended.code != 0:
            raise Failure.of(ended)
        told = {"status": "measured", **json.loads(answer.read_text())}
    except Failure as failure:
        told = {"status": failure.status, "reason": str(failure), "log": failure.log}
    except (OSError, ValueError) as error:
        told = {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
    return {**told, "took_s": round(time.monotonic() - begun, 2)}
