"""GFLOP/s of each function of a network, from its profile and its tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Function:
    """A fused function: FLOPs of a call, a label, the rule that its code is made by, and its shapes."""

    flops: int
    label: str
    rule: str
    shapes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Layer:
    """A function of the network.

    Attributes
    ----------
    label
        What it computes, such as `64→64 3x3, 56x56`.
    rule
        What its code is made by, such as `direct` or `winograd`; empty for what is no task's.
    calls
        How often an inference calls it.
    ms
        Of all its calls together.
    gflops
        Floating-point operations a second, of the plain algorithm: winograd's may pass the machine's peak.
    """

    label: str
    rule: str
    calls: float
    ms: float
    gflops: float


def functions(source: str, batch: int | None = None, board: str = "local") -> dict[str, Function]:
    """Return a network's fused functions, as `toolchain build --board BOARD` makes them without records."""
    from toolchain.backends.packed.backend import Packed
    from toolchain.backends.packed.network.rewrite import rewrite
    from toolchain.host import host_profile
    from toolchain.models.load import load_model
    from toolchain.models.options import ModelOptions
    from toolchain.profiles import load_profile
    from toolchain.tasks.options import CodeOptions

    profile = host_profile() if board == "local" else load_profile(board)
    backend, model = Packed(profile, CodeOptions()), load_model(source, ModelOptions(batch=batch))
    with backend.lower(model, backend.target(None, integers=model.integral)) as network:
        rules = rewrite(network.fused, network.choices).rules
        return {
            name: Function(task.flops, label(task.name, task.shapes), rules[task.name], task.shapes)
            for task in network.tasks
            for name in task.functions
        }


def label(name: str, shapes: Sequence[Sequence[int]]) -> str:
    """Return a short description of a task, from its parameters' shapes, the output last."""
    output = shapes[-1]
    weights = [shape for shape in shapes[1:-1] if len(shape) == 4 and shape[0] == output[1 % len(output)]]
    if "conv2d" in name and weights and len(output) == 4:
        channels, inner, height, width = weights[0]
        depthwise = inner == 1 and len(shapes[0]) == 4 and shapes[0][1] == channels
        what = f"{channels} depthwise" if depthwise else f"{inner}→{channels}"
        return f"{what} {height}x{width}, {output[2]}x{output[3]}"
    words = [word.rstrip("0123456789") for word in name.removeprefix("fused_").split("_")]
    return f"{' '.join(words[:3])}, {'x'.join(map(str, output[1:]))}"


def layers(operators: Iterable[Mapping[str, Any]], known: Mapping[str, Function]) -> list[Layer]:
    """Return the network's layers, the longest first.

    A compiled function has its task's name, or that and a number (a task may become several functions).
    What is none's, such as a layout's change, counts as a layer without operations.
    """
    found = []
    for entry in operators:
        name, calls, ms = entry["name"], entry["calls"], entry["ms"]
        function = known.get(task_of(name, known), Function(0, name, ""))
        gflops = function.flops * calls / ms / 1e6 if ms > 0 else 0.0
        found.append(Layer(function.label, function.rule, calls, ms, gflops))
    return sorted(found, key=lambda layer: -layer.ms)


def task_of(name: str, known: Iterable[str]) -> str:
    """Return the task that a compiled function belongs to; its own name where it is none's."""
    numbered = [
        task for task in known if name.startswith(task) and re.fullmatch(r"(_?\d+)?", name[len(task) :])
    ]
    return max(numbered, key=len, default=name)
