"""Converts a graph to the subset of ONNX that both the importer and onnxruntime understand."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import defs, helper, inliner, numpy_helper, shape_inference, version_converter

from toolchain.errors import UsageError
from toolchain.foreign import first_line, printable
from toolchain.models.folding.constants import dense
from toolchain.models.onnx_graph import (
    Names,
    all_graphs,
    all_names,
    all_nodes,
    attributes_of,
    nested_nodes,
    node_name,
    nodes_of,
    opset_of,
)
from toolchain.models.preparing.norms import write_early_norms
from toolchain.models.preparing.validity import check_expansion
from toolchain.models.recurrent.recurrence import GATES

# Makes `Slice` of operator sets before 10, which cuts by attributes, readable for onnx and TVM.

_INPUTS_SINCE = 10


def with_slices_by_inputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return `model` with the attributes of `Slice` as constant inputs; the same object if nothing changes.

    TVM's importer does not read these attributes. The operator set is not raised: only TVM reads the result.
    """
    if opset_of(model) >= _INPUTS_SINCE or not any(map(_is_slice, all_nodes(model.graph))):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in filter(_is_slice, all_nodes(copy.graph)):
        attributes = attributes_of(node)
        starts = attributes["starts"]
        parts = {
            "starts": starts,
            "ends": attributes["ends"],
            "axes": attributes.get("axes", range(len(starts))),
        }
        del node.attribute[:]
        for part, numbers in parts.items():
            name = f"{node.output[0]}/{part}"
            copy.graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.int64), name))
            node.input.append(name)
    return copy


def sort_axes(model: onnx.ModelProto) -> None:
    """Sort the axes of `Slice` nodes with attributes, in place: onnx infers no shape for unsorted axes."""
    for node in filter(_is_slice, all_nodes(model.graph)):
        attributes = {attribute.name: attribute.ints for attribute in node.attribute}
        lists = [attributes.get(name, ()) for name in ("axes", "starts", "ends")]
        cuts = sorted(zip(*lists, strict=False))
        if all(len(values) == len(cuts) for values in lists):  # else the file is refused later
            for numbers, ordered in zip(lists, zip(*cuts, strict=True), strict=False):
                numbers[:] = ordered


def _is_slice(node: onnx.NodeProto) -> bool:
    return node.op_type == "Slice" and len(node.input) == 1


# Rewrites recurrent nodes whose first axis is the batch (`layout` 1) to layout 0, the only supported one.

# Layout 0 of X and Y_h as layout 1 has it, and back: (batch, steps, size) and (batch, directions, units).
_SWAPPED = (1, 0, 2)
# Y of layout 1 from that of layout 0: (steps, directions, batch, units) to (batch, steps, directions, units).
_OUTPUT = (2, 0, 1, 3)
_BATCHED_INPUTS = (0, 5, 6)  # X, initial_h, initial_c


def steps_first(model: onnx.ModelProto) -> None:
    """Insert transposes around the model's recurrent nodes of layout 1, in place."""
    names: Names | None = None
    for graph in all_graphs(model.graph):
        if not any(map(_batchwise, graph.node)):
            continue
        if names is None:
            names = Names(all_names(model.graph))
        nodes = [rewritten for node in graph.node for rewritten in _rewritten(node, names)]
        del graph.node[:]
        graph.node.extend(nodes)


def _batchwise(node: onnx.NodeProto) -> bool:
    return (
        node.op_type in GATES
        and node.domain in ("", "ai.onnx")
        and any(attribute.name == "layout" and attribute.i == 1 for attribute in node.attribute)
    )


def _rewritten(node: onnx.NodeProto, names: Names) -> Iterator[onnx.NodeProto]:
    if not _batchwise(node):
        yield node
        return
    rewritten = onnx.NodeProto()
    rewritten.CopyFrom(node)
    del rewritten.attribute[:]
    rewritten.attribute.extend(attribute for attribute in node.attribute if attribute.name != "layout")
    for place in _BATCHED_INPUTS:
        if place < len(node.input) and node.input[place]:
            rewritten.input[place] = names.free(f"{node.input[place]}_steps_first")
            yield helper.make_node("Transpose", [node.input[place]], [rewritten.input[place]], perm=_SWAPPED)
    for place, name in enumerate(node.output):
        if name:
            rewritten.output[place] = names.free(f"{name}_steps_first")
    yield rewritten
    for place, name in enumerate(node.output):
        if name:
            order = _SWAPPED if place else _OUTPUT
            yield helper.make_node("Transpose", [rewritten.output[place]], [name], perm=order)


