"""Which exact sums in floats become products of bytes, and that all numbers stay the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

from toolchain.arrays import Array
from toolchain.lowering.graph.fused_sums import FUSED, with_fused_sums
from toolchain.lowering.graph.integers import with_integers
from toolchain.lowering.graph.signed import with_signed_values
from toolchain.profiles import load_profile
from toolchain.targets.target import target_for

UNSIGNED = {"uint8": "int8"}
RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.integers(-127, 128, (8, 4, 3, 3)).astype("f4")
BIAS = RANDOM.integers(-900, 900, (1, 8, 1, 1)).astype("f4")
Built = Callable[[relax.BlockBuilder, relax.Expr], relax.Expr]


def network(build: Built, shape: tuple[int, ...] = (1, 4, 6, 6), dtype: str = "uint8") -> tvm.IRModule:
    """Return a network of one input."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(build(builder, x))
        builder.emit_func_output(out)
    return builder.get()


def centred(builder: relax.BlockBuilder, x: relax.Expr, zero: float = 5.0) -> relax.Expr:
    floats = builder.emit(relax.op.astype(x, "float32"))
    return builder.emit(relax.op.subtract(floats, relax.const(zero))) if zero else floats


def convolution(
    weight: Array = WEIGHT, bias: Array | None = BIAS, zero: float = 5.0, padding: int = 1
) -> Built:
    def build(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        call = relax.op.nn.conv2d(centred(builder, x, zero), relax.const(weight), padding=[padding] * 4)
        sums = builder.emit(call)
        return sums if bias is None else builder.emit(relax.op.add(sums, relax.const(bias)))

    return build


def product(weight: Array, zero: float = 5.0) -> Built:
    def build(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        return builder.emit(relax.op.matmul(centred(builder, x, zero), relax.const(weight)))

    return build


def dynamic(weight: Array) -> Built:
    """Return a product of integers whose zero point the network computes."""

    def build(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        floats = builder.emit(relax.op.astype(x, "float32"))
        zero = builder.emit(relax.op.astype(builder.emit(relax.op.max(floats)), "uint8"))
        apart = builder.emit(relax.op.subtract(floats, builder.emit(relax.op.astype(zero, "float32"))))
        return builder.emit(relax.op.matmul(apart, relax.const(weight)))

    return build


def rounded(builder: relax.BlockBuilder, x: relax.Expr, zero: int = 0) -> relax.Expr:
    constants = relax.const(np.float32(0.5)), relax.const(np.uint8(zero))
    return builder.emit(relax.op.quantize(x, *constants, 1, "uint8"))


def outputs(module: tvm.IRModule, x: Array) -> Array:
    """Return what a network computes."""
    target = target_for(load_profile("x86_64")).target
    machine = relax.VirtualMachine(tvm.compile(module, target=target), tvm.cpu())
    result: Array = machine["main"](tvm.runtime.tensor(x)).numpy()
    return result


def in_integers(module: tvm.IRModule) -> bool:
    return '"int32"' in module.script()


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (convolution(), (1, 4, 6, 6)),
        (convolution(zero=0.0), (1, 4, 6, 6)),
        (convolution(bias=None), (1, 4, 6, 6)),
        (convolution(bias=BIAS + 0.5), (1, 4, 6, 6)),  # a bias in floats is added to the sums
        (product(RANDOM.integers(-128, 128, (12, 5)).astype("f4")), (3, 12)),
        (product(RANDOM.integers(-128, 128, (2, 12, 5)).astype("f4")), (2, 3, 12)),
        (dynamic(RANDOM.integers(-128, 128, (12, 5)).astype("f4")), (3, 12)),
    ],
    ids=[
        "padded",
        "without a zero point",
        "without a bias",
        "bias in floats",
        "matrices",
        "several",
        "dynamic",
    ],
)
@pytest.mark.slow
def test_sums_are_the_same_in_integers(build: Built, shape: tuple[int, ...]) -> None:
    module = network(build, shape)
    changed = with_integers(module, UNSIGNED)
    assert in_integers(changed) and not in_integers(module)
    x = RANDOM.integers(0, 256, shape).astype("uint8")
    assert np.array_equal(outputs(changed, x), outputs(module, x))


@pytest.mark.parametrize(
    ("build", "shape", "dtype"),
    [
        (convolution(WEIGHT + 0.5), (1, 4, 6, 6), "uint8"),
        (convolution(WEIGHT * 2), (1, 4, 6, 6), "uint8"),
        (convolution(zero=0.5), (1, 4, 6, 6), "uint8"),
        (convolution(zero=-1.0), (1, 4, 6, 6), "uint8"),
        (convolution(zero=256.0), (1, 4, 6, 6), "uint8"),
        (convolution(), (1, 4, 6, 6), "int8"),
        (convolution(), (1, 4, 6, 6), "float32"),
        (product(np.ones((10, 5), "f4")), (3, 10), "uint8"),
        (product(np.ones((70_000, 1), "f4")), (1, 70_000), "uint8"),
    ],
    ids=[
        "weights of halves",
        "weights beyond bytes",
        "a zero point of a half",
        "a negative zero point",
        "a zero point beyond bytes",
        "inputs of another type",
        "floats",
        "rows that are no multiple of four",
        "sums beyond 32 bits",
    ],
)
def test_other_sums_stay_in_floats(build: Built, shape: tuple[int, ...], dtype: str) -> None:
    module = network(build, shape, dtype)
    assert with_integers(module, UNSIGNED) is module


def test_a_machine_without_such_instructions_keeps_the_network() -> None:
    module = network(convolution())
    assert with_integers(module, {}) is module


def test_depthwise_convolutions_may_be_left_in_floats() -> None:
    def build(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        weight = relax.const(WEIGHT[:4, :1])
        return builder.emit(relax.op.nn.conv2d(centred(builder, x), weight, groups=4))

    module = network(build)
    assert in_integers(with_integers(module, UNSIGNED))
    assert with_integers(module, UNSIGNED, depthwise=False) is module


@pytest.mark.slow
def test_signed_values_are_128_lower_and_read_as_before() -> None:
    def build(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        steps = rounded(builder, x, 7)
        pooled = builder.emit(relax.op.nn.max_pool2d(steps, [2, 2], [2, 2]))
        first = convolution(zero=7.0)(builder, pooled)
        second = convolution(WEIGHT[::-1], zero=0.0)(builder, pooled)
        plain = builder.emit(relax.op.astype(pooled, "float32"))
        real = builder.emit(
            relax.op.dequantize(pooled, relax.const(np.float32(3)), relax.const(np.uint8(7)), 1)
        )
        both = builder.emit(relax.op.add(first, second))
        beside = builder.emit(relax.op.add(plain, real))
        more = builder.emit(relax.op.add(both, builder.emit(relax.op.concat([beside, beside], 1))))
        return builder.emit(
            relax.op.add(more, builder.emit(relax.op.astype(rounded(builder, more), "float32")))
        )

    module = network(build, (1, 4, 12, 12), "float32")
    signed = with_signed_values(module)
    assert '"uint8"' not in signed.script() and '"int8"' in signed.script()
    x = (50 * RANDOM.standard_normal((1, 4, 12, 12))).astype("f4")
    changed = with_integers(signed, {"int8": "int8"})
    assert in_integers(changed)
    assert np.array_equal(outputs(changed, x), outputs(module, x))


@pytest.mark.slow
def test_joined_values_and_inputs_are_signed_too() -> None:
    def build(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        steps = rounded(builder, builder.emit(relax.op.astype(x, "float32")), 7)
        joined = builder.emit(relax.op.concat([steps, steps], 1))
        weight = np.concatenate([WEIGHT, WEIGHT[::-1]], 1)
        first = convolution(weight, zero=7.0)(builder, joined)
        return builder.emit(relax.op.add(first, convolution(zero=3.0)(builder, x)))

    module = network(build, (1, 4, 6, 6))
    changed = with_integers(with_signed_values(module), {"int8": "int8"})
    assert changed.script().count("conv") >= 2 and "R.nn.conv2d" not in changed.script()
    x = RANDOM.integers(0, 256, (1, 4, 6, 6)).astype("uint8")
    assert np.array_equal(outputs(changed, x), outputs(module, x))


def test_an_unsigned_output_stays_unsigned() -> None:
    module = with_signed_values(network(lambda builder, x: rounded(builder, x), dtype="float32"))
    assert str(module["main"].ret_ty.dtype) == "uint8"


def test_a_sum_in_two_parts_is_a_fused_multiply_add() -> None:
    def build(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        emit, op = builder.emit, relax.op
        a = emit(op.astype(x, "float32"))
        b = emit(op.astype(emit(op.nn.max_pool2d(x, [1, 1])), "float32"))

        def parts(value: relax.Expr, high: float, low: float, *added: relax.Expr) -> relax.Expr:
            large, small = (emit(op.multiply(value, relax.const(each))) for each in (high, low))
            return emit(op.add(emit(op.add(large, added[0])), emit(op.add(small, added[1]))))

        inner = parts(b, 0.5, 1e-4, relax.const(3.0), relax.const(1e-5))
        steps = emit(op.round(emit(op.multiply(inner, relax.const(8192.0)))))
        near = emit(op.multiply(steps, relax.const(1 / 8192)))
        return parts(a, 0.25, 3e-5, near, emit(op.subtract(inner, near)))

    module = network(build)
    changed = with_fused_sums(module)
    assert FUSED.removeprefix("tirx.") in changed.script() and "R.round" not in changed.script()
    plain = network(convolution())
    assert with_fused_sums(plain) is plain
