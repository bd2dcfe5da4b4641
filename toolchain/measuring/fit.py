"""Whether a bundle can run on a board: machine, CPU features, devices, C library."""

from __future__ import annotations

from toolchain.boards.board import Board
from toolchain.boards.edge_rt.answers import EdgeRtInfo
from toolchain.bundles.manifest import Manifest
from toolchain.devices.device import device_key
from toolchain.devices.facts import DeviceFacts
from toolchain.devices.table import kind_of
from toolchain.errors import UsageError
from toolchain.linking.glibc import version_key

_TYPES = {"gpu": "GPU"}  # in sentences; the others as they are


def check_machine(manifest: Manifest, board: Board) -> None:
    """Refuse a bundle for another machine; needs nothing of the board but its class.

    Raises
    ------
    UsageError
        Says what the bundle was built for and what the board is.
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
    """Refuse a bundle that needs what this board's CPU, devices or C library lack.

    Parameters
    ----------
    facts
        What `edge-rt info` says on the board.

    Raises
    ------
    UsageError
        Names what is missing.
    """
    missing = [feature for feature in manifest.requires if feature not in facts.cpu_features]
    if missing:
        raise lacks_features(manifest, board, missing)
    there = {each.kind: each for each in facts.devices}
    for kind in manifest.runtime.devices:
        if kind not in there or not there[kind].names:
            problem = there[kind].problem if kind in there else None
            raise lacks_device(manifest, board, kind, problem or "its edge-rt knows no such kind")
        details = there[kind].details
        if manifest.dtype == "float16" and details and not details[0].half:
            raise _lacks_half(manifest, board, kind, details[0])
    if manifest.glibc and version_key(facts.glibc) < version_key(manifest.glibc):
        raise UsageError(
            f"bundle for another board: built for glibc {manifest.glibc} and later "
            f"({manifest.board_class}), board {board.name} has {facts.glibc}",
            _build_for(manifest, board),
        )


def device_warnings(manifest: Manifest, board: Board, facts: EdgeRtInfo) -> list[str]:
    """Return what to know of the device that computes: that it is no GPU, or another than the code suits."""
    warnings = []
    for kind in facts.devices:
        if kind.kind != manifest.runtime.device or not kind.details:
            continue
        first = kind.details[0]
        wanted = kind_of(kind.kind).described
        if wanted not in ("", first.type):
            warnings.append(
                f"{first.name} of {board.name} is no {_TYPES.get(wanted, wanted)} "
                f"({first.type}, {first.platform}): its times say nothing about one"
            )
        key = device_key(kind.kind, first.name)
        if manifest.device not in (kind.kind, key):
            warnings.append(f"built for {manifest.device}, runs on {key}: its code suits the former")
    return warnings


def lacks_features(manifest: Manifest, board: Board, missing: list[str]) -> UsageError:
    """Say that the board's CPU lacks features that the bundle's code uses."""
    return UsageError(
        f"bundle for another board: built for {manifest.board_class}, it needs the CPU features "
        f"{', '.join(missing)}, which board {board.name} lacks",
        _build_for(manifest, board),
    )


def lacks_device(
    manifest: Manifest, board: Board, kind: str, problem: str, instead: str | None = None
) -> UsageError:
    """Say that the board has no device of the kind that the bundle runs on, why, and what to type."""
    return UsageError(
        f"bundle for another board: built for {manifest.device}, it needs a device of kind {kind}, "
        f"and board {board.name} has none: {problem}",
        instead or _build_for(manifest, board),
    )


def _lacks_half(manifest: Manifest, board: Board, kind: str, device: DeviceFacts) -> UsageError:
    return UsageError(
        f"{manifest.model.name} was built for float16, and {device.name} of board {board.name} does not "
        f"compute in it (its driver, {device.driver_version}, lacks {kind_of(kind).half})",
        f"build it with `toolchain build {manifest.model.source_name} --board {board.name} "
        "--dtype float32 -o DIR`",
    )


def lacks_functions(manifest: Manifest, board: Board, missing: list[str]) -> UsageError:
    """Say that this toolchain's edge-rt has no such functions as the bundle's library calls."""
    return UsageError(
        f"bundle of another toolchain: built for {manifest.device}, its library calls {', '.join(missing)}, "
        f"which edge-rt on board {board.name} does not have",
        _build_for(manifest, board),
    )


def _build_for(manifest: Manifest, board: Board) -> str:
    return f"build it with `toolchain build {manifest.model.source_name} --board {board.name} -o DIR`"
