"""The systemd units of a user's program that serves a network: hardened, without privileges."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Literal

from toolchain.boards.edge_rt.apps import is_app_name
from toolchain.boards.provisioning.facts import UNIT_MARK
from toolchain.errors import UsageError

OnActivation = Literal["restart", "reload", "nothing"]
_PROGRAM = """{mark}
[Unit]
Description=Serves {app}, a network
Wants=edge-{app}-recover.service
After=edge-{app}-recover.service
{condition}StartLimitIntervalSec=0

[Service]
User={user}
Environment={environment}
{noting}ExecStart={command}
{reload}Restart=always
RestartSec=1
TimeoutStopSec=30
RuntimeDirectory=edge-{app}
RuntimeDirectoryPreserve=yes
StateDirectory=edge-{app}
MemoryMax={memory_mib}M
{watchdog}UMask=0077
RestrictAddressFamilies={families}
{devices}NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged

[Install]
WantedBy=multi-user.target
"""
_RECOVER = """{mark}
[Unit]
Description=Ends an installation of {app} that a power cut interrupted
ConditionPathExists={root}/field
StartLimitIntervalSec=0

[Service]
Type=oneshot
RemainAfterExit=yes
User={user}
ExecStart={root}/edge-rt recover --field {root}/field
ReadWritePaths={root}/field
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
RestrictAddressFamilies=AF_UNIX
"""
# Of `current` itself systemd notices no rename, so the folder is watched, in which other things change too:
# the script compares the release with the one that the program was told of. It looks twice, since systemd
# does not watch while the script runs.
_PATH = """{mark}
[Unit]
Description=Looks for a new release of {app}

[Path]
PathChanged={root}/field/{app}

[Install]
WantedBy=multi-user.target
"""
_ACTIVATED = """{mark}
[Unit]
Description=Tells the program that serves {app} of a new release
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=/bin/sh -c '{switch}' sh {current} /run/edge-{app}/served edge-{app}.service
"""
_SWITCH = """for wait in 1 0; do \\
  new=$$(readlink "$$1") && [ "$$new" != "$$(readlink "$$2")" ] && systemctl reload-or-restart "$$3"; \\
  sleep $$wait; \\
done"""
_NOTE = '/bin/sh -c \'ln -sfn "$$(readlink "$$1")" "$$2"\' sh {current} /run/edge-{app}/served'


@dataclass(frozen=True)
class Service:
    """A user's program that systemd keeps running.

    Attributes
    ----------
    app
        The app whose release it serves.
    command
        Program and arguments as one text; systemd fills in `${EDGE_CURRENT}` and `${RUNTIME_DIRECTORY}`.
    memory_mib
        Most memory that it may use.
    watchdog_s
        It is restarted when it has not sent WATCHDOG=1 for so many seconds (sd_notify(3)); None: never.
    network
        Whether it may use IP; else Unix sockets alone.
    on_activation
        What happens to it when a release is activated; `nothing` for a program that looks by itself.
    """

    app: str
    command: str
    memory_mib: int = 512
    watchdog_s: int | None = None
    network: bool = False
    on_activation: OnActivation = "restart"


def check_service(service: Service) -> None:
    """Refuse a malformed name of an app, or a command that systemd cannot run.

    Raises
    ------
    UsageError
        One of them is malformed.
    """
    if not is_app_name(service.app):
        raise UsageError(
            f"--service {service.app!r}: not the name of an app",
            "such as counter, as in `release sign --app`",
        )
    try:
        words = shlex.split(service.command)
    except ValueError as error:
        raise UsageError(f"--command {service.command!r}: {error}", "close the quotes") from error
    if not words or not words[0].startswith("/"):
        raise UsageError(
            f"--command {service.command!r}: a program's path on the board begins with /",
            "for example: --command '/usr/local/bin/serve ${EDGE_CURRENT} 1x3x224x224'",
        )
    if not service.command.isprintable():
        raise UsageError(f"--command {service.command!r}: it has control characters", "leave them out")


def units_of(service: Service, root: str, user: str, *, devices: bool) -> dict[str, str]:
    """Return the texts of a service's units by their file names.

    Parameters
    ----------
    root, user
        Folder of the installation on the board, of plain characters, and the account that owns it.
    devices
        Whether the program needs devices, such as a GPU's; else it sees none.
    """
    app, current = service.app, f"{root}/field/{service.app}/current"
    values = {"mark": f"{UNIT_MARK}{root}", "app": app, "root": root, "user": user}
    notified = service.on_activation != "nothing"
    note = _NOTE.format(app=app, current=current)
    variables = {"EDGE_APP": app, "EDGE_CURRENT": current, "EDGE_LIBRARY": f"{root}/sdk/current/libedge.so"}
    program = _PROGRAM.format(
        **values,
        condition=f"ConditionPathExists={current}\n" if notified else "",
        environment=" ".join(_quoted(f"{name}={value}") for name, value in variables.items()),
        noting=f"ExecStartPre={note}\n" if notified else "",
        command=" ".join(_quoted(word) for word in shlex.split(service.command)),
        reload=f"ExecReload={note}\nExecReload=/bin/kill -HUP $MAINPID\n"
        if service.on_activation == "reload"
        else "",
        memory_mib=service.memory_mib,
        watchdog=f"WatchdogSec={service.watchdog_s}\nNotifyAccess=all\n" if service.watchdog_s else "",
        families="AF_UNIX AF_INET AF_INET6" if service.network else "AF_UNIX",
        devices="" if devices else "PrivateDevices=yes\nMemoryDenyWriteExecute=yes\n",
    )
    units = {f"edge-{app}.service": program, f"edge-{app}-recover.service": _RECOVER.format(**values)}
    if notified:
        units[f"edge-{app}-activated.path"] = _PATH.format(**values)
        units[f"edge-{app}-activated.service"] = _ACTIVATED.format(**values, switch=_SWITCH, current=current)
    return units


def _quoted(word: str) -> str:
    """Return a word for systemd, which fills in variables and nothing else; plain words stay as they are."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return escaped if re.fullmatch(r"[A-Za-z0-9_@%+=:,./${}-]+", word) else f'"{escaped}"'
