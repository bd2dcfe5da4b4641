"""The user's options for the generated code. Imports neither tvm nor onnx."""

from __future__ import annotations

from dataclasses import dataclass, fields
from shlex import quote

from toolchain.devices.table import kind_of
from toolchain.errors import UsageError

LAYOUTS = ("auto", "packed", "NCHW", "NHWC")
WINOGRADS = ("auto", "off")
RATES = ("auto", "class", "board")
DTYPES = ("float32", "float16", "tfloat32", "int8")


@dataclass(frozen=True)
class CodeOptions:
    """The options as the user typed them; each backend resolves `auto` for itself.

    Attributes
    ----------
    device
        The device on the board that computes: a kind among the board class's devices, or `KIND:NAME` to name
        a device that the class does not have or names differently.
    layout
        Layout of convolutions; `auto` on CPUs: packed, with channels in blocks as wide as a vector register.
    winograd
        Whether convolutions in packed layouts may use Winograd's algorithm; `auto`: where it is faster.
    dtype
        Type of the library's arithmetic. Inputs and outputs are always float32, and a float16 library is
        compared with a float32 reference. `tfloat32`: values are float32, but factors of products are rounded
        to 11 significant bits, as tensor cores take them. `int8`: the network was quantised when it was
        loaded; its other operators compute in float32.
    arch
        For a device whose entry in board.toml has `arch`: the architectures to make machine code for,
        separated by commas, in place of the entry's.
    rates
        Speeds of cores by which code is chosen for tasks without records. `class`: those of the board class;
        `board`: those that were measured on this board; `auto`: the board's if it has any, else the class's.
    start_pack, stop_pack
        For a VTA, which computes only layers between these two operators; the CPU computes the others. Empty:
        `max_pool2d` and `mean`, if the network has them.
    """

    device: str = "cpu"
    layout: str = "auto"
    winograd: str = "auto"
    dtype: str = "float32"
    arch: str = ""
    start_pack: str = ""
    stop_pack: str = ""
    rates: str = "auto"

    def __post_init__(self) -> None:
        words = {"layout": LAYOUTS, "winograd": WINOGRADS, "dtype": DTYPES, "rates": RATES}
        for name, allowed in words.items():
            value = getattr(self, name)
            if value not in allowed:
                raise UsageError(f"--{name} {value}: no such choice", f"use --{name} {'|'.join(allowed)}")

        if self.arch and "arch" not in kind_of(self.device_kind).own:
            raise UsageError(
                f"--arch {self.arch}: --device {self.device} has no architectures to choose from",
                "add --device cuda",
            )
        if (self.start_pack or self.stop_pack) and self.device_kind != "vta":
            option = "--start-pack" if self.start_pack else "--stop-pack"
            raise UsageError(f"{option}: only a VTA has regions", "add --device vta")

    @property
    def floats(self) -> str:
        """Type of the floating-point arithmetic."""
        return "float32" if self.dtype == "int8" else self.dtype

    @property
    def device_kind(self) -> str:
        """Kind of the device: the part of `device` before the colon."""
        return self.device.partition(":")[0]

    @property
    def device_name(self) -> str:
        """Name of the device: the part of `device` after the colon; empty without a colon."""
        return self.device.partition(":")[2].strip()

    def typed(self) -> str:
        """Return these options as command-line text, each with a leading space; defaults are left out."""
        return "".join(
            f" --{field.name.replace('_', '-')} {quote(getattr(self, field.name))}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        )
