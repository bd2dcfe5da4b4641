"""Resize by scales that make no whole number of pixels picks the pixels that onnxruntime picks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import assert_same, loaded
from toolchain.errors import UsageError
from toolchain.models.load import Model

# extent, scale: 3 / 0.6 is 5 in float32 alone, 5 x 1.4 is 7 there; 3 x 1.25 are 3 pixels, which are copied
CASES = {
    "asymmetric": [(7, 0.6), (5, 1.4), (6, 1.6), (3, 1.25)],
    "half_pixel": [(7, 2.3), (16, 2.5)],
    "half_pixel_symmetric": [(5, 0.6), (7, 1.75)],
}


@pytest.mark.parametrize("at", CASES)
def test_the_nearest_pixel_is_found_in_float32(at: str, tmp_path: Path) -> None:
    nearest = "round_prefer_floor" if at == "half_pixel" else "floor"
    nodes, inputs, outputs, weights = [], [], [], {}
    for place, (extent, scale) in enumerate(CASES[at]):
        named = [f"x{place}", "", f"s{place}"]
        nodes.append(
            helper.make_node(
                "Resize", named, [f"y{place}"], coordinate_transformation_mode=at, nearest_mode=nearest
            )
        )
        inputs.append(tensor_info(f"x{place}", (1, 1, extent, 1)))
        outputs.append(tensor_info(f"y{place}", None))
        weights[f"s{place}"] = np.array([1, 1, scale, 1], np.float32)
    for output in outputs:
        output.ClearField("type")
    assert_same(loaded(graph_of(nodes, inputs, outputs, weights, 19), tmp_path))


def test_one_pixel_of_pytorch_lies_at_0(tmp_path: Path) -> None:
    node = helper.make_node(
        "Resize", ["x", "", "s"], ["y"], mode="cubic", coordinate_transformation_mode="pytorch_half_pixel"
    )
    scales = {"s": np.array([1, 1, 1, 0.2], np.float32)}
    ends = [tensor_info("x", (1, 2, 4, 9))], [tensor_info("y", (1, 2, 4, 1))]
    assert_same(loaded(graph_of([node], *ends, scales), tmp_path))


# 28 rows of 24 have one at 14.500001, 6 of 20 one at 14.499999
@pytest.mark.parametrize(
    ("mode", "old", "new"), [("round_prefer_floor", 24, 28), ("round_prefer_ceil", 20, 6)]
)
def test_almost_a_half_is_one(mode: str, old: int, new: int, tmp_path: Path) -> None:
    at = {"coordinate_transformation_mode": "half_pixel", "nearest_mode": mode}
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], **at)
    ends = [tensor_info("x", (1, 1, old, 1))], [tensor_info("y", (1, 1, new, 1))]
    assert_same(loaded(graph_of([node], *ends, {"s": np.array([1, 1, new, 1])}), tmp_path))


@pytest.mark.parametrize("mode", ["round_prefer_floor", "round_prefer_ceil"])
def test_how_near_to_a_half_is_one(mode: str, tmp_path: Path) -> None:
    nodes, inputs, outputs, weights = [], [], [], {"s": np.array([1, 1, 1, 1])}
    at = {"coordinate_transformation_mode": "tf_crop_and_resize", "nearest_mode": mode}
    for place, steps in enumerate((-34, -33, 16, 17)):  # floats from 0.5; two are 1e-6 and more away
        where = np.float32(0.5)
        for _ in range(abs(steps)):
            where = np.nextafter(where, np.float32(np.sign(steps)), dtype=np.float32)
        weights[f"r{place}"] = np.array([0, 0, where, 0, 1, 1, where, 1], np.float32)
        nodes.append(helper.make_node("Resize", [f"x{place}", f"r{place}", "", "s"], [f"y{place}"], **at))
        inputs.append(tensor_info(f"x{place}", (1, 1, 2, 1)))
        outputs.append(tensor_info(f"y{place}", (1, 1, 1, 1)))
    assert_same(loaded(graph_of(nodes, inputs, outputs, weights, 19), tmp_path))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_an_axis_of_scale_1_is_not_cropped(mode: str, tmp_path: Path) -> None:
    at = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 9.0}
    region = np.array([0, 0, 0.1, 0.3, 1, 1, 0.7, 1.1], np.float32)
    nodes, outputs, weights = [], [], {"r": region}
    for place, scales in enumerate([(1, 2), (1.2, 2)]):  # 4 rows by 1.2 are 4 rows too, but cropped
        weights[f"s{place}"] = np.array([1, 1, *scales], np.float32)
        named = ["x", "r", f"s{place}"]
        nodes.append(helper.make_node("Resize", named, [f"y{place}"], mode=mode, **at))
        outputs.append(tensor_info(f"y{place}", (1, 2, 4, 10)))
    assert_same(loaded(graph_of(nodes, [tensor_info("x", (1, 2, 4, 5))], outputs, weights), tmp_path))


# TVM's coordinates lie beside a boundary of pixels where onnxruntime's lie on it, or the other way round
@pytest.mark.parametrize(
    ("at", "mode", "pairs"),
    [
        ("asymmetric", "floor", [(14, 2), (14, 32), (21, 4), (36, 6), (10, 20)]),
        ("half_pixel", "floor", [(10, 20), (10, 30)]),
        ("half_pixel", "ceil", [(320, 4800), (10, 20)]),
        ("half_pixel", "round_prefer_floor", [(7, 21), (2000, 6000)]),
    ],
)
def test_nearest_pixels_of_sizes(at: str, mode: str, pairs: list[tuple[int, int]], tmp_path: Path) -> None:
    how = {"coordinate_transformation_mode": at, "nearest_mode": mode}
    nodes, inputs, outputs, weights = [], [], [], {}
    for old, new in pairs:
        nodes.append(helper.make_node("Resize", [f"x{old}", "", "", f"s{new}"], [f"y{old}_{new}"], **how))
        inputs.append(tensor_info(f"x{old}", (1, 1, old, 1)))
        outputs.append(tensor_info(f"y{old}_{new}", (1, 1, new, 1)))
        weights[f"s{new}"] = np.array([1, 1, new, 1])
    inputs = list({value.name: value for value in inputs}.values())
    assert_same(loaded(graph_of(nodes, inputs, outputs, weights), tmp_path))


@pytest.mark.parametrize("scales", [(0.6, 1.2), (1.2, 2)])
def test_nearest_pixels_of_scales_that_make_whole_numbers(scales: tuple[float, ...], tmp_path: Path) -> None:
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], **how)
    new = [round(20 * scale) for scale in scales]
    ends = [tensor_info("x", (1, 1, 20, 20))], [tensor_info("y", (1, 1, *new))]
    assert_same(loaded(graph_of([node], *ends, {"s": np.array([1, 1, *scales], np.float32)}), tmp_path))


def test_one_pixel_of_aligned_corners(tmp_path: Path) -> None:
    how = {"coordinate_transformation_mode": "align_corners", "mode": "linear"}
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], **how)
    ends = [tensor_info("x", (1, 1, 1, 5))], [tensor_info("y", (1, 1, 1, 9))]
    assert_same(loaded(graph_of([node], *ends, {"s": np.array([1, 1, 1, 9])}), tmp_path))


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize("scales", [(0.6, 0.7), (1.3, 2.2)])
def test_aligned_corners_of_scales_that_make_no_whole_number(
    mode: str, scales: tuple[float, float], tmp_path: Path
) -> None:
    """onnxruntime and PyTorch divide by the pixels that there are; the formula of onnx by the scale."""
    how = {"coordinate_transformation_mode": "align_corners", "mode": mode}
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], **how)
    new = [int(7 * scales[0]), int(8 * scales[1])]
    ends = [tensor_info("x", (1, 2, 7, 8))], [tensor_info("y", (1, 2, *new))]
    scale = np.array([1, 1, *scales], np.float32)
    assert_same(loaded(graph_of([node], *ends, {"s": scale}), tmp_path))


def test_integers_are_copied_whole(tmp_path: Path) -> None:
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], **how)
    ends = [
        tensor_info(name, shape, TensorProto.INT32)
        for name, shape in (("x", (1, 1, 3, 1)), ("y", (1, 1, 6, 1)))
    ]
    model = loaded(graph_of([node], ends[:1], ends[1:], {"s": np.array([1, 1, 6, 1])}), tmp_path)
    assert_same(model, inputs={"x": np.array([2**24 + 1, 3, 2**30 - 1], np.int32).reshape(1, 1, 3, 1)})


@pytest.mark.parametrize(
    ("mode", "how", "kept"),
    [
        ("nearest", {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, True),
        ("nearest", {"coordinate_transformation_mode": "half_pixel"}, True),
        ("linear", {"coordinate_transformation_mode": "half_pixel"}, True),
        ("linear", {"coordinate_transformation_mode": "align_corners"}, True),
        ("nearest", {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "ceil"}, False),
    ],
)
def test_usual_resizes_keep_their_fast_code(
    mode: str, how: dict[str, str], kept: bool, tmp_path: Path
) -> None:
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode=mode, **how)
    ends = [tensor_info("x", (1, 1, 5, 7))], [tensor_info("y", (1, 1, 10, 28))]
    model = loaded(graph_of([node], *ends, {"s": np.array([1, 1, 10, 28])}), tmp_path)
    assert ("resize2d" in model.module.script()) == kept


def _of_bytes(folder: Path, **how: object) -> Model:
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode="linear", **how)
    x = tensor_info("x", (1, 1, 4, 5), TensorProto.UINT8)
    y = tensor_info("y", (1, 1, 8, 10), TensorProto.UINT8)
    return loaded(graph_of([node], [x], [y], {"s": np.array([1, 1, 8, 10])}, 18), folder)


def test_integers_are_interpolated(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 256, (1, 1, 4, 5)).astype(np.uint8)
    model = _of_bytes(tmp_path, coordinate_transformation_mode="pytorch_half_pixel")
    assert_same(model, inputs={"x": values})


def test_antialias_of_integers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="antialias of uint8"):
        _of_bytes(tmp_path, antialias=1)
