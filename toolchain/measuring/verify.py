"""Verifies that a bundle computes its expected outputs on a board."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from toolchain.boards.board import Board
from toolchain.bundles.manifest import OutputParts, OutputTolerance
from toolchain.bundles.read import Bundle
from toolchain.devices.device import CPU
from toolchain.devices.table import kind_of
from toolchain.errors import CheckError
from toolchain.measuring.deadlines import deadline
from toolchain.measuring.execute import fetched_outputs
from toolchain.measuring.numerics import Comparison, OutputDeviation, Tolerance, compare
from toolchain.measuring.place import place
from toolchain.quantities import counted


@dataclass(frozen=True)
class VerifyResult:
    """The comparison of a bundle's outputs, and the place of the computation.

    Attributes
    ----------
    dtype
        Type in which the network computes.
    place
        Facts about the board and the device; see `Placed.describe`.
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
        if worst.problem or worst.max_rel_error is None:
            what = worst.problem or "not comparable"
        else:
            what = (
                f"{_beyond(worst)}; worst at {worst.worst_index}: {worst.value:.6g} "
                f"where {worst.expected:.6g} is expected"
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
    own: Iterable[OutputTolerance],
    parts: Iterable[OutputParts],
) -> dict[str, Tolerance]:
    """Return how far each output may be off, and in which parts it is compared, from a manifest's lists."""
    ends: dict[str, dict[int, tuple[int, ...]]] = {}
    for along in parts:
        ends.setdefault(along.output, {})[along.axis] = along.ends
    tolerances = {name: Tolerance(common, ends=ends.get(name, {})) for name in outputs}
    for each in own:
        divided = ends.get(each.output, {})
        tolerances[each.output] = Tolerance(each.number, each.step, each.values, each.reason, divided)
    return tolerances


def _beyond(error: OutputDeviation) -> str:
    if error.error_steps is None or error.steps is None:
        how = f"{error.compared_as}: {error.reason}" if error.reason else error.compared_as
        if error.part is not None:
            how += f", relative to {error.part_scale:.3g}, the largest of part {_box(error.part)}"
        return f"error {error.max_rel_error:.3g} above the tolerance {error.tolerance:g} ({how})"
    allowed = (
        f"{counted(error.values or 0, 'value')} may be off by up to {counted(error.steps, 'step', form='g')}"
    )
    return (
        f"{counted(error.values_off or 0, 'value is', 'values are')} off by up to "
        f"{counted(error.error_steps, 'step', form='.3g')} of {error.step:g}, "
        f"where {allowed} ({error.reason})"
    )


def _box(part: list[list[int]]) -> str:
    """Return a part as Python slices an array."""
    return "[" + ", ".join(f"{begin}:{end}" for begin, end in part) + "]"


def verify_bundle(
    bundle: Bundle,
    board: Board,
    threads: int | None = None,
    cluster: str | None = None,
    timeout: float | None = None,
    wait: float | None = None,
    spin_us: int | None = None,
    device: str | None = None,
    graph: bool = True,
    progress: Callable[[str], None] | None = None,
) -> VerifyResult:
    """Run the bundle's sample input on the board and compare the outputs with the expected ones.

    Parameters and errors are those of `run_bundle`. Wrong outputs are a result, not an error. Where a device
    begins kernels as one graph, outputs are those of the graph, which an inference before recorded.
    """
    manifest = bundle.manifest
    warmup = ["--warmup", "1"] if graph and kind_of(manifest.device).graph else []
    placed = place(bundle, board, threads, cluster, spin_us, device, graph, progress)
    limit = deadline(
        manifest.model.flops,
        board.profile,
        emulated=board.emulated,
        device=manifest.device,
        runs=2 if warmup else 1,
        extra_s=wait or 0.0,
        timeout=timeout,
    )
    outputs = fetched_outputs(placed, bundle.sample, limit, wait, warmup)
    comparison = compare(
        outputs,
        bundle.expected,
        tolerances_of(bundle.expected, manifest.tolerance, manifest.tolerances, manifest.parts),
        frozenset(manifest.model.softmax_outputs),
    )
    return VerifyResult(comparison, manifest.dtype, placed.threads, placed.describe(), tuple(placed.warnings))
