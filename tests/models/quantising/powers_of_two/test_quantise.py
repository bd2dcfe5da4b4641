"""Networks in integers: onnxruntime, numpy and the compiled code agree bit by bit."""

from __future__ import annotations

import weakref
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings

from tests.models.quantising.networks import Block, blocks, integers, network
from toolchain.errors import UsageError
from toolchain.models.options import POWERS_OF_TWO
from toolchain.models.quantising.calibration import Tapped
from toolchain.models.quantising.result import LayerCost, QuantisingCost
from toolchain.models.quantising.shift_exponents import ExponentSearch, rounded
from toolchain.models.quantising.shift_graph import PLAIN, SUMMED
from toolchain.models.quantising.shift_quantiser import Shifted, quantise

OWN_SCALES = "give each tensor a scale of its own: --quantizer power-of-two"
MADE_FOR = "that the network is made for: --calibrate NAME=FILE.npy"
RESIDUAL = (Block(8, stride=2, shortcut="projection"), Block(8, shortcut="identity"))


def quantised(
    model: onnx.ModelProto, quantizer: str = "power-of-two", images: dict[str, Path] | None = None
) -> Shifted:
    inferred = onnx.shape_inference.infer_shapes(model)
    return quantise(inferred, quantizer, images or {}, "net.onnx")


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(blocks())
def test_onnxruntime_computes_the_table(drawn: tuple[Block, ...]) -> None:
    made = quantised(network(drawn))
    nodes = {node.name: node for node in made.graph.graph.node if node.op_type in (PLAIN, SUMMED)}
    names = {name for node in nodes.values() for name in (node.input[0], *node.input[6:7], node.output[0])}
    image = np.random.default_rng(3).standard_normal((1, 3, 9, 9)).astype(np.float32)
    values = Tapped(made.graph, names, "net.onnx").values({"data": image})
    assert made.layers
    for layer in made.layers:
        node = nodes[layer.site.name]
        residual = values[node.input[6]] if layer.site.residual else None
        wanted = integers(layer, values[node.input[0]], residual)
        assert values[node.output[0]].dtype == np.int8
        np.testing.assert_array_equal(values[node.output[0]], wanted)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(blocks())
def test_shifts_are_within_the_alus_range(drawn: tuple[Block, ...]) -> None:
    for layer in quantised(network(drawn)).layers:
        assert ((layer.right >= 1) & (layer.right <= 15)).all()
        assert np.abs(layer.weight.astype(int)).max(initial=0) <= 127
        if layer.site.residual:
            common = max(0, int(layer.left.max()) - 6)
            assert 0 <= common <= 15 and ((layer.left - common >= 0) & (layer.left - common <= 6)).all()
        else:
            assert not layer.left.any()


def test_what_stays_in_floats_is_exact() -> None:
    """Neither the order nor the rounding of sums can tip an integer."""
    made = quantised(network(RESIDUAL))
    (first,) = [node for node in made.graph.graph.node if node.op_type == "Conv"]
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in made.graph.graph.initializer}
    weight, bias = (stored[name] for name in first.input[1:])
    image = np.random.default_rng(0).standard_normal((1, 3, 9, 9)).astype(np.float32)
    rounded = Tapped(made.graph, [first.input[0]], "net.onnx").values({"data": image})[first.input[0]]
    products = (weight * rounded[:, :, 3:6, 3:6]).reshape(len(weight), -1)
    for seed in range(5):
        shuffled = np.random.default_rng(seed).permutation(products, axis=1)
        sums = bias.copy()
        for column in shuffled.T:
            sums = sums + column
            assert sums.dtype == np.float32
        np.testing.assert_array_equal(sums, products.sum(axis=1, dtype=np.float64) + bias)


@pytest.mark.parametrize("quantizer", POWERS_OF_TWO)
def test_reported_cost_matches_measured_cost(quantizer: str) -> None:
    made = quantised(network(RESIDUAL, batch=2), quantizer)
    assert [layer.name for layer in made.cost.layers] == [layer.site.name for layer in made.layers]
    assert made.left == {"fc": "a product of matrices"}
    assert made.cost.images == 8 and made.cost.random, "four batches of two"
    assert 0 < made.cost.sqnr_db < 60
    assert made.cost.top1 is not None and made.cost.top5 is not None and made.cost.top5 >= made.cost.top1


def test_what_is_lost_by_it_is_less_than_by_one_scale() -> None:
    fine, coarse = (
        quantised(network(RESIDUAL), each).cost.sqnr_db for each in ("power-of-two", "global-scale")
    )
    assert fine > coarse + 3


