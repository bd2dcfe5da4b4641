"""Networks of one product of matrices each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True)
class Product:
    """A product, told apart by its columns.

    Attributes
    ----------
    batch
        Axes of both operands before their matrices.
    constant
        Whether the right operand is a constant, with a bias, a residual and a ReLU behind the product.
    turned
        Operands that are transposed before they are multiplied: "a", "b", or both.
    """

    rows: int
    inner: int
    columns: int
    batch: tuple[int, ...] = ()
    constant: bool = True
    turned: str = ""

    def model(self) -> onnx.ModelProto:
        """Return the network."""
        random = np.random.default_rng(0)
        a, b = (self.rows, self.inner), (self.inner, self.columns)
        out = (*self.batch, self.rows, self.columns)
        axes = [*range(len(self.batch)), len(self.batch) + 1, len(self.batch)]
        nodes, shapes, constants = [], {}, {}
        for name, shape in (("a", a), ("b", b)):
            turned = name in self.turned
            shapes[name] = (*self.batch, *(shape[::-1] if turned else shape))
            if turned:
                nodes.append(helper.make_node("Transpose", [name], [f"{name}t"], perm=axes))
        factors = [f"{name}t" if name in self.turned else name for name in "ab"]
        nodes.append(helper.make_node("MatMul", factors, ["p"]))
        if self.constant:
            constants["b"] = (random.standard_normal(shapes.pop("b")) / np.sqrt(self.inner)).astype("f4")
            constants["c"] = random.standard_normal(self.columns).astype("f4")
            shapes["r"] = out
            nodes += [
                helper.make_node("Add", ["p", "c"], ["q"]),
                helper.make_node("Add", ["q", "r"], ["s"]),
                helper.make_node("Relu", ["s"], ["y"]),
            ]
        else:
            nodes.append(helper.make_node("Tanh", ["p"], ["y"]))
        graph = helper.make_graph(
            nodes,
            "product",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, out)],
            [numpy_helper.from_array(value, name) for name, value in constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)
