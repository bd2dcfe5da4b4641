"""Finds which tensors must have the same scale."""

from __future__ import annotations

from collections.abc import Mapping

from toolchain.models.quantising.affine.index import Index
from toolchain.models.quantising.affine.operators import IntegerRole, limits
from toolchain.models.quantising.affine.plan import IntegerPlan

Limits = tuple[float, float] | None


def shared_scales(index: Index, plan: IntegerPlan) -> dict[str, str]:
    """Return each rounded tensor with the one whose scale it shares: itself for most.

    What only moves integers keeps their scale. The operands of a concatenation get the scale of its result
    if nothing else reads them, which saves a rounding and loses nothing: what the concatenation's readers see
    has this scale in any case. Where rounding implies a Relu or Clip, all operands must have the same limits,
    or integers of the common scale could lie beyond them.
    """
    moved: dict[str, str] = {}
    limited: dict[str, Limits] = {}
    for at, role in plan.roles.items():
        node = index.nodes[at]
        if role is IntegerRole.MOVE:
            moved.update({name: node.input[0] for name in node.output if name})
        elif role is IntegerRole.LIMIT:
            limited[node.output[0]] = limits(node, index)
    given: dict[str, str] = {}
    for at, role in plan.roles.items():
        if role is IntegerRole.CONCATENATION:
            result = index.nodes[at].output[0]
            operands = index.active(index.nodes[at])
            sources = {name: _last(moved, name) for name in operands}
            bounds = {limited.get(source) for source in sources.values()}
            if len(bounds) == 1:
                limited[result] = bounds.pop()
            for name, source in sources.items():
                if _read_here_alone(index, moved, name) and (result in limited or source not in limited):
                    given[source] = result
    return {name: _last(moved | given, name) for name in plan.rounded}


def _read_here_alone(index: Index, moved: Mapping[str, str], name: str) -> bool:
    """Whether only one node reads a tensor, what it was moved from, and what was split from the same."""
    while True:
        maker = index.makers.get(name)
        if not index.read_once(name) or (maker is not None and len(index.nodes[maker].output) > 1):
            return False
        if name not in moved:
            return True
        name = moved[name]


def _last(given: Mapping[str, str], name: str) -> str:
    while name in given:
        name = given[name]
    return name
