"""A small convolution that fits every design; it tests the way to a board before tuning."""

from __future__ import annotations

from toolchain.backends.vta.cut import Cut
from toolchain.backends.vta.task import VtaReference, parameters_of
from toolchain.tasks.candidate import Candidate, Entry
from toolchain.tasks.reference import Known, Probe
from toolchain.vta.compiling.estimate import default_knobs
from toolchain.vta.design.config import VtaConfig
from toolchain.vta.layers.layer import ConvShape

_SIZE, _BLOCKS = 14, 2


def probe_for(config: VtaConfig, driver: str) -> Probe:
    """Return the probe, with the cut that builds use without a record."""
    channels = _BLOCKS * config.block
    shape = ConvShape(1, _SIZE, _SIZE, channels, channels, 3, 3, 1, 1, 1, 1)
    image = (1, channels, _SIZE, _SIZE)
    task = Known(
        "known-good-kernel",
        "small convolution",
        1,
        2 * shape.macs,
        (image, (channels, channels, 3, 3), image),
    )
    cut = Cut(shape, default_knobs(shape, config), config, driver)
    candidate = Candidate(Entry("probe", "", "probe"), cut, parameters_of(shape, config.block), 1)
    return Probe(task, candidate, VtaReference(shape))
