"""Chooses the device of a board that runs a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from toolchain.boards.board import Board
from toolchain.boards.edge_rt.answers import EdgeRtInfo
from toolchain.bundles.manifest import Manifest
from toolchain.devices.device import device_key
from toolchain.devices.table import kind_of
from toolchain.errors import UsageError


@dataclass(frozen=True)
class ChosenDevice:
    """A device of a board: edge-rt's name for it, its number within its kind, and its driver's name."""

    word: str
    number: int = 0
    name: str = ""


def chosen_device(manifest: Manifest, board: Board, facts: EdgeRtInfo, wanted: str | None) -> ChosenDevice:
    """Return the device that runs a bundle.

    Parameters
    ----------
    facts
        Answer of `edge-rt info` on the board.
    wanted
        `KIND`, `KIND:NUMBER` or `KIND:NAME`; None: the device that the bundle was built for if the board has
        it, else the first of its kind that is no simulation.

    Raises
    ------
    UsageError
        The board has no such device.
    """
    kind = manifest.runtime.device
    devices = _devices(facts, kind)
    built_for = _called(manifest.device, devices, kind)
    first = next((device for device in devices if device.word != simulation(kind)), ChosenDevice(kind))
    if wanted is None:
        return built_for or first
    if wanted == kind:
        return ChosenDevice(kind, first.number, first.name)
    if named := _called(wanted, devices, kind):
        return named
    known = ", ".join(
        device.word if device.name in device.word else f"{device.word} ({device.name})" for device in devices
    )
    raise UsageError(f"--device {wanted}: board {board.name} has no such device", f"it has: {known}")


def check_kind(manifest: Manifest, wanted: str | None) -> None:
    """Check that a bundle was built for the kind of a wanted device; needs no answer of a board.

    Raises
    ------
    UsageError
        The bundle needs another kind of device.
    """
    if wanted is not None and wanted.partition(":")[0] != manifest.runtime.device:
        raise UsageError(
            f"--device {wanted}: {manifest.model.name} was built for {manifest.device}",
            "leave --device out, or build the network for that device",
        )


def _devices(facts: EdgeRtInfo, kind: str) -> list[ChosenDevice]:
    """Return a board's devices of a kind; a kind with a simulation has names in place of numbers."""
    names = [name for answer in facts.devices if answer.kind == kind for name in answer.names]
    if simulation(kind):
        return [ChosenDevice(f"{kind}:{name}", number, name) for number, name in enumerate(names)]
    return [
        ChosenDevice(f"{kind}:{number}" if number else kind, number, name)
        for number, name in enumerate(names)
    ]


def _called(word: str, devices: Sequence[ChosenDevice], kind: str) -> ChosenDevice | None:
    """Return the first device with that name or number; a simulation has only a name."""
    for device in devices:
        if word == f"{kind}:{device.name}":  # edge-rt knows it by that, too
            return replace(device, word=word)
        number = "" if device.word == simulation(kind) else f"{kind}:{device.number}"
        if word in (device.word, device_key(kind, device.name), number):
            return device
    return None


def simulation(device: str) -> str:
    """Return edge-rt's name of the simulation of a device's kind, as `KIND:NAME`; empty if it has none.

    A simulation is used only if its name is given.
    """
    row = kind_of(device)
    return f"{row.name}:{row.simulation}" if row.simulation else ""


def simulates(facts: EdgeRtInfo, kind: str) -> bool:
    """Return whether the board can simulate a device of this kind."""
    return simulation(kind) in [f"{answer.kind}:{name}" for answer in facts.devices for name in answer.names]


def simulation_warnings(device: str) -> list[str]:
    """Return warnings about the results if a simulation computed them."""
    if device != simulation(device):
        return []
    return [f"{device} computed: a simulation, whose times say nothing about an accelerator's"]
