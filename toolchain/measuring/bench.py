"""Measures the latency of an inference on a board, and how reliable the measurement is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from toolchain.answers import LARGEST, lie
from toolchain.architectures.least_time import bounding_flops, least_ms
from toolchain.bundles.read import Bundle
from toolchain.devices.device import CPU
from toolchain.devices.table import peak_flops
from toolchain.measuring.answers import Timed
from toolchain.measuring.deadlines import Deadline, deadline_on
from toolchain.measuring.device import simulation
from toolchain.measuring.execute import VerbRequest, answer_of, check_threads, invoke
from toolchain.measuring.execution import AS_BUILT, DEFAULT_SAMPLING, Execution, OnBoard, Sampling
from toolchain.measuring.place import PlacedBundle, place
from toolchain.measuring.shares import measured_flops, peak_gflops, peaks_of, profiled
from toolchain.quantities import counted

_LEAST_FOR_P99 = 100
LEAST_FOR_CONFIDENCE = 10  # samples
_STEADY = 0.1  # largest standard deviation over mean of a reliable measurement
_PROFILE_RUNS = 10  # most inferences that edge-rt profiles
_CLOCKS = 2.0  # no board's clock runs faster than the host's by this factor
_SAMPLE_BYTES = 32  # largest size of a sample in an answer: milliseconds with six decimals
_PROFILE_BYTES = 2**20  # largest size of a profile: hundreds of functions with long names


@dataclass(frozen=True)
class BenchResult:
    """The latency of one inference in ms, and the conditions of the measurement.

    Attributes
    ----------
    p99_ms
        99th percentile; None below 100 runs.
    runs
        Number of samples; each is the mean of `number` inferences.
    noise
        Standard deviation over mean.
    confident
        Whether there are at least 10 runs and at most 10 % noise.
    spin_us
        Microseconds that an idle thread kept spinning before it slept; 0 with more threads than CPUs.
    device, ran_on
        The device that the bundle was compiled for, and the one that computed.
    modelled
        Modelled time of an inference on a simulated VTA: `ms`, `cycles`, `mhz`, the `version` of the cycle
        model, and the number of `programs`. It is for the accelerator alone, and no measured time.
    copies_ms
        Times of the copies of all inputs and outputs, `to_device` and `from_device`, which the latency does
        not include. None if the network computes in host memory.
    governor, temperature_c
        Frequency governor and temperature of the CPU; None if unreadable.
    graph
        Whether the device began the network's kernels as one graph, rather than one by one.
    operators
        Name, number of calls, ms per inference, GFLOP/s, share of the peak and products of each operator, the
        slowest first; None if not profiled.
    peaks
        Measured peaks of the cores that computed, in 10^9 operations per second, by the name of the products
        that operators multiply by; None if not profiled.
    peak_gflops
        Measured peak of the cores that computed, in float32 multiply-adds; None if it was not measured.
    times_ms
        All samples, in the order of measurement; not in the JSON document.
    """

    mean_ms: float
    std_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float | None
    min_ms: float
    runs: int
    number: int
    threads: int
    spin_us: int
    peak_rss_mib: float
    governor: str | None
    temperature_c: float | None
    noise: float
    confident: bool
    board: str
    machine: str
    cluster: str
    device: str
    ran_on: str
    shared_cpu: bool
    emulated: bool
    warnings: list[str]
    copies_ms: dict[str, float] | None = None
    modelled: dict[str, Any] | None = None
    graph: bool = False
    operators: list[dict[str, Any]] | None = None
    peaks: dict[str, float] | None = None
    peak_gflops: float | None = None
    times_ms: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the document of `toolchain bench --json`."""
        document = asdict(self)
        del document["times_ms"]
        if self.operators is None:
            del document["operators"], document["peaks"]
        return document


def bench_bundle(
    bundle: Bundle,
    on_board: OnBoard,
    sampling: Sampling = DEFAULT_SAMPLING,
    execution: Execution = AS_BUILT,
) -> BenchResult:
    """Time the bundle's network on the board with its sample input.

    Raises
    ------
    UsageError
        A choice of `execution` does not fit, or the bundle is for another board.
    ToolchainError
        The board is busy, lost or too slow, or the library crashes.
    """
    placed = place(bundle, on_board, execution)
    warmups, budget = sampling.warmups(on_board.board), sampling.budget_s
    options = ["--number", str(sampling.number), "--repeat", str(sampling.most_samples)]
    options += ["--warmup", str(warmups), "--min-repeat-ms", str(sampling.min_repeat_ms)]
    if budget is not None:
        options += ["--time", f"{budget:g}"]
    if sampling.profile:
        options.append("--profile")
    # With a budget the last sample may begin just before its end.
    certain = 1 if budget is not None else sampling.most_samples
    limit = deadline_on(
        on_board,
        bundle.manifest,
        runs=warmups + sampling.number * certain + (_PROFILE_RUNS if sampling.profile else 0),
        extra_s=(budget or 0.0) + 2 * certain * sampling.min_repeat_ms / 1000,
    )
    most = LARGEST + _SAMPLE_BYTES * sampling.most_samples + (_PROFILE_BYTES if sampling.profile else 0)
    request = VerbRequest("bench", Timed, partial(_check, placed, sampling, limit), options, most)
    return summary(placed, invoke(placed, request, bundle.sample, limit))


