"""Outputs of a network that are faster to compute plain, although they are computed from packed values."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvm import relax

from toolchain.backends.packed.network.functions import variables

# Measured with AVX-512, unpacking included: a plain image of 64 times as many numbers took 0.4 to 0.55 of the
# time, of 16 times 0.5 to 1.06, of 4 times 1.05 to 1.6.
_GROWTH = 16


def grown_outputs(
    steps: Sequence[tuple[relax.Var, relax.Expr]], packed: set[relax.Var], output: relax.Expr
) -> set[relax.Var]:
    """Return the packed outputs that no step reads and that are far larger than the values they come from.

    Otherwise the network would write them packed, only to read them again and unpack them.
    """
    read = {var for _var, value in steps for var in variables(value)}
    outputs = set(variables(output)) & packed - read
    return {
        var
        for var, value in steps
        if var in outputs and _GROWTH * sum(map(_size, packed & set(variables(value)))) <= _size(var)
    }


def _size(value: relax.Var) -> int:
    return prod(int(extent) for extent in value.ty.shape)
