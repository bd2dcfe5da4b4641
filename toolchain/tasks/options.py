"""What a user says about the code that is made. Imports neither tvm nor onnx."""

from __future__ import annotations

from dataclasses import dataclass, fields
from shlex import quote

from toolchain.errors import UsageError

LAYOUTS = ("auto", "packed", "NCHW", "NHWC")
WINOGRADS = ("auto", "off")
DTYPES = ("float32", "float16", "int8")


@dataclass(frozen=True)
class CodeOptions:
    """How a network is computed, as typed; a backend makes of `auto` what it has.

    Attributes
    ----------
    device
        What computes on the board: a kind of the board class's devices, or `KIND:NAME` for one that the
        class does not name, or another than it names.
    layout
        Of convolutions; `auto` on CPUs: packed, channels in blocks as wide as a vector.
    winograd
        Whether convolutions may be computed by winograd in packed layouts; `auto`: where it pays.
    dtype
        Arithmetic of the library; its inputs and outputs are always float32, and so is the reference of one
        in float16. `int8`: the network was quantised when it was loaded; the rest of it is float32.
    start_pack, stop_pack
        Of a VTA: the operator that its regions begin behind, and the one that they end before; empty: a first
        pooling and a last average.
    """

    device: str = "cpu"
    layout: str = "auto"
    winograd: str = "auto"
    dtype: str = "float32"
    start_pack: str = ""
    stop_pack: str = ""

    def __post_init__(self) -> None:
        for name, allowed in (("layout", LAYOUTS), ("winograd", WINOGRADS), ("dtype", DTYPES)):
            value = getattr(self, name)
            if value not in allowed:
                raise UsageError(f"--{name} {value}: no such choice", f"use --{name} {'|'.join(allowed)}")

        if (self.start_pack or self.stop_pack) and self.device_kind != "vta":
            option = "--start-pack" if self.start_pack else "--stop-pack"
            raise UsageError(f"{option}: only a VTA has regions", "add --device vta")

    @property
    def floats(self) -> str:
        """Type of all that is computed in floats."""
        return "float32" if self.dtype == "int8" else self.dtype

    @property
    def device_kind(self) -> str:
        """Kind of what computes."""
        return self.device.partition(":")[0]

    @property
    def device_name(self) -> str:
        """Name of what computes, where one was given."""
        return self.device.partition(":")[2].strip()

    def typed(self) -> str:
        """Return what gives these options on a command line, each with a blank before it."""
        return "".join(
            f" --{field.name.replace('_', '-')} {quote(getattr(self, field.name))}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        )
