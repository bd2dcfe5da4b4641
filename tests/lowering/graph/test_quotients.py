"""Quotients of a network and constants become products, unless something is rounded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax

from tests.lowering.graph.test_integers import RANDOM, network, outputs
from toolchain.lowering.graph.rebuilt import with_products

SHAPE = (1, 4, 6, 6)


def divided(builder: relax.BlockBuilder, x: relax.Expr, *divisors: float) -> relax.Expr:
    """Divide by a number, then by one for each channel."""
    x = builder.emit(relax.op.divide(x, relax.const(6.0, "float32")))
    channels = np.array(divisors, "float32").reshape(4, 1, 1)
    return builder.emit(relax.op.divide(x, relax.const(channels)))


@pytest.mark.slow
def test_quotients_of_constants_are_products() -> None:
    module = network(lambda builder, x: divided(builder, x, 6, -3, 1.4142135, 1), SHAPE, "float32")
    changed = with_products(module)
    assert "divide" not in changed.script()
    x = RANDOM.standard_normal(SHAPE).astype("float32")
    np.testing.assert_allclose(outputs(changed, x), outputs(module, x), rtol=1e-6)


def test_quotients_are_products_in_each_shape() -> None:
    builder = relax.BlockBuilder()
    for entry, size in (("main", 6), ("main_1", 4)):
        x = relax.Var("x", relax.TensorType((1, 4, size, size), "float32"))
        with builder.function(entry, [x]):
            with builder.dataflow():
                out = builder.emit_output(divided(builder, x, 6, -3, 2, 1))
            builder.emit_func_output(out)
    changed = with_products(builder.get())
    assert {each.name_hint for each in changed.functions} == {"main", "main_1"}
    assert "divide" not in changed.script() and changed.script().count("R.multiply") == 4


@pytest.mark.slow
@pytest.mark.parametrize("divisor", [0.0, 1e-40, np.inf, np.nan, 2.0**127])
def test_a_divisor_without_a_normal_inverse_divides(divisor: float) -> None:
    module = network(lambda builder, x: divided(builder, x, 1, 2, 3, divisor), SHAPE, "float32")
    changed = with_products(module)
    assert changed.script().count("divide") == 1
    with np.errstate(all="ignore"):
        x = RANDOM.standard_normal(SHAPE).astype("float32")
        np.testing.assert_allclose(outputs(changed, x), outputs(module, x), rtol=1e-6)


EXACT: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "floor": relax.op.floor,
    "sign": relax.op.sign,
    "to bool": lambda x: relax.op.astype(x, "bool"),
    "equal": lambda x: relax.op.equal(x, relax.const(1.0, "float32")),
    "at least": lambda x: relax.op.greater_equal(x, relax.const(1.0, "float32")),
    "more": lambda x: relax.op.less(relax.const(1.0, "float32"), x),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_network_that_rounds_or_compares_keeps_its_quotients(name: str) -> None:
    """49 * (1 / 49) is less than 1 in float32."""

    def build(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        return builder.emit(EXACT[name](builder.emit(relax.op.divide(x, relax.const(49.0, "float32")))))

    module = network(build, SHAPE, "float32")
    assert with_products(module) is module


def test_a_network_that_compares_integers_has_products() -> None:
    """As those with masks do."""

    def build(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        seen = builder.emit(relax.op.equal(relax.const(np.arange(6)), relax.const(3)))
        return builder.emit(relax.op.where(seen, relax.op.divide(x, relax.const(49.0, "float32")), x))

    assert "R.divide" not in with_products(network(build, SHAPE, "float32")).script()


def test_a_network_without_quotients_stays_itself() -> None:
    module = network(lambda builder, x: builder.emit(relax.op.divide(x, x)), SHAPE, "float32")
    assert with_products(module) is module
