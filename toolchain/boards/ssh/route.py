"""The way to a board: its address completed with the user's ssh_config, and the socket to it."""

from __future__ import annotations

import contextlib
import errno
import getpass
import os
import pwd
import re
import shlex
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import paramiko

from toolchain.boards.ssh.address import SshAddress, parse_address
from toolchain.boards.transport import LostError, WayError
from toolchain.errors import MissingError, UsageError
from toolchain.files.plain import expanded
from toolchain.foreign import last_line

CONNECT_S = 10.0
_END_S = 2.0
_EXECUTES = re.compile(r"^\s*match\b.*\bexec\b", re.IGNORECASE | re.MULTILINE)
_BRACKETED_NAME = re.compile(r"\[([^:\]]+)\]")  # OpenSSH puts IPv4 addresses in brackets, too
_KEY_FILES = ("id_ed25519", "id_ecdsa", "id_rsa")  # in the order in which ssh(1) tries them


@dataclass(frozen=True)
class Route:
    """A complete address; `proxy` is a command whose input and output carry the connection, or empty."""

    host: str
    port: int
    user: str
    identities: tuple[Path, ...]
    use_agent: bool
    proxy: tuple[str, ...]


def user_config() -> Path:
    """Return the path of the user's ssh_config, which may not exist."""
    return Path.home() / ".ssh" / "config"


def resolve(address: SshAddress) -> Route:
    """Complete an address with the user's ssh_config and SSH's defaults.

    Raises
    ------
    UsageError
        The user's ssh_config cannot be parsed.
    """
    read = paramiko_config(address.host) if address.use_config else {}
    options = {key: values[-1] for key, values in read.items()}
    host = options.get("hostname", address.host).replace("%%", "%")
    port = address.port or int(options.get("port", 22))
    user = address.user or options.get("user", getpass.getuser())
    if address.identity:
        identities: tuple[Path, ...] = (address.identity,)
    elif "identityfile" in options:
        identities = tuple(expanded(name) for name in read["identityfile"])
    else:
        identities = tuple(Path.home() / ".ssh" / name for name in _KEY_FILES)
    only = options.get("identitiesonly", "no").lower() == "yes"
    return Route(
        host, port, user, identities, not (address.identity or only), _proxy(address, options, host, port)
    )


def openssh_options(address: SshAddress, known_hosts: Path, *, asks: bool = False) -> list[str]:
    """Return options that make an OpenSSH client take the same route and accept only the pinned key.

    With `asks` the client may ask the user, for instance for a passphrase.
    """
    options = {
        "IgnoreUnknown": "KnownHostsCommand",  # clients before 8.5
        "BatchMode": "no" if asks else "yes",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": f'"{known_hosts}"',
        "GlobalKnownHostsFile": "/dev/null",
        "KnownHostsCommand": "none",
        "VerifyHostKeyDNS": "no",
        "UpdateHostKeys": "no",
        # A connection that an ssh_config shares was made with another list of known hosts.
        "ControlMaster": "no",
        "ControlPath": "none",
        "HostKeyAlias": address.name or address.host,
        "ConnectTimeout": f"{CONNECT_S:g}",
    }
    if address.host_key:
        options["HostKeyAlgorithms"] = _algorithms(address.host_key)
    words = config_options(use_config=address.use_config)
    for key, value in options.items():
        words += ["-o", f"{key}={value}"]
    if address.identity:
        words += ["-i", str(address.identity), "-o", "IdentitiesOnly=yes"]
    if address.port:
        words += ["-p", str(address.port)]
    if address.user:
        words += ["-l", address.user]
    if address.jump:
        words += ["-o", f"ProxyCommand={_proxy_line(address, asks=asks)}"]
    return words


def config_options(*, use_config: bool) -> list[str]:
    """Return the OpenSSH options with which ssh reads the same ssh_config as we do."""
    if not use_config:
        return ["-F", "none"]
    # ssh(1) takes the home folder from the password file; we take it from HOME.
    if Path.home() != Path(pwd.getpwuid(os.getuid()).pw_dir):
        return ["-F", str(user_config()) if user_config().is_file() else "none"]
    return []


def _algorithms(host_key: str) -> str:
    kind = host_key.split()[0]
    return "rsa-sha2-512,rsa-sha2-256" if kind == "ssh-rsa" else kind


