"""Networks outside the zoo are valid and depend on their inputs; functions find their nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from benchmarks.families.compare import costlier, joined, ours
from benchmarks.families.graph import Net
from benchmarks.families.nodes import OTHER, groups, optimised, summed
from benchmarks.families.page import markdown
from benchmarks.families.table import FAMILIES
from benchmarks.latency.layers import Function

pytestmark = pytest.mark.slow

SMALL = {
    "ds-cnn": None,
    "mlp": None,
    "espcn": (1, 1, 16, 16),
    "style": (1, 3, 32, 32),
    "yolo": (1, 3, 64, 64),
    "wavenet": (1, 1, 128),
    "bert-small": (1, 16),
    "lstm": (5, 1, 128),
    "gru": (5, 1, 96),
    "crnn": (1, 1, 32, 16),
    "pitch": (1, 1, 1, 4096),
    "conformer": (1, 12, 80),
    "dcgan": None,
    "unet-3d": (1, 1, 8, 8, 8),
    "rcan": (1, 3, 8, 8),
    "bifpn": (1, 3, 64, 64),
}


@pytest.mark.parametrize("name", SMALL)
def test_network_is_valid_and_its_output_depends_on_its_input(name: str) -> None:
    model = FAMILIES[name].model(SMALL[name])
    onnx.checker.check_model(model)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape
    random = np.random.default_rng(0)
    tokens = FAMILIES[name].tokens

    def given() -> np.ndarray:
        return (
            random.integers(0, tokens, shape) if tokens else random.standard_normal(shape).astype(np.float32)
        )

    (first,), (second,) = (session.run(None, {"data": given()}) for _ in range(2))
    assert np.isfinite(first).all()
    assert np.abs(first - second).max() > 0.05 * np.abs(first).max()


def test_names_follow_families() -> None:
    assert len(FAMILIES) >= 15
    assert all(name == network.name for name, network in FAMILIES.items())


def small() -> onnx.ModelProto:
    net = Net("small", (1, 8, 6, 6))
    x = net.norm_conv("c0", net.data, 16, 3, act="silu")
    x = net.linear("fc", net.flatten("flatten", net.global_average_pool("pool", x)), 5)
    return net.model(net.unary("Softmax", "softmax", x, axis=-1))


CONV, FC = ("product", 16 * 8 * 9, 16 * 36), ("product", 80, 5)


def test_what_follows_a_product_counts_for_it() -> None:
    known = groups(small())
    assert [known[name] for name in ("c0", "c0_bn", "c0_act_sigmoid", "c0_act")] == [CONV] * 4
    assert (known["fc_product"], known["fc"]) == (FC, FC)
    assert (known["pool"][0], known["softmax"][0], known["flatten"][0]) == (
        "pools and means", "softmax", OTHER,
    )  # fmt: skip


def test_what_follows_a_resize_a_norm_or_a_pool_counts_for_it_as_it_is_fused_so() -> None:
    net = Net("small", (1, 8, 6, 6))
    first = net.norm_conv("c0", net.data, 16, 3, act="silu")
    half = net.max_pool("half", first, kernel=2, stride=2)
    known = groups(net.model(net.silu("mixed_act", net.add("mixed", first, net.upsample("up", half)))))
    names = ("up", "mixed", "mixed_act_sigmoid", "mixed_act")
    assert [known[name] for name in names] == [("resizes", 0, 0)] * 4
    assert known["c0_act"][0] == "product"

    net = Net("small", (1, 8, 36))
    known = groups(
        net.model(net.gelu("act", net.group_norm("norm", net.conv("c0", net.data, 16, kernel=3), 16)))
    )
    assert known["c0"][0] == "product"
    assert {known[name] for name in known if name.startswith(("norm", "act"))} - {(OTHER, 0, 0)} == {
        ("norms", 0, 0)
    }
    assert known["norm"] == known["act"] == ("norms", 0, 0)


def event(name: str, op: str, us: int, *shape: int) -> dict[str, object]:
    arguments = {"op_name": op, "output_type_shape": [{"float": shape}]}
    return {"cat": "Node", "name": f"{name}_kernel_time", "dur": us, "args": arguments}


def test_optimised_nodes_find_what_they_were_made_of() -> None:
    events = [
        event("c0_bn_nchwc", "Conv", 3000),
        event("c0_act", "QuickGelu", 1000),
        event("Gelu_token_7", "Gelu", 400),
        event("Gelu_token_8", "Gelu", 50),
        event("ReorderOutput_token_3", "ReorderOutput", 500),
        event("fc_product/MatMulAddFusion", "Gemm", 200),
        event("softmax", "Softmax", 100),
        event("output_nchwc", "Upsample", 700),  # named after the Identity behind it
        {"cat": "Session", "name": "model_run", "dur": 9999, "args": {}},
    ]
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Conv", ["data"], ["reordered"], "c0_bn_nchwc"),
            onnx.helper.make_node("Reshape", ["reordered", "shape"], ["rows"], "gemm_output_reshape"),
            onnx.helper.make_node("Gelu", ["rows"], ["activated"], "Gelu_token_7"),
            onnx.helper.make_node("Gelu", ["data"], ["other"], "Gelu_token_8"),
        ],
        "optimised", [], [],
    )  # fmt: skip
    known = optimised(onnx.helper.make_model(graph), groups(small()))
    assert summed(events, known) == {
        CONV: 4.4, (OTHER, 0, 0): 0.55, FC: 0.2, ("softmax", 0, 0): 0.1, ("resizes", 0, 0): 0.7,
    }  # fmt: skip


def test_both_layers_of_a_gate_find_their_nodes() -> None:
    narrow, wide = ("product", 32, 4), ("product", 32, 8)
    shapes = (
        ((1, 8, 1, 1), (4, 8, 1, 1), (1, 4, 1, 1)),
        ((1, 4, 1, 1), (8, 4, 1, 1), (1, 8, 6, 6), (1, 8, 6, 6)),
    )
    known = {
        name: Function(1, name, "dense", shape)
        for name, shape in zip(("fused_conv2d_relu", "fused_conv2d1_sigmoid_multiply"), shapes, strict=True)
    }
    found = ours([{"name": name, "ms": 1.0} for name in known], known, [wide, narrow])
    assert {key: group.functions for key, group in found.items()} == {
        narrow: ["fused_conv2d_relu"], wide: ["fused_conv2d1_sigmoid_multiply"],
    }  # fmt: skip


def test_functions_stand_beside_their_nodes_and_only_losses_are_listed() -> None:
    known = {
        "fused_conv2d_add_sigmoid_multiply": Function(
            1, "8→16 3x3, 6x6", "direct", ((1, 8, 6, 6), (16, 8, 3, 3), (1, 16, 6, 6))
        ),
        "fused_matmul_add": Function(1, "matmul, 5", "dense", ((1, 16), (16, 5), (1, 5))),
        "softmax": Function(1, "softmax, 5", "general", ((1, 5), (1, 5))),
    }
    operators = [
        {"name": "fused_conv2d_add_sigmoid_multiply", "ms": 2.0, "calls": 1},
        {"name": "fused_matmul_add_1", "ms": 1.0, "calls": 1},
        {"name": "softmax", "ms": 1.0, "calls": 1},
    ]
    theirs = {CONV: 3.0, FC: 0.5, ("softmax", 0, 0): 0.5}
    both = joined(ours(operators, known, theirs), theirs, 8.0, 8.0)  # twice what the profiles have
    assert {key: (group.ours_ms, group.theirs_ms) for key, group in both} == {
        CONV: (4.0, 6.0), FC: (2.0, 1.0), ("softmax", 0, 0): (2.0, 1.0),
    }  # fmt: skip
    lost = costlier(both, 8.0)
    assert {key: group.rules for key, group in lost} == {FC: {"dense"}, ("softmax", 0, 0): {"general"}}


def document() -> dict[str, Any]:
    def entry(ms: float, cpu: float) -> dict[str, Any]:
        return {"min_ms": ms, "median_ms": ms, "cpu_ms": cpu, "error": 1e-6}

    slow = {"kind": "softmax", "functions": ["softmax, 5"], "rules": ["general"], "ours_ms": 2.0,
            "theirs_ms": 1.0}  # fmt: skip
    common = {"batch": 1, "others": 0.0, "build_s": 12.3}
    theirs = entry(10.0, 10.0)
    return {
        "machine": {"date": "2026-01-01", "cpu": "a CPU", "cores": 2, "memory_gib": 4.0, "commit": "abc",
                    "versions": {"onnxruntime": "1"}},
        "plan": {"rounds": 4, "runs": 25, "seconds": 0.5},
        "rows": [
            {**common, "network": "yolo", "threads": 1, "costlier": [slow],
             "contenders": {"ours": entry(5.0, 4.0), "onnxruntime": theirs}},
            {**common, "network": "mlp", "threads": 1,
             "contenders": {"ours": entry(9.0, 10.0), "onnxruntime": theirs}},
            {**common, "network": "lstm", "threads": 1,
             "contenders": {"ours": {"reason": "unsupported operators: LSTM"}, "onnxruntime": theirs}},
        ],
    }  # fmt: skip


def test_page_names_means_who_misses_the_goal_and_who_has_no_time() -> None:
    text = markdown(document())
    assert "Geometric mean over 2 networks: 0.63 by CPU time, 0.67 by the clock (goal 0.65)." in text
    assert "Above 0.95 by CPU time: mlp (1.00). Without a time: lstm." in text
    assert "| mlp | dense layers, tiny | 9.00 | 10.00 | **1.00** | 0.90 |" in text
    assert "unsupported operators: LSTM" in text
    assert "| yolo | softmax: softmax, 5 | general | 2.000 | 1.000 | 2.00 |" in text


def test_page_says_that_features_of_the_cpu_were_hidden() -> None:
    assert "are hidden" in markdown({**document(), "avx2": True})
    assert "are hidden" not in markdown(document())
