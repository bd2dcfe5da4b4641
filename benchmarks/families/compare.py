"""Our functions beside the nodes of onnxruntime that compute the same."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.families.nodes import OTHER, Key
from benchmarks.latency.layers import Function, task_of

_WORDS = {
    "softmax": "softmax",
    "layer_norm": "norms",
    "instance_norm": "norms",
    "group_norm": "norms",
    "variance": "norms",
    "mean_subtract": "norms",
    "pool": "pools and means",
    "mean": "pools and means",
    "resize": "resizes",
    "lstm": "recurrent layers",
    "gru": "recurrent layers",
}
_PRODUCTS = ("conv", "matmul", "dense")
_COSTLIER = 1.05
_LEAST_SHARE = 0.01
_LEAST_MS = 0.02  # onnxruntime counts whole microseconds of each node


@dataclass
class Group:
    """What both compute: our functions and their rules, and the milliseconds of both."""

    ours_ms: float = 0.0
    theirs_ms: float = 0.0
    functions: list[str] = field(default_factory=list)
    rules: set[str] = field(default_factory=set)


def ours(
    operators: Iterable[Mapping[str, Any]], known: Mapping[str, Function], given: Iterable[Key]
) -> dict[Key, Group]:
    """Return our functions by what they compute, in the words of onnxruntime's groups `given`."""
    keys = set(given)
    result: dict[Key, Group] = defaultdict(Group)
    for operator in operators:
        task = task_of(operator["name"], known)
        function = known.get(task)
        group = result[_key(task, function, keys)]
        group.ours_ms += operator["ms"]
        group.functions.append(function.label if function else operator["name"])
        group.rules.add(function.rule if function and function.rule else "-")
    return dict(result)


def joined(
    ours_by: Mapping[Key, Group], theirs_by: Mapping[Key, float], ours_ms: float, theirs_ms: float
) -> list[tuple[Key, Group]]:
    """Return all groups with the times of both, the greatest loss first.

    Both profiles are scaled to what an inference took in turns: profiling costs time, and the machine may
    have been busier in one of them.
    """
    scale = ours_ms / sum(group.ours_ms for group in ours_by.values())
    result = {
        key: Group(scale * group.ours_ms, 0.0, group.functions, group.rules) for key, group in ours_by.items()
    }
    scale = theirs_ms / sum(theirs_by.values())
    for key, ms in theirs_by.items():
        result.setdefault(key, Group()).theirs_ms += scale * ms
    return sorted(result.items(), key=lambda item: item[1].theirs_ms - item[1].ours_ms)


def costlier(groups: Iterable[tuple[Key, Group]], total_ms: float) -> list[tuple[Key, Group]]:
    """Return the groups that cost us more, by a hundredth of onnxruntime's time for the network at least."""
    return [
        (key, group)
        for key, group in groups
        if group.functions
        and group.ours_ms > _COSTLIER * group.theirs_ms
        and group.ours_ms - group.theirs_ms > max(_LEAST_MS, _LEAST_SHARE * total_ms)
    ]


def _key(name: str, function: Function | None, keys: set[Key]) -> Key:
    plain = re.sub(r"\d+", "", name)  # TVM counts functions of one kind
    for word, kind in _WORDS.items():
        if word in plain:
            return (kind, 0, 0)
    if function is None or not any(word in name for word in _PRODUCTS):
        return (OTHER, 0, 0)
    sizes = [math.prod(shape) for shape in function.shapes]
    # A weight comes second mostly; an input may have as many elements as another product's weight.
    found = (key for key in keys if key[0] == "product")
    products = sorted(found, key=lambda key: (key[1] not in sizes[1:2], key))
    weighted = [key for key in products if key[1] and key[1] in sizes[:-1]]
    exact = [key for key in weighted if key[2] == sizes[-1]]
    # A gate's 1x1 layer is fused with the product of the map that it scales.
    channels = {shape[0] for shape in function.shapes[1:-1] if len(shape) == 4}
    gates = [key for key in weighted if key[2] in channels]
    without = [key for key in products if key[1] == 0 and key[2] == sizes[-1]]
    recurrent = [key for key in keys if key[0] == "recurrent layers"]  # our products of all steps
    return (exact or gates or without or weighted or recurrent or [("product", 0, sizes[-1])])[0]
