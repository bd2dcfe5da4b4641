"""The functions and constants of a network that is being built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.ir.expr import GenericConst

from toolchain.arrays import Array
from toolchain.backends.packed.network.agreement import digest_of
from toolchain.lowering.kernels.recipe import Recipe
from toolchain.tasks.candidate import Parameter

_OPAQUE = 8  # relax.OpPatternKind.OPAQUE: TVM fuses nothing with generated code

# Returns what the network contains for a recipe: the function itself, or a stand-in for it.
Render = Callable[[Recipe], tirx.PrimFunc]


def generated(recipe: Recipe) -> tirx.PrimFunc:
    """Return the generated function itself."""
    return recipe.function()


@dataclass(frozen=True)
class Made:
    """The recipe of a function, and its parameters, output last."""

    recipe: Recipe
    parameters: tuple[Parameter, ...]

    @property
    def func(self) -> tirx.PrimFunc:
        """The generated function."""
        return self.recipe.function()


class MadeFunctions:
    """The functions of a network, each generated once, and its constants.

    Parameters
    ----------
    render
        Returns what the network contains for a recipe.
    several
        Whether there are several shapes, which have functions and weights in common.

    Attributes
    ----------
    made
        Recipes by fused function; the last one if calls of a function differ in their layouts.
    named
        Name of the fused function that a new function computes, by the new name.
    transformed
        Bytes that weights have grown by.
    """

    def __init__(self, builder: relax.BlockBuilder, render: Render, *, several: bool) -> None:
        self.builder, self.render, self.several = builder, render, several
        self.made: dict[str, Made] = {}
        self.named: dict[str, str] = {}
        self.transformed = 0
        self._functions: dict[Hashable, tvm.ir.GlobalVar] = {}
        self._names: Counter[str] = Counter()
        self._constants: dict[bytes, GenericConst] = {}

    def generated(self, key: Hashable, name: str, recipe: Callable[[], Recipe]) -> tvm.ir.GlobalVar:
        """Return the function for `key`, generating it on first use."""
        if key not in self._functions:
            func = self.render(recipe()).without_attr("global_symbol").with_attr("op_pattern", _OPAQUE)
            # TVM would rename a second `conv2d` to `conv2d1`, which is another task's name.
            count = self._names[name]
            self._names[name] += 1
            self._functions[key] = self._add(func, f"{name}_{count}" if count else name, name)
        return self._functions[key]

    def fused(self, name: str, func: Callable[[], tirx.PrimFunc]) -> tvm.ir.GlobalVar:
        """Return a fused function as it is, adding it on first use."""
        if name not in self._functions:
            self._functions[name] = self._add(func(), name, name)
        return self._functions[name]

    def constant(self, value: Array, growth: int = 0) -> GenericConst:
        """Return a constant; for several shapes, the same object for the same value.

        Parameters
        ----------
        growth
            Bytes by which it is larger than the weight that it was made from.
        """
        if not self.several:
            self.transformed += growth
            return _constant(value)
        key = digest_of(value)
        if key not in self._constants:
            self.transformed += growth
            self._constants[key] = _constant(value)
        return self._constants[key]

    def _add(self, func: tirx.PrimFunc, name: str, computes: str) -> tvm.ir.GlobalVar:
        variable: tvm.ir.GlobalVar = self.builder.add_func(func, name)
        self.named[variable.name_hint] = computes
        return variable


def _constant(value: Array) -> GenericConst:
    # np.ascontiguousarray would turn a scalar into an array
    made: GenericConst = relax.const(np.ascontiguousarray(value) if value.ndim else value, str(value.dtype))
    return made
