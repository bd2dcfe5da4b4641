"""A store of as many records as one likes, such as years of tuning leave: for `benchmarks/growth.py`.

Every task was tuned once: a default, trials of which one in twenty failed, and a confirmed choice. Ten tasks
are of one run. Nothing here was measured; only its size and its form are those of real records.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from toolchain.devices.kind import Failure
from toolchain.records.exchange import Function, function_id
from toolchain.records.record import Provenance, Record, RecordKey
from toolchain.records.store import RecordStore

TRIALS = 250
"""Records of a task."""
_TASKS_OF_A_RUN = 10
_PLACES = [
    ("x86_64-unknown-linux-gnu", "znver4", "x86-64-v4", 2, "x86_64", "local"),
    ("aarch64-unknown-linux-gnu", "cortex-a72", "neon", 2, "rk3399", "desk"),
]
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_FAILURES: list[Failure] = ["build", "timeout", "wrong result"]
_DEFINITION = 4_000  # characters; of a convolution


def fill(store: RecordStore, count: int, *, first: int = 0) -> None:
    """Add this many records to a store; `first` of them are there already."""
    for task in range(first // TRIALS, -(-count // TRIALS)):
        function = _function(task)
        store.add_new([function], _records(task, function, min(TRIALS, count - task * TRIALS)))


def workload(task: int) -> str:
    """Return the workload hash of a task."""
    return sha256(f"task {task}".encode()).hexdigest()[:16]


def _function(task: int) -> Function:
    definition = f"{task} {'x' * _DEFINITION}"
    return Function(function_id(definition), workload(task), f"fused_conv2d_{task}", definition)


def _records(task: int, function: Function, count: int) -> Iterator[Record]:
    draw = random.Random(task)  # noqa: S311
    triple, cpu, level, threads, board_class, board = _PLACES[task % len(_PLACES)]
    key = RecordKey(function.workload, triple, cpu, level, threads, board_class)
    run = sha256(f"run {task // _TASKS_OF_A_RUN}".encode()).hexdigest()[:32]
    default_ms = draw.uniform(0.1, 10.0)
    for trial in range(count):
        failure = draw.choice(_FAILURES) if 0 < trial < count - 1 and draw.random() < 0.05 else None
        ms = default_ms * draw.uniform(0.8, 3.0)
        algorithm = draw.choice(["winograd", "direct", "direct"])
        payload = json.dumps(
            {
                "algorithm": algorithm,
                "blocks": trial % 8,
                "columns": trial // 8,
                "rows": 2,
                "order": "channels",
            }
        )
        yield Record(
            key=key,
            function=function.id,
            kind="cpu",
            payload=payload,
            digest=sha256(payload.encode()).hexdigest(),
            provenance=Provenance(
                *(run, board, "0" * 64, "0.27.0", "0.1.14", "0.1.0"),
                trial=trial or None,
                governor="performance",
                temperature_c=51.5,
            ),
            run_ms=() if failure else (ms, ms * 1.01, ms * 0.99),
            failure=failure,
            confirmed=trial == count - 1,
            created=(_BEGIN + timedelta(seconds=task * TRIALS + trial)).isoformat(timespec="milliseconds"),
        )
