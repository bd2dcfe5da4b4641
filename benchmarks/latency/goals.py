"""What the project aims at: our time over a peer's, float32, batch 1, not tuned. Below 1 we are faster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """The most that our time may be, as a share of onnxruntime's and of the fastest peer's."""

    onnxruntime: float
    fastest: float


GOALS = {
    "resnet-18": Goal(0.48, 0.75),
    "vgg-16": Goal(0.5, 0.6),
    "resnet-50": Goal(0.7, 0.8),
    "mobilenet": Goal(0.9, 0.9),
    "squeezenet_v1.1": Goal(0.85, 0.95),
    "inception_v3": Goal(0.85, 0.95),
}
MEMORY_RATIO = 1.2  # our peak memory over onnxruntime's
BUILD_S = {"resnet-18": 15.0}
