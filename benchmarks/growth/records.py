"""Commands on stores of many records, and a build's look-ups."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

from benchmarks.growth.command import cost
from benchmarks.growth.store import TRIALS, fill, workload
from toolchain.records.database import Selection
from toolchain.records.lookup import lookup
from toolchain.records.sqlite import FILE_NAME
from toolchain.records.store import RecordStore

_LOOKED_UP = 50  # tasks of a build
_LESSONS = 4096  # records that a tuner learns from at most


def rows(given: argparse.Namespace) -> Iterator[Mapping[str, str]]:
    """Yield a row for each size; the store grows from one to the next."""
    with tempfile.TemporaryDirectory() as text:
        folder, there = Path(text), 0
        environment = {"TOOLCHAIN_DATA_DIR": text, "TOOLCHAIN_RECORDS_URL": given.url or ""}
        for size in given.sizes:
            with _store(folder, given.url) as store:
                begun = time.process_time()
                fill(store, size, first=there)
                filled_s, there = time.process_time() - begun, size
                build_s, learn_s = _build(store, size), _learn(store)
            file = folder / FILE_NAME
            exported = cost(["records", "export", str(folder / "x.jsonl")], environment)
            yield {
                "records": f"{size:,}".replace(",", " "),
                "MB": "" if given.url else f"{file.stat().st_size / 1e6:.0f}",
                "add, µs each": f"{filled_s / (size or 1) * 1e6:.0f}" if size == given.sizes[0] else "",
                "list": str(cost(["records", "list"], environment)),
                "list --task": str(cost(["records", "list", "--task", workload(0)[:8]], environment)),
                "list --board": str(cost(["records", "list", "--board", "desk"], environment)),
                "best": str(cost(["records", "best"], environment)),
                "look up 50 tasks": f"{build_s:.2f}",
                "learn from others": f"{learn_s:.2f}",
                "report": str(cost(["report", "-o", str(folder / "report.html")], environment)),
                "distill --dry-run": str(cost(["records", "distill", "--dry-run"], environment)),
                "export": f"{exported}, {exported.mib:.0f} MiB",
            }


def _store(folder: Path, url: str | None) -> RecordStore:
    if url is None:
        return RecordStore(folder / FILE_NAME)
    from toolchain.records.postgres.server import connect

    return RecordStore(connect(url))


def _build(store: RecordStore, size: int) -> float:
    key = next(store.newest()).key
    begun = time.process_time()
    for task in range(min(_LOOKED_UP, size // TRIALS)):
        lookup(store, replace(key, workload=workload(task)), ("cpu",), shipped=None)
    return time.process_time() - begun


def _learn(store: RecordStore) -> float:
    begun = time.process_time()
    for _record in islice(store.newest(Selection(kinds=("cpu",))), _LESSONS):
        pass
    return time.process_time() - begun
