"""A function is cut where a contraction does not go on element by element."""

from __future__ import annotations

from tvm import te, tirx, topi

from toolchain.backends.packed.recognise.contraction import Matmul, parts
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Read, read


def placeholders(*shapes: tuple[int, ...]) -> list[te.Tensor]:
    return [te.placeholder(shape, name=f"in{at}") for at, shape in enumerate(shapes)]


def made(inputs: list[te.Tensor], out: te.Tensor) -> Read:
    func: tirx.PrimFunc = te.create_prim_func([*inputs, out])
    return read(func)


def conv(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    return topi.nn.conv(x, w, [1, 1], [0, 0, 0, 0], [1, 1], 1, "NCHW", "OIHW")


def test_an_epilogue_element_by_element_stays() -> None:
    x, w, bias, other = inputs = placeholders((1, 8, 6, 6), (4, 8, 1, 1), (1, 4, 1, 1), (1, 4, 6, 6))
    y = topi.add(conv(x, w), bias)
    whole = made(inputs, topi.multiply(topi.nn.relu(y), topi.add(y, other)))
    ((found, contraction),) = parts(whole)
    assert found is whole
    assert isinstance(contraction, Convolution)


def test_excitation_is_cut_behind_its_sigmoid() -> None:
    x, w, bias, image = inputs = placeholders((1, 8, 1, 1), (4, 8, 1, 1), (1, 4, 1, 1), (1, 4, 6, 6))
    gate = topi.sigmoid(topi.add(conv(x, w), bias))
    whole = made(inputs, topi.multiply(image, gate))
    (first, contraction), (second, none) = parts(whole)
    assert isinstance(contraction, Matmul)
    assert none is None
    # The sigmoid is computed per channel, not per pixel.
    assert [param.name for param in first.params[:-1]] == ["in0", "in1", "in2"]
    assert len(second.stages) == 1
    assert second.params[-1].same_as(whole.output)
    assert any(param.same_as(first.output) for param in second.params)


def test_a_softmax_or_another_dtype_is_cut_off() -> None:
    x, w = inputs = placeholders((1, 8, 6, 6), (4, 8, 1, 1))
    for out in (topi.nn.softmax(conv(x, w), axis=1), topi.greater(conv(x, w), 0.0), topi.flip(conv(x, w), 3)):
        (first, contraction), *rest = parts(made(inputs, out))
        assert isinstance(contraction, Convolution)
        assert first.output.same_as(contraction.y)
        assert [contraction for _part, contraction in rest] == [None]


def test_attention_is_two_products_and_what_lies_between() -> None:
    q, k, v = inputs = placeholders((2, 5, 8), (2, 7, 8), (2, 7, 8))
    scores = topi.multiply(topi.nn.batch_matmul(q, k), 0.25)
    out = topi.nn.batch_matmul(topi.nn.softmax(scores), v, transpose_b=False)
    found = parts(made(inputs, out))
    assert [type(contraction) for _part, contraction in found] == [Matmul, type(None), Matmul]
    assert [len(part.params) for part, _work in found] == [3, 2, 3]
