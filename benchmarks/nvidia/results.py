"""Reads what the runner measured: rows by network, batch, contender and arithmetic."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, model_validator

from benchmarks.nvidia.gpus import Gpu, gpu_named
from benchmarks.nvidia.travel.plan import OURS
from benchmarks.nvidia.travel.results import VERSION
from toolchain.errors import UsageError
from toolchain.foreign import shortened

_MOST = 64 * 2**20
CHAINS = {"graph", "stream", "barriers"}
"""What the row about launches and barriers has."""


class Operator(BaseModel):
    """An operator of a profile."""

    name: str
    calls: float
    ms: float


class Function(BaseModel):
    """A function's FLOPs and least bytes."""

    label: str
    flops: int
    bytes: int


class Row(BaseModel):
    """A row as the runner writes it; `times_ms` and what follows are there if it was measured."""

    network: str
    batch: int
    who: str
    name: str
    arithmetic: Literal["float32", "tfloat32", "float16"]
    graph: bool
    status: str
    weights_bytes: int
    functions: dict[str, Function] = {}
    reason: str = ""
    times_ms: list[float] = []
    error: float = 0.0
    peak_mib: float | None = None
    operators: list[Operator] = []
    gpu: dict[str, dict[str, float]] = {}

    @model_validator(mode="after")
    def _times(self) -> Row:
        if self.status == "measured" and not self.times_ms:
            raise ValueError(f"{self.network}, {self.name}: no times")
        return self


class Chain(BaseModel):
    """What a link adds, the median of each length, and the part of samples that have no time of Python's."""

    each_us: float
    medians_us: dict[int, float]
    ahead: float


class Launches(BaseModel):
    """The row about launches and barriers as the runner writes it; `chains` are there if it was measured."""

    status: str
    reason: str = ""
    blocks: int = 0
    threads: int = 0
    cooperative: bool = False
    chains: dict[str, Chain] = {}

    @model_validator(mode="after")
    def _chains(self) -> Launches:
        lengths = {tuple(chain.medians_us) for chain in self.chains.values()}
        if self.status == "measured" and (self.chains.keys() != CHAINS or len(lengths) != 1):
            raise ValueError("launches: other chains, or not of equal lengths")
        return self


@dataclass(frozen=True)
class Measured:
    """The document of a run, and its rows."""

    document: dict[str, Any]

    @property
    def machine(self) -> dict[str, Any]:
        """Facts about the machine of the last run, which has all peers; empty if nothing was measured."""
        runs = self.document.get("runs") or [{}]
        return dict(runs[-1])

    @property
    def gpu_name(self) -> str:
        """Name of the GPU that edge-rt found; empty without one."""
        names = (self.machine.get("cuda") or {}).get("names") or [""]
        return str(names[0])

    @property
    def emulated(self) -> bool:
        """Whether no GPU computed: times then say nothing about one."""
        details = (self.machine.get("cuda") or {}).get("details") or []
        return any(each.get("type") != "gpu" for each in details)

    @property
    def gpu(self) -> Gpu | None:
        """Peaks of the GPU; None if it is unknown, or emulated."""
        return None if self.emulated else gpu_named(self.gpu_name)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, failed ones included."""
        return list(self.document.get("rows", {}).values())

    @property
    def launches(self) -> Launches | None:
        """What launches and barriers cost, or why that is unknown; None if nobody tried."""
        found = self.document.get("launches")
        return None if found is None else Launches.model_validate(found)

    def measured(self, **wanted: object) -> Iterator[dict[str, Any]]:
        """Yield the rows with times whose members have these values."""
        for row in self.rows:
            if row["status"] == "measured" and all(row.get(key) == value for key, value in wanted.items()):
                yield row

    def best(
        self, who: str, network: str, batch: int, arithmetic: str, *, graph: bool = True
    ) -> float | None:
        """Return the least median of a contender's rows in ms; of PyTorch those that are compiled."""
        found = self.measured(who=who, network=network, batch=batch, arithmetic=arithmetic, graph=graph)
        times = [median_ms(row) for row in found if who == OURS or row["name"].startswith("compile")]
        return min(times, default=None)


NOTHING = Measured({})
"""No results: nothing was measured."""


def median_ms(row: dict[str, Any]) -> float:
    """Return the median of a row's samples."""
    return float(statistics.median(row["times_ms"]))


def read_results(file: Path) -> Measured:
    """Read a file of results.

    Raises
    ------
    UsageError
        It cannot be read, or holds something else.
    """
    try:
        if file.stat().st_size > _MOST:
            raise ValueError(f"it is larger than {_MOST >> 20} MiB")
        document = json.loads(file.read_bytes())
        version = document["version"]
        rows = [Row.model_validate(row) for row in document["rows"].values()]
        Launches.model_validate(document.get("launches", {"status": "none"}))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problem = shortened(" ".join(str(error).split()))
        raise UsageError(f"{file} holds no results: {problem}", "name a results.json of a pack") from error
    if version != VERSION:
        raise UsageError(f"{file} has version {version}", "measure with a pack of this version")
    return Measured(document | {"rows": {str(place): row.model_dump() for place, row in enumerate(rows)}})
