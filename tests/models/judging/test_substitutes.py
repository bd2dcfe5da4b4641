"""What judges instead of onnxruntime: the substitutes of weak operators, against float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.models.graphs import graph_of, tensor_info
from tests.models.judging.exact import real, rounded, softmax
from tests.models.rewrites.judge import assert_same, loaded
from toolchain.models.judging.reference import reference_outputs


def tone(samples: int, parts: int = 1) -> np.ndarray:
    """Return a signal like speech: a loud low tone over faint noise, [1, samples, parts]."""
    noise = np.random.default_rng(0).normal(scale=1e-3, size=(1, samples, parts))
    wave = np.sin(np.arange(samples) * 0.05)[None, :, None]
    return (wave * np.linspace(1, 0, samples)[None, :, None] + noise).astype(np.float32)


def spectrum(x: np.ndarray, step: int, points: int, window: np.ndarray | None, onesided: bool) -> np.ndarray:
    """Return the spectrum in float64, [1, frames, frequencies, 2]."""
    signal = x.astype(np.float64) @ ([1] if x.shape[-1] == 1 else [1, 1j])
    frames = np.stack([signal[:, at : at + points] for at in range(0, x.shape[1] - points + 1, step)], 1)
    found = np.fft.fft(frames * (1 if window is None else window.astype(np.float64)))
    found = found[..., : points // 2 + 1] if onesided else found
    return np.stack([found.real, found.imag], -1)


@pytest.mark.parametrize(
    ("parts", "onesided", "windowed", "length"),
    [(1, 1, True, True), (1, 1, True, False), (1, 0, False, True), (2, 0, True, True)],
)
def test_spectra_are_judged_in_float64(
    parts: int, onesided: int, windowed: bool, length: bool, tmp_path: Path
) -> None:
    window = np.hanning(400).astype(np.float32)
    weights = {"step": np.array(160), "length": np.array(400), "window": window}
    inputs = ["x", "step", "window" if windowed else "", "length" if length else ""]
    node = helper.make_node("STFT", inputs, ["y"], onesided=onesided)
    graph = graph_of([node], [tensor_info("x", (1, "n", parts))], [tensor_info("y", None)], weights)
    x = tone(4000, parts)
    model = loaded(graph, tmp_path, shapes={"x": (1, 4000, parts)})
    due = spectrum(x, 160, 400, window if windowed else None, bool(onesided))
    found = reference_outputs(model, {"x": x})["y"]
    assert np.abs(found - due).max() < 1e-7 * np.abs(due).max()
    assert np.abs(found - due)[np.abs(due) < 1].max() < 1e-6, "faint frequencies as well"
    if parts == 1 and windowed and length:
        assert_same(model, 1e-4, inputs={"x": x})


@pytest.mark.slow
@pytest.mark.parametrize("mean", [0, 1000, 1e5])
def test_norms_of_large_means_are_exact(mean: float, tmp_path: Path) -> None:
    x = (np.random.default_rng(0).normal(size=(2, 3, 16, 16)) + mean).astype(np.float32)
    node = helper.make_node("MeanVarianceNormalization", ["x"], ["y"])
    model = loaded(graph_of([node], [tensor_info("x", x.shape)], [tensor_info("y", x.shape)], {}), tmp_path)
    apart = x - x.astype(np.float64).mean((0, 2, 3), keepdims=True)
    due = apart / np.sqrt((apart * apart).mean((0, 2, 3), keepdims=True))
    np.testing.assert_allclose(reference_outputs(model, {"x": x})["y"], due, rtol=1e-6, atol=1e-6)
    assert_same(model, 1e-5, inputs={"x": x})


@pytest.mark.parametrize("extent", [1, 2, 300])
def test_softmax_of_bytes_is_that_of_exact_integers(extent: int, tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (3, extent)).astype(np.uint8)
    stored = {"s": np.float32(0.05), "z": np.uint8(10), "t": np.float32(1 / 256), "n": np.uint8(0)}
    node = helper.make_node(
        "QLinearSoftmax", ["x", *stored], ["y"], domain="com.microsoft", axis=-1, opset=13
    )
    ends = [tensor_info(name, x.shape, TensorProto.UINT8) for name in "xy"]
    graph = graph_of([node], ends[:1], ends[1:], {name: np.asarray(value) for name, value in stored.items()})
    graph.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model = loaded(graph, tmp_path)
    due = rounded(softmax(real(x, 0.05, 10)), 1 / 256, 0, "uint8")
    np.testing.assert_array_equal(reference_outputs(model, {"x": x})["y"], due)
    assert_same(model, steps=1, inputs={"x": x})


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("bias", [False, True])
def test_turned_products_of_integers_are_judged_exactly(
    kind: str, turned: int, bias: bool, tmp_path: Path
) -> None:
    random, least = np.random.default_rng(0), np.iinfo(kind).min
    a = random.integers(least, least + 256, (64, 32) if turned else (32, 64)).astype(kind)
    w = random.integers(-128, 128, (64, 5)).astype(np.int8)
    b = random.integers(-500, 500, 5).astype(np.int32)
    zero = np.asarray(least + 120, kind)
    steps = {"sa": 0.02, "sw": 0.01, "sy": 0.2, "sb": np.float32(0.02) * np.float32(0.01)}
    stored = {name: np.asarray(value, np.float32) for name, value in steps.items()}
    stored |= {"w": w, "b": b, "zw": np.int8(0), "zb": np.int32(0)}
    stored |= {"za": zero, "zy": np.asarray(least + 128, kind)}
    nodes = [
        helper.make_node("DequantizeLinear", [name, f"s{name}", f"z{name}"], [f"f{name}"])
        for name in ("a", "w", *(["b"] if bias else []))
    ]
    nodes += [
        helper.make_node("Gemm", ["fa", "fw", *(["fb"] if bias else [])], ["fy"], transA=turned),
        helper.make_node("QuantizeLinear", ["fy", "sy", "zy"], ["y"]),
    ]
    code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    ends = [tensor_info("a", a.shape, code)], [tensor_info("y", (32, 5), code)]
    stored = {k: np.asarray(v) for k, v in stored.items() if bias or k[-1] != "b"}
    model = loaded(graph_of(nodes, *ends, stored), tmp_path)
    sums = (a.T if turned else a).astype(np.int64) - int(zero)
    exact = (sums @ w.astype(np.int64)) * np.float64(stored["sa"]) * np.float64(stored["sw"])
    exact += b * np.float64(np.float32(steps["sb"])) if bias else 0
    found = reference_outputs(model, {"a": a})["y"].astype(int)
    due = rounded(exact, 0.2, least + 128, kind).astype(int)
    assert np.abs(found - due).max() <= 1 and (found != due).mean() < 0.02
    assert_same(model, steps=1, inputs={"a": a})
