"""Emits the instructions of one layer."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from toolchain.arrays import Array
from toolchain.vta.compiling.estimate import Piece, channels_first, groups
from toolchain.vta.compiling.stream import Range, Stream
from toolchain.vta.compiling.tiling import Tiling, input_loads, residual_loads, result_stores, weight_load
from toolchain.vta.design import Sram, VtaConfig
from toolchain.vta.isa import Alu, AluOp, Gemm, Load, pack_micro_ops
from toolchain.vta.layers.layer import ConvLayer

# Makes the micro-ops of a layer: the lists that its GEMM and ALU instructions execute.

Place = tuple[int, int]
"""First micro-op of a list, and the one after its last."""


class MicroPrograms:
    """The lists of micro-ops of a layer, each made when first needed."""

    def __init__(self, tiling: Tiling) -> None:
        self._tiling = tiling
        self._config: VtaConfig = tiling.config
        self._places: dict[tuple[str | int, ...], Place] = {}
        self._lists: list[Array] = []
        self._count = 0

    @property
    def words(self) -> Array:
        """All micro-ops, encoded as in memory."""
        return np.concatenate(self._lists)

    def accumulator(self, context: int) -> Place:
        """Return the list that addresses a piece's first accumulator; the instruction loops over the rest."""
        base = context * self._tiling.vectors
        return self._place(("accumulator", context), base, base)

    def kernel(self, context: int, inp: int, wgt: int) -> Place:
        """Return the list of a convolution, ordered by taps, blocks of outputs, then rows."""
        key = ("kernel", context, inp, wgt)
        if key in self._places:
            return self._places[key]
        cut, shape, knobs = self._tiling, self._tiling.shape, self._tiling.knobs
        dy, dx, co, y = np.ogrid[: shape.kh, : shape.kw, : knobs.tile_co, : knobs.tile_h]
        return self._place(
            key,
            context * cut.vectors + (co * knobs.tile_h + y) * knobs.tile_w,
            inp * cut.inp_elements + (y * cut.row_stride + dy) * cut.columns + dx,
            wgt * cut.wgt_elements + co * knobs.tile_ci * shape.taps + dy * shape.kw + dx,
        )

    def parameters(self, context: int, co: int, kind: int) -> Place:
        """Return the list that applies a parameter to each block of a piece.

        Parameters
        ----------
        co
            First block of channels of the piece.
        kind
            0: biases, 1: shifts.
        """
        cut, blocks = self._tiling, np.arange(self._tiling.knobs.tile_co)
        return self._place(
            ("parameters", context, co, kind),
            context * cut.vectors + blocks * cut.pixels,
            cut.parameter_base + kind * cut.oc_blocks + co + blocks,
        )

    def residual(self, context: int, inp: int, co: int, first: int) -> Place:
        """Return the list that multiplies some blocks of a residual with their diagonal matrices.

        Parameters
        ----------
        co
            First block of channels of the piece.
        first
            First of the blocks to multiply, counted in the piece.
        """
        cut = self._tiling
        blocks = np.arange(cut.residual_blocks)
        return self._place(
            ("residual", context, inp, co, first),
            context * cut.vectors + (first + blocks) * cut.pixels,
            inp * cut.inp_elements + blocks * cut.pixels,
            cut.diagonal_base + co + first + blocks,
        )

    def _place(
        self, key: tuple[str | int, ...], dst: Array | int, src: Array | int, wgt: Array | int = 0
    ) -> Place:
        if key not in self._places:
            words = pack_micro_ops(dst, src, wgt, config=self._config)
            self._places[key] = (self._count, self._count + len(words))
            self._lists.append(words)
            self._count += len(words)
        return self._places[key]


# Assigns places on the chip to operands, so that an operand on the chip is not loaded again.


