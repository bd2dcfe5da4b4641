"""Mali GPUs that the model knows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """A GPU of Arm's Midgard family.

    Attributes
    ----------
    cores
        Number of shader cores, over which work groups are spread.
    clock_mhz
        Clock of the cores.
    arithmetic_pipes
        Arithmetic pipes of a core, which also has a load/store and a texture pipe. Each pipe executes one
        instruction word per cycle.
    """

    name: str
    cores: int
    clock_mhz: int
    arithmetic_pipes: int


T860_MP4 = Gpu("mali-t860", cores=4, clock_mhz=800, arithmetic_pipes=2)
"""The GPU of an rk3399, at the highest clock of its devfreq table (Rockchip's kernel); a T860's core has two
arithmetic pipes, a load/store and a texture pipe (Arm, "The Midgard shader core", 2015)."""
