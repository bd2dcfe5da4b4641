"""Encodes and decodes arrays of micro-ops; a GEMM or ALU instruction executes hundreds of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from toolchain.quantities import counted
from toolchain.vta.design.config import VtaConfig
from toolchain.vta.isa.encode import EncodingError, fields_of


def pack_micro_ops(
    dst: npt.ArrayLike, src: npt.ArrayLike, wgt: npt.ArrayLike = 0, *, config: VtaConfig
) -> npt.NDArray[np.uint32]:
    """Encode micro-ops as they are stored in memory.

    Parameters
    ----------
    dst, src, wgt
        Indices into ACC, into INP (GEMM) or ACC (ALU), and into WGT (GEMM; 0 for ALU). Arrays or numbers
        that numpy can broadcast to one shape.

    Raises
    ------
    EncodingError
        An index does not fit; the message names it and the first value that does not fit.
    """
    words: npt.NDArray[Any] = np.zeros((), dtype=np.int64)
    low = 0
    given = {"dst": dst, "src": src, "wgt": wgt}
    for name, width in zip(given, fields_of(config).micro_op, strict=True):
        values = np.asarray(given[name], dtype=np.int64)
        wrong = values[(values < 0) | (values >> width != 0)]
        if wrong.size:
            raise EncodingError(
                f"a micro-op's {name} {int(wrong.flat[0])} does not fit into {counted(width, 'bit')}",
                f"at most {(1 << width) - 1} fits",
            )
        words = words | values << low
        low += width
    return words.astype("<u4").reshape(-1)


def unpack_micro_ops(
    words: npt.NDArray[np.uint32], config: VtaConfig
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Decode micro-ops; return `dst`, `src` and `wgt`."""
    wide = words.astype(np.int64)
    dst, src, wgt = fields_of(config).micro_op
    return (
        wide & (1 << dst) - 1,
        wide >> dst & (1 << src) - 1,
        wide >> dst + src & (1 << wgt) - 1,
    )
