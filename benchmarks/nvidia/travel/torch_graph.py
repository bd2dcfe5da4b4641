"""Builds a network as a PyTorch module from its graph: straight code by torch.fx, batch norms folded.

Folding is what a user would do before measuring; it spares PyTorch a kernel for each convolution.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval


def module_of(graph: dict[str, Any], weights: Path) -> nn.Module:
    """Return the network of a graph in evaluation mode, with float32 weights on the CPU.

    Raises
    ------
    KeyError
        The graph has an unknown operator.
    """
    numbers = torch.frombuffer(bytearray(weights.read_bytes()), dtype=torch.float32)

    def tensor(name: str) -> torch.Tensor:
        entry = graph["tensors"][name]
        size = math.prod(entry["shape"])
        return numbers[entry["offset"] : entry["offset"] + size].reshape(entry["shape"]).clone()

    layers, code = nn.Module(), torch.fx.Graph()
    values = {graph["input"]: code.placeholder("data")}
    convolutions: dict[str, str] = {}
    uses = [name for node in graph["nodes"] for name in node["inputs"]]
    for node in graph["nodes"]:
        operator, inputs = node["operator"], [values[name] for name in node["inputs"]]
        if operator == "Add":
            values[node["name"]] = code.call_function(torch.add, tuple(inputs))
            continue
        before = convolutions.get(node["inputs"][0])
        if operator == "BatchNormalization" and before is not None:
            norm = _BUILT[operator](node, [tensor(name) for name in node["tensors"]])
            layers.add_module(before, fuse_conv_bn_eval(layers.get_submodule(before).eval(), norm.eval()))
            values[node["name"]] = inputs[0]
            continue
        layer = f"layer{len(values)}"
        made = _BUILT[operator](node, [tensor(name) for name in node["tensors"]])
        if operator == "Relu":
            made.inplace = uses.count(node["inputs"][0]) == 1
        layers.add_module(layer, made)
        if operator == "Conv" and uses.count(node["name"]) == 1:
            convolutions[node["name"]] = layer
        values[node["name"]] = code.call_module(layer, tuple(inputs))
    code.output(values[graph["output"]])
    return torch.fx.GraphModule(layers, code).eval()


def _convolution(node: dict[str, Any], tensors: list[torch.Tensor]) -> nn.Module:
    given, weight = node["attributes"], tensors[0]
    spatial = len(given["kernel_shape"])
    made = nn.Conv2d(
        weight.shape[1] * given["group"],
        weight.shape[0],
        tuple(given["kernel_shape"]),
        tuple(given["strides"]),
        tuple(given["pads"][:spatial]),  # equal at both ends
        groups=given["group"],
        bias=len(tensors) > 1,
    )
    return _filled(made, weight=weight, **({"bias": tensors[1]} if len(tensors) > 1 else {}))


def _batch_norm(node: dict[str, Any], tensors: list[torch.Tensor]) -> nn.Module:
    gamma, beta, mean, variance = tensors
    made = nn.BatchNorm2d(len(gamma), eps=node["attributes"]["epsilon"])
    return _filled(made, weight=gamma, bias=beta, running_mean=mean, running_var=variance)


def _dense(_: dict[str, Any], tensors: list[torch.Tensor]) -> nn.Module:
    weight, bias = tensors
    return _filled(nn.Linear(weight.shape[1], weight.shape[0]), weight=weight, bias=bias)


def _pool(node: dict[str, Any], _: list[torch.Tensor]) -> nn.Module:
    given = node["attributes"]
    return nn.MaxPool2d(tuple(given["kernel_shape"]), tuple(given["strides"]), tuple(given["pads"][:2]))


def _filled(made: nn.Module, **tensors: torch.Tensor) -> nn.Module:
    made.load_state_dict(tensors, strict=False)
    return made.requires_grad_(False)


_BUILT: dict[str, Any] = {
    "BatchNormalization": _batch_norm,
    "Conv": _convolution,
    "Flatten": lambda _node, _tensors: nn.Flatten(),
    "Gemm": _dense,
    "GlobalAveragePool": lambda _node, _tensors: nn.AdaptiveAvgPool2d(1),
    "MaxPool": _pool,
    "Relu": lambda _node, _tensors: nn.ReLU(),
    "Softmax": lambda node, _tensors: nn.Softmax(node["attributes"]["axis"]),
}
