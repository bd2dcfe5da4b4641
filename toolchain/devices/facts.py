"""The facts that a driver reports about a device, as edge-rt sends them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from toolchain.answers import Answer, Sentence, Several, Word

Count = Annotated[int, Field(ge=0, le=2**63)]


class DeviceFacts(Answer):
    """The facts that drivers of every kind report; the classes of kinds add more.

    Attributes
    ----------
    type
        `gpu`, `cpu`, `accelerator` or `other`.
    half
        Whether the device computes in float16.
    """

    name: Sentence
    type: Word
    driver_version: Sentence
    platform: Sentence
    half: bool


class OpenclFacts(DeviceFacts):
    """The facts that an OpenCL driver reports: sizes in bytes, clocks in MHz, lanes in numbers per vector.

    Attributes
    ----------
    max_work_items
        Largest work group along each axis, in work items.
    max_alloc_bytes
        Largest buffer.
    """

    name: Sentence
    type: Word
    vendor: Sentence
    version: Sentence
    driver: Word
    driver_version: Sentence
    platform: Sentence
    compute_units: Count
    clock_mhz: Count
    max_work_group: Count
    max_work_items: Several[Count] = Field(max_length=16)
    local_bytes: Count
    global_bytes: Count
    max_alloc_bytes: Count
    cache_bytes: Count
    cache_line_bytes: Count
    float_lanes: Count
    half_lanes: Count
    half: bool


class CudaFacts(DeviceFacts):
    """The facts that NVIDIA's driver reports: sizes in bytes, clocks in MHz.

    Attributes
    ----------
    architecture
        Number of its architecture: 90 for `sm_90`.
    compute_units
        Number of its multiprocessors.
    """

    architecture: Count
    compute_units: Count
    clock_mhz: Count
    memory_clock_mhz: Count
    memory_bus_bits: Count
    max_work_group: Count
    local_bytes: Count
    global_bytes: Count
    cache_bytes: Count
