"""An entry of `[[devices]]` in board.toml: a device of a board class."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

CPU = "cpu"
VTA = "vta"
_MOST_NAME = 200  # as in manifests


def device_key(kind: str, name: str) -> str:
    """Return a device as one word, as in records and manifests: `opencl:mali-t860`.

    Parameters
    ----------
    kind
        A kind of the table of kinds.
    name
        Name of the device as its driver reports it; it may have blanks and any length.
    """
    return f"{kind}:{re.sub(r'[^!-~]+', '-', name.strip().lower())[:_MOST_NAME]}"


class Device(BaseModel):
    """A device that computes on boards of a class, with the limits that code for it must keep.

    The row of its kind says which fields an entry must have, and which keys of its own; `devices.entry`
    checks them.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: str = Field(CPU, description="a kind of device")
    name: str | None = Field(
        None,
        pattern=r"^[!-~]([ -~]{0,98}[!-~])?$",
        description="name that its driver reports; leave it out if boards of the class differ",
    )
    compute_units: int | None = Field(None, ge=1, description="number of its cores")
    max_work_group: int | None = Field(None, ge=1, description="largest work group, in work items")
    local_bytes: int | None = Field(None, ge=0, description="largest local memory of a work group, in bytes")
    private_bytes: int | None = Field(
        None,
        ge=1,
        description="private memory of a work item, in bytes; code that needs more spills, or is rejected",
    )
    vector_bytes: Literal[4, 8, 16, 32, 64] | None = Field(
        None, description="width of its vector arithmetic, in bytes"
    )
    half: bool | None = Field(None, description="whether it computes in float16")
    config: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,98}$",
        description="VTA's configuration: a name that `toolchain vta config` lists, or a .json file",
    )

    @property
    def own(self) -> Mapping[str, Any]:
        """Values of the keys that only its kind has."""
        return self.model_extra or {}
