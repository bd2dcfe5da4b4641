"""Every cache line of a weight is asked for, and about as much of it at each turn."""

from __future__ import annotations

import pytest
import tvm
import tvm_ffi
from hypothesis import given
from hypothesis import strategies as st
from tvm import tirx
from tvm.sym import Analyzer
from tvm.tirx.script.builder import ir

from tests.backends.packed.numbers import number
from toolchain.backends.packed.loops.function import build
from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.loops.prefetch import LINE, prefetch, prefetch_share
from toolchain.backends.packed.machines import AVX2
from toolchain.backends.packed.recognise.expressions import substitute
from toolchain.backends.packed.recognise.read import Expr, loads


def asked(elements: int, steps: int, first: int) -> tuple[list[Expr], tirx.Var]:
    """Return the places that one turn asks for, and the variable of the turns."""

    def body(nest: Nest) -> None:
        weight = ir.arg("weight", ir.buffer((3, 1000), "float32"))
        with nest.serial(steps) as step:
            place = [2, tirx.IntImm("int32", first)]
            prefetch_share(weight, place, elements, step, steps, nest.analyzer, True)

    func = build(AVX2, body)
    found: list[tvm.ir.Call] = []
    tvm_ffi.structural_walk(func.body, [(tvm.ir.Call, found.append)])
    calls = [call for call in found if "llvm" in str(call.op)]
    places = [load.indices for call in calls for load in loads(call)]
    assert all(number(row) == 2 for row, _ in places)
    loops: list[tirx.For] = []
    tvm_ffi.structural_walk(func.body, [(tirx.For, loops.append)])
    return [place for _, place in places], loops[0].loop_var


def nth(place: Expr, var: tirx.Var, step: int) -> int:
    bound = [(var, tirx.IntImm("int32", step))]
    return number(Analyzer().simplify(substitute(place, bound, lambda buffer, _: buffer[0, 0])))


@given(elements=st.integers(1, 300), steps=st.integers(1, 12), first=st.integers(0, 40))
def test_all_turns_together_ask_for_every_element(elements: int, steps: int, first: int) -> None:
    places, var = asked(elements, steps, first)
    lines = [nth(place, var, step) for step in range(steps) for place in places]
    got = {line + offset for line in lines for offset in range(LINE)}
    assert set(range(first, first + elements)) <= got
    share = -(-elements // steps)
    assert len(places) == -(-share // LINE), "no turn asks for more than its part"
    assert max(lines) < first + steps * share


@pytest.mark.parametrize(("near", "locality"), [(True, 3), (False, 2)])
def test_what_is_needed_soon_goes_into_the_first_cache(near: bool, locality: int) -> None:
    def body(nest: Nest) -> None:
        del nest
        weight = ir.arg("weight", ir.buffer((16,), "float32"))
        prefetch(weight, [40], near)  # behind its end: an address that is not read

    module = tvm.IRModule({"main": build(AVX2, body).with_attr("global_symbol", "main")})
    text = tvm.compile(module, "llvm").mod.inspect_source("ll")
    assert f"i32 0, i32 {locality}, i32 1)" in text and "llvm.prefetch" in text
