"""Mali GPUs that the model knows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """A GPU of Arm's Midgard family.

    Attributes
    ----------
    cores
        Shader cores; work groups are spread over them.
    clock_mhz
        Their clock.
    arithmetic_pipes
        Of a core. It has one pipe for loads and stores, and one for textures. Each takes a word a cycle.
    """

    name: str
    cores: int
    clock_mhz: int
    arithmetic_pipes: int


T860_MP4 = Gpu("mali-t860", cores=4, clock_mhz=800, arithmetic_pipes=2)
"""The GPU of an rk3399, at the highest clock of its devfreq table (Rockchip's kernel); a T860's core has two
arithmetic pipes, a load/store and a texture pipe (Arm, "The Midgard shader core", 2015)."""
