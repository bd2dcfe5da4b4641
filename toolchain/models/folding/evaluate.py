"""Runs single nodes on known values with onnxruntime, whose kernels also compute the reference."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from toolchain.arrays import Array
from toolchain.imports.onnxruntime_import import onnxruntime
from toolchain.models.folding.constants import Constant
from toolchain.models.onnx_graph import attributes_of
from toolchain.models.reading.onnx_file import for_onnxruntime

# Computes what files make of stored tensors in types of few bits: int4, 8-bit floats and their like.
#
# No code of a board computes in such types. As weights they are only a way to store numbers.

FEW_BITS = frozenset(
    code
    for name, code in TensorProto.DataType.items()
    if name.startswith(("INT2", "INT4", "UINT2", "UINT4", "FLOAT4", "FLOAT8"))
)


def is_of_few_bits(constant: Constant | None) -> bool:
    """Whether a known tensor has elements of less than a byte, or 8-bit floats."""
    return constant is not None and constant.type.tensor_type.elem_type in FEW_BITS


def widened(node: onnx.NodeProto, inputs: Sequence[Constant | None]) -> list[Array | None] | None:
    """Return the plain numbers to which a node converts a tensor of few bits; None for other nodes."""
    if not inputs or not is_of_few_bits(inputs[0]) or node.domain not in ("", "ai.onnx"):
        return None
    attributes = attributes_of(node)
    stored = inputs[0].array  # type: ignore[union-attr]  # it is one, as was just asked
    if node.op_type == "Cast" and attributes["to"] not in FEW_BITS:
        return [stored.astype(helper.tensor_dtype_to_np_dtype(attributes["to"]))]
    if node.op_type != "DequantizeLinear" or len(inputs) < 2 or inputs[1] is None:
        return None
    scale = inputs[1].array
    if scale.dtype not in (np.float32, np.float16):
        return None
    zero = inputs[2].array if len(inputs) > 2 and inputs[2] is not None else np.zeros((), np.float32)
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    factors, middles = (
        _spread(parameter.astype(np.float32), stored.shape, axis, block) for parameter in (scale, zero)
    )
    return [((stored.astype(np.float32) - middles) * factors).astype(scale.dtype)]


def _spread(values: Array, shape: tuple[int, ...], axis: int, block: int) -> Array:
    """Return scales or zero points in a shape that broadcasts to `shape`."""
    if values.size == 1:
        return values.reshape(())
    if block:
        repeated = np.repeat(values, block, axis)
        return np.take(repeated, np.arange(shape[axis]), axis)
    return values.reshape([-1 if place == axis % len(shape) else 1 for place in range(len(shape))])


KEPT = 256
"""Number of cached sessions: creating one takes a thousand times as long as running it."""

_DRAWN = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
RANDOM = frozenset({*_DRAWN, "Bernoulli", "Dropout", "Multinomial"})
"""Operators whose results differ from run to run; `Dropout` does in training mode only."""

_CODES = {
    "tensor(float)": onnx.TensorProto.FLOAT,
    "tensor(double)": onnx.TensorProto.DOUBLE,
    "tensor(float16)": onnx.TensorProto.FLOAT16,
    "tensor(bool)": onnx.TensorProto.BOOL,
    **{f"tensor(int{bits})": getattr(onnx.TensorProto, f"INT{bits}") for bits in (8, 16, 32, 64)},
    **{f"tensor(uint{bits})": getattr(onnx.TensorProto, f"UINT{bits}") for bits in (8, 16, 32, 64)},
}


class NodeEvaluator:
    """Computes nodes of one model.

    Parameters
    ----------
    model
        The model whose operator sets define the nodes.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self._opsets = list(model.opset_import)
        self._ir = model.ir_version
        self._sessions: OrderedDict[tuple[object, ...], onnxruntime.InferenceSession | None] = OrderedDict()

    def run(self, node: onnx.NodeProto, inputs: Sequence[Constant | None]) -> list[Array | None] | None:
        """Return the outputs of a node, None for an omitted output; return None if the node cannot run."""
        if any(constant is not None and not _plain(constant) for constant in inputs):
            return widened(node, inputs)
        try:
            arrays = [None if constant is None else constant.array for constant in inputs]
        except ValueError:  # more dimensions than numpy has, or less data than it needs
            return None
        if node.op_type in ("Div", "Mod") and _overflows(arrays):
            return None
        session = self._session(node, arrays)
        if session is None:
            return None
        feed = {f"i{index}": array for index, array in enumerate(arrays) if array is not None}
        try:
            results = iter(session.run(None, feed))
        except Exception:  # onnxruntime's errors have no common parent; the node stays as it is
            return None
        outputs = [next(results) if name else None for name in node.output]
        return (
            outputs if all(output is None or isinstance(output, np.ndarray) for output in outputs) else None
        )

    def types(
        self, node: onnx.NodeProto, types: dict[str, onnx.TypeProto], values: dict[str, onnx.TensorProto]
    ) -> dict[str, onnx.TypeProto]:
        """Return the output types that onnxruntime infers, for operators unknown to onnx."""
        inputs = [
            helper.make_value_info(name, types[name]) for name in dict.fromkeys(node.input) if name in types
        ]
        stored = []
        for name, tensor in values.items():
            stored.append(onnx.TensorProto())
            stored[-1].CopyFrom(tensor)
            stored[-1].name = name
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        session = self._new_session(
            [node], [value for value in inputs if value.name not in values], outputs, stored
        )
        if session is None:
            return {}
        return {
            output.name: helper.make_tensor_type_proto(
                _CODES[output.type], [d if isinstance(d, int) else None for d in output.shape]
            )
            for output in session.get_outputs()
            if output.type in _CODES and output.shape  # an empty one may be unknown as well as a scalar's
        }

    def _session(
        self, node: onnx.NodeProto, arrays: Sequence[Array | None]
    ) -> onnxruntime.InferenceSession | None:
        kinds = tuple(None if array is None else array.dtype.name for array in arrays)
        attributes = b"\0".join(
            attribute.SerializeToString(deterministic=True) for attribute in node.attribute
        )
        key = (node.domain, node.op_type, kinds, tuple(map(bool, node.output)), attributes)
        if key in self._sessions:
            self._sessions.move_to_end(key)
            return self._sessions[key]
        renamed = onnx.NodeProto()
        renamed.CopyFrom(node)
        del renamed.input[:], renamed.output[:]
        renamed.input.extend("" if array is None else f"i{i}" for i, array in enumerate(arrays))
        renamed.output.extend(f"o{i}" if name else "" for i, name in enumerate(node.output))
        inputs = [
            helper.make_tensor_value_info(f"i{i}", helper.np_dtype_to_tensor_dtype(array.dtype), None)
            for i, array in enumerate(arrays)
            if array is not None
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in renamed.output if name]
        session = self._new_session([renamed], inputs, outputs, [])
        self._sessions[key] = session
        if len(self._sessions) > KEPT:
            self._sessions.popitem(last=False)
        return session

    def _new_session(
        self,
        nodes: list[onnx.NodeProto],
        inputs: list[onnx.ValueInfoProto],
        outputs: list[onnx.ValueInfoProto],
        stored: list[onnx.TensorProto],
    ) -> onnxruntime.InferenceSession | None:
        graph = helper.make_graph(nodes, "node", inputs, outputs, stored)
        model = helper.make_model(
            graph, opset_imports=for_onnxruntime(self._opsets, nodes), ir_version=self._ir
        )
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # what it cannot run stays in the graph, and is judged there
        try:
            return onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception:
            return None


def _overflows(arrays: Sequence[Array | None]) -> bool:
    """Whether the least integer may be divided by -1, which crashes onnxruntime."""
    x, divisor = arrays
    if x is None or divisor is None or x.dtype.kind != "i":
        return False
    return bool((x == np.iinfo(x.dtype).min).any() and (divisor == -1).any())


def _plain(constant: Constant) -> bool:
    """Whether numpy itself has the type; onnxruntime accepts no others from Python."""
    code = constant.type.tensor_type.elem_type
    return code in _CODES.values()
