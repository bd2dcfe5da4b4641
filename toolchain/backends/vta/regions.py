"""Which chains become one program: a region, between operators that the CPU computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import relax

from toolchain.backends.vta.chains import Chain, bindings_of, find_chains, operator
from toolchain.errors import UsageError

START, STOP = "max_pool2d", "mean"
"""Operators that regions lie between, where a network has them: a first pooling, and a last average, as TVM's
tutorials cut their networks."""

_WAY_OUT = "choose other ends with --start-pack and --stop-pack, or leave out --device: a CPU computes it all"


@dataclass(frozen=True)
class Placed:
    """Where the bindings of a function go.

    Attributes
    ----------
    order
        What the CPU computes before the first region, between each and the next, and after the last.
    regions
        The chains of each, in order.
    left
        By the name of a result: why a chain is in none.
    """

    order: Sequence[Sequence[relax.Binding]]
    regions: Sequence[Sequence[Chain]]
    left: Mapping[str, str]


def place(function: relax.Function, start: str = "", stop: str = "") -> Placed:
    """Divide a function.

    A chain goes into the first region before which all is there that it reads; what the CPU makes of a
    region's result belongs behind it.

    Parameters
    ----------
    start, stop
        Operators that the first region begins behind and the last ends before; empty: `START` and `STOP`, as
        far as the function has them.

    Raises
    ------
    UsageError
        It has no such operator, or nothing lies between the two.
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
    region: dict[relax.Var, int] = {}  # of what a region computes
    level: dict[relax.Var, int] = {}  # how many regions lie before what the CPU computes
    chosen: list[list[Chain]] = []
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
    return Placed(order, chosen, left)


def _needed(function: relax.Function, chosen: Mapping[relax.Var, Chain]) -> set[relax.Expr]:
    """Return what the result is made of; a chain's inner values are not, once it is in a region."""
    needed: set[relax.Expr] = set(relax.analysis.free_vars(function.body.body))
    for binding in reversed(list(bindings_of(function))):
        if binding.var in needed:
            chain = chosen.get(binding.var)
            needed.update(chain.reads if chain else relax.analysis.free_vars(binding.value))
    return needed


def _refused(chain: Chain, began: bool, ended: bool, start: str, stop: str) -> str:
    if chain.layer is None:
        return chain.refused
    if not began:
        return f"before {start}"
    return f"behind {stop}" if ended else ""
