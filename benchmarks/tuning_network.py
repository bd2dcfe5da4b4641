"""Whether tuning made a network slower: tuned and untuned code in turn, on this host.

    .venv/bin/python benchmarks/tuning_network.py tune FOLDER [--trials N] [--avx2]
    .venv/bin/python benchmarks/tuning_network.py compare FOLDER [--repeats N] [--rounds N] [--avx2]

The first tunes every network for every number of threads into one store in FOLDER, and takes minutes; the
second builds each without records and with them, times both in turn, and prints a line for each repeat. What
is the same code is said so, and not timed. The machine should be quiet for the second. With --avx2 code is
made for the class x86_64, which has AVX2, and not for this host's CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from toolchain.backends.table import backend_for  # noqa: E402
from toolchain.boards.board import Board  # noqa: E402
from toolchain.boards.inventory.lookup import local_board  # noqa: E402
from toolchain.building.bundling import Compilation  # noqa: E402
from toolchain.building.decide import decide_task, points  # noqa: E402
from toolchain.files.scratch import scratch_folder  # noqa: E402
from toolchain.models.load import load_model  # noqa: E402
from toolchain.models.options import ModelOptions  # noqa: E402
from toolchain.profiles import load_profile  # noqa: E402
from toolchain.records.sqlite import FILE_NAME  # noqa: E402
from toolchain.records.store import RecordStore  # noqa: E402
from toolchain.tasks.options import CodeOptions  # noqa: E402
from toolchain.tuning.events import Event, Notice, StepBegan  # noqa: E402
from toolchain.tuning.judging.gain import gain  # noqa: E402
from toolchain.tuning.judging.network_bench import prepare_network_bench  # noqa: E402
from toolchain.tuning.options import TuneOptions  # noqa: E402
from toolchain.tuning.run.tune import tune  # noqa: E402

NETWORKS, THREADS = ("resnet-18", "mobilenet"), (1, 2)


def tell(event: Event) -> None:
    """Print what begins."""
    if isinstance(event, Notice | StepBegan):
        print(f"  {event.text}", file=sys.stderr, flush=True)


def host(*, avx2: bool) -> Board:
    """Return this host as a board; with the CPU of its class, or with its own."""
    board = local_board()
    return replace(board, profile=load_profile("x86_64")) if avx2 else board


def tune_all(board: Board, folder: Path, networks: list[str], threads: list[int], trials: int) -> None:
    """Tune into the store of a folder."""
    with RecordStore(folder / FILE_NAME) as store:
        for name in networks:
            model = load_model(f"zoo:{name}", ModelOptions())
            backend = backend_for(board.profile, CodeOptions())
            for count in threads:
                options = TuneOptions(trials=trials, threads=count)
                result = tune(model, backend, [board], store, options, tell)
                said = {"network": name, "threads": count, **result.to_json()}
                del said["tasks"]
                print(json.dumps(said), flush=True)


def compare(
    board: Board, folder: Path, name: str, threads: int, repeats: int, rounds: int
) -> Iterator[dict[str, object]]:
    """Yield what each repeat says of a network with the store's records beside the one without."""
    model = load_model(f"zoo:{name}", ModelOptions())
    backend = backend_for(board.profile, CodeOptions())
    target = backend.target(None, threads)
    with (
        RecordStore(folder / FILE_NAME) as store,
        scratch_folder() as scratch,
        backend.lower(model, target) as network,
    ):
        tasks = list(network.tasks)
        chosen = points([decide_task(network, task, store, target, board.record_class) for task in tasks])
        compilation = Compilation(model, backend, board.build_for, target)
        bench = prepare_network_bench(compilation, network, board, store, tasks, scratch)
        untuned, tuned = (bench.variant(points, lambda _step: None) for points in ({}, chosen))
        same = untuned.bundles[0].library == tuned.bundles[0].library
        for repeat in range(repeats):
            said: dict[str, object] = {"network": name, "threads": threads, "repeat": repeat}
            if same:
                yield {**said, "same_code": True}
                continue
            old: list[float] = []
            new: list[float] = []
            for number in range(rounds):
                pair = [(untuned, old), (tuned, new)]
                for variant, times in pair if number % 2 == 0 else pair[::-1]:
                    times.append(bench.time(variant))
            brought = gain(old, new)
            yield {
                **said,
                "untuned_ms": sorted(old)[len(old) // 2],
                "tuned_ms": sorted(new)[len(new) // 2],
                "gain": brought.share,
                "uncertainty": brought.uncertainty,
                "slower": brought.share < -brought.uncertainty,
            }


def main() -> None:
    """Tune, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["tune", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--threads", nargs="+", type=int, default=THREADS)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--avx2", action="store_true")
    given = parser.parse_args()
    board = host(avx2=given.avx2)
    if given.what == "tune":
        tune_all(board, given.folder, given.networks, given.threads, given.trials)
        return
    print(json.dumps({"machine": platform.processor(), "cpus": os.cpu_count(), "load": os.getloadavg()}))
    for name in given.networks:
        for count in given.threads:
            for said in compare(board, given.folder, name, count, given.repeats, given.rounds):
                print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