class Places:
    """The places of one kind of operand.

    Parameters
    ----------
    contexts
        Number of pieces that are computed alternately, and of places.
    shared
        Whether the pieces share the operand: then its places are used alternately, else each piece has one.
    """

    def __init__(self, contexts: int, shared: bool) -> None:
        self._held: list[Hashable] = [None] * contexts
        self._shared = shared
        self._next = 0

    def take(self, context: int, operand: Hashable) -> tuple[int, bool]:
        """Assign a place to an operand; return the place, and whether the operand must be loaded there."""
        if not self._shared:
            place = context
        elif operand in self._held:
            return self._held.index(operand), False
        else:
            place = self._next
            self._next = (place + 1) % len(self._held)
        fresh = self._held[place] != operand
        self._held[place] = operand
        return place, fresh


@dataclass(frozen=True)
class Addresses:
    """The addresses of a layer's values in DRAM, in elements of the buffer through which each is moved.

    Attributes
    ----------
    residual, diagonal
        Addresses of the residual and its diagonal matrices; None without a residual.
    stores
        Number of STOREs from the start of the program after which the source and the residual are complete.
    """

    source: int
    result: int
    weight: int
    parameters: int
    micro_ops: int
    residual: int | None = None
    diagonal: int | None = None
    stores: int = 0


def emit_layer(stream: Stream, layer: ConvLayer, cut: Tiling, at: Addresses) -> Array:
    """Append a layer's instructions to the stream; return its micro-ops, which belong at `at.micro_ops`."""
    emitter = _Emitter(stream, layer, cut, at)
    emitter.begin()
    order = channels_first(cut, cut.config.cycles)
    for pieces in groups(cut, order):
        emitter.group(pieces)
    return emitter.end()


