"""What onnxruntime's nodes take, summed by what they compute: its own profile, one thread."""

from __future__ import annotations

import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean

import numpy as np
import onnx

from benchmarks.latency.networks import ROOT, command

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
RECURRENT = ("LSTM", "GRU", "RNN")
_KINDS = {
    "Softmax": "softmax",
    "LayerNormalization": "norms",
    "SkipLayerNormalization": "norms",
    "InstanceNormalization": "norms",
    "GlobalAveragePool": "pools and means",
    "AveragePool": "pools and means",
    "MaxPool": "pools and means",
    "ReduceMean": "pools and means",
    "Resize": "resizes",
    "Upsample": "resizes",  # onnxruntime's own, in its blocked layout
} | dict.fromkeys(RECURRENT, "recurrent layers")
OTHER = "elementwise and moves"
_GELUS = ("Gelu", "QuickGelu", "BiasGelu", "FastGelu")
_MOVES = ("Reshape", "ReorderInput", "ReorderOutput")  # which its optimiser puts behind a product
# They change no number of elements and count for what is before them, as our code is fused: for the product,
# resize, norm or pool that was computed last.
_FOLLOW = (
    "BatchNormalization", "Relu", "Sigmoid", "Mul", "Add", "HardSwish", "HardSigmoid", "Tanh", "Clip",
    "Erf", "Div", "Dropout", "Identity",
)  # fmt: skip

Key = tuple[str, int, int]
"""What is computed: its kind and, of a product, elements of the weight (0: it has none) and the output."""


def groups(model: onnx.ModelProto) -> dict[str, Key]:
    """Return, by node, what it is counted for: a product, with what follows it, or a kind of its own."""
    inferred = onnx.shape_inference.infer_shapes(model)
    elements = {
        value.name: math.prod(extent.dim_value for extent in value.type.tensor_type.shape.dim)
        for value in (*inferred.graph.value_info, *inferred.graph.output)
    }
    weights = {tensor.name: math.prod(tensor.dims) for tensor in model.graph.initializer}
    found: dict[str, Key] = {}  # in the order in which they are computed
    for node in model.graph.node:
        size = elements[node.output[0]]
        if node.op_type in PRODUCTS:
            found[node.name] = ("product", weights.get(node.input[1], 0), size)
            continue
        order = list(found)
        before = [name for name in node.input if name in found and elements[name] == size]
        last = found[max(before, key=order.index)] if before else (OTHER, 0, 0)
        # A reshape ends what we fuse behind a product; a norm of groups has one on either side.
        follows = node.op_type in _FOLLOW or (node.op_type == "Reshape" and last[0] != "product")
        found[node.name] = (_KINDS[node.op_type], 0, 0) if node.op_type in _KINDS else last
        if node.op_type not in _KINDS and not follows:
            found[node.name] = (OTHER, 0, 0)
    return found


def optimised(model: onnx.ModelProto, known: Mapping[str, Key]) -> dict[str, Key]:
    """Return `known` with the activations that onnxruntime made of several nodes and named anew.

    Parameters
    ----------
    model
        The network as onnxruntime saves it after its optimisations.
    """
    result = dict(known)
    makers = {output: node for node in model.graph.node for output in node.output}
    for node in model.graph.node:
        if _origin(node.name, known) or node.op_type not in _GELUS:
            continue
        maker = makers.get(node.input[0])
        while maker is not None and maker.op_type in _MOVES and not _origin(maker.name, known):
            maker = makers.get(maker.input[0])
        if maker is not None:
            result[node.name] = result.get(_origin(maker.name, result), (OTHER, 0, 0))
    return result


def theirs(path: Path, given: Path, python: Path, env: Mapping[str, str] | None = None) -> dict[Key, float]:
    """Return the milliseconds of an inference that onnxruntime spends on each group, means of runs.

    Parameters
    ----------
    given
        The input, a .npy file.
    python, env
        Interpreter and environment of the process that runs onnxruntime.
    """
    saved = path.with_name("optimised.onnx")
    call = f"profiled({str(path)!r}, {str(given)!r}, {str(saved)!r})"
    paths = os.pathsep.join([*filter(None, [(env or {}).get("PYTHONPATH")]), str(ROOT)])
    printed = command(
        [python, "-c", f"from {__name__} import profiled; {call}"], **{**(env or {}), "PYTHONPATH": paths}
    )
    profile = Path(printed.strip().splitlines()[-1])
    events = json.loads(profile.read_text())
    profile.unlink()
    known = optimised(onnx.load(str(saved), load_external_data=False), groups(onnx.load(str(path))))
    saved.unlink()
    return summed(events, known)


def profiled(path: str, given: str, saved: str, runs: int = 20, seconds: float = 2.0) -> None:
    """Profile onnxruntime on one thread in this process; print the name of the file that it wrote.

    Parameters
    ----------
    saved
        Where the network is written as onnxruntime optimised it.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(Path(path).with_suffix(""))
    options.optimized_model_filepath = saved
    options.log_severity_level = 3  # it warns that a saved network is for this machine
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    inputs = {session.get_inputs()[0].name: np.load(given)}
    until = time.monotonic() + seconds
    for _ in range(runs):
        session.run(None, inputs)
        if time.monotonic() > until:
            break
    print(session.end_profiling())


def summed(events: Iterable[Mapping[str, object]], known: Mapping[str, Key]) -> dict[Key, float]:
    """Return the milliseconds of each group, from a profile's events."""
    taken: dict[str, list[float]] = defaultdict(list)
    kinds: dict[str, str] = {}
    for event in events:
        name = str(event["name"])
        if event["cat"] == "Node" and name.endswith("_kernel_time"):
            arguments = event["args"]
            assert isinstance(arguments, dict)  # noqa: S101 - onnxruntime's profile has them
            node = name.removesuffix("_kernel_time")
            taken[node].append(float(str(event["dur"])) / 1e3)
            kinds[node] = str(arguments["op_name"])
    result: dict[Key, float] = defaultdict(float)
    for node, times in taken.items():
        result[_key(node, kinds[node], known)] += mean(times[len(times) // 4 :])  # it warms up
    return dict(result)


def _key(node: str, kind: str, known: Mapping[str, Key]) -> Key:
    """Return the group of an optimised node: its name begins with that of the last node it was made of."""
    kind = kind.removeprefix("Fused")
    if kind in _KINDS:  # it may have the name of a node after it, such as the last Identity
        return (_KINDS[kind], 0, 0)
    key = known.get(_origin(node, known), (OTHER, 0, 0))
    is_product = kind in (*PRODUCTS, *_GELUS) or kind in _FOLLOW
    return (OTHER, 0, 0) if key[0] == "product" and not is_product else key


def _origin(node: str, known: Mapping[str, Key]) -> str:
    """Return the longest known name that begins a node's name, or an empty string."""
    origin = node.removeprefix("fused ")
    while origin and origin not in known:
        origin = origin[:-1]
    return origin