def paramiko_config(host: str) -> dict[str, list[str]]:
    """Return what the user's ssh_config says for a host, as paramiko reads it.

    Raises
    ------
    UsageError
        paramiko cannot read it.
    """
    file = user_config()
    if not file.is_file():
        return {}
    try:
        if _EXECUTES.search(file.read_text(errors="replace")):
            raise ValueError("paramiko would run its `Match exec` at this terminal")
        options = paramiko.SSHConfig.from_path(str(file)).lookup(host)
    except (paramiko.SSHException, OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"{file} cannot be used: {error}", f'edit {file}, or set `ssh = "openssh"` for the board'
        ) from error
    return {key: value if isinstance(value, list) else [str(value)] for key, value in options.items()}


def _proxy(address: SshAddress, options: Mapping[str, str], host: str, port: int) -> tuple[str, ...]:
    jump = address.jump or options.get("proxyjump", "none")
    if jump.lower() != "none":
        return _through(jump, address, f"[{host}]:{port}", asks=False)
    if options.get("proxycommand", "none").lower() != "none":
        return tuple(shlex.split(options["proxycommand"]))
    return ()


def _through(jump: str, address: SshAddress, target: str, *, asks: bool) -> tuple[str, ...]:
    """Return a command that connects to `target` from the last of the jump hosts, through the others."""
    *before, last = jump.split(",")
    user, host, port = parse_address(_BRACKETED_NAME.sub(r"\1", last.removeprefix("ssh://")))
    words = ["ssh", *config_options(use_config=address.use_config)]
    words += ["-o", f"BatchMode={'no' if asks else 'yes'}"]
    words += ["-o", f"ConnectTimeout={CONNECT_S:g}", "-o", "ServerAliveInterval=3"]
    words += ["-J", ",".join(before)] if before else []
    words += ["-l", user] if user else []
    words += ["-p", str(port)] if port else []
    return (*words, "-W", target, "--", host)


def _proxy_line(address: SshAddress, *, asks: bool) -> str:
    """Return the same command for a client's ProxyCommand.

    The client makes one of a jump host itself, but not where the address has a zone: it takes the `%` for
    a token of its own.
    """
    words = _through(address.jump or "", address, "TARGET", asks=asks)
    return shlex.join(words).replace("%", "%%").replace("TARGET", "'[%h]:%p'")


class SocketLink:
    """A `Link` to the board's server: a socket, direct or through a proxy command that ends with it."""

    def __init__(self, route: Route, label: str) -> None:
        self._proxy: subprocess.Popen[bytes] | None = None
        where = f"{route.host} port {route.port}"
        try:
            self.socket = self._connect_through(route.proxy) if route.proxy else _connect_directly(route)
        except FileNotFoundError as error:
            raise MissingError(
                f"{label}: no {route.proxy[0]!r} on this machine", "`toolchain doctor`"
            ) from error
        except OSError as error:
            reason = (
                f"no answer within {CONNECT_S:g} s" if isinstance(error, TimeoutError) else error.strerror
            )
            kind = WayError if _is_ours(error) else LostError
            no_name = isinstance(error, socket.gaierror)
            hint = "check the name, or use an address" if no_name else "is it switched on and connected?"
            raise kind(f"{label}: cannot reach {where}: {reason}", hint) from error

    def close(self) -> None:
        """Close the socket and end the proxy command."""
        self.socket.close()
        if self._proxy:
            self._proxy.terminate()
            try:
                self._proxy.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._proxy.kill()
                self._proxy.wait(_END_S)

    def complaint(self) -> str:
        """Return the last line that an ended proxy command printed; empty if it runs or printed nothing."""
        if self._proxy is None or self._proxy.stderr is None:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._proxy.wait(0.5)
        os.set_blocking(self._proxy.stderr.fileno(), False)
        error = (self._proxy.stderr.read() or b"").strip()
        return last_line(error) if error else ""

    def _connect_through(self, proxy: tuple[str, ...]) -> socket.socket:
        ours, its = socket.socketpair()
        try:
            # A session of its own, so that Ctrl-C reaches us alone and we end the command in order.
            self._proxy = subprocess.Popen(
                proxy, stdin=its.fileno(), stdout=its.fileno(), stderr=subprocess.PIPE, start_new_session=True
            )
        except BaseException:
            ours.close()
            raise
        finally:
            its.close()
        return ours


def _is_ours(error: OSError) -> bool:
    """True if this host has no network or cannot resolve the name: the board itself may work."""
    return isinstance(error, socket.gaierror) or error.errno in (errno.ENETUNREACH, errno.ENETDOWN)


def _connect_directly(route: Route) -> socket.socket:
    connected = socket.create_connection((route.host, route.port), CONNECT_S)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected
