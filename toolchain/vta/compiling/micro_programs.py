"""Makes the micro-ops of a layer: the lists that its GEMM and ALU instructions execute."""

from __future__ import annotations

import numpy as np

from toolchain.arrays import Array
from toolchain.vta.compiling.tiling import Tiling
from toolchain.vta.design.config import VtaConfig
from toolchain.vta.isa import pack_micro_ops

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

    def each(self, context: int) -> Place:
        """Return the list that addresses a piece's first accumulator; the instruction loops over the rest."""
        base = context * self._tiling.vectors
        return self._place(("each", context), base, base)

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
