"""The choice of the algorithm `gemm`."""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.backends.packed.algorithms.implicit_gemm.choice import ImplicitGemmChoice


@dataclass(frozen=True)
class GemmChoice(ImplicitGemmChoice):
    """The tile of a work group: columns of the product are its output channels, rows its places."""

    algorithm = "gemm"
