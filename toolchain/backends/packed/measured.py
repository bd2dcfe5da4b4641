"""A machine with the speeds that were measured on a board, in place of those of its row.

What `edge-rt probe` measures is not yet what estimates need: code reaches a part of the peak, and winograd's
transforms have no probe of their own. So the figures of a row are scaled by what was measured:

    flops   by the peak of the same vectors' products: a row's share of its own peak stays
    values  by the same: transforms are vectors of additions in L1, and keep pace with clock and vector
    stream  what one core reads from memory while all of them do
    again   what it reads from L3 in the time of a byte from memory
    cache   the core's L2, as the system reports it

The share of the peak and the price of spilled transforms differ between microarchitectures: a row of
`MICROARCHITECTURES` says by how much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolchain.architectures.rates import ClusterRates
from toolchain.backends.packed.machine import Machine

_PRODUCTS = {"sse": "sse", "avx2": "avx2", "avx512": "avx512", "aarch64": "neon", "armv7": "neon"}
"""Name of a machine's float32 products in the answer of `edge-rt probe`."""


@dataclass(frozen=True)
class Microarchitecture:
    """How cores of one family differ from the core for which a row's rates were found.

    Attributes
    ----------
    reached
        Share of the peak that convolutions reach with their operands in the caches.
    spilled
        Slowdown of winograd's transforms that do not fit the registers.
    """

    reached: float
    spilled: float


_ZEN = Microarchitecture(reached=0.97, spilled=1.5)
MICROARCHITECTURES = {"AuthenticAMD 25": _ZEN, "AuthenticAMD 26": _ZEN}
"""By maker and family. Measured on a Zen 5 (family 26) with AVX-512: docs/decisions/0069 says how. Zen 4
(family 25) reaches 90 to 98 % of its peak, too; its transforms were not measured."""


def measured(machine: Machine, rates: ClusterRates) -> Machine:
    """Return a machine with the speeds measured on a board; itself if its products were not measured."""
    row, threads = machine.rates, machine.threads
    gops = rates.product_of(_PRODUCTS.get(machine.isa, ""), threads)
    memory, third = rates.read_of("memory", threads), rates.read_of("l3", threads)
    if gops is None or memory is None or not row.peak:
        return machine
    peak = gops * 1e9
    own = MICROARCHITECTURES.get(rates.family or "")
    return replace(
        machine,
        rates=replace(
            row,
            flops=peak * (own.reached if own else row.flops / row.peak),
            values=row.values * peak / row.peak,
            stream=memory * 1e9,
            again=max(1.0, third / memory) if third else 1.0,
            spilled=own.spilled if own else row.spilled,
            peak=peak,
            source="measured on the board",
            cache=(rates.l2_kib or 0) << 10,
        ),
    )
