"""The table of carriers. A new one is a row here or a plugin's: docs/howto/add-a-carrier.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

from toolchain.errors import MissingError, UsageError
from toolchain.plugins import PluginRows

if TYPE_CHECKING:
    from toolchain.boards.board import Board
    from toolchain.rollouts.carrier import Carrier
    from toolchain.rollouts.course import Course
    from toolchain.rollouts.fleet import BoardApp


OWN: Mapping[str, str] = {
    "ssh": "toolchain.rollouts.ssh:SshCarrier",
    "file": "toolchain.rollouts.places:FileCarrier",
    "mender": "toolchain.rollouts.places:MenderCarrier",
    "oci": "toolchain.rollouts.places:OciCarrier",
}
"""Carriers of this package, by name; a plugin cannot replace them. Nothing is imported before its use."""


PLUGINS: PluginRows[type[Any]] = PluginRows(
    "edge_toolchain.carriers", type, "carrier {} comes from a plugin", "Carrier"
)
"""Classes of carriers that installed packages add; this package's own names cannot be replaced."""


def _plugin_names() -> tuple[str, ...]:
    """Return the names of the plugins' carriers; none of them is loaded."""
    return tuple(sorted({plugin.row for plugin in PLUGINS.installed} - set(OWN)))


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
        own: type[Carrier[Any]] = EntryPoint(name, OWN[name], PLUGINS.group).load()
        return own()
    kind = PLUGINS.load(name)
    if kind is None:
        known = ", ".join((*OWN, *_plugin_names()))
        raise UsageError(f"{name}: there is no such carrier", f"the carriers are: {known}")
    from toolchain.rollouts.carrier import Carrier  # imports pydantic, which --help does without

    if not issubclass(kind, Carrier):
        raise MissingError(
            f"carrier {name} comes from a plugin, but {kind.__module__}:{kind.__name__} is no `Carrier`",
            "update or uninstall the plugin",
        )
    return kind()


def export_formats() -> tuple[str, ...]:
    """Return the values of `release export --format`: this package's carriers to files, and all of plugins.

    A plugin's may turn out to reach something else once it is loaded, and refuses then.
    """
    return ("file", "mender", *_plugin_names())


def carrier_to(address: str) -> Carrier[Any]:
    """Return the carrier to an address: `NAME://…` names a plugin's, everything else is an OCI registry."""
    name, scheme, _ = address.partition("://")
    carrier = find_carrier(name if scheme and name in _plugin_names() else "oci")
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
