"""Arithmetic at the edges of its types: what ONNX defines, where TVM's own importer differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from tvm import relax

from tests.models.graphs import graph_of, tensor_info
from toolchain.models.importing.importer import import_module
from toolchain.models.preparing.infer_shapes import infer_shapes

COUNT = 8
Case = tuple[str, str, str, tuple[tuple[str, Any], ...]]
CASES: tuple[Case, ...] = (
    *(
        ("BitShift", kind, kind, (("direction", way),))
        for kind in ("uint8", "uint64")
        for way in ("LEFT", "RIGHT")
    ),
    *(("Mod", kind, kind, (("fmod", sign),)) for kind in ("int8", "int64") for sign in (0, 1)),
    ("Mod", "uint8", "uint8", ()),
    ("Mod", "float32", "float32", (("fmod", 1),)),
    ("Pow", "int32", "int32", ()),
    ("Pow", "int64", "float32", ()),
    ("Pow", "float32", "int64", ()),
)
"""Operator, types of both operands, attributes."""


@cache
def machine() -> Callable[..., Any]:
    """Return all cases as one network of TVM's, compiled once."""
    nodes, inputs, outputs = [], [], []
    for number, (operator, left, right, attributes) in enumerate(CASES):
        nodes.append(
            helper.make_node(operator, [f"a{number}", f"b{number}"], [f"y{number}"], **dict(attributes))
        )
        for name, kind in (("a", left), ("b", right)):
            code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
            inputs.append(tensor_info(f"{name}{number}", (COUNT,), code))
        outputs.append(tensor_info(f"y{number}", (COUNT,), helper.np_dtype_to_tensor_dtype(np.dtype(left))))
    module = import_module(infer_shapes(graph_of(nodes, inputs, outputs, {}), "test"), "test")
    main: Callable[..., Any] = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())["main"]
    return main


