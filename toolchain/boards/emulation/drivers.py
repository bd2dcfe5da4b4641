"""Drivers for emulated boards that are one file each, and the device's entry on boards that have one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from toolchain.boards.board import Board
from toolchain.boards.edge_rt.install import install
from toolchain.boards.local.transport import LocalTransport
from toolchain.configuration.settings import state_dir
from toolchain.devices.device import Device
from toolchain.devices.table import OWN, driver_file, kind_of
from toolchain.errors import ToolchainError
from toolchain.profiles import Profile

_FOLDER = "driver"  # on a board that is a process


def in_system(device: str) -> bool:
    """Return whether the driver of a kind of device is part of a container's system; empty: no device."""
    return bool(device) and driver_file(device) is None


def container_files(device: str, profile: Profile) -> dict[str, bytes]:
    """Return the files of a container board with the driver of a kind of device, by path.

    The driver is compiled if it is not in the cache. There are none without a device, and if its driver is
    part of the system.

    Raises
    ------
    UsageError
        The driver does not run on boards of this class.
    MissingError, ToolchainError
        The compiler is missing, or failed.
    """
    driver = driver_file(device)
    if driver is None:
        return {}
    file = driver.ensure(profile.arch)
    return {f"usr/lib/{file.name}": file.read_bytes()}  # every loader looks there


def install_driver(device: str, profile: Profile, root: Path) -> None:
    """Write the driver into the folder of a board that is a process; errors as of `container_files`."""
    for path, content in container_files(device, profile).items():
        (root / _FOLDER).mkdir()
        (root / _FOLDER / Path(path).name).write_bytes(content)


def on_test_bed(board: Board, device: str) -> Board:
    """Return this host's board with the test bed's driver for a kind of device, which computes on its CPU.

    Parameters
    ----------
    board
        The board `local`.
    device
        Kind of device whose test bed is a file; it is compiled if it is not in the cache.
    """
    driver = driver_file(device)
    assert driver is not None  # noqa: S101 - the caller chose such a kind
    environment = {driver.variable: str(driver.ensure(board.profile.arch))}
    return replace(board, transport=LocalTransport(state_dir() / "boards" / board.name, (), environment))


def check_driver(board: Board, device: str) -> None:
    """Install edge-rt, and check that the board's driver of a kind of device answers.

    Raises
    ------
    ToolchainError
        edge-rt does not work on the board, or the driver does not.
    """
    facts = install(board, drivers=bool(device)).facts
    for answer in facts.devices:
        if answer.kind == device and not answer.names:
            raise ToolchainError(f"board {board.name}: its driver for {device} fails: {answer.problem}")


def driver_environment(device: str, root: Path) -> Mapping[str, str]:
    """Return the environment in which programs of a board that is a process find its driver."""
    driver = driver_file(device)
    files = sorted((root / _FOLDER).glob("*")) if driver else []
    return {driver.variable: str(files[0].absolute())} if driver and files else {}


def with_test_bed(profile: Profile, device: str) -> Profile:
    """Return the class of an emulated board whose driver for a kind of device is the test bed's."""
    bed = kind_of(device).test_bed if device else None
    if bed is None or not bed.entry:
        return profile
    devices = (_changed(entry, bed.entry) if entry.kind == device else entry for entry in profile.devices)
    return profile.model_copy(update={"devices": tuple(devices)})


def usual_device(profile: Profile) -> str:
    """Return the kind of device whose driver emulated boards of a class get by default; empty: no driver.

    These are the classes that are about such a device: their image is that of its compiler.
    """
    kinds = [row for row in OWN.values() if row.image and row.image == profile.image]
    beds = [row.name for row in kinds if row.test_bed and row.test_bed.driver]
    return beds[0] if beds else ""


def _changed(device: Device, entry: Mapping[str, object]) -> Device:
    return Device.model_validate({**device.model_dump(exclude_none=True), **entry})
