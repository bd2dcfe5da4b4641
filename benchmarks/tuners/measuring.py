"""Every way to compute every task of networks, measured on a board, into a file that replays read.

The least of 30 readings is kept: what else the machine does makes others longer, and none shorter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx

from benchmarks.families.table import FAMILIES
from toolchain.backends.table import backend_for
from toolchain.boards.inventory.lookup import find_boards
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.tasks.options import CodeOptions
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Space
from toolchain.tuning.boards.cases import run_cases
from toolchain.tuning.boards.runner import board_evaluator
from toolchain.tuning.events import Event
from toolchain.tuning.options import TuneOptions

NETWORKS = ("zoo:resnet-18", "zoo:mobilenet", "shufflenet-v2")
_BATCH = 8


def measure(networks: list[str], board: str, raw: Path, options: TuneOptions) -> None:
    """Add to `raw`, a line for each point, what was not measured yet; it may be stopped at any time."""
    done = {(line["workload"], line["digest"]) for line in read(raw)}
    boards = find_boards(board)
    backend = backend_for(boards[0].profile, CodeOptions())
    target = backend.target(None, options.threads)
    with run_cases(print) as cases, board_evaluator(boards, target, options, _silent) as evaluator:
        for name in networks:
            with (
                _source(name) as source,
                backend.lower(load_model(source, ModelOptions()), target) as network,
            ):
                for task in network.tasks:
                    space = network.space(task)
                    size = space.size or 0
                    left = [
                        point
                        for point in map(space.point, range(size if size > 1 else 0))
                        if (task.workload, space.entry(point).digest) not in done
                    ]
                    if left:
                        cases.begin(task, network.reference(task))
                        evaluator.runner.expect(task, cases.of(task))
                    for begin in range(0, len(left), _BATCH):
                        points = left[begin : begin + _BATCH]
                        built = evaluator.builder.build([space.candidate(point) for point in points])
                        results = evaluator.runner.run(task, built)
                        with raw.open("a") as file:
                            for point, result in zip(points, results, strict=True):
                                line = _line(name, task, space, point)
                                line["ms"] = round(min(result.run_ms), 6) if result.run_ms else None
                                line["failure"] = result.failure
                                file.write(json.dumps(line) + "\n")
                                done.add((task.workload, line["digest"]))
                    print(f"{name} {task.id} {task.name}: {size} points", flush=True)


def read(raw: Path) -> Iterator[dict[str, Any]]:
    """Return the lines of a file that `measure` wrote."""
    if raw.exists():
        yield from map(json.loads, raw.read_text().splitlines())


def _line(network: str, task: Task, space: Space[Any], point: object) -> dict[str, Any]:
    entry = space.entry(point)
    return {
        "network": network,
        "workload": task.workload,
        "name": task.name,
        "weight": task.weight,
        "flops": task.flops,
        "shapes": task.shapes,
        "digest": entry.digest,
        "payload": entry.payload,
    }


@contextmanager
def _source(name: str) -> Iterator[str]:
    if name.startswith("zoo:"):
        yield name
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        onnx.save(FAMILIES[name].model(), path)
        yield str(path)


def _silent(_event: Event) -> None:
    pass


def collect(raw: Path, data: Path) -> None:
    """Write what replays need of a measured file: decisions, features and times, task by task."""
    lines = {(line["workload"], line["digest"]): line for line in read(raw)}
    networks = list(dict.fromkeys(line["network"] for line in lines.values()))
    backend = backend_for(find_boards("local")[0].profile, CodeOptions())
    tasks = []
    for name in networks:
        with (
            _source(name) as source,
            backend.lower(load_model(source, ModelOptions()), backend.target(None, 1)) as network,
        ):
            for task in network.tasks:
                space = network.space(task)
                points = [space.point(index) for index in range(space.size or 0)]
                known = [lines.get((task.workload, space.entry(point).digest)) for point in points]
                if len(points) > 1 and all(line is not None and line["network"] == name for line in known):
                    tasks.append(
                        {
                            "task": f"{name.removeprefix('zoo:')} {task.id}",
                            "weight": task.weight,
                            "decisions": [json.loads(space.entry(point).payload) for point in points],
                            "features": [_short(space.features(point)) for point in points],
                            "ms": [line and line["ms"] for line in known],
                        }
                    )
    data.write_text("[\n" + ",\n".join(json.dumps(task, separators=(",", ":")) for task in tasks) + "\n]\n")


def _short(features: Sequence[float]) -> list[float]:
    return [int(number) if number == int(number) else round(number, 3) for number in features]