def test_reports_clipped_values() -> None:
    loud = network((Block(8, scale=1.0), Block(8, scale=40.0)))
    drawn, *clipped = quantised(loud, "global-scale").cost.warnings()
    assert drawn.startswith("calibrated and judged by 4 random inputs")
    assert any(line.startswith("b1.conv2: ") for line in clipped)
    assert all(line.endswith(OWN_SCALES) for line in clipped)
    assert quantised(loud).cost.warnings() == [drawn]


@pytest.mark.parametrize(
    ("quantizer", "random", "way_out"),
    [
        (
            "power-of-two",
            True,
            "calibrate with images that the network is made for: --calibrate NAME=FILE.npy",
        ),
        ("mse", False, f"calibrate with more images {MADE_FOR}"),
        ("global-scale", True, OWN_SCALES),
        ("global-scale", False, OWN_SCALES),
    ],
)
def test_warns_of_random_calibration(quantizer: str, random: bool, way_out: str) -> None:
    cost = QuantisingCost(
        5, random, quantizer, (LayerCost("loud", 3.0, 0.2), LayerCost("low", 9.0, 0.001)), 8.0, None, None
    )
    *before, clipped = cost.warnings()
    assert clipped == f"loud: 20.0% of its values are beyond 8 bits and were clipped; {way_out}"
    assert ["calibrated and judged by 5 random inputs" in line for line in before] == [True] * random


def test_nothing_to_quantise() -> None:
    with pytest.raises(UsageError, match=r"--dtype int8: nothing of it can be quantised") as caught:
        quantised(network(()))
    assert "--dtype float32" in caught.value.hint


def with_weight(name: str, number: float) -> onnx.ModelProto:
    """Return a network of which one stored number is another."""
    model = network(RESIDUAL)
    (tensor,) = [tensor for tensor in model.graph.initializer if tensor.name == name]
    array = onnx.numpy_helper.to_array(tensor).copy()
    array.flat[0] = number
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, name))
    return model


@pytest.mark.parametrize("quantizer", POWERS_OF_TWO)
@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["stem.w", "stem.b", "b0.conv1.w"])
def test_weights_that_are_no_numbers_are_refused(name: str, number: float, quantizer: str) -> None:
    """The first convolution looked for coarser steps until its sums would be exact, which those never are."""
    said = rf"its convolution '{name[:-2]}' holds NaN or infinity in 1 of \d+ places"
    with pytest.raises(UsageError, match=f"net.onnx: --dtype int8: {said}"):
        quantised(with_weight(name, number), quantizer)


def test_images_that_give_no_numbers_are_refused(tmp_path: Path) -> None:
    """The sums of such images are beyond float32."""
    images = np.ones((2, 3, 9, 9), np.float32)
    images[1] = 3e38
    np.save(tmp_path / "x.npy", images)
    with pytest.raises(UsageError, match=r"tensor '.+' is NaN or infinite for sample 1,") as caught:
        quantised(network(RESIDUAL), images={"data": tmp_path / "x.npy"})
    assert "--calibrate NAME=FILE.npy" in caught.value.hint


def test_one_image_after_the_other_has_the_exponent_of_all_together() -> None:
    random = np.random.default_rng(2)
    images = [random.standard_normal((3, 4)).astype(np.float32) * scale for scale in (0.1, 9.0, 0.0, 1.0)]
    search = ExponentSearch()
    for image in images:
        search.widen(image)
    for image in images:
        search.add(image)
    whole = np.concatenate(images).astype(np.float64)
    errors = {each: np.square(np.ldexp(rounded(whole, each), each) - whole).sum() for each in range(-12, 4)}
    assert search.best == min(errors, key=errors.__getitem__)


def test_calibrating_keeps_the_values_of_one_image(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[weakref.ref[np.ndarray]] = []
    computed = Tapped.values

    def counted(self: Tapped, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        assert sum(each() is not None for each in held) <= 1, "all but the last tensor are forgotten"
        found = computed(self, inputs)
        held.extend(weakref.ref(array) for name, array in found.items() if name not in inputs)
        return found

    monkeypatch.setattr(Tapped, "values", counted)
    quantised(network(RESIDUAL))
    assert len(held) > 10


def test_images_of_ones_own(tmp_path: Path) -> None:
    small = np.random.default_rng(1).standard_normal((6, 3, 9, 9)).astype(np.float32) / 64
    np.save(tmp_path / "x.npy", small)
    model = network(RESIDUAL, batch=2)
    given_ones = quantised(model, images={"data": tmp_path / "x.npy"})
    assert given_ones.cost.images == 6 and not given_ones.cost.random
    assert given_ones.cost.sqnr_db > 0 and given_ones.cost.warnings() == []
    seeded = quantised(model)
    finer = [a.right.sum() <= b.right.sum() for a, b in zip(given_ones.layers, seeded.layers, strict=True)]
    assert any(finer)
