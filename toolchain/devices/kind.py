"""The facts about a kind of device that need no TVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from pathlib import Path

    from toolchain.architectures.table import Architecture
    from toolchain.devices.device import Device
    from toolchain.devices.facts import DeviceFacts
    from toolchain.devices.kernel import Language


# The kinds of failures of a candidate.

Failure = Literal["build", "link", "upload", "timeout", "runtime", "wrong result", "work group", "registers"]
"""`build`: a compiler rejects the code, on this host or in a driver. `work group`: a work group has more
work items than the device accepts. `registers`: a work group needs more registers than the device has."""


Seam = Literal["backends", "dialect", "machine", "model", "schedules", "status"]
"""Places of the package that look up code by kind of device; each has a `KindTable`."""
SEAMS: tuple[Seam, ...] = get_args(Seam)


def _any_facts() -> type[DeviceFacts]:
    from toolchain.devices.facts import DeviceFacts  # imports pydantic, which --help does without

    return DeviceFacts


@dataclass(frozen=True)
class DriverFile:
    """A test bed's driver that is one file, and the compiler of kernels for it.

    Attributes
    ----------
    ensure
        Compiles the driver for the architecture of that name unless it is in the cache; returns its path
        there.
    variable
        Environment variable that tells edge-rt where the driver is.
    compile_kernels
        Compiles the source of kernels for the driver on an architecture; returns the machine code.
    compiler
        Returns the name and version of the compiler of kernels.
    """

    ensure: Callable[[str], Path]
    variable: str
    compile_kernels: Callable[[str, Architecture], bytes]
    compiler: Callable[[], str]


@dataclass(frozen=True)
class TestBed:
    """A driver for emulated boards, which computes on the CPU in place of a device of this kind.

    Attributes
    ----------
    help
        Help of the option of `board emulate start`; the option has the kind's name.
    board_class
        Name of a board class with such a device.
    elsewhere
        Hint for users: where else such a driver is installed.
    driver
        `module:attribute` of its `DriverFile`, if the driver is one file that any emulated board can be
        given. Empty: it is part of the system of a container.
    entry
        What the class's entry of the device says on a board with this driver, where that differs.
    """

    __test__ = False  # pytest

    help: str
    board_class: str
    elsewhere: str
    driver: str = ""
    entry: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DeviceKind:
    """A row of the table of kinds of devices.

    Attributes
    ----------
    name
        Name of the kind on the command line (`--device`), in board.toml, manifests, records, and edge-rt.
    named
        Help for NAME in `--device KIND:NAME`; empty if the kind takes no name.
    needs
        Fields of `Device` that an entry of board.toml must have.
    own
        Further keys that an entry must have, each with its description.
    check
        Raises ValueError if the values of an entry do not fit each other or its own keys are malformed.
    target_options
        Returns the options of TVM's target of the same kind, given an entry of board.toml; None if TVM has
        no such target.
    half
        The driver's term for float16 arithmetic, for messages.
    described
        Device type, as drivers report it, whose times are meaningful; users get a warning for other types.
        Empty accepts all types.
    simulation
        Name of the device that edge-rt simulates; it is used only if the user names it. Empty for none.
    compile_s
        Seconds that the driver may take to compile the kernels of a network when it first runs.
    sample_ms
        Shortest sample of a candidate, in milliseconds, unless the user says another one.
    peaks
        Peak FLOP/s by the beginning of a device's name; longer beginnings come first.
    facts
        Returns the class of the facts that its driver reports.
    failures
        Kind of failure in records, by the cause that edge-rt sends (native/src/cause.h).
    nodes
        Shell patterns of the device files that `board status` lists.
    tensors
        Whether its devices multiply tfloat32 (float32 numbers with 11 significant bits) on tensor cores.
    graph
        Whether edge-rt launches a network's kernels as one graph of the driver; networks are lowered for it.
    quantizers
        Values of `--quantizer` that its code can compute, the default of `--dtype int8` first.
    language
        Language of its kernels; None if it runs no kernels from source code.
    image
        Image of docker/images.toml with the compiler of its kernels; empty if the board class's suffices.
    test_bed
        Driver for emulated boards; None if they have no driver of this kind.
    code
        For a plugin: `module:attribute` of its code, by seam.
    """

    name: str
    named: str = ""
    needs: frozenset[str] = frozenset()
    own: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[Device], object] | None = None
    target_options: Callable[[Device], dict[str, object]] | None = None
    half: str = "float16"
    described: str = ""
    simulation: str = ""
    compile_s: float = 0.0
    sample_ms: int = 20
    peaks: Mapping[str, float] = field(default_factory=dict)
    facts: Callable[[], type[DeviceFacts]] = _any_facts
    failures: Mapping[str, Failure] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    tensors: bool = False
    graph: bool = False
    quantizers: tuple[str, ...] = ("power-of-two", "global-scale", "mse", "minmax", "percentile")
    language: Language | None = None
    image: str = ""
    test_bed: TestBed | None = None
    code: Mapping[Seam, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if odd := sorted(set(self.code) - set(SEAMS)):
            raise ValueError(f"there is no seam {', '.join(odd)}; the seams are: {', '.join(SEAMS)}")

    def peak(self, device: str) -> float | None:
        """Return the peak FLOP/s of a device, or None if its name is unknown."""
        return next((peak for begin, peak in self.peaks.items() if device.startswith(begin)), None)
