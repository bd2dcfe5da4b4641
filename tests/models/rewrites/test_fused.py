"""Fused operators of `com.microsoft`, written out: onnxruntime's own kernels are the judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.rewrites.judge import assert_same, loaded, refused

pytestmark = pytest.mark.slow

B, S, D, N = 2, 5, 12, 3  # batch, length, width, heads
random = np.random.default_rng(7)


def weights(*shape: int) -> np.ndarray:
    return random.normal(size=shape).astype(np.float32)


def int32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


MASK = np.where(np.arange(S) < [[3], [S]], 1, 0).astype(np.int32)

CASES: dict[str, tuple[str, list[Any], dict[str, Any], int]] = {
    "conv": ("FusedConv", [(1, 3, 6, 6), weights(4, 3, 3, 3)], {"activation": "Relu", "pads": [1] * 4}, 1),
    "conv with a sum": (
        "FusedConv",
        [(1, 3, 6, 6), weights(4, 3, 3, 3), weights(4), (1, 4, 4, 4)],
        {"activation": "Relu"},
        1,
    ),
    "conv, leaky": (
        "FusedConv",
        [(1, 3, 6, 6), weights(4, 3, 3, 3), weights(4)],
        {"activation": "LeakyRelu", "activation_params": [0.3]},
        1,
    ),
    "conv, clipped": (
        "FusedConv",
        [(1, 3, 6, 6), weights(4, 3, 3, 3), weights(4)],
        {"activation": "Clip", "activation_params": [0.0, 6.0]},
        1,
    ),
    "conv, hard sigmoid": (
        "FusedConv",
        [(1, 3, 6, 6), weights(4, 3, 3, 3), weights(4)],
        {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
        1,
    ),
    "gemm": ("FusedGemm", [(B, D), weights(D, 4), weights(4)], {"activation": "Relu"}, 1),
    "gemm, leaky": (
        "FusedGemm",
        [(B, D), weights(4, D), weights(4)],
        {"activation": "LeakyRelu", "activation_alpha": 0.2, "transB": 1, "alpha": 0.5},
        1,
    ),
    "matmul": ("FusedMatMul", [(B, S, D), (B, 4, D)], {"transB": 1, "alpha": 0.25}, 1),
    "matmul, both": ("FusedMatMul", [(B, D, S), (B, 4, D)], {"transA": 1, "transB": 1}, 1),
    "matmul, batches": (
        "FusedMatMul",
        [(S, B, D), (4, B, D)],
        {"transBatchA": 1, "transBatchB": 1, "transB": 1},
        1,
    ),
    "matmul, a vector": ("FusedMatMul", [(D,), (B, D, S)], {"transA": 1}, 1),
    "quick gelu": ("QuickGelu", [(B, S, D)], {}, 1),
    "quick gelu of another factor": ("QuickGelu", [(B, S, D)], {"alpha": 1.0}, 1),
    "gelu": ("Gelu", [(B, S, D)], {}, 1),
    "bias gelu": ("BiasGelu", [(B, S, D), weights(D)], {}, 1),
    "fast gelu": ("FastGelu", [(B, S, D)], {}, 1),
    "fast gelu with a bias": ("FastGelu", [(B, S, D), weights(D)], {}, 1),
    "skip": ("SkipLayerNormalization", [(B, S, D), (B, S, D), weights(D)], {}, 1),
    "skip, all": (
        "SkipLayerNormalization",
        [(B, S, D), (B, S, D), weights(D), weights(D), weights(D)],
        {"epsilon": 1e-5},
        (1, 0, 0, 1),
    ),
    "skip, broadcast": ("SkipLayerNormalization", [(B, S, D), (S, D), weights(D), weights(D)], {}, 1),
    "skip, root mean square": (
        "SkipSimplifiedLayerNormalization",
        [(B, S, D), (B, S, D), weights(D), weights(D)],
        {"epsilon": 1e-5},
        (1, 0, 0, 1),
    ),
    "embed": (
        "EmbedLayerNormalization",
        [
            ("ids", (B, S), 9),
            ("segments", (B, S), 2),
            *(weights(9, D), weights(8, D), weights(2, D), weights(D), weights(D)),
        ],
        {},
        (1, TensorProto.INT32),
    ),
    "embed, all": (
        "EmbedLayerNormalization",
        [
            ("ids", (B, S), 9),
            None,
            *(weights(9, D), weights(8, D), None, weights(D), weights(D)),
            MASK,
            int32(range(S), range(S))[:, ::-1].copy(),
        ],
        {"epsilon": 1e-5},
        (1, TensorProto.INT32, 1),
    ),
    "attention": ("Attention", [(B, S, D), weights(D, 3 * D), weights(3 * D)], {"num_heads": N}, 1),
    "attention, a mask": (
        "Attention",
        [(B, S, D), weights(D, 3 * D), weights(3 * D), MASK],
        {"num_heads": N, "scale": 0.7},
        1,
    ),
    "attention, a mask of pairs": (
        "Attention",
        [(B, S, D), weights(D, 3 * D), weights(3 * D), np.tril(np.ones((B, S, S), np.int32))],
        {"num_heads": N},
        1,
    ),
    "attention, ends": (
        "Attention",
        [(B, S, D), weights(D, 3 * D), weights(3 * D), int32(3, 5)],
        {"num_heads": N},
        1,
    ),
    "attention, beginnings": (
        "Attention",
        [(B, S, D), weights(D, 3 * D), weights(3 * D), int32(4, 5, 1, 2)],
        {"num_heads": N},
        1,
    ),
    "attention, one way": (
        "Attention",
        [(B, S, D), weights(D, 3 * D), weights(3 * D), MASK],
        {"num_heads": N, "unidirectional": 1},
        1,
    ),
    "attention, a past": (
        "Attention",
        [(B, S, D), weights(D, 3 * D), weights(3 * D), None, (2, B, N, 4, D // N)],
        {"num_heads": N, "unidirectional": 1},
        (1, 1),
    ),
    "attention, a bias of scores": (
        "Attention",
        [(B, S, D), weights(D, 3 * D), weights(3 * D), None, None, (B, N, S, S)],
        {"num_heads": N},
        1,
    ),
    "attention, sizes": (
        "Attention",
        [(B, S, D), weights(D, 15), weights(15)],
        {"num_heads": N, "qkv_hidden_sizes": [6, 6, 3]},
        1,
    ),
    "heads": ("MultiHeadAttention", [(B, S, D), (B, 7, D), (B, 7, D)], {"num_heads": N}, 1),
    "heads, all": (
        "MultiHeadAttention",
        [
            *((B, S, D), (B, S, D), (B, S, D), weights(3 * D), None, (1, N, S, S + 4)),
            *((B, N, 4, D // N), (B, N, 4, D // N)),
        ],
        {"num_heads": N},
        (1, 1, 1),
    ),
    "heads of a cache": (
        "MultiHeadAttention",
        [(B, S, D), (B, N, 7, D // N), (B, N, 7, D // N)],
        {"num_heads": N, "scale": 0.4},
        1,
    ),
    "heads, a mask": (
        "MultiHeadAttention",
        [(B, S, D), (B, S, D), (B, S, D), None, MASK],
        {"num_heads": N},
        1,
    ),
}
"""Operator, inputs, attributes, types of outputs. An input is the shape of one of the network's, a name, a
shape and an end for one of indices, or an array for a constant."""


def fused(case: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return the network of one node, and inputs for it."""
    operator, given, attributes, results = CASES[case]
    names, inputs, stored, sample = [], [], {}, {}
    for place, each in enumerate(given):
        name = f"x{place}" if each is not None else ""
        names.append(name)
        if isinstance(each, np.ndarray):
            stored[name] = each
        elif each is not None and isinstance(each[0], str):
            inputs.append(tensor_info(name, each[1], TensorProto.INT32))
            sample[name] = random.integers(0, each[2], each[1]).astype(np.int32)
        elif each is not None:
            inputs.append(tensor_info(name, each))
            sample[name] = weights(*each)
    kinds = results if isinstance(results, tuple) else (results,)
    wanted = [f"y{place}" if kind else "" for place, kind in enumerate(kinds)]
    node = helper.make_node(operator, names, wanted, operator.lower(), domain="com.microsoft", **attributes)
    outputs = [tensor_info(name, None, kind) for name, kind in zip(wanted, kinds, strict=True) if kind]
    model = graph_of([node], inputs, outputs, stored)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model, sample


