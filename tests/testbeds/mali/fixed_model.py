"""A model of the Mali that needs no image: every kernel takes a quarter of a millisecond."""

from __future__ import annotations

from collections.abc import Iterable

from toolchain.devices.kernel import Kernel
from toolchain.testbeds.mali.estimate import Estimate
from toolchain.testbeds.mali.model import Modelled
from toolchain.testbeds.mali.statistics import Block, KernelStatistics

COMPILED = KernelStatistics(16, 221, 129, 167, 7, 9, 64, (Block(),), ())


class FixedModel:
    """In the place of `MaliModel`."""

    def __enter__(self) -> FixedModel:
        return self

    def __exit__(self, *_ended: object) -> None: ...

    def ask(self, kernels: Iterable[Kernel]) -> list[Modelled]:
        return [Modelled(kernel, COMPILED, Estimate(40, 20, 0, 30, 20.0, 0.25)) for kernel in kernels]
