"""Imports an ONNX graph as a Relax module: float16 as float32, and refusals of what cannot be compiled."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote
from typing import TYPE_CHECKING

import onnx
from onnx import TensorProto, helper, numpy_helper

from toolchain.errors import UsageError
from toolchain.foreign import printable
from toolchain.models.bounds import with_checks
from toolchain.models.folding.constants import reason, shown_inputs
from toolchain.models.folding.finish import COUNTING
from toolchain.models.folding.folded import Folded
from toolchain.models.onnx_graph import (
    CONTROL,
    Names,
    all_names,
    all_nodes,
    called,
    dtype_of_code,
    nested_nodes,
    node_name,
    opset_of,
    tensors_of,
    type_name,
)
from toolchain.models.preparing.infer_shapes import with_explicit_pads
from toolchain.models.preparing.modernise import with_slices_by_inputs
from toolchain.models.preparing.norms import fold_batch_norms
from toolchain.models.preparing.prepare import cut_points, outputs_option, read_by
from toolchain.models.preparing.tensor_types import dimensions
from toolchain.models.rewrites import RULES, operator_of
from toolchain.models.rewrites.fused import SAVED_WITHOUT
from toolchain.models.rewrites.resampling import with_new_resizes
from toolchain.models.spec import NUMBERS, TensorSpec

if TYPE_CHECKING:
    import tvm


# Imports float16 files as float32, since few cores compute in float16 and float32 is at least as exact.
#
# Inputs and outputs keep their type, and weights keep their values. `--dtype float16` computes such a file
# in float16 if the board can, as it does any other file.

HALF, FULL = TensorProto.FLOAT16, TensorProto.FLOAT
CODES = frozenset({"to", "dtype", "output_dtype", "stash_type"})
"""Attributes that give the type of a result."""


def holds_float16(model: onnx.ModelProto) -> bool:
    """Whether a model has inputs, outputs or stored tensors of float16, or casts to it."""
    values = (*model.graph.input, *model.graph.output)
    if any(value.type.tensor_type.elem_type == HALF for value in values):
        return True
    if any(tensor.data_type == HALF for tensor in tensors_of(model)):
        return True
    bodies = (node for function in model.functions for node in nested_nodes(function.node))
    return any(
        _is_code(attribute) for node in (*all_nodes(model.graph), *bodies) for attribute in node.attribute
    )


def as_float32(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a static graph without branches with float32 in place of float16; itself if it has none.

    The caller must infer the types of inner tensors again.
    """
    if not holds_float16(model) or any(node.op_type == "BitCast" for node in model.graph.node):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    del graph.value_info[:]
    for tensor in graph.initializer:
        _widen(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if _is_code(attribute):
                attribute.i = FULL
            elif attribute.HasField("t"):
                _widen(attribute.t)
    used = Names(all_names(graph))
    ends = sorted(_halves(graph.input) | _halves(graph.output))
    names = {name: used.free(f"{name}/float32") for name in ends}
    for node in graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = names.get(name, name)
        for place, name in enumerate(node.output):
            node.output[place] = names.get(name, name)
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)

    def cast(source: str, target: str, code: int) -> onnx.NodeProto:
        return helper.make_node("Cast", [source], [target], used.free(f"{target}/cast"), to=code)

    before = [cast(name, names[name], FULL) for name in sorted(_halves(graph.input))]
    after = [cast(names[name], name, HALF) for name in sorted(_halves(graph.output))]
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    return copy


def _is_code(attribute: onnx.AttributeProto) -> bool:
    return attribute.name in CODES and attribute.type == onnx.AttributeProto.INT and attribute.i == HALF


def _halves(values: list[onnx.ValueInfoProto]) -> set[str]:
    return {value.name for value in values if value.type.tensor_type.elem_type == HALF}


def _widen(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == HALF:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype("float32"), tensor.name))


# The names of operators that the import knows: so that a file is refused before TVM is imported.

MICROSOFT = "com.microsoft"
"""Domain of onnxruntime's own operators."""

OF_MICROSOFT = frozenset({"DequantizeLinear", "DynamicQuantizeLSTM", "QuantizeLinear"})
"""Operators of `com.microsoft` that TVM's importer converts; `models.rewrites` replaces others before."""

