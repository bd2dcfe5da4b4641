"""The table of carriers. A new one is a row here or a plugin's: docs/howto/add-a-carrier.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from toolchain.devices.plugins import FAULTS
from toolchain.errors import MissingError, UsageError
from toolchain.foreign import first_line

if TYPE_CHECKING:
    from toolchain.boards.board import Board
    from toolchain.rollouts.carrier import Carrier
    from toolchain.rollouts.course import Course
    from toolchain.rollouts.fleet import BoardApp

GROUP = "edge_toolchain.carriers"
"""Entry-point group in which installed packages declare carriers: the carrier's name = `module:CLASS`."""


def _ssh() -> Carrier[Any]:
    from toolchain.rollouts.ssh import SshCarrier

    return SshCarrier()


def _file() -> Carrier[Any]:
    from toolchain.rollouts.places import FileCarrier

    return FileCarrier()


def _mender() -> Carrier[Any]:
    from toolchain.rollouts.places import MenderCarrier

    return MenderCarrier()


def _oci() -> Carrier[Any]:
    from toolchain.rollouts.places import OciCarrier

    return OciCarrier()


OWN: Mapping[str, Callable[[], Carrier[Any]]] = {"ssh": _ssh, "file": _file, "mender": _mender, "oci": _oci}
"""Carriers of this package, by name; a plugin cannot replace them. Nothing is imported before its use."""


@cache
def plugins() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return the carriers that installed packages declare, by name; loads none of them."""
    points: dict[str, list[EntryPoint]] = defaultdict(list)
    for point in entry_points(group=GROUP):
        if point.name not in OWN:
            points[point.name].append(point)
    return {name: tuple(points[name]) for name in sorted(points)}


def find_carrier(name: str) -> Carrier[Any]:
    """Return a carrier by its name.

    Raises
    ------
    UsageError
        There is none of that name.
    MissingError
        It belongs to a plugin that cannot be loaded, or to several plugins.
    """
    if name in OWN:
        return OWN[name]()
    points = plugins().get(name)
    if not points:
        known = ", ".join((*OWN, *plugins()))
        raise UsageError(f"{name}: there is no such carrier", f"the carriers are: {known}")
    from toolchain.rollouts.carrier import Carrier  # imports pydantic, which --help does without

    plugin = f"carrier {name} comes from a plugin"
    if len({point.value for point in points}) > 1:
        several = ", ".join(sorted(point.value for point in points))
        raise MissingError(f"{plugin}, and there are several: {several}", "uninstall all of them but one")
    try:
        kind = points[0].load()
    except FAULTS as error:
        raise MissingError(
            f"{plugin}, {points[0].value}, which cannot be loaded: {first_line(error)}",
            "update or uninstall the plugin",
        ) from error
    if not (isinstance(kind, type) and issubclass(kind, Carrier) and getattr(kind, "name", None) == name):
        raise MissingError(
            f"{plugin}, but {points[0].value} is no `Carrier` of that name", "update or uninstall the plugin"
        )
    return kind()


def export_formats() -> tuple[str, ...]:
    """Return the values of `release export --format`: this package's carriers to files, and all of plugins.

    A plugin's may turn out to reach something else once it is loaded, and refuses then.
    """
    return ("file", "mender", *plugins())


def carrier_to(address: str) -> Carrier[Any]:
    """Return the carrier to an address: `NAME://…` names a plugin's, everything else is an OCI registry."""
    name, scheme, _ = address.partition("://")
    carrier = find_carrier(name if scheme and name in plugins() else "oci")
    carrier.need_reach("an address", address)
    return carrier


def carrier_of(boards: Sequence[Board]) -> Carrier[Course]:
    """Return the carrier that `toolchain.toml` names for boards; without boards, the default one.

    Raises
    ------
    UsageError
        They have several, or one that reaches no boards.
    MissingError
        As of `find_carrier`.
    """
    by_carrier = {board.carrier: board.name for board in boards}
    if len(by_carrier) > 1:
        several = ", ".join(f"{board} by {name}" for name, board in by_carrier.items())
        raise UsageError(
            f"these boards are reached by several carriers: {several}", "name the boards of one at a time"
        )
    ((name, board),) = by_carrier.items() or (("ssh", ""),)
    carrier = find_carrier(name)
    carrier.need_reach("boards", f"[boards.{board}]")
    return carrier


def fleet_status(boards: Sequence[Board], at_once: int) -> list[BoardApp]:
    """Return what boards run, whatever their carriers; one whose carrier cannot ask has an error."""
    from toolchain.rollouts.fleet import BoardApp

    rows: dict[str, list[BoardApp]] = defaultdict(list)
    for name in dict.fromkeys(board.carrier for board in boards):
        group = [board for board in boards if board.carrier == name]
        try:
            answers = carrier_of(group).status(group, at_once)
        except (UsageError, MissingError) as error:
            answers = [BoardApp(board.name, "failed", error=error.message) for board in group]
        for answer in answers:
            rows[answer.name].append(answer)
    return [row for name in dict.fromkeys(board.name for board in boards) for row in rows[name]]
