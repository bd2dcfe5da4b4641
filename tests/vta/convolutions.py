"""Convolutions as programs with two contexts, in the specification's idioms; and as numpy computes them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from toolchain.vta.design import SAMPLES, Sram, VtaConfig
from toolchain.vta.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    PipelineStage,
    Store,
    encode_program,
    nop,
    pack_micro_ops,
)
from toolchain.vta.machine.requests import EncodedProgram

BASE, LANES = 0x1000, 16
# First elements of the two contexts; parameters lie behind them in ACC.
_HALF, _WEIGHTS, _PARAMETERS = 900, 500, 1900


@dataclass(frozen=True)
class Conv:
    """A layer; channels are counted in blocks of 16."""

    size: int
    ci: int
    co: int
    kernel: int
    stride: int
    pad: int
    rows: int  # of the output, in a tile
    tile_co: int
    residual: int | None = None  # log2 of its scale

    @property
    def out(self) -> int:
        """Height and width of the output."""
        return (self.size + 2 * self.pad - self.kernel) // self.stride + 1


@st.composite
def convs(draw: st.DrawFn, size: int | None = None, ci: int | None = None) -> Conv:
    """Return layers that keep the distance between two uses of an element of ACC."""
    kernel = draw(st.sampled_from([1, 2, 3]))
    stride = draw(st.sampled_from([1, 2]))
    pad = draw(st.integers(0, kernel - 1))
    columns = size or draw(st.integers(kernel, 9))
    conv = Conv(
        columns, ci or draw(st.integers(1, 2)), draw(st.sampled_from([4, 6])), kernel, stride, pad, 1, 4
    )
    if conv.out < 1:
        conv = Conv(columns, conv.ci, conv.co, 1, stride, 0, 1, 4)
    rows = draw(st.sampled_from([r for r in range(1, conv.out + 1) if conv.out % r == 0]))
    tiles = [t for t in (1, 2, 3, 4, 6) if conv.co % t == 0 and t * rows >= 4]
    residual = draw(st.none() | st.integers(0, 6))
    rest = (conv.kernel, conv.stride, conv.pad, rows, draw(st.sampled_from(tiles)), residual)
    return Conv(conv.size, conv.ci, conv.co, *rest)


@dataclass
class Layers:
    """A program of one layer after another, and the memory that it computes in."""

    seed: int
    config: VtaConfig = SAMPLES["pynq"]
    instructions: list[Instruction] = field(default_factory=list)
    pieces: list[npt.NDArray[np.uint8]] = field(default_factory=list)
    used: int = 0

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def place(self, values: npt.NDArray[np.generic]) -> int:
        """Lay values into the memory, at a multiple of any element; return where."""
        at = self.used
        data = np.frombuffer(values.tobytes(), np.uint8)
        data = np.pad(data, (0, -len(data) % 256))
        self.pieces.append(data)
        self.used += len(data)
        return at

    def add(self, conv: Conv, source: int, image: npt.NDArray[np.int8]) -> tuple[int, npt.NDArray[np.int8]]:
        """Append a layer over an image that lies at `source`; return where its output lies, and it."""
        weights = self.random.integers(
            -128, 128, (conv.co, conv.ci, conv.kernel, conv.kernel, 16, 16), np.int8
        )
        bias = self.random.integers(-(2**20), 2**20, (conv.co, 16), np.int32)
        shifts = self.random.integers(0, 16, (conv.co, 16), np.int32)
        shape = (conv.co, conv.out, conv.out, 16)
        added = self.random.integers(-128, 128, shape, np.int8)
        target = self.place(np.zeros(shape, np.int8))
        _Layer(self, conv, source, target, weights, np.concatenate([bias, shifts]), added).emit()
        return target, _expected(conv, image, weights, bias, shifts, added)

    def between(self) -> None:
        """Let load wait until the last layer is stored."""
        self.instructions += [
            nop(PipelineStage.COMPUTE, push_prev=True),
            nop(PipelineStage.LOAD, pop_next=True),
        ]

    def program(self) -> EncodedProgram:
        """Return it, ended."""
        code = encode_program([*self.instructions, Finish()], self.config)
        return EncodedProgram(self.config, code, np.concatenate(self.pieces).tobytes(), BASE)


def chain(convolutions: list[Conv], seed: int) -> tuple[EncodedProgram, int, npt.NDArray[np.int8]]:
    """Return a program of these layers, where its output lies, and what it must be."""
    layers = Layers(seed)
    first = convolutions[0]
    image = layers.random.integers(-128, 128, (first.ci, first.size, first.size, 16), np.int8)
    at = layers.place(image)
    for number, conv in enumerate(convolutions):
        if number:
            layers.between()
        at, image = layers.add(conv, at, image)
    return layers.program(), at, image


@dataclass
class _Layer:
    layers: Layers
    conv: Conv
    source: int
    target: int
    weights: npt.NDArray[np.int8]
    parameters: npt.NDArray[np.int32]
    added: npt.NDArray[np.int8]

    def emit(self) -> None:
        conv, layers = self.conv, self.layers
        self.weights_at = layers.place(self.weights)
        self.added_at = layers.place(self.added)
        self.diagonal_at = layers.place(np.eye(16, dtype=np.int8) << np.int8(conv.residual or 0))
        self.uops: list[npt.NDArray[np.uint32]] = []
        self.count = 0
        y, co = (grid.reshape(-1) for grid in np.meshgrid(np.arange(conv.rows), np.arange(conv.tile_co)))
        self.vectors = (co * conv.rows + y) * conv.out
        size = (conv.rows - 1) * conv.stride + conv.kernel
        width = (conv.out - 1) * conv.stride + conv.kernel
        self.height, self.width = size, width
        pairs = [(acc, inp) for acc in (0, 1) for inp in (0, 1)]
        self.kernels = {pair: self._taps(*pair, y, co) for pair in pairs}
        self.plain = [self._list(self.vectors + c * _HALF, self.vectors + c * _HALF) for c in (0, 1)]
        self.diagonals = {
            (acc, inp): self._list(self.vectors + acc * _HALF, self.vectors + inp * _HALF, inp * _WEIGHTS)
            for acc, inp in pairs
        }
        self.from_parameters = {
            (c, block, which): self._list(
                self.vectors + c * _HALF, _PARAMETERS + which * conv.co + block * conv.tile_co + co
            )
            for c in (0, 1)
            for block in range(conv.co // conv.tile_co)
            for which in (0, 1)
        }
        self._emit(layers.instructions)

    def _taps(
        self, acc: int, inp: int, y: npt.NDArray[np.int64], co: npt.NDArray[np.int64]
    ) -> tuple[int, int]:
        dst, src, wgt = [], [], []
        for dy in range(self.conv.kernel):
            for dx in range(self.conv.kernel):
                dst.append(acc * _HALF + self.vectors)
                src.append(inp * _HALF + (y * self.conv.stride + dy) * self.width + dx)
                wgt.append(inp * _WEIGHTS + (co * self.conv.kernel + dy) * self.conv.kernel + dx)
        return self._list(np.concatenate(dst), np.concatenate(src), np.concatenate(wgt))

    def _list(self, dst: npt.ArrayLike, src: npt.ArrayLike, wgt: npt.ArrayLike = 0) -> tuple[int, int]:
        words = pack_micro_ops(dst, src, wgt, config=self.layers.config)
        self.uops.append(words)
        self.count += len(words)
        return self.count - len(words), self.count

    def _at(self, memory: Sram, offset: int) -> int:
        return (BASE + offset) // self.layers.config.buffers[memory].element_bytes

    def _emit(self, out: list[Instruction]) -> None:
        conv = self.conv
        uops = self._at(Sram.UOP, self.layers.place(np.concatenate(self.uops)))
        out.append(Load(Sram.UOP, 0, uops, 1, self.count, self.count))
        parameters = self._at(Sram.ACC, self.layers.place(self.parameters))
        out.append(Load(Sram.ACC, _PARAMETERS, parameters, 1, 2 * conv.co, 2 * conv.co))
        tiles = [(b, r) for b in range(conv.co // conv.tile_co) for r in range(conv.out // conv.rows)]
        loads = conv.ci + (conv.residual is not None)
        self.chunks, self.chunk = len(tiles) * loads, 0
        for number, (block, row) in enumerate(tiles):
            self._tile(out, number % 2, block, row, first=number < 2)
        out += [nop(PipelineStage.COMPUTE, pop_next=True) for _ in tiles[:2]]

    def _tile(self, out: list[Instruction], context: int, block: int, row: int, first: bool) -> None:
        conv = self.conv
        loops = (1, conv.out, 0, 1)
        out.append(Gemm(*self.plain[context], *loops, reset=True, pop_next=not first))
        for channel in range(conv.ci):
            inp = self.chunk % 2
            self._chunk(out, [self._image(inp, channel, row), self._tile_weights(inp, block, channel)])
            out.append(self._multiply(self.kernels[context, inp], conv.stride))
        if conv.residual is not None:
            loads, inp = [], self.chunk % 2
            for co in range(conv.tile_co):
                at = ((block * conv.tile_co + co) * conv.out + row * conv.rows) * conv.out
                dram, cells = self._at(Sram.INP, self.added_at) + at, conv.rows * conv.out
                loads.append(Load(Sram.INP, inp * _HALF + co * cells, dram, 1, cells, cells))
            loads.append(Load(Sram.WGT, inp * _WEIGHTS, self._at(Sram.WGT, self.diagonal_at), 1, 1, 1))
            self._chunk(out, loads)
            out.append(self._multiply(self.diagonals[context, inp], 1))
        out.append(Alu(AluOp.ADD, *self.from_parameters[context, block, 0], *loops))
        out.append(Alu(AluOp.SHR, *self.from_parameters[context, block, 1], *loops))
        same = (*self.plain[context], *loops, 0, 1)
        out.append(Alu(AluOp.MAX, *same, use_imm=True, imm=-100))
        out.append(Alu(AluOp.MIN, *same, use_imm=True, imm=127, push_next=True))
        for co in range(conv.tile_co):
            at = ((block * conv.tile_co + co) * conv.out + row * conv.rows) * conv.out
            dram, sram = (
                self._at(Sram.OUT, self.target) + at,
                context * _HALF + co * conv.rows * conv.out,
            )
            flags = {"pop_prev": co == 0, "push_prev": co == conv.tile_co - 1}
            out.append(Store(sram, dram, conv.rows, conv.out, conv.out, **flags))

    # Of INP and WGT, contexts alternate from chunk to chunk: tokens don't say whose they are.
    def _chunk(self, out: list[Instruction], loads: list[Load]) -> None:
        out.append(replace(loads[0], pop_next=self.chunk >= 2))
        out += loads[1:-1]
        out.append(replace(loads[-1], push_next=True))
        self.chunk += 1

    def _multiply(self, uops: tuple[int, int], step: int) -> Gemm:
        more = self.chunk + 2 <= self.chunks
        return Gemm(*uops, 1, self.conv.out, 0, 1, 0, step, pop_prev=True, push_prev=more)

    def _image(self, inp: int, channel: int, row: int) -> Load:
        conv = self.conv
        top = row * conv.rows * conv.stride - conv.pad
        y_pad_0, y_pad_1 = max(0, -top), max(0, top + self.height - conv.size)
        x_pad_1 = max(0, self.width - conv.pad - conv.size)
        y, rows = max(0, top), self.height - y_pad_0 - y_pad_1
        dram = self._at(Sram.INP, self.source) + (channel * conv.size + y) * conv.size
        columns = self.width - conv.pad - x_pad_1
        pads = (y_pad_0, y_pad_1, conv.pad, x_pad_1)
        return Load(Sram.INP, inp * _HALF, dram, rows, columns, conv.size, *pads)

    def _tile_weights(self, inp: int, block: int, channel: int) -> Load:
        conv, taps = self.conv, self.conv.kernel**2
        first = (block * conv.tile_co * conv.ci + channel) * taps
        dram = self._at(Sram.WGT, self.weights_at) + first
        return Load(Sram.WGT, inp * _WEIGHTS, dram, conv.tile_co, taps, conv.ci * taps)


def _expected(
    conv: Conv,
    image: npt.NDArray[np.int8],
    weights: npt.NDArray[np.int8],
    bias: npt.NDArray[np.int32],
    shifts: npt.NDArray[np.int32],
    added: npt.NDArray[np.int8],
) -> npt.NDArray[np.int8]:
    padded = np.pad(image.astype(np.int64), ((0, 0), (conv.pad, conv.pad), (conv.pad, conv.pad), (0, 0)))
    total = np.zeros((conv.co, conv.out, conv.out, 16), np.int64)
    last = (conv.out - 1) * conv.stride + 1
    for dy in range(conv.kernel):
        for dx in range(conv.kernel):
            window = padded[:, dy : dy + last : conv.stride, dx : dx + last : conv.stride]
            total += np.einsum("iyxk,oijk->oyxj", window, weights[:, :, dy, dx].astype(np.int64))
    if conv.residual is not None:
        total += added.astype(np.int64) << conv.residual
    total += bias[:, None, None]
    return np.clip(total >> shifts[:, None, None], -100, 127).astype(np.int8)
