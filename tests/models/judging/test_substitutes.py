"""What judges instead of onnxruntime: the substitutes of weak operators, against float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.models.graphs import graph_of, tensor_info
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