@pytest.mark.parametrize("case", CASES)
def test_a_fused_operator_computes_what_its_kernel_does(case: str, tmp_path: Path) -> None:
    model, sample = fused(case)
    assert_same(loaded(model, tmp_path), 2e-5, inputs=sample)


def test_refuses_unknown_activation_by_name(tmp_path: Path) -> None:
    model, _ = fused("conv")
    next(each for each in model.graph.node[0].attribute if each.name == "activation").s = b"Strange"
    error = refused(model, tmp_path)
    assert "com.microsoft.FusedConv (node 'fusedconv'): the activation Strange" in error.message
    assert "ORT_DISABLE_ALL" in error.hint and "--optimize" in error.hint


@pytest.mark.parametrize("operator", ["LayerNormalization", "SimplifiedLayerNormalization"])
@pytest.mark.parametrize("opset", [11, 13, 18])
def test_norms_that_onnxruntime_has_under_the_standards_name(
    operator: str, opset: int, tmp_path: Path
) -> None:
    given = [weights(D)] if operator.startswith("Simplified") else [weights(D), weights(D)]
    stored = {f"w{place}": array for place, array in enumerate(given)}
    node = helper.make_node(operator, ["x", *stored], ["y"], epsilon=1e-6, axis=-1)
    model = graph_of([node], [tensor_info("x", (B, S, D))], [tensor_info("y", (B, S, D))], stored, opset)
    assert_same(loaded(model, tmp_path))
