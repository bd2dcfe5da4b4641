"""Compiles a region, layers that VTA computes together, to one program."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.errors import UsageError
from toolchain.vta.compiling.blob import Lifetime, PlacedValue, Program, Section, aligned, plan, sections
from toolchain.vta.compiling.estimate import default_knobs
from toolchain.vta.compiling.schedule import Addresses, emit_layer
from toolchain.vta.compiling.stream import Stream
from toolchain.vta.compiling.tiling import Tiling
from toolchain.vta.design import Sram, VtaConfig
from toolchain.vta.isa import INSTRUCTION_BYTES
from toolchain.vta.layers.layer import blocks_of, pack_diagonal, pack_parameters, pack_weight
from toolchain.vta.layers.region import Region, RegionLayer


def assemble(region: Region, config: VtaConfig) -> Program:
    """Compile a region, layers that VTA computes together, to one program.

    Raises
    ------
    UsageError
        Knobs or a layer do not fit the configuration.
    ToolchainError
        The program needs more memory than a driver can allocate.
    """
    if config.batch != 1:
        raise UsageError(
            f"configuration {config.bitstream} computes {config.batch} rows at once; programs compute one",
            "use a design with LOG_BATCH 0",
        )
    cuts = [_cut(conv, config) for conv in region.layers]
    values, activations = _placed(region, config)
    constants = _Constants(config)
    constant_offsets = [constants.add(conv, cut) for conv, cut in zip(region.layers, cuts, strict=True)]
    sizes = {"activations": activations, "constants": len(constants.data)}
    begins, end = sections(sizes)
    stream = Stream(config)
    micro_ops, stores = bytearray(), dict.fromkeys(region.inputs, 0)
    for conv, cut, offsets in zip(region.layers, cuts, constant_offsets, strict=True):
        used = [conv.source, *([conv.residual] if conv.residual else [])]
        at = Addresses(
            source=_element(values[conv.source].offset, Sram.INP, config),
            result=_element(values[conv.result].offset, Sram.OUT, config),
            weight=_element(begins["constants"] + offsets.weight, Sram.WGT, config),
            parameters=_element(begins["constants"] + offsets.parameters, Sram.ACC, config),
            micro_ops=_element(end + len(micro_ops), Sram.UOP, config),
            residual=_element(values[conv.residual].offset, Sram.INP, config) if conv.residual else None,
            diagonal=_element(begins["constants"] + offsets.diagonal, Sram.WGT, config)
            if conv.residual
            else None,
            stores=max(stores[name] for name in used),
        )
        micro_ops += emit_layer(stream, conv.layer, cut, at).tobytes()
        stores[conv.result] = stream.stores
    instructions = tuple(stream.finished())
    sizes |= {"micro_ops": len(micro_ops), "instructions": len(instructions) * INSTRUCTION_BYTES}
    begins, end = sections(sizes)
    return Program(
        config,
        instructions,
        {name: Section(begins[name], size) for name, size in sizes.items()},
        end,
        bytes(constants.data),
        bytes(micro_ops),
        values,
        tuple(region.inputs),
        tuple(region.outputs),
        tuple(cut.knobs for cut in cuts),
    )


def _cut(conv: RegionLayer, config: VtaConfig) -> Tiling:
    shape, residual = conv.layer.shape, conv.residual is not None
    knobs = conv.knobs or default_knobs(shape, config, residual)
    cut = Tiling(shape, knobs, config, residual)
    if problem := cut.problem():
        raise UsageError(
            f"convolution {shape} cannot be cut by {knobs}: {problem}",
            "leave out --knobs, or make them smaller",
        )
    return cut


def _placed(region: Region, config: VtaConfig) -> tuple[dict[str, PlacedValue], int]:
    """Return the values with their offsets in memory, and their total size in bytes."""
    shapes = region.shapes()
    first = dict.fromkeys(region.inputs, 0)
    last = dict.fromkeys(shapes, 0)
    for step, conv in enumerate(region.layers, 1):
        first[conv.result] = step
        for name in (conv.source, conv.residual, conv.result):
            if name:
                last[name] = step
    last |= dict.fromkeys(region.outputs, len(region.layers) + 1)
    packed = {
        name: (1, blocks_of(channels, config.block), height, width, 1, config.block)
        for name, (channels, height, width) in shapes.items()
    }
    unplaced = {name: PlacedValue(name, 0, shape) for name, shape in packed.items()}
    lives = {name: Lifetime(value.bytes, first[name], last[name]) for name, value in unplaced.items()}
    offsets, size = plan(lives)
    return {name: PlacedValue(name, offsets[name], shape) for name, shape in packed.items()}, size


def _element(offset: int, memory: Sram, config: VtaConfig) -> int:
    size = config.buffers[memory].element_bytes
    element, rest = divmod(offset, size)
    if rest:
        raise AssertionError(f"{offset} is no multiple of {size}")
    return element


@dataclass(frozen=True)
class _Offsets:
    weight: int
    parameters: int
    diagonal: int


class _Constants:
    """Collects the section of weights and parameters."""

    def __init__(self, config: VtaConfig) -> None:
        self._config = config
        self.data = bytearray()

    def add(self, conv: RegionLayer, cut: Tiling) -> _Offsets:
        """Add the constants of a layer; return their offsets in the section, in bytes."""
        block, knobs = self._config.block, cut.knobs
        weight = self._put(
            pack_weight(conv.layer.weight, block, knobs.tile_co, knobs.tile_ci).tobytes(), Sram.WGT
        )
        diagonal = 0
        if conv.layer.left is not None:
            powers = pack_diagonal(conv.layer.left, conv.layer.common_left, block)
            diagonal = self._put(powers.tobytes(), Sram.WGT)
        parameters = self._put(pack_parameters(conv.layer, block).astype("<i4").tobytes(), Sram.ACC)
        return _Offsets(weight, parameters, diagonal)

    def _put(self, data: bytes, memory: Sram) -> int:
        at = aligned(len(self.data), self._config.buffers[memory].element_bytes)
        self.data.extend(bytes(at - len(self.data)))
        self.data += data
        return at
