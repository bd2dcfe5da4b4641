"""Folds operators for which no values need to be known: Shape, from its input's type, and Identity."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import helper

from toolchain.models.folding.scope import Scope
from toolchain.models.folding.walk import Walk


def identity(_walk: Walk, node: onnx.NodeProto, scope: Scope) -> bool:
    """Fold an identity: map the output's name to the input."""
    scope.names[node.output[0]] = scope.find(node.input[0])
    return True


def shape_of(walk: Walk, node: onnx.NodeProto, scope: Scope) -> bool:
    """Store the shape of a tensor, or the part of it that is asked for."""
    type_ = walk.types.get(scope.find(node.input[0]))
    if type_ is None or not type_.tensor_type.HasField("shape"):
        return False
    asked = {each.name: each.i for each in node.attribute}
    dims = list(type_.tensor_type.shape.dim)[asked.get("start", 0) : asked.get("end")]
    if not all(dim.HasField("dim_value") for dim in dims):
        return False
    extents = np.array([dim.dim_value for dim in dims], np.int64)
    scope.names[node.output[0]] = walk.constant(extents, node.output[0])
    return True


def size(walk: Walk, node: onnx.NodeProto, scope: Scope) -> bool:
    """Store the number of a tensor's elements."""
    shape = walk.shape(scope.find(node.input[0]))
    if shape is None:
        return False
    scope.names[node.output[0]] = walk.constant(np.int64(math.prod(shape)), node.output[0])
    return True


def dropout(walk: Walk, node: onnx.NodeProto, scope: Scope) -> bool:
    """Write a `Dropout` with the shape of its mask, which onnx infers only since operator set 10."""
    walk.plain(node, scope)
    shape = walk.shape(scope.find(node.input[0]))
    for name in (scope.find(name) for name in node.output[1:] if name):
        if name in walk.types and shape is not None:
            walk.types[name] = helper.make_tensor_type_proto(walk.types[name].tensor_type.elem_type, shape)
    return True