def computed(case: Case, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return what one case computes; all others compute on ones."""
    arrays, place = list(ones()), CASES.index(case)
    arrays[2 * place : 2 * place + 2] = tvm.runtime.tensor(a), tvm.runtime.tensor(b)
    found: np.ndarray = machine()(*arrays)[place].numpy()
    return found


@cache
def ones() -> tuple[Any, ...]:
    return tuple(tvm.runtime.tensor(np.ones(COUNT, kind)) for case in CASES for kind in case[1:3])


def integers(kind: str, low: int | None = None, high: int | None = None) -> st.SearchStrategy[np.ndarray]:
    limits = np.iinfo(kind)
    values = st.integers(limits.min if low is None else low, limits.max if high is None else high)
    return st.lists(values, min_size=COUNT, max_size=COUNT).map(lambda drawn: np.array(drawn, kind))


def of(operator: str, *kinds: str) -> list[Case]:
    return [case for case in CASES if case[0] == operator and (not kinds or case[1] in kinds)]


def wrapped(values: Sequence[int], kind: str) -> np.ndarray:
    """Return integers of any size as a type of few bits holds them."""
    bits = np.iinfo(kind).bits
    return np.array([value % 2**bits for value in values], f"uint{bits}").astype(kind)


@pytest.mark.slow
@settings(max_examples=25)
@given(data=st.data(), case=st.sampled_from(of("BitShift")))
def test_shift_beyond_width_gives_0(data: st.DataObject, case: Case) -> None:
    kind = case[1]
    a, b = data.draw(integers(kind)), data.draw(integers(kind, 0, 80) | integers(kind))
    way = dict(case[3])["direction"]
    numbers = zip(a.tolist(), b.tolist(), strict=True)
    expected = [x << min(by, 64) if way == "LEFT" else x >> by for x, by in numbers]
    np.testing.assert_array_equal(computed(case, a, b), wrapped(expected, kind))


@pytest.mark.slow
@settings(max_examples=25)
@given(data=st.data(), case=st.sampled_from(of("Mod", "int8", "int64", "uint8")))
def test_a_remainder_of_integers_has_the_sign_of_the_divisor_or_with_fmod_of_the_dividend(
    data: st.DataObject, case: Case
) -> None:
    kind = case[1]
    a = data.draw(integers(kind))
    b = data.draw(integers(kind).map(lambda drawn: np.where((drawn == 0) | (drawn == -1), 3, drawn)))
    by_dividend = bool(dict(case[3]).get("fmod"))
    expected = np.fmod(a, b) if by_dividend else np.mod(a, b)
    np.testing.assert_array_equal(computed(case, a, b.astype(kind)), expected)


reals = st.lists(
    st.sampled_from([-np.inf, -7.5, -1.0, -0.5, 0.5, 3.0, 7.5, np.inf]), min_size=COUNT, max_size=COUNT
).map(lambda drawn: np.array(drawn, np.float32))


@pytest.mark.slow
@settings(max_examples=25)
@given(a=reals, b=reals)
def test_float_remainder_is_fmod(a: np.ndarray, b: np.ndarray) -> None:
    with np.errstate(invalid="ignore"):
        expected = np.fmod(a, b)
    np.testing.assert_array_equal(computed(of("Mod", "float32")[0], a, b), expected)


@pytest.mark.slow
@settings(max_examples=25)
@given(data=st.data(), case=st.sampled_from(of("Pow", "int32", "int64")))
def test_a_power_has_the_type_of_its_base(data: st.DataObject, case: Case) -> None:
    a = data.draw(integers(case[1], -9, 9))
    b = data.draw(integers("int64", 0, 8)).astype(case[2])
    expected = a.astype(object) ** b.astype(np.int64).astype(object)
    np.testing.assert_array_equal(computed(case, a, b), expected.astype(case[1]))


@settings(max_examples=25)
@given(data=st.data())
def test_a_real_to_a_whole_power(data: st.DataObject) -> None:
    a = data.draw(integers("int32", -5, 5)).astype(np.float32) / 2
    b = data.draw(integers("int64", 0, 5))
    np.testing.assert_allclose(computed(of("Pow", "float32")[0], a, b), a**b, rtol=1e-6)


@pytest.mark.slow
def test_a_constant_power_is_written_as_products_without_a_warning_of_tvms(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """TVM's own power warns on stderr from an exponent of 3 on."""
    exponents = [0.5, 2.0, 3.0, 3.5, 4.0, 7.0, 16.0]
    nodes = [helper.make_node("Pow", ["x", f"e{place}"], [f"y{place}"]) for place in range(len(exponents))]
    outputs = [tensor_info(f"y{place}", (COUNT,)) for place in range(len(exponents))]
    weights = {f"e{place}": np.float32(exponent) for place, exponent in enumerate(exponents)}
    graph = graph_of(nodes, [tensor_info("x", (COUNT,))], outputs, weights)
    module = import_module(infer_shapes(graph, "test"), "test")
    x = np.array([-np.inf, -2.5, -1, -0.0, 0, 0.3, 7, np.inf], np.float32)
    found = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())["main"](tvm.runtime.tensor(x))
    assert capfd.readouterr().err == ""
    with np.errstate(invalid="ignore"):
        for exponent, y in zip(exponents[1:], list(found)[1:], strict=True):
            np.testing.assert_allclose(y.numpy(), x ** np.float32(exponent), rtol=2e-6)


def reduced(operator: str, array: np.ndarray, **attributes: Any) -> np.ndarray:
    """Return what one node makes of an array that is its input."""
    code = helper.np_dtype_to_tensor_dtype(array.dtype)
    node = helper.make_node(operator, ["x"], ["y"], **attributes)
    graph = graph_of([node], [tensor_info("x", array.shape, code)], [tensor_info("y", None, code)], {})
    module = import_module(infer_shapes(graph, "test"), "test")
    machine = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    found: np.ndarray = machine["main"](tvm.runtime.tensor(array)).numpy()
    return found


@pytest.mark.parametrize(("operator", "limit"), [("ReduceMax", -np.inf), ("ReduceMin", np.inf)])
def test_the_extreme_of_infinities_is_infinite(operator: str, limit: float) -> None:
    """Not the largest finite number; over the middle axis of three, which is dropped."""
    x = np.full((2, 3, 2), limit, np.float32)
    x[0, 1, 0] = 5
    found = reduced(operator, x, axes=[-2], keepdims=0)
    np.testing.assert_array_equal(found, [[5, limit], [limit, limit]])


@pytest.mark.slow
def test_elu_keeps_the_type_of_its_input() -> None:
    x = np.array([-3, -0.5, 0, 2], np.float64)
    found = reduced("Elu", x, alpha=0.3)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, np.where(x < 0, np.float32(0.3) * np.expm1(x), x), rtol=1e-12)


def test_a_thresholded_relu_of_infinity_is_zero_or_infinite() -> None:
    x = np.array([-np.inf, -1, 0.5, 1, 3, np.inf], np.float32)
    np.testing.assert_array_equal(reduced("ThresholdedRelu", x, alpha=1.0), [0, 0, 0, 0, 3, np.inf])
