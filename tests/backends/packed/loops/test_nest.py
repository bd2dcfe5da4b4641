"""What a nest of loops knows of its variables, and how it cuts conditions away."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.machines import AVX2

LOOPS: dict[str, Callable[[Nest], AbstractContextManager[Any]]] = {
    "serial": lambda nest: nest.serial(7),
    "serial, of fewer turns": lambda nest: nest.serial(7, tirx.Var("turns", "int32")),
    "unroll": lambda nest: nest.unroll(7),
    "vector": lambda nest: nest.vector(7),
    "grid": lambda nest: nest.grid([7]),
    "grid, unrolled": lambda nest: nest.grid([7], unrolled=True),
    "pieces": lambda nest: nest.pieces([7]),
    "small pieces": lambda nest: nest.pieces([7], small=True),
}


@pytest.mark.parametrize("name", LOOPS)
def test_the_bounds_of_every_variable_are_known(name: str) -> None:
    proved = []

    def body(nest: Nest) -> None:
        with LOOPS[name](nest) as made:
            var = made[0] if isinstance(made, list) else made
            proved.append(nest.analyzer.can_prove(tirx.all(var >= 0, var < 7)))
            proved.append(not nest.analyzer.can_prove(var < 6))
            ir.evaluate(var)

    build(AVX2, body)
    assert proved == [True, True]


def test_a_loop_that_begins_later_is_known_to() -> None:
    proved = []

    def body(nest: Nest) -> None:
        with nest.serial(7, first=2) as step:
            proved.append(nest.analyzer.can_prove(tirx.all(step >= 2, step < 7)))
            ir.evaluate(step)

    build(AVX2, body)
    assert proved == [True]


def test_no_axes_are_no_loop() -> None:
    def body(nest: Nest) -> None:
        out = ir.arg("out", ir.buffer((1,), "float32"))
        with nest.grid([]) as at, nest.when(None):
            assert at == []
            ir.buffer_store(out, 1.0, [0])

    assert isinstance(build(AVX2, body).body, tirx.BufferStore)
