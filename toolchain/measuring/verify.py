"""Verifies that a bundle computes its expected outputs on a board."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from toolchain.bundles.manifest import OutputParts, OutputTolerance
from toolchain.bundles.read import Bundle
from toolchain.devices.device import CPU
from toolchain.devices.table import kind_of
from toolchain.errors import CheckError
from toolchain.measuring.deadlines import deadline_on
from toolchain.measuring.execute import fetched_outputs
from toolchain.measuring.execution import AS_BUILT, Execution, OnBoard
from toolchain.measuring.numerics import Comparison, Tolerance, compare
from toolchain.measuring.place import place


@dataclass(frozen=True)
class VerifyResult:
    """The comparison of a bundle's outputs, and the place of the computation.

    Attributes
    ----------
    dtype
        Type in which the network computes.
    place
        Facts about the board and the device; see `PlacedBundle.describe`.
    """

    comparison: Comparison
    dtype: str
    threads: int
    place: dict[str, Any]
    warnings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether every output is within its tolerance."""
        return self.comparison.passed

    def to_json(self) -> dict[str, Any]:
        """Return the document of `toolchain verify --json`."""
        return {
            **self.comparison.to_json(),
            **self.place,
            "threads": self.threads,
            "warnings": list(self.warnings),
        }

    def check(self) -> None:
        """Raise an error unless the comparison passed.

        Raises
        ------
        CheckError
            An output is wrong. The message names the worst output, its worst element and both values there.
        """
        if self.passed:
            return
        worst = self.comparison.worst
        what = worst.failure
        if worst.max_rel_error is not None:
            what += (
                f"; worst at {worst.worst_index}: {worst.value:.6g} where {worst.expected:.6g} is expected"
            )
        raise CheckError(
            f"wrong numbers on board {self.place['board']}: output {worst.name!r}: {what}",
            "float16 may be too coarse for this network: build it with --dtype float32"
            if self.dtype == "float16"
            else self._hint(),
        )

    def _hint(self) -> str:
        device = self.place["device"]
        if device == CPU:
            return "build the bundle again; if it still fails, build it without tuning records"
        return (
            f"build it with --device cpu: if that is right, code for {device} is wrong. `toolchain tune` "
            f"with --device {device} finds the task, `toolchain tasks` with --show ID --code shows its code"
        )


def tolerances_of(
    outputs: Iterable[str],
    common: float,
    of_outputs: Iterable[OutputTolerance],
    parts: Iterable[OutputParts],
) -> dict[str, Tolerance]:
    """Return how far each output may be off, and in which parts it is compared, from a manifest's lists."""
    ends: dict[str, dict[int, tuple[int, ...]]] = {}
    for along in parts:
        ends.setdefault(along.output, {})[along.axis] = along.ends
    tolerances = {name: Tolerance(common, ends=ends.get(name, {})) for name in outputs}
    for output in of_outputs:
        divided = ends.get(output.output, {})
        tolerances[output.output] = Tolerance(
            output.number, output.step, output.values, output.reason, divided
        )
    return tolerances


def verify_bundle(bundle: Bundle, on_board: OnBoard, execution: Execution = AS_BUILT) -> VerifyResult:
    """Run the bundle's sample input on the board and compare the outputs with the expected ones.

    Errors are those of `run_bundle`. Wrong outputs are a result, not an error. Where a device
    begins kernels as one graph, outputs are those of the graph, which an inference before recorded.
    """
    manifest = bundle.manifest
    warmup = ["--warmup", "1"] if execution.graph and kind_of(manifest.device).graph else []
    placed = place(bundle, on_board, execution)
    limit = deadline_on(on_board, manifest, runs=2 if warmup else 1)
    outputs = fetched_outputs(placed, bundle.sample, limit, warmup)
    comparison = compare(
        outputs,
        bundle.expected,
        tolerances_of(bundle.expected, manifest.tolerance, manifest.tolerances, manifest.parts),
        frozenset(manifest.model.softmax_outputs),
    )
    return VerifyResult(comparison, manifest.dtype, placed.threads, placed.describe(), tuple(placed.warnings))