OLDEST_OPSET = 7
"""onnxruntime runs operator set 7 and newer (its documentation, "Compatibility")."""

NEWEST_OPSET = defs.onnx_opset_version()
"""The newest operator set known to onnx. onnxruntime loads sets up to `onnx_file.NEWEST`."""

WRITTEN_OPSET = 17
"""Operator set in which other domains' operators are replaced, for a file that declares no standard set."""

SHORT_CONSTANTS = {
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
}
"""Attributes of `Constant` that TVM's importer does not read -> type of the tensor they mean."""


def modernise(model: onnx.ModelProto, origin: str) -> onnx.ModelProto:
    """Return `model` without its own functions and old operators, with constants as tensors.

    Returns
    -------
    ModelProto
        A copy; the same object if nothing had to be changed.

    Raises
    ------
    UsageError
        onnx cannot convert the model, or does not know its operator set yet.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    _drop_empty_types(copy)
    _one_name_of_the_standard(copy)
    _declare_once(copy, origin)
    _check_opset(copy, origin)
    try:
        if copy.functions:
            check_expansion(copy, origin)
            copy = _with_functions_written_out(copy)
        if not any(opset.domain in ("", "ai.onnx") for opset in copy.opset_import):
            copy.opset_import.append(helper.make_opsetid("", WRITTEN_OPSET))
        if opset_of(copy) < OLDEST_OPSET:
            _list_stored(copy.graph)
            _slopes_by_channel(copy)
            copy = version_converter.convert_version(copy, OLDEST_OPSET)
    except UsageError:
        raise
    except Exception as error:  # their C++ side has no error class of its own
        raise UsageError(
            f"{origin} cannot be brought to operator set {OLDEST_OPSET}: {first_line(error)}",
            "export it again, with a newer operator set and without functions",
        ) from error
    for node in all_nodes(copy.graph):
        if node.op_type == "Constant":
            try:
                spell_out(node)
            except ValueError as error:
                what = f"the sparse value of Constant (node {printable(repr(node_name(node)))}) is broken"
                raise UsageError(f"{origin}: {what}: {first_line(error)}", "export it again") from error
    write_early_norms(copy)
    sort_axes(copy)
    steps_first(copy)
    return model if copy == model else copy


def _with_functions_written_out(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace the calls of the model's own functions by their bodies.

    onnx's inliner ignores the defaults of a function's attributes: a node of the body that refers to one
    would get the default of its own operator. So each call gets these attributes before it is inlined, calls
    of the graph first, since the attributes of calls in their bodies depend on them.
    """
    keys = _reachable(model)
    kept = [function for function in model.functions if (function.domain, function.name) in keys]
    del model.functions[:]
    model.functions.extend(kept)
    while model.functions:
        functions = {
            (function.domain, function.name, function.overload): function for function in model.functions
        }
        for node in all_nodes(model.graph):
            function = functions.get((node.domain, node.op_type, node.overload))
            given = {attribute.name for attribute in node.attribute}
            for default in function.attribute_proto if function else ():
                if default.name not in given:
                    node.attribute.append(default)
        inner = {(n.domain, n.op_type) for function in model.functions for n in nested_nodes(function.node)}
        outermost = {(function.domain, function.name) for function in model.functions} - inner
        model = inliner.inline_selected_functions(model, sorted(outermost), exclude=False)
    return model


def _reachable(model: onnx.ModelProto) -> set[tuple[str, str]]:
    """Return domain and name of the functions that the graph calls, directly or through others."""
    reached: set[tuple[str, str]] = set()
    calls = {(node.domain, node.op_type) for node in all_nodes(model.graph)}
    while calls:
        reached |= calls
        bodies = (function.node for function in model.functions if (function.domain, function.name) in calls)
        calls = {(n.domain, n.op_type) for body in bodies for n in nested_nodes(body)} - reached
    return reached


def _one_name_of_the_standard(model: onnx.ModelProto) -> None:
    """Rename the domain `ai.onnx` to the empty name, the only one onnx's checker accepts."""
    for opset in (
        *model.opset_import,
        *(opset for function in model.functions for opset in function.opset_import),
    ):
        if opset.domain == "ai.onnx":
            opset.domain = ""
    for node in nodes_of(model):
        if node.domain == "ai.onnx":
            node.domain = ""


