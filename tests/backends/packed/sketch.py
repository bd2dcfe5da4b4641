"""A graph while it is drawn: its nodes, weights and inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

Shape = tuple[int, ...]


class Sketch:
    """A graph while it is drawn; all names begin with `prefix`."""

    def __init__(self, prefix: str, seed: int) -> None:
        self.prefix = prefix
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self.inputs: dict[str, Shape] = {}
        self.count = 0

    def _name(self) -> str:
        self.count += 1
        return f"{self.prefix}{self.count}"

    def input(self, shape: Shape) -> str:
        name = self._name()
        self.inputs[name] = shape
        return name

    def constant(self, value: Any, dtype: str = "f4") -> str:
        name = self._name()
        self.weights[name] = np.asarray(value, dtype)
        return name

    def weight(self, *shape: int, fan_in: int = 1) -> str:
        return self.constant(self.random.standard_normal(shape) / np.sqrt(fan_in))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = self._name()
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name
