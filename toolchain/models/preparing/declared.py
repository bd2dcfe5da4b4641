"""The shapes and element types that a file declares for its values."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from toolchain.models.spec import TensorSpec
from toolchain.models.walk import input_values, type_name

Dimension = int | str
"""An extent, or the name of an open dimension (`?` if the file gives no name)."""

Shape = tuple[Dimension, ...]

NAMELESS = frozenset({"?", "-1", "None"})
"""Dimension names that mean "no name"; exporters write them."""


def dimensions(value: onnx.ValueInfoProto) -> Shape | None:
    """Return the shape that `value` declares; None if even the rank is unknown."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(
        dim.dim_value if dim.dim_value > 0 else dimension_name(dim) or "?" for dim in tensor.shape.dim
    )


def dimension_name(dim: onnx.TensorShapeProto.Dimension) -> str:
    """Return the name of an open dimension; empty if it has none.

    Exporters use "unknown" for several different dimensions, so it counts as no name.
    """
    return "" if dim.dim_param.startswith("unk__") or dim.dim_param in NAMELESS else dim.dim_param


def dtype_of(value: onnx.ValueInfoProto) -> str:
    """Return the numpy name of the element type; `string`, or `?` if it is unknown."""
    return type_name(value.type)


def input_specs(model: onnx.ModelProto) -> tuple[TensorSpec, ...]:
    """Return the true inputs of a static model, in model order."""
    return tuple(
        TensorSpec(
            value.name, tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim), dtype_of(value)
        )
        for value in input_values(model.graph)
    )


def open_inputs(inputs: Iterable[onnx.ValueInfoProto]) -> dict[str, Shape | None]:
    """Return name -> shape of the inputs whose shapes are not static."""
    shapes = {value.name: dimensions(value) for value in inputs}
    return {
        name: shape
        for name, shape in shapes.items()
        if shape is None or any(isinstance(extent, str) for extent in shape)
    }


def sized(shape: Shape) -> tuple[int, ...]:
    """Return the known extents of a shape."""
    return tuple(extent for extent in shape if isinstance(extent, int))
