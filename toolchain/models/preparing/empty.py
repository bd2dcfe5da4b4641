"""Refuses empty tensors."""

from __future__ import annotations

import onnx

from toolchain.errors import UsageError
from toolchain.models.options import format_shape
from toolchain.models.walk import called

TAKES_NOTHING = frozenset({"Pad", "Reshape", "Resize", "Slice", "Squeeze", "Unsqueeze", "Upsample"})
"""Operators for which an empty parameter means the same as an omitted one."""


def check_not_empty(model: onnx.ModelProto, origin: str) -> None:
    """Refuse a static graph whose nodes read empty tensors: no code can be generated for these.

    Raises
    ------
    UsageError
        The message names the first of them.
    """
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        dims = value.type.tensor_type.shape.dim
        shapes[value.name] = tuple(dim.dim_value if dim.HasField("dim_value") else 1 for dim in dims)
    read = {name for node in model.graph.node for name in node.input if node.op_type not in TAKES_NOTHING}
    read |= {value.name for value in model.graph.output}
    for name, shape in shapes.items():
        if 0 in shape and name in read:
            maker = next((node for node in model.graph.node if name in node.output), None)
            of = f", the result of {called(maker)}," if maker is not None else ""
            raise UsageError(
                f"{origin}: the tensor {format_shape(name, shape)}{of} is empty",
                "export the network without it",
            )
