"""Times chains of launches and of barriers of the whole grid, in a process of its own."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from ctypes import c_uint32, c_uint64
from pathlib import Path
from typing import Any

from benchmarks.nvidia.travel.contest import answer
from benchmarks.nvidia.travel.driver import MULTIPROCESSORS, Driver

LENGTHS = (1, 25, 100)
"""Launches, or barriers, of a chain."""

_THREADS = 256  # of a block, as most kernels of networks have
_BUSY = 2000  # barriers: 2 ms or so, in which Python launches 100 kernels
_WARM_UP = 25  # times as many, while clocks rise
_CHECKED = 200  # barriers that must hold blocks back


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Return what a chain takes in microseconds, and what each link adds.

    The slope is that between the longer chains: what a chain costs as such, and the events around it, is in
    both.

    Raises
    ------
    RuntimeError
        The pack has no code for this GPU, its driver fails, or a barrier lets blocks on too early.
    """
    driver = Driver()
    emulated = driver.architecture == 0
    # The emulated driver runs a block to its end before the next one: a block of another would never arrive.
    blocks, busy = (1, 1) if emulated else (driver.attribute(MULTIPROCESSORS), _BUSY)
    module = driver.load(_image(request["images"], driver.architecture))
    counter = driver.words(1)

    def barriers(count: int) -> Callable[[], None]:
        arguments = (counter, c_uint32(count))
        return driver.launch(module, "barriers", blocks, _THREADS, *arguments, together=True)

    empty, before = driver.launch(module, "empty", blocks, _THREADS), barriers(busy)
    empty()  # drivers may load a kernel when it is launched first, which no capture allows
    _check(driver, module, counter, blocks)
    _repeated(before, _WARM_UP)()
    chains = {
        "graph": {length: driver.graph(_repeated(empty, length)) for length in LENGTHS},
        "stream": {length: _repeated(empty, length) for length in LENGTHS},
        "barriers": {length: barriers(length) for length in LENGTHS},
    }
    samples = int(request["samples"])
    return {
        "blocks": blocks,
        "threads": _THREADS,
        "cooperative": driver.cooperative,
        "chains": {name: _costs(driver, chain, before, samples) for name, chain in chains.items()},
    }


def _image(images: dict[str, str], architecture: int) -> bytes:
    """Return the newest code that runs on an architecture: of its generation, and not newer than it."""
    fit = [n for n in map(int, images) if n // 10 == architecture // 10 and n <= architecture]
    if not fit:
        has = ", ".join(f"sm_{number}" for number in images)
        raise RuntimeError(f"the pack has kernels for {has}, and this GPU is of sm_{architecture}")
    return Path(images[str(max(fit))]).read_bytes()


def _check(driver: Driver, module: Any, counter: c_uint64, blocks: int) -> None:
    """Raise RuntimeError if a block gets past a barrier before another one has arrived."""
    stamps, early = driver.words(2 * blocks), driver.words(1)
    arguments = (counter, c_uint32(_CHECKED), stamps, early)
    driver.launch(module, "checked", blocks, _THREADS, *arguments, together=True)()
    if found := driver.word(early):
        raise RuntimeError(f"{_CHECKED} barriers of {blocks} blocks let {found} on too early")


def _repeated(work: Callable[[], None], times: int) -> Callable[[], None]:
    def all_of_them() -> None:
        for _ in range(times):
            work()

    return all_of_them


def _costs(
    driver: Driver, chain: dict[int, Callable[[], None]], before: Callable[[], None], samples: int
) -> dict[str, Any]:
    """Return the slope, the medians, and the part of samples that were launched before they began."""
    medians, ahead = {}, []
    for length, work in chain.items():
        driver.timed(work, before)  # the first launch of a graph also uploads it
        found = [driver.timed(work, before) for _ in range(samples)]
        medians[length] = statistics.median(time for time, _ in found)
        ahead += [was for _, was in found]
    shorter, longer = LENGTHS[-2:]
    slope = (medians[longer] - medians[shorter]) / (longer - shorter)
    return {"each_us": slope, "medians_us": medians, "ahead": sum(ahead) / len(ahead)}


if __name__ == "__main__":
    answer(measure)
