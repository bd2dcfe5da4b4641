"""What a driver says of a device, as edge-rt passes it on."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from toolchain.answers import Answer, Sentence, Several, Word

Count = Annotated[int, Field(ge=0, le=2**63)]


class DeviceFacts(Answer):
    """What every kind's drivers say; a kind's own form has more.

    Attributes
    ----------
    type
        `gpu`, `cpu`, `accelerator` or `other`.
    half
        Whether it computes in float16.
    """

    name: Sentence
    type: Word
    driver_version: Sentence
    platform: Sentence
    half: bool


class OpenclFacts(DeviceFacts):
    """What a driver of OpenCL says; bytes, MHz, and vectors of so many numbers.

    Attributes
    ----------
    max_work_items
        Along each axis of a work group.
    max_alloc_bytes
        At once.
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
