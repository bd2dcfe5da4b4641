"""CPU seconds of NVRTC: for all kernels of a network, and for a candidate in a batch of a task."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

from toolchain.backends.table import backend_for
from toolchain.devices.cuda_architectures import number_of
from toolchain.errors import ToolchainError
from toolchain.lowering.dialects.cuda import joined
from toolchain.lowering.dialects.nvrtc import compile_cuda, nvrtc_version
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.targets.build_for import BuildFor
from toolchain.tasks.options import CodeOptions

CANDIDATES = 16
_MOST_DRAWS = 40
_ROUNDS = 3


def nvrtc_seconds(model: str, board: str, arch: str) -> dict[str, Any]:
    """Return the CPU seconds that NVRTC takes for a network's tasks, a unit each, and for candidates.

    The candidates are drawn from the space of the task with the most operations, and compiled as one unit.
    """
    options = CodeOptions(device="cuda", arch=arch)
    target = BuildFor(load_profile(board), None, False, board)
    backend = backend_for(target.profile, options)
    loaded = load_model(model, ModelOptions())
    with backend.lower(loaded, backend.target()) as network:
        sources = [network.code(task, network.space(task).default(), "cuda") for task in network.tasks]
        heaviest = max(network.tasks, key=lambda task: task.flops)
        drawn = _candidates(network, heaviest)
    compile_cuda(sources[0], number_of(arch))  # loads NVRTC
    whole = _seconds(sources, arch)
    batch = _seconds([joined(_renamed(source, place) for place, source in enumerate(drawn))], arch)
    return {
        "nvrtc": nvrtc_version(),
        "arch": arch,
        "tasks": len(sources),
        "whole_s": round(whole, 2),
        "candidates": len(drawn),
        "candidate_of": heaviest.name,
        "candidate_s": round(batch / len(drawn), 3),
    }


def _candidates(network: Any, task: Any) -> list[str]:
    """Return the code of different candidates; those that cannot be made are drawn anew."""
    random_numbers, space = random.Random(0), network.space(task)  # noqa: S311 - no secret
    found: dict[str, None] = {}
    for _ in range(_MOST_DRAWS):
        try:
            found[network.code(task, space.sample(random_numbers), "cuda")] = None
        except ToolchainError:
            continue
        if len(found) == CANDIDATES:
            break
    return list(found)


def _renamed(source: str, place: int) -> str:
    return source.replace("main_kernel", f"candidate{place}_kernel")


def _seconds(sources: Sequence[str], arch: str) -> float:
    """Return the CPU time of this process, all threads: the least of several rounds."""

    def once() -> float:
        begun = time.process_time()
        for source in sources:
            compile_cuda(source, number_of(arch))
        return time.process_time() - begun

    return min(once() for _ in range(_ROUNDS))
