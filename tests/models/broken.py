"""Files that cannot be built, each tiny: what people's exporters, downloads and tools make."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto as T

from tests.models.broken_graphs import (
    FLOATS,
    branches,
    cast,
    changed,
    floats,
    loop,
    network,
    node,
    of,
    outside,
    packed,
    pair_of,
    recursive,
    relu,
    sparse,
    stored,
    two_steps,
    weighted,
)
from tests.models.graphs import tensor_info

Broken = tuple[Callable[[], onnx.ModelProto | bytes], str, str]
AGAIN, OR_WITHOUT = "export the network again", "export the network without"
CHECK = "`toolchain model inspect` shows the inputs"

DOWNLOADS: dict[str, Broken] = {
    "a pointer of Git LFS": (
        lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:aaaa\nsize 12\n",
        " is a pointer of Git LFS",
        "git lfs pull",
    ),
    "a web page": (lambda: b"<!DOCTYPE html>\n<html></html>", " is a page of a web site", "raw link"),
    "a zip": (lambda: b"PK\x03\x04\x14\x00archive", " is a zip archive", "unzip"),
    "gzip": (lambda: b"\x1f\x8b\x08\x00", " is compressed with gzip", "gunzip"),
    "onnxruntime's format": (
        lambda: b"\x24\0\0\0ORTM" + bytes(64),
        " is in onnxruntime's own format",
        ".onnx",
    ),
    "half of a file": (
        lambda: weighted("MatMul", floats(4, 64)).SerializeToString()[:-300],
        "not an ONNX file, or a truncated one",
        "download it again",
    ),
    "nothing": (lambda: b"", " is empty", "download it again"),
    "a newer format": (
        lambda: changed(relu(), lambda m: setattr(m, "ir_version", 99)),
        "version 99 of ONNX's file format",
        "m.ir_version = ",
    ),
    "a newer set": (lambda: relu(opset=99), "operators of set 99", "opset_version="),
    "weights that are missing": (
        lambda: outside("gone.bin"),
        "gone.bin cannot be read",
        "put gone.bin beside",
    ),
    "weights elsewhere": (lambda: outside("../gone.bin"), "lies outside the folder", "beside it"),
    "weights of 3 GB": (lambda: outside("big.bin", 3 << 30), "it has 32212", "in parts"),
    "weights that are cut off": (
        lambda: stored(data_type=T.FLOAT, raw_data=bytes(8)),
        "tensor 'w' is broken",
        "again",
    ),
    "weights of no type": (lambda: stored(data_type=99, raw_data=bytes(8)), "tensor 'w' is broken", "again"),
}

TYPES: dict[str, Broken] = {
    "int4 between nodes": (
        lambda: two_steps(packed("z", T.INT4, ())),
        "QuantizeLinear (node 'round') computes in int4",
        "weights alone may be of int4",
    ),
    "float8 between nodes": (
        lambda: two_steps(packed("z", T.FLOAT8E4M3FN, ())),
        "QuantizeLinear (node 'round') computes in float8_e4m3fn",
        "quantised to int8",
    ),
    "float8 by a cast": (
        lambda: cast(T.FLOAT8E5M2),
        "Cast (node 'small') computes in float8_e5m2",
        "float32",
    ),
    "float4": (lambda: cast(T.FLOAT4E2M1, 23), "Cast (node 'small') computes in float4_e2m1", "float32"),
    "bfloat16 between nodes": (
        lambda: cast(T.BFLOAT16),
        "Cast (node 'small') computes in bfloat16",
        "float32",
    ),
    "uint4 as an input": (
        lambda: network(node("Cast", ["x"], ["y"], to=T.FLOAT), kind=T.UINT4),
        "'x' is of uint4",
        "inputs and outputs of float32",
    ),
    "bfloat16 as an input": (lambda: relu(kind=T.BFLOAT16, y=T.BFLOAT16), "'x' is of bfloat16", "of float32"),
    "complex numbers": (
        lambda: network(node("Identity", ["x"], ["y"]), kind=T.COMPLEX64, y=T.COMPLEX64),
        "'x' is of complex64",
        "of float32",
    ),
    "strings": (
        lambda: network(node("StringNormalizer", ["x"], ["y"]), x=(4,), kind=T.STRING, y=T.STRING),
        "input 'x' is no tensor of numbers",
        "without it",
    ),
    "a sequence": (
        lambda: pair_of("sequence"),
        "output 'y' is no tensor but of the kind sequence",
        "--outputs NAME",
    ),
    "what may be": (
        lambda: pair_of("optional"),
        "output 'y' is no tensor but of the kind optional",
        "--outputs NAME",
    ),
    "a sparse constant that is broken": (
        lambda: network(
            node("Constant", [], ["w"], "few", sparse_value=sparse(9)), node("Add", ["x", "w"], ["y"])
        ),
        "the sparse value of Constant (node 'few') is broken",
        "again",
    ),
    "scales along no axis": (
        lambda: two_steps(np.zeros(4, np.int8), floats(4), axis=3),
        "QuantizeLinear (node 'round') of x=1,4 float32",
        CHECK,
    ),
    "scales of another number": (
        lambda: two_steps(np.zeros(3, np.int8), floats(3), axis=1),
        "3 scales for the 4 values along axis 1",
        CHECK,
    ),
}

SHAPES: dict[str, Broken] = {
    "open": (
        lambda: relu(x=("n", "height")),
        " leaves open the shapes of its inputs: x=n,height",
        "--shape x=1,D",
    ),
    "no values as an input": (
        lambda: changed(
            network(node("Concat", ["p", "x"], ["y"], axis=0)),
            lambda m: m.graph.input.append(tensor_info("p", (0, 4))),
        ),
        "its input p=0,4: an extent of 0 makes a tensor without values",
        "extents of 1 or more",
    ),
    "no values inside": (
        lambda: network(
            node("Slice", ["x", "b", "b", "a"], ["h"], "none"),
            node("Relu", ["h"], ["y"]),
            b=np.array([4]),
            a=np.array([1]),
        ),
        "h=1,0, the result of Slice (node 'none'), is empty",
        "without it",
    ),
    "a product": (
        lambda: weighted("MatMul", floats(5, 3)),
        "MatMul (node 'matmul') of x=1,4 float32, w=5,3 float32",
        CHECK,
    ),
    "channels": (
        lambda: weighted("Conv", floats(4, 2, 3, 3), (1, 3, 8, 8)),
        "the image has 3 channels, and the weight is for 2",
        CHECK,
    ),
    "a kernel": (
        lambda: weighted("Conv", floats(4, 3, 3, 3), (1, 3, 8, 8), kernel_shape=[5, 5]),
        "its kernel_shape is [5, 5], and the weight has [3, 3]",
        CHECK,
    ),
    "a window": (
        lambda: network(node("MaxPool", ["x"], ["y"], "pool", kernel_shape=[9, 9]), x=(1, 1, 4, 4)),
        "MaxPool (node 'pool') of x=1,1,4,4 float32: nothing is left of 'y'",
        CHECK,
    ),
    "a form": (
        lambda: weighted("Reshape", np.array([3, 5])),
        "Reshape (node 'reshape') of x=1,4 float32, w=2 int64: 4 values cannot become 3,5",
        CHECK,
    ),
    "parts": (lambda: weighted("Concat", floats(2, 3), axis=0), "Concat (node 'concat') of x=1,4", CHECK),
    "types": (
        lambda: weighted("Add", np.ones(4, np.int64)),
        "Add (node 'add') of x=1,4 float32, w=4 int64",
        CHECK,
    ),
    "letters": (
        lambda: network(node("Einsum", ["x", "x"], ["y"], "sum", equation="ij,ij->ijk")),
        "Einsum (node 'sum') of x=1,4 float32",
        CHECK,
    ),
    "more than memory": (
        lambda: network(node("Expand", ["x", "s"], ["y"]), s=np.array([1 << 20, 1 << 14, 4])),
        "y=1048576,16384,4 has 68719476736 elements",
        CHECK,
    ),
    "an index outside": (
        lambda: network(
            node("Gather", ["w", "i"], ["h"], "rows"),
            node("Add", ["x", "h"], ["y"]),
            w=floats(4, 4),
            i=np.array([7]),
        ),
        "node 'rows' (Gather) takes indices from -4 to 3",
        AGAIN,
    ),
}

NODES: dict[str, Broken] = {
    "a custom operator": (
        lambda: of("my.ops", network(node("Strange", ["x"], ["y"], "odd", domain="my.ops"))),
        "unsupported operators: my.ops.Strange (odd)",
        OR_WITHOUT,
    ),
    "a domain that is not declared": (
        lambda: network(node("Strange", ["x"], ["y"], "odd", domain="my.ops")),
        "Strange (node 'odd') is of the domain 'my.ops', and the file declares no operator set of it",
        AGAIN,
    ),
    "a name that is no operator": (
        lambda: network(node("Reluu", ["x"], ["y"], "odd")),
        "Reluu (node 'odd') is no operator of ONNX",
        "Relu",
    ),
    "an operator of a newer set": (
        lambda: network(node("Gelu", ["x"], ["y"], "bend"), opset=17),
        "Gelu (node 'bend') is an operator since set 20, and the file declares set 17",
        "opset_version=20",
    ),
    "an optimiser's layout": (
        lambda: of(
            "com.microsoft.nchwc",
            network(
                node("ReorderInput", ["x"], ["y"], "order", domain="com.microsoft.nchwc"), x=(1, 16, 4, 4)
            ),
        ),
        "unsupported operators: com.microsoft.nchwc.ReorderInput (order)",
        "ORT_DISABLE_ALL",
    ),
    "what trains": (
        lambda: of(
            "ai.onnx.preview.training",
            network(node("Adam", ["x"], ["y"], "step", domain="ai.onnx.preview.training")),
        ),
        "Adam (node 'step') has 1 inputs",
        AGAIN,
    ),
    "random numbers": (
        lambda: network(node("RandomNormalLike", ["x"], ["y"], "noise")),
        "RandomNormalLike (noise)",
        OR_WITHOUT,
    ),
    "dropout that trains": (
        lambda: network(node("Dropout", ["x", "r", "t"], ["y"], "drop"), r=np.float32(0.5), t=np.array(True)),
        "Dropout (node 'drop'): in training mode",
        "model.eval()",
    ),
    "what counts": (
        lambda: network(node("NonZero", ["x"], ["y"], "where"), y=T.INT64),
        "NonZero (node 'where') makes a tensor whose shape depends on the data",
        OR_WITHOUT,
    ),
    "what suppresses": (
        lambda: network(
            node("NonMaxSuppression", ["x", "s", "k"], ["y"], "nms"),
            x=(1, 8, 4),
            y=T.INT64,
            s=floats(1, 1, 8),
            k=np.array([3]),
        ),
        "NonMaxSuppression (node 'nms') makes a tensor whose shape depends on the data",
        OR_WITHOUT,
    ),
    "a shape that is computed": (
        lambda: network(
            node("Cast", ["x"], ["s"], to=T.INT64),
            node("Reshape", ["w", "s"], ["y"], "form"),
            x=(2,),
            w=floats(4, 4),
        ),
        "Reshape (node 'form') makes a tensor whose shape depends on the data",
        "--outputs s",
    ),
    "a loop by data": (loop, "Loop (node 'while') runs as often as the data say", OR_WITHOUT),
    "a branch by data": (
        branches,
        "If (node 'either') takes a branch that depends on the data",
        "--outputs c",
    ),
    "a function that calls itself": (recursive, "its function 'f' calls itself", "without functions"),
    "what nothing computes": (
        lambda: network(node("Add", ["x", "gone"], ["y"], "sum")),
        "Add (node 'sum') reads 'gone', which nothing computes",
        AGAIN,
    ),
    "a cycle": (
        lambda: network(
            node("Add", ["x", "b"], ["a"], "one"),
            node("Neg", ["a"], ["b"], "two"),
            node("Relu", ["a"], ["y"]),
        ),
        "Add (node 'one'), Neg (node 'two') wait for each other",
        "an input and an output",
    ),
    "two of a name": (
        lambda: network(node("Neg", ["x"], ["y"], "one"), node("Abs", ["x"], ["y"], "two")),
        "Abs (node 'two') computes 'y'",
        AGAIN,
    ),
    "two inputs of a name": (
        lambda: changed(relu(), lambda m: m.graph.input.append(tensor_info("x", FLOATS))),
        "two of its inputs are called 'x'",
        AGAIN,
    ),
    "no outputs": (
        lambda: changed(relu(), lambda m: m.graph.output.pop()),
        "it has no outputs",
        "--outputs NAME",
    ),
    "an output that nothing computes": (
        lambda: network(node("Relu", ["x"], ["z"])),
        "nothing computes its output 'y'",
        "--outputs NAME",
    ),
    "an attribute that is missing": (
        lambda: network(node("Cast", ["x"], ["y"], "cast")),
        "Cast (node 'cast') lacks its attribute 'to'",
        AGAIN,
    ),
    "an attribute too many": (
        lambda: network(node("Relu", ["x"], ["y"], "relu", slope=0.3)),
        "Relu (node 'relu') has an attribute 'slope'",
        AGAIN,
    ),
    "an attribute of another type": (
        lambda: network(node("Softmax", ["x"], ["y"], "soft", axis="last")),
        "Softmax (node 'soft') has string as its attribute 'axis', which is int",
        AGAIN,
    ),
    "an order of axes": (
        lambda: network(node("Transpose", ["x"], ["y"], "turn", perm=[0, 0])),
        "Transpose (node 'turn') of x=1,4 float32",
        CHECK,
    ),
    "an input too many": (
        lambda: network(node("Relu", ["x", "x"], ["y"], "relu")),
        "Relu (node 'relu') has 2 inputs, and the operator 1",
        AGAIN,
    ),
    "an input too few": (
        lambda: network(node("Add", ["x"], ["y"], "sum")),
        "Add (node 'sum') has 1 inputs, and the operator 2",
        AGAIN,
    ),
    "a divisor of 0": (
        lambda: network(node("Div", ["x", "z"], ["y"], "share"), kind=T.INT64, y=T.INT64, z=np.array([0])),
        "node 'share' (Div) divides by it",
        AGAIN,
    ),
}

FILES = {**DOWNLOADS, **TYPES, **SHAPES, **NODES}
"""A file; what the message says of it: what is wrong, with which node or tensor; what the hint says."""
