"""Plans the steps that install, change or remove the units of services."""

from __future__ import annotations

import hashlib
import re

from toolchain.boards.provisioning.facts import Facts
from toolchain.boards.provisioning.steps import BoardStep, RunCommand
from toolchain.boards.provisioning.units import Service, units_of
from toolchain.errors import UsageError

_PLAIN = re.compile(r"[A-Za-z0-9_@.+/-]+")
# $1, $2: the first unit's name and text, and so on. What is cut off while it is written is no unit yet.
_INSTALL = """set -e
cd /etc/systemd/system
umask 022
names=
while [ $# -gt 0 ]; do
  printf '%s' "$2" > ".$1.new"
  mv -f -- ".$1.new" "$1"
  names="$names $1"
  shift 2
done
systemctl daemon-reload
for name in $names; do
  if grep -q '^\\[Install\\]' "$name"; then systemctl enable --quiet "$name"; fi
done
for name in $names; do
  case $name in *.path) systemctl restart "$name";; esac
done
"""
_REMOVE = """set -e
cd /etc/systemd/system
systemctl disable --now --quiet -- "$@" 2>/dev/null || systemctl stop -- "$@"
rm -f -- "$@"
systemctl daemon-reload
"""


def check_systemd(board: str, facts: Facts, service: Service | None) -> None:
    """Refuse a service for a board that cannot have it.

    Raises
    ------
    UsageError
        systemd does not run there, or the program would run as root.
    """
    if service is None:
        return
    if not facts.systemd:
        raise UsageError(
            f"--service {service.app}: board {board} does not run systemd",
            "start the program by the board's own init; docs/howto/serve.md says what it needs",
        )
    if not _PLAIN.fullmatch(facts.root):
        raise UsageError(
            f"--service {service.app}: systemd cannot watch {facts.root} on board {board}",
            "give the board a `root` of letters, digits and . _ - + @ in toolchain.toml",
        )
    if facts.user == "root":
        raise UsageError(
            f"--service {service.app}: the program would run as root on board {board}",
            "make an account for it: --account edge, or log in with another: `user` in toolchain.toml",
        )


def service_steps(facts: Facts, service: Service | None, *, devices: bool) -> list[BoardStep]:
    """Return the step that installs a service's units and starts them; none if they are there.

    Parameters
    ----------
    facts
        Of the account that owns the installation.
    devices
        Whether the program needs devices, such as a GPU's.
    """
    if service is None:
        return []
    units = units_of(service, facts.root, facts.user, devices=devices)
    main = f"edge-{service.app}.service"
    mine = [name for name in facts.units if _app_of(name) == service.app]
    steps = _removal([name for name in mine if name not in units])
    if any(
        facts.units.get(name) != hashlib.sha256(text.encode()).hexdigest() for name, text in units.items()
    ):
        words = [word for name in sorted(units) for word in (name, units[name])]
        install = RunCommand(("sh", "-c", _INSTALL, "sh", *words))
        title = f"install the service edge-{service.app}: {', '.join(sorted(units))}"
        steps.append(BoardStep(title, install, needs_root=True, outside=True))
        start = RunCommand(("systemctl", "restart", main))
        steps.append(BoardStep(f"start {main}", start, needs_root=True, outside=True))
    return steps


def service_removal(facts: Facts) -> list[BoardStep]:
    """Return the step that stops and removes the units of all services of this installation."""
    return _removal(sorted(facts.units))


def _removal(names: list[str]) -> list[BoardStep]:
    if not names:
        return []
    remove = RunCommand(("sh", "-c", _REMOVE, "sh", *names))
    return [BoardStep(f"stop and remove {', '.join(names)}", remove, needs_root=True, outside=True)]


def _app_of(unit: str) -> str:
    name = unit.removeprefix("edge-").rpartition(".")[0]
    return name.removesuffix("-recover").removesuffix("-activated")
