"""Checks that a bundle can run on a board: architecture, CPU features, devices and C library."""

from __future__ import annotations

from toolchain.boards.board import Board
from toolchain.boards.edge_rt.answers import EdgeRtInfo
from toolchain.bundles.manifest import Manifest
from toolchain.devices.device import device_key
from toolchain.devices.facts import DeviceFacts
from toolchain.devices.kind import TestBed
from toolchain.devices.table import kind_of
from toolchain.errors import UsageError
from toolchain.linking.linker import version_key

_TYPES = {"gpu": "GPU"}  # spelling of device types in sentences, where it differs


def check_machine(manifest: Manifest, board: Board) -> None:
    """Check that a bundle is for the board's architecture and system; asks no board.

    Raises
    ------
    UsageError
        It is not; the message names what it was built for and what the board is.
    """
    if manifest.arch != board.profile.arch:
        raise UsageError(
            f"bundle for another board: built for {manifest.arch} ({manifest.board_class}), "
            f"board {board.name} is {board.profile.arch} ({board.profile.name})",
            _build_for(manifest, board),
        )
    if manifest.android and not board.profile.android:
        raise UsageError(
            f"bundle for another board: built for Android ({manifest.board_class}), "
            f"board {board.name} is {board.profile.triple} ({board.profile.name})",
            _build_for(manifest, board),
        )


def check_facts(manifest: Manifest, board: Board, facts: EdgeRtInfo) -> None:
    """Check that a board's CPU, devices and C library have everything that a bundle needs.

    Parameters
    ----------
    facts
        Answer of `edge-rt info` on the board.

    Raises
    ------
    UsageError
        They have not; the message names what is missing.
    """
    missing = [feature for feature in manifest.requires if feature not in facts.cpu_features]
    if missing:
        raise lacks_features(manifest, board, missing)
    answers = {answer.kind: answer for answer in facts.devices}
    for kind in manifest.runtime.devices:
        if kind not in answers or not answers[kind].names:
            problem = answers[kind].problem if kind in answers else None
            raise lacks_device(manifest, board, kind, problem or "its edge-rt knows no such kind")
    if manifest.glibc and version_key(facts.glibc) < version_key(manifest.glibc):
        raise UsageError(
            f"bundle for another board: built for glibc {manifest.glibc} and later "
            f"({manifest.board_class}), board {board.name} has {facts.glibc}",
            _build_for(manifest, board),
        )


def check_device(manifest: Manifest, board: Board, facts: EdgeRtInfo, number: int) -> list[str]:
    """Check the device that runs a bundle: the `number`-th of its kind.

    Returns
    -------
    list
        Warnings if it is of another type than expected, or the code was tuned for another.

    Raises
    ------
    UsageError
        The bundle computes in float16, which the device's driver lacks.
    """
    kind = manifest.runtime.device
    details = [detail for answer in facts.devices if answer.kind == kind for detail in answer.details]
    if number >= len(details):
        return []
    warnings, device, wanted = [], details[number], kind_of(kind).described
    if manifest.dtype == "float16" and not device.half:
        raise _lacks_half(manifest, board, kind, device)
    if wanted not in ("", device.type):
        warnings.append(
            f"{device.name} of {board.name} is no {_TYPES.get(wanted, wanted)} "
            f"({device.type}, {device.platform}): its times say nothing about one"
        )
    key = device_key(kind, device.name)
    if manifest.device not in (kind, key):
        warnings.append(f"built for {manifest.device} but runs on {key}: a build for {key} may be faster")
    return warnings


def lacks_features(manifest: Manifest, board: Board, missing: list[str]) -> UsageError:
    """Return the error for a CPU that lacks features which the bundle's code uses."""
    return UsageError(
        f"bundle for another board: built for {manifest.board_class}, it needs the CPU features "
        f"{', '.join(missing)}, which board {board.name} lacks",
        _build_for(manifest, board),
    )


def lacks_device(
    manifest: Manifest, board: Board, kind: str, problem: str, instead: str | None = None
) -> UsageError:
    """Return the error for a board without a device that the bundle needs.

    Parameters
    ----------
    problem
        Why the board has no such device.
    instead
        Hint what to type; None: how to build the bundle for this board.
    """
    if bed := test_bed_of(manifest):
        instead = (
            f"its code is for an emulated driver: `toolchain board emulate start {bed.board_class}` starts a "
            "board with one"
        )
    return UsageError(
        f"bundle for another board: built for {manifest.device}, it needs a device of kind {kind}, "
        f"but board {board.name} has none: {problem}",
        instead or _build_for(manifest, board),
    )


def test_bed_of(manifest: Manifest) -> TestBed | None:
    """Return the test bed that a bundle's code was made for; None if it was made for a device."""
    bed = kind_of(manifest.runtime.device).test_bed
    keys = manifest.target.definition.get("keys")
    made_for = bed.entry.get("arch") if bed else None
    return bed if made_for and isinstance(keys, list) and made_for in keys else None


def _lacks_half(manifest: Manifest, board: Board, kind: str, device: DeviceFacts) -> UsageError:
    return UsageError(
        f"{manifest.model.name} was built for float16, and {device.name} of board {board.name} does not "
        f"compute in it (its driver, {device.driver_version}, lacks {kind_of(kind).half})",
        f"build it with `toolchain build {manifest.model.source_name} --board {board.name} "
        "--dtype float32 -o DIR`",
    )


def lacks_functions(manifest: Manifest, board: Board, missing: list[str]) -> UsageError:
    """Return the error for a library that calls functions which this toolchain's edge-rt lacks."""
    return UsageError(
        f"bundle of another toolchain: built for {manifest.device}, its library calls {', '.join(missing)}, "
        f"which edge-rt on board {board.name} does not have",
        _build_for(manifest, board),
    )


def _build_for(manifest: Manifest, board: Board) -> str:
    return f"build it with `toolchain build {manifest.model.source_name} --board {board.name} -o DIR`"
