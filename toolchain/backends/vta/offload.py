"""A module in which regions are calls of VTA programs, between operators of the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax

from toolchain.backends.vta.chains import LayerChain, bindings_of, find_chains, operator
from toolchain.errors import UsageError
from toolchain.vta.layers.layer import blocks_of
from toolchain.vta.layers.region import Region, RegionLayer

# Divides a network into regions of chains, which become one program each, and operators of the CPU.

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


RUN = "edge.vta.run"
"""Packed function of edge-rt; its arguments are a region's inputs, program and outputs."""


class Offload:
    """A module divided between VTA and CPU.

    Parameters
    ----------
    module
        Relax module with one function `main` and parameters as constants.
    start, stop
        See `place`.

    Attributes
    ----------
    regions
        The regions, which become programs; values are named by their position in the function.
    left
        Why other integer convolutions are in no region, by name.
    """

    def __init__(self, module: tvm.IRModule, start: str = "", stop: str = "") -> None:
        self._module, self._main = module, module["main"]
        self._placed = place(self._main, start, stop)
        self.left = self._placed.left
        variables = [*self._main.params, *(binding.var for binding in bindings_of(self._main))]
        self._names = {variable: f"value{number}" for number, variable in enumerate(variables)}
        self._variables = {name: variable for variable, name in self._names.items()}
        cpu = [binding.value for bindings in self._placed.order for binding in bindings]
        cpu.append(self._main.body.body)
        self._outside = {each for value in cpu for each in relax.analysis.free_vars(value)}
        self.regions = [self._region(number) for number in range(len(self._placed.regions))]

    def _region(self, number: int) -> Region:
        chains = self._placed.regions[number]
        made = {chain.result for chain in chains}
        inputs = dict.fromkeys(each for chain in chains for each in chain.reads if each not in made)
        others = [chain for each in self._placed.regions if each is not chains for chain in each]
        read = self._outside | {each for chain in others for each in chain.reads}
        return Region(
            [
                RegionLayer(
                    chain.layer,
                    self._names[chain.source],
                    self._names[chain.result],
                    None if chain.residual is None else self._names[chain.residual],
                )
                for chain in chains
                if chain.layer is not None
            ],
            [self._names[each] for each in inputs],
            [self._names[chain.result] for chain in chains if chain.result in read],
        )

    def with_programs(self, blobs: Sequence[bytes], block: int) -> tvm.IRModule:
        """Return the module with calls that pass a region's inputs to its program, in blocks of channels.

        Parameters
        ----------
        blobs
            Program of each region in edge-rt's format; the CPU's part does not depend on them.
        block
            Number of channels in a block.
        """
        main, builder = self._main, relax.BlockBuilder()
        with builder.function("main", list(main.params)):
            with builder.dataflow():
                for number, bindings in enumerate(self._placed.order):
                    for binding in bindings:
                        builder.emit_normalized(binding)
                    if number < len(blobs):
                        _call(builder, self.regions[number], blobs[number], block, self._variables)
                result = builder.emit_output(main.body.body)
            builder.emit_func_output(result)
        functions = {name: each for name, each in self._module.functions.items() if name.name_hint != "main"}
        made = builder.get()["main"].with_attrs(main.attrs)
        whole = tvm.IRModule({**functions, tvm.ir.GlobalVar("main"): made})
        return relax.transform.DeadCodeElimination()(whole)


def _call(
    builder: relax.BlockBuilder, region: Region, blob: bytes, block: int, variables: Mapping[str, relax.Var]
) -> None:
    arguments = [builder.emit(_packed(variables[name], block)) for name in region.inputs]
    constant = relax.const(np.frombuffer(blob, np.uint8), "uint8")
    shapes = [_blocks(variables[name], block) for name in region.outputs]
    types = [relax.TensorType(shape, "int8") for shape in shapes]
    called = builder.emit(
        relax.call_dps_packed(RUN, [*arguments, constant], types if len(types) > 1 else types[0])
    )
    for number, name in enumerate(region.outputs):
        blocks = called if len(types) == 1 else builder.emit(relax.TupleGetItem(called, number))
        plain = builder.normalize(_plain(builder, blocks, shapes[number], variables[name]))
        builder.emit_normalized(relax.VarBinding(variables[name], plain))


def _blocks(value: relax.Var, block: int) -> tuple[int, ...]:
    """Return the shape of an NCHW value in blocks: [batch, blocks, rows, columns, 1, lanes]."""
    batch, channels, height, width = (int(extent) for extent in value.ty.shape)
    return batch, blocks_of(channels, block), height, width, 1, block


def _packed(value: relax.Var, block: int) -> relax.Expr:
    """Convert NCHW to blocks; lanes beyond the channels are zeros."""
    batch, channels, height, width = (int(extent) for extent in value.ty.shape)
    blocks = blocks_of(channels, block)
    if missing := blocks * block - channels:
        value = relax.op.nn.pad(value, (0, 0, 0, missing, 0, 0, 0, 0))
    split = relax.op.reshape(value, (batch, blocks, 1, block, height, width))
    return relax.op.permute_dims(split, (0, 1, 4, 5, 2, 3))


def _plain(
    builder: relax.BlockBuilder, blocks: relax.Expr, shape: tuple[int, ...], as_: relax.Var
) -> relax.Expr:
    """Convert blocks of channels to the shape of the variable."""
    batch, count, height, width, rows, lanes = shape
    channels = int(as_.ty.shape[1])
    moved = builder.emit(relax.op.permute_dims(blocks, (0, 1, 4, 5, 2, 3)))
    joined = builder.emit(relax.op.reshape(moved, (batch * rows, count * lanes, height, width)))
    if channels == count * lanes:
        return joined
    return relax.op.strided_slice(joined, [1], [0], [channels])
