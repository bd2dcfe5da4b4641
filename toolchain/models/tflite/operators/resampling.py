"""Resizing of images."""

from __future__ import annotations

from toolchain.models.tflite.call import OperatorCall, Rule
from toolchain.models.tflite.layout import ChannelOrder


def _resized(mode: str) -> Rule:
    def rule(call: OperatorCall) -> None:
        graph, x = call.graph, call.input(0)
        height, width = call.numbers(1, "the size of its output")
        centres = call.option("half_pixel_centers", False)
        corners = call.option("align_corners", False)
        if centres and corners:
            raise ValueError("align_corners and half_pixel_centers")
        # Of half pixels TensorFlow takes the floor of (i + 0.5) * scale: ONNX's coordinate is less by a half.
        nearest = "round_prefer_ceil" if centres or corners else "floor"
        made = graph.emit(
            "Resize",
            [
                graph.real(x.index, ChannelOrder.FIRST),
                "",
                "",
                graph.integers([x.shape[0], x.shape[3], height, width]),
            ],
            call.output.name,
            mode=mode,
            coordinate_transformation_mode="align_corners"
            if corners
            else "half_pixel"
            if centres
            else "asymmetric",
            nearest_mode=nearest,
        )
        graph.result(call.output.index, made, ChannelOrder.FIRST)

    return rule


RULES: dict[str, Rule] = {
    "RESIZE_BILINEAR": _resized("linear"),
    "RESIZE_NEAREST_NEIGHBOR": _resized("nearest"),
}