def _check(placed: PlacedBundle, sampling: Sampling, limit: Deadline, answer: Timed) -> None:
    """Raise a CheckError if edge-rt's answer cannot be true for this request and duration."""
    problem = None
    number, samples = sampling.number, sampling.most_samples
    least, shortest = _least_ms(placed), min(answer.times_ms)
    if len(answer.times_ms) > samples:
        problem = f"times_ms has {counted(len(answer.times_ms), 'sample')} where {samples} were asked for"
    elif answer.number < number:
        problem = f"number is {answer.number} where at least {number} were asked for"
    elif (total := answer.number * sum(answer.times_ms) / 1000) > _CLOCKS * limit.seconds:
        problem = (
            f"times_ms, times the number {answer.number} of inferences in each, are {total:g} s in all, "
            f"but it ended within {limit.seconds:g} s"
        )
    elif shortest < least:
        problem = (
            f"times_ms has {shortest:g}, but hardware like {placed.cluster} needs at least {least:.3g} ms "
            f"for {placed.manifest.model.flops / 1e9:.3g} GFLOP"
        )
    elif answer.modelled and placed.device != simulation(placed.device):
        problem = f"modelled is present, but {placed.device} computed"
    elif answer.graph and not placed.execution.graph:
        problem = "graph is true, but it was switched off"
    elif sampling.profile and not answer.profiled:
        problem = "operators is missing"
    elif sampling.profile and placed.manifest.model.flops and not answer.operators:
        problem = "operators is empty, but the network computes something"
    if problem:
        raise lie(placed.board.name, answer_of("bench"), problem)
    check_threads(placed, "bench", answer.threads)


def _least_ms(placed: PlacedBundle) -> float:
    """Return the time in ms that no board of this kind can beat for the network."""
    manifest, profile = placed.manifest, placed.board.profile
    return least_ms(
        bounding_flops(manifest.model.flops, (task.name for task in manifest.tasks)),
        triple=profile.triple,
        cpu=placed.cluster,
        level=profile.architecture.level(placed.runtime.facts.cpu_features),
        threads=placed.threads,
        peak=None if placed.device == CPU else peak_flops(placed.device),
        measured=measured_flops(placed),
    )


def summary(placed: PlacedBundle, answer: Timed) -> BenchResult:
    """Return the statistics of the samples in the answer of `edge-rt bench`."""
    times = np.asarray(answer.times_ms, dtype=np.float64)
    mean, std = float(times.mean()), float(times.std())
    noise = std / mean
    operators = profiled(placed, answer.operators) if answer.profiled else None
    return BenchResult(
        mean_ms=mean,
        std_ms=std,
        p50_ms=float(np.percentile(times, 50)),
        p95_ms=float(np.percentile(times, 95)),
        p99_ms=float(np.percentile(times, 99)) if times.size >= _LEAST_FOR_P99 else None,
        min_ms=float(times.min()),
        runs=times.size,
        number=answer.number,
        threads=answer.threads,
        spin_us=answer.spin_us,
        peak_rss_mib=answer.peak_rss_mib,
        governor=answer.governor,
        temperature_c=answer.temperature_c,
        noise=noise,
        confident=times.size >= LEAST_FOR_CONFIDENCE and noise <= _STEADY,
        warnings=[*placed.warnings, *_warnings(placed, answer, noise, times)],
        copies_ms=answer.copies_ms.model_dump() if answer.copies_ms else None,
        modelled=answer.modelled.model_dump() if answer.modelled else None,
        graph=answer.graph,
        operators=operators,
        peaks=None if operators is None else peaks_of(placed, operators),
        peak_gflops=peak_gflops(placed),
        times_ms=answer.times_ms,
        **placed.describe(),
    )


def unsteadiness(noise: float) -> str:
    """Return a warning if the times vary too much to rely on; empty if they do not."""
    if noise > _STEADY:
        cause = "something else uses this board, or its clock changes"
        return f"the times vary by {noise:.0%} of their mean: {cause}"
    return ""


def _advice(answer: Timed) -> str:
    """Return advice for steadier times, without what is already the case."""
    steps = ["end what else computes there", "measure longer (--time 60)"]
    if answer.governor not in (None, "performance"):
        steps.append("set the governor `performance`")
    if answer.threads > 1:
        steps.append(f"leave a core to others (--threads {answer.threads - 1})")
    return f"{', '.join(steps[:-1])} or {steps[-1]}, and compare p50 or min instead of the mean"


def _warnings(placed: PlacedBundle, answer: Timed, noise: float, times: np.ndarray) -> list[str]:
    warnings = []
    if placed.board.emulated:
        warnings.append("an emulated board: its times say nothing about silicon")
    elif placed.manifest.emulated:
        warnings.append("built with the tuning records of an emulated board, which say nothing about silicon")
    if unsteady := unsteadiness(noise):
        warnings.append(f"{unsteady}; {_advice(answer)}")
    if len(times) < LEAST_FOR_CONFIDENCE:
        warnings.append(f"only {counted(len(times), 'run')}: give it longer with --time")
    if answer.governor not in (None, "performance"):
        warnings.append(f"the CPU's governor is {answer.governor!r}: its clock changes with the load")
    cpus = placed.runtime.facts.logical_cpus
    if answer.threads > cpus:
        warnings.append(
            f"{counted(answer.threads, 'thread')} on the {counted(cpus, 'CPU')} of {placed.board.name}"
        )
    return warnings
