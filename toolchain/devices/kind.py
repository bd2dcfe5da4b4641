"""What the toolchain knows of a kind of device, without TVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from toolchain.devices.failure import Failure

if TYPE_CHECKING:
    from toolchain.devices.device import Device
    from toolchain.devices.facts import DeviceFacts
    from toolchain.devices.language import Language

Seam = Literal["backends", "dialect", "machine", "model", "schedules", "status"]
"""What rooms above ask for by the kind of a device; each has a `KindTable` where such code lives."""
SEAMS: tuple[Seam, ...] = get_args(Seam)


def _any_facts() -> type[DeviceFacts]:
    from toolchain.devices.facts import DeviceFacts  # pydantic: help does without

    return DeviceFacts


@dataclass(frozen=True)
class TestBed:
    """What stands for devices of a kind on emulated boards: a driver by which their CPU computes.

    Attributes
    ----------
    help
        Of the option of `board emulate start`, which is the kind's name.
    board_class
        A class with such a device.
    elsewhere
        Says where else there is such a driver, as a hint.
    """

    __test__ = False  # pytest

    help: str
    board_class: str
    elsewhere: str


@dataclass(frozen=True, kw_only=True)
class DeviceKind:
    """A kind of device: a row of the table.

    Attributes
    ----------
    name
        As typed (`--device`), in board.toml, manifests and records, and in edge-rt.
    named
        What NAME is in `--device KIND:NAME`, as help; empty: none is given.
    needs
        Fields of `Device` that an entry of this kind must have.
    own
        Keys of its own that an entry must have too: what each says.
    target_options
        Returns the options of TVM's target, whose kind has the same name, for an entry of board.toml;
        None: TVM has no such target.
    half
        What its drivers call arithmetic in float16, for messages.
    described
        Type of device whose times count, as drivers call it; of another one a user is warned. Empty: any.
    simulation
        Name of the device that edge-rt simulates, which is used only if it is named; empty: there is none.
    compile_s
        Seconds that its driver may spend on compiling the kernels of a network when they first run.
    peaks
        Beginning of a device's name -> most FLOP/s of such devices, the longest beginnings first.
    facts
        Returns the form of what its driver says of a device.
    failures
        Cause that edge-rt sends with an error (native/src/cause.h) -> kind of failure in records.
    nodes
        Device files, as patterns of the shell, that `board status` lists.
    language
        What its kernels are written in; None: it runs no kernels from source.
    test_bed
        What emulated boards compute with in its place; None: they have no driver of this kind.
    code
        Of a plugin: seam -> `module:attribute` of the code that the toolchain has in tables of its rooms.
    """

    name: str
    named: str = ""
    needs: frozenset[str] = frozenset()
    own: Mapping[str, str] = field(default_factory=dict)
    target_options: Callable[[Device], dict[str, object]] | None = None
    half: str = "float16"
    described: str = ""
    simulation: str = ""
    compile_s: float = 0.0
    peaks: Mapping[str, float] = field(default_factory=dict)
    facts: Callable[[], type[DeviceFacts]] = _any_facts
    failures: Mapping[str, Failure] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    language: Language | None = None
    test_bed: TestBed | None = None
    code: Mapping[Seam, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if odd := sorted(set(self.code) - set(SEAMS)):
            raise ValueError(f"there is no seam {', '.join(odd)}; the seams are: {', '.join(SEAMS)}")

    def peak(self, device: str) -> float | None:
        """Return the most FLOP/s of a device by its name; None where nothing is known of it."""
        return next((peak for begin, peak in self.peaks.items() if device.startswith(begin)), None)
