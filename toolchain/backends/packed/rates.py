"""Speeds of the cores that classes stand for, by which code is chosen without records. No TVM.

Rates of x86 were measured on a Sapphire Rapids core at 2.6 GHz whose memory gives 16 GB/s, by the layers of
ResNet-18 in the network (FMA peak 249 GFLOP/s, half of it with AVX2). Of these numbers only their proportions
matter. ARM: a model, for nothing was run on silicon. aarch64: Cortex-A72 at 1.8 GHz, one vector of four FMAs
a cycle at 95 %, four instructions per transformed vector, an rk3399's memory. armv7: Cortex-A9 at 650 MHz,
two cycles per vector at 85 %, a Zynq's memory.

The defaults of `Rates`, taken for every machine, are fitted to twelve layers of ResNet-18 and VGG-16,
measured in the network with AVX-512: of 100 ways to compute them the estimates are right within 10 % for
63, within 15 % for 77, and what they lead to is on average 1.6 % slower than the fastest.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rates:
    """Speeds of one core while it runs a network.

    Attributes
    ----------
    flops
        Float32 operations per second, for products of values in registers.
    values
        Values per second that winograd's transforms read or write.
    stream
        Bytes per second of weights that no cache holds, read while products are summed up.
    again
        Speed-up of re-reading data evicted from L2 when a cache behind it holds the data (1.0: there is
        none).
    exposed, exposed_of_passes
        Computing and prefetching weights overlap incompletely: the time is the longer of the two and this
        share of the shorter. The first is for sums computed in one loop, the second for sums that are
        stored and read back between several loops.
    held, spilled
        Most values for which winograd's transforms stay in registers, and the slowdown of larger ones.
    peak
        Float32 operations per second of the core for which these speeds were found, in registers and with
        nothing else to do; 0: not known.
    source
        Where these speeds are from: the core on which they were measured, or what was modelled.
    cache
        Bytes of the core's L2 for estimates; 0: the machine's `cache`.
    """

    flops: float
    values: float
    stream: float
    again: float = 1.0
    exposed: float = 0.4
    exposed_of_passes: float = 0.2
    held: int = 36
    spilled: float = 3.0
    peak: float = 0.0
    source: str = ""
    cache: int = 0


_SAPPHIRE_RAPIDS = "measured on a Sapphire Rapids core at 2.6 GHz"
SSE = Rates(40e9, 3e9, 16e9, 1.8, peak=62e9, source=_SAPPHIRE_RAPIDS)
AVX2 = Rates(105e9, 7e9, 16e9, 1.8, peak=124.5e9, source=_SAPPHIRE_RAPIDS)
AVX512 = Rates(200e9, 9e9, 16e9, 1.8, peak=249e9, source=_SAPPHIRE_RAPIDS)
AARCH64 = Rates(13.7e9, 1.8e9, 4e9, peak=14.4e9, source="model of all aarch64 cores: a Cortex-A72 at 1.8 GHz")
ARMV7 = Rates(2.2e9, 0.4e9, 0.6e9, peak=2.6e9, source="model of all armv7 cores: a Cortex-A9 at 650 MHz")

_X86 = {"x86-64-v4": AVX512, "x86-64-v3": AVX2, "x86-64-v2": SSE, "x86-64": SSE}


def rates_of_class(triple: str, cpu: str) -> Rates | None:
    """Return the rates by which code for a cpu of a class is chosen; None for an x86 cpu that is no level."""
    if triple.startswith("x86_64"):
        return _X86.get(cpu)
    return AARCH64 if triple.startswith("aarch64") else ARMV7