_NAMES = """
Abs Acos Acosh Add AffineGrid AllClassNMS And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool
BatchNormalization BiasGelu BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil
CheckDivisor CheckIndices Clip Compress Concat ConcatFromSequence Constant ConstantOfShape Conv
ConvTranspose Cos Cosh CumProd CumSum DepthToSpace DequantizeLinear Div Dropout DynamicQuantizeLSTM
DynamicQuantizeLinear Einsum Elu EmbedLayerNormalization Equal Erf Exp Expand EyeLike FastGelu Flatten Floor
GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater
GreaterOrEqual GridSample GroupNormalization HardSigmoid HardSwish Hardmax Identity If InstanceNormalization
IntegerConv IntegerConvSum IntegerRound IsInf IsNaN LRN LSTM LayerNormalization LeakyRelu Less LessOrEqual
Log LogSoftmax LpPool MatMul MatMulInteger MatMulInteger16 Max MaxPool MaxRoiPool MaxUnpool Mean
MeanVarianceNormalization Min Mish Mod Mul Neg NonMaxSuppression NonZero Not OneHot Optional
OptionalGetElement OptionalHasElement Or PRelu Pad Pow QuantizeLinear RMSNormalization RNN Range Reciprocal
ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
ReduceSumSquare Relu Reshape Resize ReverseSequence RoiAlign Round Scatter ScatterElements ScatterND Selu
SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength Shape Shrink Sigmoid
Sign Sin Sinh Size SkipLayerNormalization Slice Softmax Softplus Softsign SpaceToDepth Split SplitToSequence
Sqrt Squeeze Sub Sum Tan Tanh TensorScatter ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze
Upsample Where Xor
"""

OPERATORS = frozenset(_NAMES.split())
"""Standard operators, and our own, that TVM's importer or `converters.CONVERTERS` can convert."""


HINT_ONE = "check the shapes with `toolchain model inspect`, or export the network without this node"


def unsupported_operators(model: onnx.ModelProto, *, inside: bool = False) -> dict[str, list[onnx.NodeProto]]:
    """Return the nodes that cannot be imported, by operator, in model order.

    Parameters
    ----------
    inside
        Include nodes in the graphs of `If`, `Loop` and `Scan`, which may not be needed.
    """
    unsupported: dict[str, list[onnx.NodeProto]] = {}
    for node in all_nodes(model.graph) if inside else model.graph.node:
        known = {
            "": node.op_type in CONTROL  # which folding writes flat, or says why it cannot
            or node.op_type in OPERATORS,
            MICROSOFT: node.op_type in OF_MICROSOFT,
        }
        domain = "" if node.domain == "ai.onnx" else node.domain
        if not known.get(domain, False) and operator_of(node) not in RULES:
            unsupported.setdefault(operator_of(node), []).append(node)
    return unsupported


def import_module(model: onnx.ModelProto, origin: str) -> tvm.ir.IRModule:
    """Import a static, checked model to Relax; the i-th parameter of `main` is the i-th true input.

    Batch norms are folded into the convolutions before them; old resizes and slices are replaced.
    Indices and divisors are checked before they are used.

    Raises
    ------
    UsageError
        An operator is used in a way that cannot be imported; names the node.
    """
    from toolchain import tvm_compat
    from toolchain.models.importing.converters import CONVERTERS

    checked = with_slices_by_inputs(with_checks(model, origin))
    readable = with_explicit_pads(with_new_resizes(checked, origin))
    try:
        return tvm_compat.import_onnx(fold_batch_norms(readable).graph, opset_of(model), CONVERTERS)
    except tvm_compat.NodeImportError as error:
        node = next((node for node in readable.graph.node if node_name(node) == error.node), onnx.NodeProto())
        given = shown_inputs(node, _types(readable.graph))
        what = f"unsupported use of {error.operator} (node {printable(repr(error.node))}){given}"
        raise UsageError(f"{origin}: {what}: {reason(error)}", HINT_ONE) from error
    except Exception as error:  # any other error of TVM for a graph that onnx accepts
        raise UsageError(f"{origin}: cannot be imported: {reason(error)}", HINT_ONE) from error


