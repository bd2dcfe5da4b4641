"""exp, sigmoid, tanh and erf in plain arithmetic: a call of the C library takes one number at a time.

The coefficients are polynomials through the Chebyshev points of the interval that each serves, found
with numpy (`Chebyshev.interpolate`) in float64. Largest errors seen, float32 arithmetic included: exp
2e-7 of its value, tanh and erf 2e-7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
import tvm_ffi
from tvm import tirx

from toolchain.building.cpu.read import Expr

_LOG2E = 1.4426950408889634
# ln 2 in two parts, the first of so few bits that multiples of it are exact
_LN2 = (0.693145751953125, 1.4286068203094172e-06)
_RANGE = (-87.33, 89.0)  # below, exp is less than the least normal number: 0; above, infinite
# (exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2
_EXP = (0.5, 0.16666573286056519, 0.04166654869914055, 0.008363774046301842, 0.0013926926767453551)
# (tanh(x) / x - 1) / x^2 in x^2 for |x| < 0.625
_TANH = (
    -0.333333283662796,
    0.1333276927471161,
    -0.05385090783238411,
    0.020997179672122,
    -0.006096714176237583,
)
# erf(x) / x in x^2 for |x| < 0.75
_ERF = (
    1.1283791065216064,
    -0.3761261999607086,
    0.11283386498689651,
    -0.026835113763809204,
    0.005115332081913948,
    -0.0006756479269824922,
)
# -log(1 - erf(x)) for 0.7 <= x <= 4
_ERF_TAIL = (
    -0.00026591512141749263,
    1.1300219297409058,
    0.6321707963943481,
    0.10977210849523544,
    -0.026255685836076736,
    0.004704663529992104,
    -0.0005857596988789737,
    4.48243081336841e-05,
    -1.5783853086759336e-06,
)


def in_arithmetic(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a function with its elementary functions of float32 numbers written out."""

    def call(node: tvm.ir.Call, mutator: tvm_ffi.StructuralMutator) -> Expr:
        name = getattr(node.op, "name", "")
        if name in _WRITTEN and str(node.ty) == "float32":
            return _WRITTEN[name](mutator.mutate(node.args[0]))
        return mutator.default_mutate(node)

    return tvm_ffi.structural_mutate(func, [(tvm.ir.Call, call)])


def _float(value: float) -> Expr:
    return tirx.const(value, "float32")


def _named(value: Expr, body: Callable[[Expr], Expr]) -> Expr:
    """Return an expression in which a value is computed once."""
    var = tirx.Var("t", str(value.ty))
    return tirx.Let(var, value, body(var))


def _polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    value = _float(coefficients[-1])
    for each in reversed(coefficients[:-1]):
        value = value * x + _float(each)
    return value


def _power(n: Expr) -> Expr:
    """Return 2^n, for |n| < 127."""
    return tirx.reinterpret("float32", (n + tirx.const(127, "int32")) << tirx.const(23, "int32"))


def _nan(x: Expr) -> Expr:
    # by its bits: TVM takes x != x for false
    bits = tirx.reinterpret("int32", x) & tirx.const(0x7FFFFFFF, "int32")
    return bits > tirx.const(0x7F800000, "int32")


def _exp(argument: Expr) -> Expr:
    low, high = map(_float, _RANGE)

    def reduced(x: Expr) -> Expr:
        inside = tirx.max(tirx.min(x, high), low)
        scaled = inside * _float(_LOG2E)
        half = tirx.Select(scaled < _float(0), _float(-0.5), _float(0.5))
        return _named(tirx.Cast("int32", scaled + half), lambda n: powers(x, inside, n))

    def powers(x: Expr, inside: Expr, n: Expr) -> Expr:
        whole = tirx.Cast("float32", n)
        rest = inside - whole * _float(_LN2[0]) - whole * _float(_LN2[1])
        # in two steps, for 2^128 is no float32
        half = n >> tirx.const(1, "int32")
        value = _named(rest, lambda r: _float(1) + (r + r * r * _polynomial(r, _EXP)))
        value = tirx.Select(x < low, _float(0), value * _power(half) * _power(n - half))
        return tirx.Select(_nan(x), x, value)

    return _named(argument, reduced)


def _sigmoid(argument: Expr) -> Expr:
    return _float(1) / (_float(1) + _exp(_float(0) - argument))


def _odd(argument: Expr, limit: float, near: Callable[[Expr], Expr], far: Callable[[Expr], Expr]) -> Expr:
    """Return an odd function, by what it is near 0 and what it is for positive numbers beyond."""

    def value(x: Expr) -> Expr:
        size = tirx.Select(x < _float(0), _float(0) - x, x)

        def chosen(a: Expr) -> Expr:
            beyond = _named(far(a), lambda y: tirx.Select(x < _float(0), _float(0) - y, y))
            return tirx.Select(a < _float(limit), near(x), beyond)

        return _named(size, chosen)

    return _named(argument, value)


def _tanh(argument: Expr) -> Expr:
    def near(x: Expr) -> Expr:
        return _named(x * x, lambda s: x + x * (s * _polynomial(s, _TANH)))

    return _odd(argument, 0.625, near, lambda a: _float(1) - _float(2) / (_exp(a + a) + _float(1)))


def _erf(argument: Expr) -> Expr:
    def near(x: Expr) -> Expr:
        return x * _polynomial(x * x, _ERF)

    def far(a: Expr) -> Expr:
        # erf(4) is 1 to float32; NaN is greater than nothing and goes through
        inside = tirx.Select(a > _float(4), _float(4), a)
        return _float(1) - _exp(_named(inside, lambda x: _float(0) - _polynomial(x, _ERF_TAIL)))

    return _odd(argument, 0.75, near, far)


_WRITTEN: dict[str, Callable[[Expr], Expr]] = {
    "tirx.exp": _exp,
    "tirx.sigmoid": _sigmoid,
    "tirx.tanh": _tanh,
    "tirx.erf": _erf,
}
