"""Divides a network into regions of chains, which become one program each, and operators of the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import relax

from toolchain.backends.vta.chains import LayerChain, bindings_of, find_chains, operator
from toolchain.errors import UsageError

START, STOP = "max_pool2d", "mean"
"""Default operators around the regions: a first pooling and a last average, where TVM's tutorials cut their
networks."""

_WAY_OUT = "choose other ends with --start-pack and --stop-pack, or leave out --device: a CPU computes it all"


@dataclass(frozen=True)
class PlacedRegions:
    """The bindings of a function, divided between CPU and regions.

    Attributes
    ----------
    order
        Bindings that the CPU computes before the first region, between regions, and after the last.
    regions
        Chains of each region, in order.
    left
        Why a chain is in no region, by the name of its result.
    """

    order: Sequence[Sequence[relax.Binding]]
    regions: Sequence[Sequence[LayerChain]]
    left: Mapping[str, str]


def place(function: relax.Function, start: str = "", stop: str = "") -> PlacedRegions:
    """Divide a function into regions and the CPU's part.

    A chain belongs to the first region before which all its inputs are available. Bindings that read a
    region's result come after it.

    Parameters
    ----------
    start, stop
        Operators after which the first region begins and before which the last one ends; empty uses `START`
        and `STOP` if the function has them.

    Raises
    ------
    UsageError
        The function lacks such an operator, or has no convolution between the two.
    """
    chains = find_chains(function)
    bindings = list(bindings_of(function))
    names = {operator(binding.value).removeprefix("nn.") for binding in bindings}
    for option, name in (("--start-pack", start), ("--stop-pack", stop)):
        if name and name not in names:
            raise UsageError(
                f"{option} {name}: the network has no such operator",
                f"it has: {', '.join(sorted(names - {''}))}",
            )
    start, stop = start or (START if START in names else ""), stop or STOP
    everywhere = not start
    behind_start: dict[relax.Var, bool] = {}
    behind_stop: dict[relax.Var, bool] = {}
    region: dict[relax.Var, int] = {}  # number of the region that computes a value
    level: dict[relax.Var, int] = {}  # number of regions before a value that the CPU computes
    chosen: list[list[LayerChain]] = []
    left: dict[str, str] = {}
    for binding in bindings:
        var, chain = binding.var, chains.get(binding.var)
        reads = list(chain.reads) if chain else relax.analysis.free_vars(binding.value)
        vars_read = [each for each in reads if isinstance(each, relax.Var)]
        name = operator(binding.value).removeprefix("nn.")
        behind_start[var] = everywhere or name == start or any(behind_start.get(each) for each in vars_read)
        behind_stop[var] = name == stop or any(behind_stop.get(each) for each in vars_read)
        after = max((level.get(each, 0) for each in vars_read), default=0)
        reason = "" if chain is None else _refused(chain, behind_start[var], behind_stop[var], start, stop)
        if chain is not None and not reason:
            region[var] = max([after, *(region[each] for each in vars_read if each in region)])
            while len(chosen) <= region[var]:
                chosen.append([])
            chosen[region[var]].append(chain)
            continue
        if chain is not None:
            left[chain.name] = reason
        level[var] = max([after, *(region[each] + 1 for each in vars_read if each in region)])
    if not chosen:
        reasons = "; ".join(sorted(set(left.values()))) or "no integers"
        raise UsageError(
            f"nothing of the network can go to a VTA: {reasons}",
            "add --dtype int8" if not left else _WAY_OUT,
        )
    needed = _needed(function, {chain.result: chain for chains in chosen for chain in chains})
    order = [
        [binding for binding in bindings if binding.var in needed and level.get(binding.var) == number]
        for number in range(len(chosen) + 1)
    ]
    return PlacedRegions(order, chosen, left)


def _needed(function: relax.Function, chosen: Mapping[relax.Var, LayerChain]) -> set[relax.Expr]:
    """Return the values that the result depends on, without the inner values of chains in regions."""
    needed: set[relax.Expr] = set(relax.analysis.free_vars(function.body.body))
    for binding in reversed(list(bindings_of(function))):
        if binding.var in needed:
            chain = chosen.get(binding.var)
            needed.update(chain.reads if chain else relax.analysis.free_vars(binding.value))
    return needed


def _refused(chain: LayerChain, began: bool, ended: bool, start: str, stop: str) -> str:
    if chain.layer is None:
        return chain.refused
    if not began:
        return f"before {start}"
    return f"behind {stop}" if ended else ""