def _types(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    types = {value.name: value.type for value in (*graph.input, *graph.value_info, *graph.output)}
    for tensor in graph.initializer:
        types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    return types


def output_specs(model: onnx.ModelProto, module: tvm.ir.IRModule, origin: str) -> tuple[TensorSpec, ...]:
    """Return the outputs in model order, with the shapes that Relax deduced.

    Raises
    ------
    UsageError
        The shape of an output depends on the data.
    """
    from tvm import relax, tirx

    returned = module["main"].ret_ty
    types = list(returned.fields) if isinstance(returned, relax.TupleType) else [returned]
    specs = []
    for value, type_ in zip(model.graph.output, types, strict=True):
        shape = getattr(type_, "shape", None)
        if shape is None or not all(isinstance(extent, tirx.IntImm) for extent in shape):
            raise UsageError(
                f"{origin}: the shape of output {value.name!r} depends on the data",
                "export the network without this output, or with a fixed shape",
            )
        specs.append(TensorSpec(value.name, tuple(int(extent) for extent in shape), str(type_.dtype)))
    return tuple(specs)


# Refuses graphs that cannot be compiled, and suggests how to compile a part of them.

NODES_SHOWN = 5
SMALL = 16
"""Most elements of an input that users may want as a constant, such as a sample rate or a threshold."""

_DECIDING = {"If": slice(0, 1), "Loop": slice(0, 2)}
"""Operator -> which of its inputs decide a shape; for other operators all inputs but the first."""


def check_compiles(folded: Folded, source: onnx.ModelProto, origin: str) -> None:
    """Refuse a graph with nodes that cannot be compiled; the message lists all unsupported operators.

    Parameters
    ----------
    folded
        The graph to import.
    source
        The original graph.
    origin
        Name of the source, for messages.

    Raises
    ------
    UsageError
        The message names the nodes; the hint says at which tensors the graph can be cut.
    """
    unsupported = unsupported_operators(folded.model)
    if unsupported:
        listed = "; ".join(f"{operator} ({_some(nodes)})" for operator, nodes in unsupported.items())
        hint = "export the network without these (`toolchain model inspect` lists the operators)"
        if all(operator.startswith(MICROSOFT) for operator in unsupported):  # its layouts are domains of it
            hint = SAVED_WITHOUT
        raise UsageError(
            f"{origin}: unsupported operators: {printable(listed)}", hint + _or_cut(folded, source)
        )
    if folded.problems:
        problem = folded.problems[0]
        name = printable(repr(node_name(problem.node)))
        if freeze := inputs_to_freeze(folded):
            values = " ".join(f"--input-value {quote(input_)}=V" for input_ in freeze)
            hint = f"if {' and '.join(map(repr, freeze))} never changes, make it a constant: {values}"
        else:
            hint = "export the network without this node" + _or_cut(folded, source)
        raise UsageError(f"{origin}: {problem.node.op_type} (node {name}) {problem.reason}", hint)


def check_element_types(model: onnx.ModelProto, origin: str) -> None:
    """Refuse a graph with nodes that compute in types of few bits, or in others without code.

    Raises
    ------
    UsageError
        The message names the first node.
    """
    graph = model.graph
    types = {tensor.name: dtype_of_code(tensor.data_type) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.type.WhichOneof("value") == "tensor_type" and value.type.tensor_type.elem_type:
            types[value.name] = type_name(value.type)
    ends = {value.name for value in (*graph.input, *graph.output)}  # refused in words of their own
    for node in graph.node:
        for name in (*node.input, *node.output):
            if types.get(name, "bool") not in NUMBERS and name not in ends:
                raise UsageError(
                    f"{origin}: {called(node)} computes in {types[name]}, for which there is no code",
                    "export the network with activations of float32, or quantised to int8; weights alone may "
                    "be of int4 or of 8-bit floats",
                )


def ways_to_cut(folded: Folded, source: onnx.ModelProto) -> list[str]:
    """Return the last tensors before nodes that cannot be compiled; empty if freezing inputs helps."""
    if not unsupported_operators(folded.model) and inputs_to_freeze(folded):
        return []
    nodes = [problem.node for problem in folded.problems]
    for unsupported in unsupported_operators(folded.model).values():
        nodes += unsupported
    bad = {next(filter(None, node.output), "") for node in nodes}
    return cut_points(folded.model.graph, bad, source.graph) if bad else []


def _or_cut(folded: Folded, source: onnx.ModelProto) -> str:
    names = ways_to_cut(folded, source)
    if not names:
        return ""
    return f"; or build what comes before, and do the rest in your own program: {outputs_option(names)}"


def inputs_to_freeze(folded: Folded) -> list[str]:
    """Return the inputs that control the first node that cannot be compiled, if few and small; else none."""
    if not folded.problems or folded.problems[0].node.op_type in COUNTING:
        return []
    node = folded.problems[0].node
    makers = {name: node for node in folded.model.graph.node for name in node.output if name}
    inputs = {value.name: value for value in folded.model.graph.input}
    deciding = [name for name in node.input[_DECIDING.get(node.op_type, slice(1, None))] if name]
    seen: set[str] = set()
    while deciding:
        name = deciding.pop()
        if name not in seen and name in makers:
            deciding += read_by(makers[name])
        seen.add(name)
    frozen = [name for name in inputs if name in seen]
    small = all(_is_small(inputs[name]) for name in frozen)
    return frozen if small and len(frozen) < len(inputs) else []


def _is_small(value: onnx.ValueInfoProto) -> bool:
    count = 1
    for extent in dimensions(value) or ():
        count *= extent if isinstance(extent, int) else SMALL
    return count <= SMALL


def _some(nodes: Iterable[onnx.NodeProto]) -> str:
    names = [node_name(node) for node in nodes]
    more = len(names) - NODES_SHOWN
    return ", ".join(names[:NODES_SHOWN]) + (f" and {more} more" if more > 0 else "")
