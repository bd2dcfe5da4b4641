"""An entry of `[[devices]]` in board.toml, checked by the row of its kind."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from toolchain.devices.device import CPU, Device
from toolchain.devices.kind import DeviceKind
from toolchain.devices.table import find_kind, kind_names


def _checked(device: Device) -> Device:
    row = find_kind(device.kind)
    if row is None:
        said = f"no such kind of device; the kinds are: {', '.join(kind_names())}"
        wrong = PydanticCustomError("no_such_kind", said)
        raise _refusal(InitErrorDetails(type=wrong, loc=("kind",), input=device.kind))
    if unknown := sorted(set(device.own) - set(row.own)):
        extra = "extra_forbidden"
        raise _refusal(*(InitErrorDetails(type=extra, loc=(key,), input=device.own[key]) for key in unknown))
    _check_fields(device, row)
    return device


def _refusal(*details: InitErrorDetails) -> ValidationError:
    return ValidationError.from_exception_data("Device", list(details))


def _check_fields(device: Device, row: DeviceKind) -> None:
    given = {key for key in device.model_fields_set - {"kind"} if getattr(device, key) is not None}
    if device.kind == CPU:
        if given:
            raise ValueError(f"a CPU has clusters, and does not have: {', '.join(sorted(given))}")
        return
    if odd := sorted(given - row.needs - set(row.own) - {"name"}):
        raise ValueError(f"a device of kind {device.kind} does not have: {', '.join(odd)}")
    if missing := sorted((row.needs | set(row.own)) - given):
        raise ValueError(f"a device of kind {device.kind} needs: {', '.join(missing)}")
    if row.check is not None:
        row.check(device)


Entry = Annotated[Device, AfterValidator(_checked)]
"""A `Device` whose fields match the row of its kind."""
