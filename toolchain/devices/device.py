"""What a board class says of a device: `[[devices]]` in board.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from toolchain.devices.table import find_kind, kind_names

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


def _known_kind(kind: str) -> str:
    if find_kind(kind) is None:
        raise ValueError(f"no such kind of device; the kinds are: {', '.join(kind_names())}")
    return kind


class Device(BaseModel):
    """What computes on a board. Those that are no CPUs have limits, which code for them keeps to.

    The kind's row says which of the fields an entry has, and which keys of its own beside them.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: Annotated[str, AfterValidator(_known_kind)] = Field("cpu", description="a kind of device")
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

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Self:
        row = find_kind(self.kind)
        assert row is not None  # noqa: S101 - `kind` is checked
        if unknown := sorted(set(self.own) - set(row.own)):
            details = [
                InitErrorDetails(type="extra_forbidden", loc=(key,), input=self.own[key]) for key in unknown
            ]
            raise ValidationError.from_exception_data("Device", details)
        given = {key for key in self.model_fields_set - {"kind"} if getattr(self, key) is not None}
        if self.kind == CPU:
            if given:
                raise ValueError(f"a CPU has clusters, and none of: {', '.join(sorted(given))}")
            return self
        if odd := sorted(given - row.needs - set(row.own) - {"name"}):
            raise ValueError(f"a device of kind {self.kind} has none of: {', '.join(odd)}")
        if missing := sorted((row.needs | set(row.own)) - given):
            raise ValueError(f"a device of kind {self.kind} needs: {', '.join(missing)}")
        return self
