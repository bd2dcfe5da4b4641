"""A module in which regions are calls of VTA programs, between operators of the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import tvm
from tvm import relax

from toolchain.backends.vta.chains import bindings_of
from toolchain.backends.vta.regions import place
from toolchain.vta.layers.packing import blocks_of
from toolchain.vta.layers.region import Region, RegionLayer

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
