"""Tunable convolutions of a VTA."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from toolchain.arrays import Array
from toolchain.backends.vta.cut import SEED
from toolchain.tasks.parameter import Parameter
from toolchain.tasks.task import Task
from toolchain.vta.layers.layer import ConvShape, definition_of
from toolchain.vta.layers.packing import pack_activation, unpack_activation
from toolchain.vta.layers.reference import expected
from toolchain.vta.layers.region import Region
from toolchain.vta.layers.seeded import seeded_layer


@dataclass(frozen=True)
class VtaTask(Task):
    """One shape of convolutions in regions; how fast a cut is does not depend on the weights."""

    shape: ConvShape

    @property
    def definition(self) -> str:
        """Text of the shape, which `vta.layers.shape_of` parses."""
        return definition_of(self.shape)


def tasks_of(regions: Iterable[Region]) -> list[VtaTask]:
    """Return the distinct convolutions, the heaviest (weight x FLOPs) first."""
    counted = Counter(each.layer.shape for region in regions for each in region.layers)
    tasks = [_task(shape, count) for shape, count in counted.items()]
    return sorted(tasks, key=lambda task: -task.weight * task.flops)


def _task(shape: ConvShape, count: int) -> VtaTask:
    workload = hashlib.sha256(definition_of(shape).encode()).hexdigest()
    return VtaTask(
        workload=workload,
        name=f"conv2d_{shape.h}x{shape.w}_{shape.ic}_{shape.oc}_{shape.kh}x{shape.kw}_s{shape.sh}",
        weight=count,
        flops=2 * shape.macs,
        shapes=(
            (1, shape.ic, shape.h, shape.w),
            (shape.oc, shape.ic, shape.kh, shape.kw),
            (1, shape.oc, shape.oh, shape.ow),
        ),
        shape=shape,
    )


@dataclass(frozen=True)
class Blocked:
    """Activations in blocks of channels, as an accelerator has them; see `tasks.parameter.MemoryLayout`."""

    block: int

    def pack(self, value: Array) -> Array:
        """Convert [1, channels, h, w] to [blocks, h, w, block]."""
        return pack_activation(value[0], self.block)

    def unpack(self, value: Array, logical: Sequence[int]) -> Array:
        """Convert the result of `pack` back to the logical shape."""
        return unpack_activation(value, logical[1])[None]


def parameters_of(shape: ConvShape, block: int) -> tuple[Parameter, Parameter]:
    """Return the input and the output of a convolution's program."""
    layout = Blocked(block)
    return (
        Parameter((1, shape.ic, shape.h, shape.w), "int8", layout),
        Parameter((1, shape.oc, shape.oh, shape.ow), "int8", layout),
    )


@dataclass(frozen=True)
class VtaReference:
    """Computes a task with integers in numpy, with seeded weights; see `tasks.reference.TaskReference`."""

    shape: ConvShape

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameter of the image."""
        return (Parameter((1, self.shape.ic, self.shape.h, self.shape.w), "int8"),)

    def outputs(self, draws: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Return the outputs for several images."""
        layer = seeded_layer(self.shape, SEED)
        return [[expected(layer, image[0])[None]] for (image,) in draws]
