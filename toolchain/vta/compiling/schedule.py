"""Emits the instructions of one layer."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.arrays import Array
from toolchain.vta.compiling.micro_programs import MicroPrograms
from toolchain.vta.compiling.operands import input_loads, residual_loads, result_stores, weight_load
from toolchain.vta.compiling.order import Piece, channels_first, groups
from toolchain.vta.compiling.places import Places
from toolchain.vta.compiling.stream import Range, Stream
from toolchain.vta.compiling.tiling import Tiling
from toolchain.vta.design.config import Sram
from toolchain.vta.isa import Alu, AluOp, Gemm, Load
from toolchain.vta.layers.layer import ConvLayer


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
        first, last = self.lists.each(piece.context)
        gemm = Gemm(first, last, 1, self.cut.vectors, 0, 1, reset=True)
        self.stream.compute(gemm, self._accumulators(piece))

    def _immediate(self, piece: Piece, op: AluOp, value: int) -> None:
        first, last = self.lists.each(piece.context)
        alu = Alu(op, first, last, 1, self.cut.vectors, 0, 1, 0, 1, use_imm=True, imm=value)
        self.stream.compute(alu, self._accumulators(piece))

    def _accumulators(self, piece: Piece) -> Range:
        return Range(Sram.ACC, piece.context * self.cut.vectors, self.cut.vectors)
