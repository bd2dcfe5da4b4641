"""Writes exp, sigmoid, tanh, erf, log and powers as plain arithmetic.

The generated code is branch-free: additions, multiplications, shifts and selections of float32 and uint32
numbers, no rounding or conversion that a vector unit lacks, and divisions only where they are fast.
Coefficients are minimax polynomials found by `tools/minimax.py`, each rounded to float32 before those of
higher powers were fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tvm import tirx

from toolchain.backends.packed.recognise.read import Expr

_LOG2E = 1.4426950408889634
# ln 2 in two parts; the first has ten bits, so that its products with an exponent are exact.
_LN2 = (0.693359375, -2.121944400546905e-04)
# (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2; relative error of e^r - 1: 1.4e-8
_EXP = (
    0.4999999701976776,
    0.1666654646396637,
    0.04166743531823158,
    0.00836627185344696,
    0.0013870695838704705,
)
# (log(1 + f) - f + f^2 / 2) / f^3 for 1 + f from sqrt(1/2) to sqrt(2); relative error of log: 8e-10
_LOG = (
    0.3333331346511841,
    -0.25000008940696716,
    0.2000207155942917,
    -0.16667988896369934,
    0.14220358431339264,
    -0.12406233698129654,
    0.11883548647165298,
    -0.11670097708702087,
    0.06749267876148224,
)
# (2^r - 1) / r for |r| <= 1/2; relative error of 2^r: 3e-9
_EXP2 = (
    0.6931471824645996,
    0.24022647738456726,
    0.05550359562039375,
    0.009618505835533142,
    0.0013391025131568313,
    0.0001532678143121302,
)
# erf(x) / x - 1 in x^2 for |x| <= 0.9; relative error of erf: 1.4e-8
_ERF = (
    0.12837915122509003,
    -0.3761250674724579,
    0.11281978338956833,
    -0.026773398742079735,
    0.005004345905035734,
    -0.0006053445977158844,
)
_ERF_FAR = 0.9
# log2(1 - erf(x)) for x from 0.9 to 4; relative error of erf: 1.7e-9
_ERF_REST = (
    -0.0002401331439614296,
    -1.6270674467086792,
    -0.9189624190330505,
    -0.15020398795604706,
    0.03219381347298622,
    -0.004422481637448072,
    0.00028595858020707965,
)
_ERF_ONE = 4.0  # erf is 1 in float32 from here on

# 1.5 * 2^23: adding it to a number rounds the number to an integer, which is then in the last bits.
_ROUND = 12582912.0
_BIASED = _ROUND + 127  # the same, with the bias of float32 exponents
_ONE, _SIGN, _EXPONENT = 0x3F800000, 0x80000000, 23  # bits of 1.0 and of the sign; first bit of the exponent
_SQRT_HALF = 0x3F3504F3  # sqrt(1/2) as bits
TO_ONE = "exp_to_one"
"""Name under which a call requests `exp_to_one`."""
SILU = "silu"
"""Name under which a call requests a number times its sigmoid."""
# Bits of about 1 / x are this less the bits of x: off by 5.1 % at most, the least of all such constants.
_INVERSE = 0x7EF30000
_LEAST = -87.3  # e^x becomes subnormal soon below
_MOST = 87.0  # e^x is less than 2^126
_INFINITE = 89.0  # e^x is infinite in float32
_LEAST_NORMAL, _TO_NORMAL = 2.0**-126, 23  # and the power of 2 that makes subnormal numbers normal


def _float(value: float) -> Expr:
    return tirx.const(value, "float32")


def _uint(value: int) -> Expr:
    return tirx.const(value, "uint32")


def _bits(value: Expr) -> Expr:
    return tirx.reinterpret("uint32", value)


def _number(bits: Expr) -> Expr:
    return tirx.reinterpret("float32", bits)


def _named(value: Expr, body: Callable[[Expr], Expr]) -> Expr:
    """Return an expression that computes a value once and uses it several times."""
    var = tirx.Var("t", str(value.ty))
    return tirx.Let(var, value, body(var))


def _size(bits: Expr) -> Expr:
    """Return the absolute value of a number, given by its bits."""
    return _number(bits & _uint(_SIGN - 1))


def _polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    value = _float(coefficients[-1])
    for each in reversed(coefficients[:-1]):
        value = value * x + _float(each)
    return value


def _within(x: Expr, low: float | None, high: float) -> Expr:
    """Return a number clipped to bounds; NaN stays NaN."""
    bounded = tirx.Select(x > _float(high), _float(high), x)
    if low is None:
        return bounded
    return _named(bounded, lambda y: tirx.Select(y < _float(low), _float(low), y))


def _parts(x: Expr, body: Callable[[Expr, Expr], Expr]) -> Expr:
    """Return `body` of e^r - 1 and of the bits of n (only the last nine count), where x = n ln 2 + r."""

    def rest(n: Expr) -> Expr:
        return x - n * _float(_LN2[0]) - n * _float(_LN2[1])

    def parts(shifted: Expr) -> Expr:
        less = _named(rest(shifted - _float(_ROUND)), lambda r: r + r * r * _polynomial(r, _EXP))
        return _named(less, lambda value: _named(_bits(shifted), lambda n: body(value, n)))

    return _named(x * _float(_LOG2E) + _float(_ROUND), parts)


def _power(n: Expr) -> Expr:
    """Return 2^n."""
    return _number((n << _uint(_EXPONENT)) + _uint(_ONE))


def _inverse(argument: Expr) -> Expr:
    """Return 1 / x for x from 2^-126 to 2^126, off by 1.5 last places at most where sums are fused.

    A division of vectors keeps an x86 core busy for 5 to 16 cycles, and an Arm core for 10 to 60; this takes
    six instructions, five of which need the units that multiply (`DIVIDING` is for machines on which a
    division beside other arithmetic is faster). The first step leaves the cube of the error, 1.3e-4; the
    second its square.
    """

    def value(x: Expr) -> Expr:
        def finer(near: Expr, of_error: Callable[[Expr], Expr]) -> Expr:
            return _named(_float(1) - x * near, lambda error: near + near * of_error(error))

        def fine(near: Expr) -> Expr:
            return _named(finer(near, lambda e: e + e * e), lambda nearer: finer(nearer, lambda e: e))

        return _named(_number(_uint(_INVERSE) - _bits(x)), fine)

    return _named(argument, value)


def _exp(argument: Expr) -> Expr:
    def scaled(less: Expr, n: Expr) -> Expr:
        # Two factors, because neither 2^128 nor 2^-140 is a normal number.
        return _named(n >> _uint(1), lambda half: (less + _float(1)) * _power(half) * _power(n - half))

    # below -104, e^x is less than half of the smallest number, so 0; above 89 it is infinite
    return _named(argument, lambda x: _named(_within(x, -104, 89), lambda y: _parts(y, scaled)))


def _exp_to_one(argument: Expr) -> Expr:
    """Return `exp_to_one`: half of the instructions of `_exp`, without bounds, with one power of 2."""

    def value(x: Expr) -> Expr:
        def scaled(less: Expr, n: Expr) -> Expr:
            return _named(_power(n), lambda scale: scale * less + scale)

        return tirx.Select(x < _float(_LEAST), _float(0), _parts(x, scaled))

    return _named(argument, value)


def _sigmoid(argument: Expr) -> Expr:
    def value(x: Expr) -> Expr:
        def inverse(less: Expr, n: Expr) -> Expr:
            return _inverse(_float(1) + (less + _float(1)) * _power(n))

        made = _named(_within(x, -_MOST, _MOST), lambda y: _parts(y, inverse))
        return tirx.Select(x > _float(_MOST), _float(0), made)  # below 2e-38

    return _named(_float(0) - argument, value)


def _logistic(argument: Expr, numerator: Callable[[Expr], Expr]) -> Expr:
    """Return `numerator` of x, divided by 1 + e^-x, which is infinite for x below -88.4."""

    def value(x: Expr) -> Expr:
        below = _named(_float(0) - x, lambda y: _named(_within(y, -_MOST, _INFINITE), _grown))
        return numerator(x) / (below + _float(1))

    return _named(argument, value)


def _grown(x: Expr) -> Expr:
    """Return e^x for x from -87 to 88, infinity from 88.4 to 89.

    It is shorter than by `_parts`, but not on Arm, where adding a constant to a product takes an instruction
    more: 40 in place of 38 for a sigmoid on a Cortex-A72.
    """

    def rest(n: Expr) -> Expr:
        return x - n * _float(_LN2[0]) - n * _float(_LN2[1])

    def scaled(shifted: Expr) -> Expr:
        power = _number(_bits(shifted) << _uint(_EXPONENT))
        return _named(rest(shifted - _float(_BIASED)), lambda r: _polynomial(r, (1.0, 1.0, *_EXP)) * power)

    return _named(x * _float(_LOG2E) + _float(_BIASED), scaled)


def _odd(argument: Expr, of_size: Callable[[Expr], Expr]) -> Expr:
    """Return an odd function, given its value for non-negative numbers."""

    def value(bits: Expr) -> Expr:
        return _number(_bits(_named(_size(bits), of_size)) | (bits & _uint(_SIGN)))

    return _named(_bits(argument), value)


def _tanh(argument: Expr, *, divides: bool = False) -> Expr:
    def ratio(less: Expr, n: Expr) -> Expr:
        grown = _named(_power(n), lambda scale: scale * less + (scale - _float(1)))  # e^2x - 1
        below = _float(2)
        return _named(grown, lambda y: y / (y + below) if divides else y * _inverse(y + below))

    # tanh(10) is 1 in float32
    return _odd(argument, lambda x: _named(_within(x + x, None, 20), lambda y: _parts(y, ratio)))


def _erf(argument: Expr) -> Expr:
    def size(x: Expr) -> Expr:
        near = _named(x * x, lambda z: x + x * _polynomial(z, _ERF))
        rest = _named(_within(x, None, _ERF_ONE), lambda y: _exp2(_polynomial(y, _ERF_REST)))
        return tirx.Select(x < _float(_ERF_FAR), near, _float(1) - rest)

    return _odd(argument, size)


def _exp2(argument: Expr) -> Expr:
    """Return 2^x for x from -126 to 127."""

    def scaled(x: Expr, shifted: Expr) -> Expr:
        grown = _named(x - (shifted - _float(_ROUND)), lambda r: r * _polynomial(r, _EXP2) + _float(1))
        return grown * _power(_bits(shifted))

    return _named(argument, lambda x: _named(x + _float(_ROUND), lambda shifted: scaled(x, shifted)))


def _log(argument: Expr) -> Expr:
    def normal(x: Expr) -> Expr:
        small = x < _float(_LEAST_NORMAL)
        bits = _bits(tirx.Select(small, x * _float(2.0**_TO_NORMAL), x)) - _uint(_SQRT_HALF)
        shift = tirx.Select(small, _float(-_TO_NORMAL), _float(0))

        def parts(moved: Expr) -> Expr:
            n = tirx.reinterpret("int32", moved) >> tirx.const(_EXPONENT, "int32")
            fraction = _number((moved & _uint((1 << _EXPONENT) - 1)) + _uint(_SQRT_HALF))
            return _named(
                tirx.Cast("float32", n) + shift,
                lambda power: _named(fraction - _float(1), lambda f: sum_of(power, f)),
            )

        def sum_of(n: Expr, f: Expr) -> Expr:
            square = _named(
                f * f, lambda z: f * z * _polynomial(f, _LOG) + n * _float(_LN2[1]) - _float(0.5) * z
            )
            value = f + square + n * _float(_LN2[0])
            positive = tirx.Select(x < _float(float("inf")), value, x)
            other = tirx.Select(tirx.EQ(x, _float(0)), _float(float("-inf")), _float(float("nan")))
            return tirx.Select(x > _float(0), positive, other)

        return _named(bits, parts)

    return _named(argument, normal)


def _root(x: Expr) -> Expr:
    """Return x^0.5, which differs from the square root for -0 (0) and for -inf (inf)."""
    infinity = _float(float("inf"))
    return tirx.Select(tirx.EQ(x, _float(float("-inf"))), infinity, _size(_bits(tirx.sqrt(x))))


def _pow(base: Expr, exponent: Expr) -> Expr | None:
    """Return a power by multiplications; None if its exponent is not one of the few that networks use."""
    if not isinstance(exponent, tirx.FloatImm):
        return None
    powers: dict[float, Callable[[Expr], Expr]] = {
        1.0: lambda x: x,
        2.0: lambda x: x * x,
        3.0: lambda x: x * x * x,
        4.0: lambda x: _named(x * x, lambda z: z * z),
        -1.0: lambda x: _float(1) / x,
        0.5: _root,
    }
    power = powers.get(exponent.value)
    return None if power is None else _named(base, power)


WRITTEN: dict[str, Callable[..., Expr | None]] = {
    "tirx.exp": _exp,
    TO_ONE: _exp_to_one,
    "tirx.sigmoid": _sigmoid,
    "tirx.tanh": _tanh,
    "tirx.erf": _erf,
    "tirx.log": _log,
    "tirx.pow": _pow,
}
"""Returns the value of a call from its operands, or None to keep the call; by operator."""

DIVIDING: dict[str, Callable[..., Expr | None]] = WRITTEN | {
    "tirx.sigmoid": lambda x: _logistic(x, lambda _x: _float(1)),
    SILU: lambda x: _logistic(x, lambda numerator: numerator),
    "tirx.tanh": partial(_tanh, divides=True),
}
"""The same for a machine on which a division takes less time than `_inverse`; with `SILU`."""
