"""Measure one network, batch and number of threads: every contender, and edge-rt as it runs in the field."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.latency.blocks import alternate, summary
from benchmarks.latency.networks import PEERS_PYTHON, Network, toolchain
from benchmarks.latency.process import Contender, ContenderError

REFERENCE = "onnxruntime"
# Of the largest output. MNN's winograd is off by up to 0.02 (Inception v3): bad, and no other network.
WRONG = 0.05


@dataclass(frozen=True)
class Plan:
    """How long to measure: blocks of each contender, inferences and seconds of a block."""

    rounds: int
    runs: int
    seconds: float


def relative_error(output: np.ndarray[Any, Any], reference: np.ndarray[Any, Any]) -> float:
    """Return max|y-r| / max|r|, as `toolchain verify` does; infinite for another size."""
    if output.size != reference.size:
        return float("inf")
    if not np.isfinite(output).all():
        return float("inf")
    return float(np.abs(output.reshape(reference.shape) - reference).max() / np.abs(reference).max())


def cpus(threads: int) -> list[int]:
    """Return the first CPU of as many cores as there are threads; of siblings too where cores are fewer."""
    allowed = sorted(os.sched_getaffinity(0))
    cores: dict[str, int] = {}
    for cpu in allowed:
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.setdefault(siblings.read_text() if siblings.is_file() else str(cpu), cpu)
    return (list(cores.values()) if len(cores) >= threads else allowed)[:threads]


def busy_s() -> float:
    """Return the seconds that all CPUs of this machine were busy, or taken from it, since it began."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def measure(
    network: Network,
    contenders: list[str],
    threads: int,
    plan: Plan,
    library: Path,
    note: Callable[[str], None],
    python: Path = PEERS_PYTHON,
    right: Path | None = None,
    peers_env: Mapping[str, str] | None = None,
) -> tuple[dict[str, Any], float]:
    """Return times, memory and error of each contender, or the reason why it has none.

    Outputs are compared with the reference's before anything is timed; who is wrong isn't timed. Returned
    with it: how many CPUs other processes took meanwhile. `python` runs the contenders: it has the peers.

    Parameters
    ----------
    right
        The output that is right, for a network whose reference is not: that one is timed however wrong.
    peers_env
        Environment of all contenders but ours.
    """
    result: dict[str, dict[str, Any]] = {}
    running: dict[str, Contender] = {}

    def failed(name: str, error: Exception) -> None:
        result[name] = {"reason": str(error)}
        note(f"{name}: {error}")

    for name, reason in network.reasons.items():
        result[name] = {"reason": reason}
    try:
        for name in (name for name in contenders if name in network.models):
            try:
                running[name] = Contender(
                    python,
                    name,
                    network.models[name],
                    network.folder,
                    threads,
                    cpus(threads),
                    **({"EDGE_LIBRARY": str(library)} if name == "ours" else dict(peers_env or {})),
                )
            except ContenderError as error:
                failed(name, error)
        errors = _errors(running, failed, right)
        begun = time.monotonic()
        others = busy_s() - sum(contender.cpu_s() for contender in running.values())
        times = alternate(
            {name: running[name].block for name in errors}, plan.rounds, plan.runs, plan.seconds, failed
        )
        others = busy_s() - sum(contender.cpu_s() for contender in running.values()) - others
        took = time.monotonic() - begun
        for name, taken in times.items():
            contender = running[name]
            result[name] = summary(taken) | {
                "cpu_ms": round(min(contender.cpu_ms), 4),
                "error": errors[name],
                "peak_mib": round(contender.peak_mib, 1),
                "idle_mib": round(contender.idle_mib, 1),
                "load_s": round(contender.load_s, 2),
            }
    finally:
        for contender in running.values():
            contender.close()
    return result, round(max(0.0, others / took), 2)


def _errors(
    running: dict[str, Contender], failed: Callable[[str, Exception], None], right: Path | None
) -> dict[str, float]:
    """Return the error of each contender that is right, and of the reference."""
    if REFERENCE not in running:
        raise ContenderError(f"{REFERENCE} gives the reference and must run")
    reference = np.load(right or running[REFERENCE].output)
    errors = {}
    for name, contender in running.items():
        error = relative_error(np.load(contender.output), reference)
        if error <= WRONG or name == REFERENCE:
            errors[name] = error
        else:
            failed(name, ContenderError(f"wrong output: off by {error:.2g} of the largest value"))
    return errors


def field(network: Network, threads: int, seconds: float) -> dict[str, Any]:
    """Return what `toolchain bench --profile` says of our bundle: edge-rt, the program of the field."""
    if network.bundle is None:
        return {"reason": network.reasons.get("ours", "not built")}
    how = ["--board", "local", "--threads", str(threads), "--time", f"{seconds:g}", "--profile"]
    try:
        bench = toolchain(network.folder, "bench", network.bundle, *how)
    except ContenderError as error:
        return {"reason": str(error)}
    return {
        "min_ms": bench["min_ms"],
        "median_ms": bench["p50_ms"],
        "peak_mib": bench["peak_rss_mib"],
        "profile_ms": sum(entry["ms"] for entry in bench["operators"]),
        "operators": bench["operators"],
    }
