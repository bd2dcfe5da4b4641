"""The estimated time of a kernel's launch on a GPU.

computing = operations of the busiest unit / its rate with the items that it has at once
waiting   = turns of the busiest unit x steps that wait for values x latency
reading   = bytes that all groups read / bandwidth of the common cache
memory    = bytes that are read and written for the first time / bandwidth of memory
seconds   = launch + the longest of these
"""

from __future__ import annotations

from dataclasses import dataclass

from toolchain.backends.packed.gpus import GpuRow

_NUMBER = 4  # bytes of float32
_ALONE = 96  # registers of an item that computes a tile of its own
_PEAK = 0.5  # share of its peak that a unit reaches with such items: every number comes by an instruction
_SHARED = 4  # items of a group that read the same number, about
_AT_ONCE = 32  # numbers that an item asks for before it waits
_MOST_GROUPS = 32  # at once on a unit (CUDA C++ Programming Guide, "Compute Capabilities")


@dataclass(frozen=True)
class Launch:
    """Work of a kernel, as the estimate of its time sees it.

    Attributes
    ----------
    groups, items
        Number of work groups, and of items in a group.
    registers
        Registers of an item, of 32 bits.
    local
        Bytes of local memory of a group.
    operations
        Floating-point operations of a group.
    read
        Bytes that a group reads from beyond its unit.
    waits
        Times that a group waits for values that it asked for.
    memory
        Bytes of distinct values that the kernel reads and writes.
    """

    groups: int
    items: int
    registers: int
    local: int
    operations: float
    read: float
    waits: float
    memory: float


def seconds(launch: Launch, gpu: GpuRow) -> float:
    """Return the estimated time of a launch."""
    busiest = -(-launch.groups // gpu.units)
    at_once = min(busiest, groups_at_once(launch, gpu))
    rate = gpu.flops * min(1.0, at_once * launch.items / gpu.full)
    computing = busiest * launch.operations / rate
    waiting = -(-busiest // at_once) * launch.waits * gpu.latency
    reading = launch.groups * launch.read / gpu.cached
    return gpu.launch + max(computing, waiting, reading, launch.memory / gpu.bandwidth)


def groups_at_once(launch: Launch, gpu: GpuRow) -> int:
    """Return how many groups a unit runs at once; at least one."""
    fitting = [
        _MOST_GROUPS,
        gpu.items // launch.items,
        gpu.registers // (launch.registers * launch.items),
        gpu.local // launch.local if launch.local else _MOST_GROUPS,
    ]
    return max(1, min(fitting))


def alone(items: int, group: int, products: float, numbers: int, gpu: GpuRow) -> float:
    """Return the estimated time of a launch whose items compute tiles of their own from memory.

    Parameters
    ----------
    items, group
        Number of items, and of items in a group.
    products
        Multiply-adds of an item.
    numbers
        Numbers of float32 that an item reads.
    """
    groups = -(-items // group)
    each = Launch(
        groups=groups,
        items=group,
        registers=_ALONE,
        local=0,
        operations=2 * products * group / _PEAK,
        read=numbers * _NUMBER * group / _SHARED,
        waits=numbers / _AT_ONCE,
        memory=0,
    )
    return seconds(each, gpu)
