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
# They change no number of elements and count for the product before them: our code is fused so.
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
    found: dict[str, Key] = {}
    for node in model.graph.node:
        size = elements[node.output[0]]
        if node.op_type in PRODUCTS:
            found[node.name] = ("product", weights.get(node.input[1], 0), size)
            continue
        before = [found[name] for name in node.input if name in found and found[name][2] == size]
        follows = node.op_type in _FOLLOW and before and before[-1][0] == "product"
        found[node.name] = before[-1] if follows else (_KINDS.get(node.op_type, OTHER), 0, 0)
    return found


def theirs(path: Path, given: Path, python: Path, env: Mapping[str, str] | None = None) -> dict[Key, float]:
    """Return the milliseconds of an inference that onnxruntime spends on each group, means of runs.

    Parameters
    ----------
    given
        The input, a .npy file.
    python, env
        Interpreter and environment of the process that runs onnxruntime.
    """
    argv = [python, "-c", f"from {__name__} import profiled; profiled({str(path)!r}, {str(given)!r})"]
    paths = os.pathsep.join([*filter(None, [(env or {}).get("PYTHONPATH")]), str(ROOT)])
    profile = Path(command(argv, **{**(env or {}), "PYTHONPATH": paths}).strip().splitlines()[-1])
    events = json.loads(profile.read_text())
    profile.unlink()
    return summed(events, groups(onnx.load(str(path))))


def profiled(path: str, given: str, runs: int = 20, seconds: float = 2.0) -> None:
    """Profile onnxruntime on one thread in this process; print the name of the file that it wrote."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(Path(path).with_suffix(""))
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
    sizes: dict[str, int] = {}
    for event in events:
        name = str(event["name"])
        if event["cat"] == "Node" and name.endswith("_kernel_time"):
            arguments = event["args"]
            assert isinstance(arguments, dict)  # noqa: S101 - onnxruntime's profile has them
            node = name.removesuffix("_kernel_time")
            taken[node].append(float(str(event["dur"])) / 1e3)
            kinds[node] = str(arguments["op_name"])
            sizes[node] = sum(math.prod(s) for each in arguments["output_type_shape"] for s in each.values())
    result: dict[Key, float] = defaultdict(float)
    products: dict[int, Key] = {}  # the latest, by the number of its outputs
    for node, times in taken.items():  # in the order in which they run
        key = _key(node, kinds[node], sizes[node], known, products)
        if key[0] == "product":
            products[key[2]] = key
        result[key] += mean(times[len(times) // 4 :])  # it warms up
    return dict(result)


def _key(node: str, kind: str, size: int, known: Mapping[str, Key], products: Mapping[int, Key]) -> Key:
    """Return the group of an optimised node: its name begins with that of the last node it was made of.

    One that was made of a GELU's nodes may have a name of its own; it counts for the latest of `products`
    with as many outputs.
    """
    kind = kind.removeprefix("Fused")
    if kind in _KINDS:  # it may have the name of a node after it, such as the last Identity
        return (_KINDS[kind], 0, 0)
    origin = node.removeprefix("fused ")
    while origin and origin not in known:
        origin = origin[:-1]
    if not origin and kind in _GELUS and size in products:
        return products[size]
    key = known.get(origin, (OTHER, 0, 0))
    is_product = kind in (*PRODUCTS, *_GELUS) or kind in _FOLLOW
    return (OTHER, 0, 0) if key[0] == "product" and not is_product else key
