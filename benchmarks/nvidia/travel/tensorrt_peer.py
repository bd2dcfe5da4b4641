"""Runs a network by TensorRT, with PyTorch's memory and events. It was never run: no GPU had its wheel."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorrt as trt
import torch

from benchmarks.nvidia.travel.contest import answer, measured_if_right
from benchmarks.nvidia.travel.torch_peer import bytes_of, read_npy, run_on_gpu


def main() -> None:
    """Read the request, build an engine, compute and measure, and write output and answer."""
    answer(peer)


def peer(request: dict[str, Any]) -> dict[str, Any]:
    """Return samples of an engine that is built for the request; write the output."""
    graph = json.loads(Path(request["graph"]).read_text())
    numbers = np.fromfile(request["weights"], "<f4")
    logger = trt.Logger(trt.Logger.WARNING)
    builder = trt.Builder(logger)
    data = read_npy(Path(request["input"])).cuda()
    network = define(builder.create_network(0), graph, numbers, tuple(data.shape))
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    if request["arithmetic"] == "tfloat32":
        config.set_flag(trt.BuilderFlag.TF32)
    if request["arithmetic"] == "float16":
        config.set_flag(trt.BuilderFlag.FP16)
    begun = time.perf_counter()
    engine = trt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))
    built_s = time.perf_counter() - begun
    context = engine.create_execution_context()
    output = torch.empty(tuple(engine.get_tensor_shape("output")), device="cuda")
    context.set_tensor_address("data", data.data_ptr())
    context.set_tensor_address("output", output.data_ptr())
    stream = torch.cuda.Stream()

    def infer() -> torch.Tensor:
        context.execute_async_v3(stream.cuda_stream)
        return output

    with torch.cuda.stream(stream):
        measured = measured_if_right(request, infer, bytes_of, run_on_gpu(infer))
    return {**measured, "first_s": built_s, "tensorrt": trt.__version__}


def define(network: Any, graph: dict[str, Any], numbers: Any, shape: tuple[int, ...]) -> Any:
    """Add the layers of a graph to TensorRT's network."""
    values = {graph["input"]: network.add_input("data", trt.float32, shape)}
    for node in graph["nodes"]:
        inputs = [values[name] for name in node["inputs"]]
        tensors = []
        for name in node["tensors"]:
            entry = graph["tensors"][name]
            end = entry["offset"] + math.prod(entry["shape"])
            tensors.append(np.ascontiguousarray(numbers[entry["offset"] : end].reshape(entry["shape"])))
        values[node["name"]] = _layer(network, node, inputs, tensors).get_output(0)
    values[graph["output"]].name = "output"
    network.mark_output(values[graph["output"]])
    return network


def _layer(network: Any, node: dict[str, Any], inputs: list[Any], tensors: list[Any]) -> Any:
    operator, given = node["operator"], node["attributes"]
    if operator == "Conv":
        bias = trt.Weights(tensors[1]) if len(tensors) > 1 else trt.Weights()
        window = tuple(given["kernel_shape"])
        layer = network.add_convolution_nd(
            inputs[0], tensors[0].shape[0], window, trt.Weights(tensors[0]), bias
        )
        layer.num_groups = given["group"]
    elif operator == "BatchNormalization":  # TensorRT folds it
        gamma, beta, mean, variance = tensors
        scale = gamma / np.sqrt(variance + np.float32(given["epsilon"]))
        shift = beta - mean * scale
        mode = trt.ScaleMode.CHANNEL
        return network.add_scale(inputs[0], mode, trt.Weights(shift), trt.Weights(scale), trt.Weights())
    elif operator == "MaxPool":
        layer = network.add_pooling_nd(inputs[0], trt.PoolingType.MAX, tuple(given["kernel_shape"]))
    elif operator == "GlobalAveragePool":
        return network.add_reduce(inputs[0], trt.ReduceOperation.AVG, 0b1100, keep_dims=True)
    elif operator == "Relu":
        return network.add_activation(inputs[0], trt.ActivationType.RELU)
    elif operator == "Add":
        return network.add_elementwise(*inputs, trt.ElementWiseOperation.SUM)
    elif operator == "Flatten":
        layer = network.add_shuffle(inputs[0])
        layer.reshape_dims = (inputs[0].shape[0], -1)
        return layer
    elif operator == "Gemm":
        weight, bias = (
            network.add_constant(each.shape, trt.Weights(each)) for each in (tensors[0], tensors[1][None])
        )
        none, transposed = trt.MatrixOperation.NONE, trt.MatrixOperation.TRANSPOSE
        product = network.add_matrix_multiply(inputs[0], none, weight.get_output(0), transposed)
        return network.add_elementwise(
            product.get_output(0), bias.get_output(0), trt.ElementWiseOperation.SUM
        )
    else:
        layer = network.add_softmax(inputs[0])
        layer.axes = 1 << given["axis"]
        return layer
    layer.stride_nd = tuple(given["strides"])
    layer.padding_nd = tuple(given["pads"][:2])
    return layer


if __name__ == "__main__":
    main()
