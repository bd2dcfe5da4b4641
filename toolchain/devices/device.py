"""What a board class says of a device: `[[devices]]` in board.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

CPU = "cpu"
VTA = "vta"
_MOST_NAME = 200  # as in manifests


def device_key(kind: str, name: str) -> str:
    """Return a device in one word, as records and manifests have it: `opencl:mali-t860`.

    Parameters
    ----------
    kind
        A name of the table of kinds.
    name
        As the driver calls it; a driver's name may have blanks, and any length.
    """
    return f"{kind}:{re.sub(r'[^!-~]+', '-', name.strip().lower())[:_MOST_NAME]}"


class Device(BaseModel):
    """What computes on a board. Those that are no CPUs have limits, which code for them keeps to.

    `devices.entry` checks it by the row of its kind, which says what fields and keys of its own it has.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: str = Field(CPU, description="a kind of device")
    name: str | None = Field(
        None,
        pattern=r"^[!-~]([ -~]{0,98}[!-~])?$",
        description="as its driver calls it; none where boards of the class differ",
    )
    compute_units: int | None = Field(None, ge=1, description="cores of it")
    max_work_group: int | None = Field(None, ge=1, description="most work items of a work group")
    local_bytes: int | None = Field(None, ge=0, description="most local memory of a work group")
    private_bytes: int | None = Field(
        None, ge=1, description="of a work item: code with more spills, or is refused by the driver"
    )
    vector_bytes: int | None = Field(None, ge=4, description="of the vectors that it computes with")
    half: bool | None = Field(None, description="whether it computes in float16")
    config: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,98}$",
        description="of a VTA: a name that `toolchain vta config` lists, or a file (.json) beside this one",
    )

    @property
    def own(self) -> Mapping[str, Any]:
        """What the entry says by keys that only its kind has."""
        return self.model_extra or {}
