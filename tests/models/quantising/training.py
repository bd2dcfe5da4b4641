"""A small CNN, trained here by numpy to tell drawn shapes apart."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from tests.models.graphs import graph_of, tensor_info

SIZE = 16
CLASSES = ("disc", "square", "cross", "bar")
LAYERS = ((1, 8, 2), (8, 16, 2), (16, 16, 1))
"""Inputs, outputs and stride of each 3x3 convolution."""

Weights = list[tuple[np.ndarray, np.ndarray]]


def drawn(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy images [count, 1, 16, 16] of one shape each, and which shape."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, len(CLASSES), count)
    y, x = np.mgrid[:SIZE, :SIZE]
    images = random.normal(0, 0.2, (count, 1, SIZE, SIZE)).astype(np.float32)
    for image, label in zip(images, labels, strict=True):
        radius = random.uniform(3, 5)
        down, across = np.abs(y - random.uniform(6, 10)), np.abs(x - random.uniform(6, 10))
        shape = (
            down**2 + across**2 < radius**2,
            np.maximum(down, across) < radius * 0.85,
            (np.minimum(down, across) < 1.2) & (np.maximum(down, across) < radius),
            (down < 1.5) & (across < radius * 1.2),
        )[label]
        image[0] += shape * random.uniform(0.7, 1.3)
    return images, labels


def trained(steps: int = 800, batch: int = 32) -> Weights:
    """Return the weights after some steps of Adam."""
    random = np.random.default_rng(0)
    weights = [
        (
            (random.standard_normal((o, i, 3, 3)) * np.sqrt(2 / (9 * i))).astype(np.float32),
            np.zeros(o, np.float32),
        )
        for i, o, _ in LAYERS
    ]
    weights.append(((random.standard_normal((4, 16)) / 4).astype(np.float32), np.zeros(4, np.float32)))
    images, labels = drawn(2000, 1)
    moments = [[np.zeros_like(array) for array in pair for _ in range(2)] for pair in weights]
    for step in range(1, steps + 1):
        picked = random.integers(0, len(images), batch)
        for pair, gradients, moment in zip(
            weights, _gradients(weights, images[picked], labels[picked]), moments, strict=True
        ):
            for place, gradient in enumerate(gradients):
                mean, square = moment[2 * place], moment[2 * place + 1]
                mean += 0.1 * (gradient - mean)
                square += 0.01 * (gradient**2 - square)
                unbiased = np.sqrt(square / (1 - 0.99**step)) + 1e-8
                pair[place][...] -= 0.004 * (mean / (1 - 0.9**step)) / unbiased
    return weights


def _columns(x: np.ndarray, stride: int) -> np.ndarray:
    """Return [batch, rows, columns, in * 9]: what each output of a 3x3 convolution reads."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::stride, ::stride]
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(len(x), *windows.shape[2:4], -1)


def _gradients(weights: Weights, x: np.ndarray, labels: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    kept = []
    for (weight, bias), (_, _, stride) in zip(weights[:-1], LAYERS, strict=True):
        columns = _columns(x, stride)
        sums = columns @ weight.reshape(len(weight), -1).T + bias
        kept.append((x.shape, columns, sums > 0))
        x = np.maximum(sums, 0).transpose(0, 3, 1, 2)
    pooled = x.mean(axis=(2, 3))
    logits = pooled @ weights[-1][0].T + weights[-1][1]
    wrong = np.exp(logits - logits.max(axis=1, keepdims=True))
    wrong /= wrong.sum(axis=1, keepdims=True)
    wrong[np.arange(len(labels)), labels] -= 1
    wrong /= len(labels)
    gradients = [(wrong.T @ pooled, wrong.sum(axis=0))]
    back = np.broadcast_to((wrong @ weights[-1][0])[:, None, None, :], kept[-1][2].shape) / np.prod(
        x.shape[2:]
    )
    for number in reversed(range(len(LAYERS))):
        shape, columns, on = kept[number]
        back = back * on
        flat = back.reshape(-1, back.shape[-1])
        weight, stride = weights[number][0], LAYERS[number][2]
        gradients.insert(
            0, ((flat.T @ columns.reshape(len(flat), -1)).reshape(weight.shape), flat.sum(axis=0))
        )
        spread = (back @ weight.reshape(len(weight), -1)).reshape(*back.shape[:3], -1, 3, 3)
        whole = np.zeros((shape[0], shape[2] + 2, shape[3] + 2, shape[1]), np.float32)
        rows, across = back.shape[1] * stride, back.shape[2] * stride
        for i in range(3):
            for j in range(3):
                whole[:, i : i + rows : stride, j : j + across : stride] += spread[..., i, j]
        back = whole[:, 1:-1, 1:-1]
    return gradients


def network(weights: Weights, batch: int) -> onnx.ModelProto:
    """Return the network as ONNX: input `image`, output `logits`."""
    stored: dict[str, np.ndarray] = {"fc.w": weights[-1][0], "fc.b": weights[-1][1]}
    nodes, x = [], "image"
    for number, ((weight, bias), (_, _, stride)) in enumerate(zip(weights[:-1], LAYERS, strict=True)):
        stored |= {f"w{number}": weight, f"b{number}": bias}
        inputs = [x, f"w{number}", f"b{number}"]
        nodes.append(
            helper.make_node("Conv", inputs, [f"c{number}"], f"c{number}", pads=[1] * 4, strides=[stride] * 2)
        )
        nodes.append(helper.make_node("Relu", [f"c{number}"], [f"r{number}"]))
        x = f"r{number}"
    nodes += [
        helper.make_node("GlobalAveragePool", [x], ["pool"]),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("Gemm", ["flat", "fc.w", "fc.b"], ["logits"], "fc", transB=1),
    ]
    inputs = [tensor_info("image", (batch, 1, SIZE, SIZE))]
    return graph_of(nodes, inputs, [tensor_info("logits", (batch, 4))], stored)