class _Emitter:
    def __init__(self, stream: Stream, layer: ConvLayer, cut: Tiling, at: Addresses) -> None:
        self.stream = stream
        self.layer = layer
        self.cut = cut
        self.at = at
        self.lists = MicroPrograms(cut)
        knobs = cut.knobs
        self.inputs = Places(knobs.contexts, shared=knobs.oc_nthread > 1)
        self.weights = Places(knobs.contexts, shared=knobs.h_nthread > 1)
        self.micro_ops_at = 0

    def begin(self) -> None:
        """Load what stays on the chip for the whole layer; `end` sets the number of micro-ops."""
        cut, at = self.cut, self.at
        self.micro_ops_at = self.stream.compute(Load(Sram.UOP, 0, at.micro_ops, 1, 1, 1))
        count = 2 * cut.oc_blocks
        parameters = Load(Sram.ACC, cut.parameter_base, at.parameters, 1, count, count)
        self.stream.compute(parameters, Range(Sram.ACC, cut.parameter_base, count))
        if at.diagonal is not None:
            blocks = cut.oc_blocks
            self.stream.load(Load(Sram.WGT, cut.diagonal_base, at.diagonal, 1, blocks, blocks), blocks)
        # Inputs wait until the previous layer has stored them; weights need not wait.
        self._weights(0, 0, 0)

    def end(self) -> Array:
        """Patch the LOAD of the micro-ops and return them."""
        words = self.lists.words
        self.stream.patch(self.micro_ops_at, Load(Sram.UOP, 0, self.at.micro_ops, 1, len(words), len(words)))
        return words

    def group(self, pieces: tuple[Piece, ...]) -> None:
        """Compute pieces alternately, one chunk of input channels after the other."""
        for piece in pieces:
            if self.at.residual is not None:
                self._begin_with_residual(piece, self.at.residual)
        for chunk in range(self.cut.chunks):
            for piece in pieces:
                self._convolve(piece, chunk)
                if chunk == self.cut.chunks - 1:
                    self._finish(piece)

    def _convolve(self, piece: Piece, chunk: int) -> None:
        cut, knobs = self.cut, self.cut.knobs
        inp, fresh = self.inputs.take(piece.context, (chunk, piece.y, piece.x))
        inp_base = inp * cut.inp_elements
        if fresh:
            loads = input_loads(cut, chunk, piece.y, piece.x, inp_base, self.at.source)
            for load, elements in loads:
                self.stream.load(load, elements, self.at.stores)
        wgt = self._weights(piece.context, piece.co, chunk)
        wgt_base = wgt * cut.wgt_elements
        if chunk == 0 and self.at.residual is None:
            self._reset(piece)
        first, last = self.lists.kernel(piece.context, inp, wgt)
        length = (last - first) // cut.gemms
        several = knobs.tile_ci > 1
        for begin in range(first, last, length):
            self.stream.compute(
                Gemm(
                    begin,
                    begin + length,
                    knobs.tile_ci,
                    knobs.tile_w,
                    0,
                    1,
                    cut.rows * cut.columns if several else 0,
                    cut.shape.sw if knobs.tile_w > 1 else 0,
                    cut.shape.taps if several else 0,
                    0,
                ),
                self._accumulators(piece),
                (
                    Range(Sram.INP, inp_base, cut.inp_elements),
                    Range(Sram.WGT, wgt_base, cut.wgt_elements),
                ),
            )

    def _weights(self, context: int, co: int, chunk: int) -> int:
        """Return the place of a tile of weights; load it first unless it is on the chip."""
        place, fresh = self.weights.take(context, (chunk, co))
        if fresh:
            base = place * self.cut.wgt_elements
            self.stream.load(*weight_load(self.cut, co, chunk, base, self.at.weight))
        return place

    def _begin_with_residual(self, piece: Piece, residual: int) -> None:
        """Load and shift the residual before the convolution: the left shift must not affect the sums."""
        cut, step = self.cut, self.cut.residual_blocks
        self._reset(piece)
        for first in range(0, cut.knobs.tile_co, step):
            inp, _ = self.inputs.take(piece.context, ("residual", piece, first))
            base, block = inp * cut.inp_elements, piece.co + first
            for load, elements in residual_loads(cut, block, piece.y, piece.x, base, residual):
                self.stream.load(load, elements, self.at.stores)
            begin, end = self.lists.residual(piece.context, inp, piece.co, first)
            self.stream.compute(
                Gemm(begin, end, 1, cut.pixels, 0, 1, 0, 1),
                self._accumulators(piece),
                (
                    Range(Sram.INP, base, step * cut.pixels),
                    Range(Sram.WGT, cut.diagonal_base + block, step),
                ),
            )
        if self.layer.common_left:
            self._immediate(piece, AluOp.SHR, -self.layer.common_left)

    def _finish(self, piece: Piece) -> None:
        for kind, op in ((0, AluOp.ADD), (1, AluOp.SHR)):
            first, last = self.lists.parameters(piece.context, piece.co, kind)
            alu = Alu(op, first, last, 1, self.cut.pixels, 0, 1, 0, 0)
            self.stream.compute(alu, self._accumulators(piece))
        self._immediate(piece, AluOp.MIN, self.layer.high)
        self._immediate(piece, AluOp.MAX, self.layer.low)
        base = piece.context * self.cut.vectors
        for store in result_stores(self.cut, piece.co, piece.y, piece.x, base, self.at.result):
            self.stream.store(store)

    def _reset(self, piece: Piece) -> None:
        first, last = self.lists.accumulator(piece.context)
        gemm = Gemm(first, last, 1, self.cut.vectors, 0, 1, reset=True)
        self.stream.compute(gemm, self._accumulators(piece))

    def _immediate(self, piece: Piece, op: AluOp, value: int) -> None:
        first, last = self.lists.accumulator(piece.context)
        alu = Alu(op, first, last, 1, self.cut.vectors, 0, 1, 0, 1, use_imm=True, imm=value)
        self.stream.compute(alu, self._accumulators(piece))

    def _accumulators(self, piece: Piece) -> Range:
        return Range(Sram.ACC, piece.context * self.cut.vectors, self.cut.vectors)