def _drop_empty_types(model: onnx.ModelProto) -> None:
    """Drop types without an element type or without a shape: they follow from the nodes.

    Tools that add outputs write such types. onnx's checker refuses them, and onnxruntime some of them.
    """
    for graph in all_graphs(model.graph):
        for value in graph.output:
            if not (_names_elements(value) and _has_shape(value)):
                value.ClearField("type")
        typed = [value for value in graph.value_info if _names_elements(value)]
        if len(typed) < len(graph.value_info):
            del graph.value_info[:]
            graph.value_info.extend(typed)


def _names_elements(value: onnx.ValueInfoProto) -> bool:
    kind = value.type.WhichOneof("value")
    return kind is not None and (kind != "tensor_type" or value.type.tensor_type.elem_type != 0)


def _has_shape(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.WhichOneof("value") != "tensor_type" or value.type.tensor_type.HasField("shape"))


def _declare_once(model: onnx.ModelProto, origin: str) -> None:
    """Keep one operator set per domain; merged files may declare several.

    ONNX uses the newest version and onnxruntime the last one, so refuse the file if these differ.
    """
    versions: dict[str, list[int]] = {}
    for opset in model.opset_import:
        versions.setdefault("" if opset.domain == "ai.onnx" else opset.domain, []).append(opset.version)
    for domain, declared in versions.items():
        if declared[-1] < max(declared):
            raise UsageError(
                f"{origin} declares several operator sets of {printable(domain) or 'ONNX'} "
                f"({', '.join(map(str, declared))}): ONNX means the newest, onnxruntime would take the last",
                "export it again; of merged models, convert each to one set before: "
                "onnx.version_converter.convert_version",
            )
    if len(versions) < len(model.opset_import):
        del model.opset_import[:]
        model.opset_import.extend(helper.make_opsetid(name, last) for name, (*_, last) in versions.items())


def _check_opset(model: onnx.ModelProto, origin: str) -> None:
    versions = [opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")]
    if not versions and any(node.domain in ("", "ai.onnx") for node in model.graph.node):
        raise UsageError(
            f"{origin} declares no operator set, so that its operators mean nothing", "export it again"
        )
    if versions and not 1 <= versions[0] <= NEWEST_OPSET:
        raise UsageError(
            f"{origin} has operators of set {versions[0]}; known are 1 to {NEWEST_OPSET}",
            f"export it again with an older one: opset_version={NEWEST_OPSET - 6} in torch.onnx.export, "
            f"--opset {NEWEST_OPSET - 6} of tf2onnx",
        )


def _list_stored(graph: onnx.GraphProto) -> None:
    """List stored tensors among the inputs, as old files do; onnx's version converter needs that."""
    listed = {value.name for value in graph.input}
    for tensor in graph.initializer:
        if tensor.name not in listed:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))


def _slopes_by_channel(model: onnx.ModelProto) -> None:
    """Reshape stored slopes of `PRelu` for operator set 7; before, [C] meant one slope for each channel.

    onnx's converter does not change them, and [C] would then mean the last axis.
    """
    slopes = {tensor.name: tensor for tensor in model.graph.initializer}
    known = shape_inference.infer_shapes(model).graph
    values = (*known.input, *known.value_info, *known.output)
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in values}
    for node in model.graph.node:
        slope = slopes.get(node.input[1]) if node.op_type == "PRelu" else None
        if slope is not None and len(slope.dims) == 1 and slope.dims[0] > 1:
            shape = [*slope.dims, *[1] * (ranks.get(node.input[0], 2) - 2)]
            slope.dims[:] = shape
            for value in model.graph.input:
                if value.name == slope.name:
                    value.CopyFrom(helper.make_tensor_value_info(slope.name, slope.data_type, shape))


def spell_out(constant: onnx.NodeProto) -> None:
    """Convert the value of a `Constant` to a tensor, whichever attribute gives it.

    Raises
    ------
    ValueError
        A sparse value does not fit its shape, or would be too large with its zeros.
    """
    for attribute in constant.attribute:
        if attribute.name == "sparse_value":
            tensor = numpy_helper.from_array(dense(attribute.sparse_tensor), constant.output[0])
            attribute.CopyFrom(helper.make_attribute("value", tensor))
        if attribute.name in SHORT_CONSTANTS:
            values = np.asarray(helper.get_attribute_value(attribute), SHORT_CONSTANTS[attribute.name])
            tensor = numpy_helper.from_array(values, constant.output[0])
            attribute.CopyFrom(helper.make_attribute("value", tensor))
