"""Runs one command in a container: streams its output, returns its exit code and removes the container."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from toolchain.configuration.settings import state_dir
from toolchain.errors import ToolchainError, UsageError
from toolchain.images.engine import LABEL, Engine
from toolchain.images.running.mounts import Mount
from toolchain.processes.life import Life

# Labels that tie a step's container to its process, so that containers of dead processes are removed.

PURPOSE = "step"  # value of the label `LABEL`: what such a container is for
_OWNER_LABEL = f"{LABEL}.owner"
STATE_LABEL = f"{LABEL}.state"  # the state folder that owns it; containers of other folders are left alone


def owner_labels() -> dict[str, str]:
    """Return the labels for containers that this process creates."""
    return {LABEL: PURPOSE, STATE_LABEL: own_state(), _OWNER_LABEL: _owner()}


def sweep(engine: Engine) -> None:
    """Remove containers left by killed processes."""
    for container in engine.containers(PURPOSE):
        labels = container.labels
        if labels.get(STATE_LABEL) == own_state() and not _lives(labels.get(_OWNER_LABEL, "")):
            with suppress(ToolchainError):  # another step does it
                engine.remove(container.id)


def own_state() -> str:
    """Return the value of `STATE_LABEL` for containers of this process."""
    return str(state_dir().absolute())


def _owner() -> str:
    """Return a text that identifies this process, even if its id is reused later."""
    life = Life.own()
    return f"{_space()} {life.pid} {life.began}"


def _space() -> str:
    return str(Path("/proc/self/ns/pid").readlink())  # numbers mean nothing in another one


def _lives(owner: str) -> bool:
    """Whether the process in a label still runs; True if that cannot be determined here."""
    space, _, rest = owner.partition(" ")
    number, _, began = rest.partition(" ")
    if space != _space() or not number.isdecimal():
        return True
    return Life(int(number), began).lasts()


GRACE_S = 20.0  # for a command that was interrupted to end what it began; `tune` ends its workers
_WAIT_S = 60.0  # from the end of a container's output to its end
_GIVE_UP_S = 30.0  # for the daemon to kill and remove a container
_PROCESSES_PER_CORE = 2048  # threads count too; a worker per core, each with the libraries' threads
_MEMORY_SHARE = 0.9  # of the machine's: the rest keeps it alive
_KILL_AFTER_S = 10  # of a command that was told to end
_SHOW_CURSOR = b"\x1b[?25h"
_LATE_S, _PAUSE_S = 2.0, 0.1
_KILLED, _STOPPED = 128 + signal.SIGKILL, 128 + signal.SIGTERM

_Parts = tuple[bytes | None, bytes | None]  # of standard output, of standard error


@dataclass(frozen=True)
class Step:
    """A command to run in a container.

    Attributes
    ----------
    folder
        The working folder, which must be mounted.
    network
        `host`: shares this machine's network, where the lab listens; `none`: no network.
    terminal
        Whether its output is a terminal, which merges both output streams.
    user
        User id and group id of its files.
    memory_mib
        Memory limit; None for most of the machine's memory.
    name
        Name of the image for messages; default: `image`, which may be an id.
    """

    image: str
    argv: Sequence[str]
    folder: Path
    mounts: Sequence[Mount]
    environment: Mapping[str, str] = field(default_factory=dict)
    network: Literal["none", "host"] = "none"
    terminal: bool = False
    user: tuple[int, int] = field(default_factory=lambda: (os.getuid(), os.getgid()))
    groups: Sequence[int] = field(default_factory=os.getgroups)
    memory_mib: int | None = None
    name: str = ""

    @property
    def image_name(self) -> str:
        """Name of the image for messages."""
        return self.name or self.image


def within(seconds: int) -> list[str]:
    """Return the prefix of a command line that ends the command in the container after `seconds`."""
    return ["timeout", f"--kill-after={_KILL_AFTER_S}", str(seconds)]


def run_step(engine: Engine, step: Step, out: BinaryIO, err: BinaryIO) -> int:
    """Run a command in a container, remove the container and return the exit code.

    Ctrl-C interrupts the command, a second one kills it; so does a SIGTERM that raises an exception.

    Parameters
    ----------
    out, err
        Files to which the output is streamed.

    Raises
    ------
    ToolchainError
        The container cannot be created or started, or was killed; the message says why.
    KeyboardInterrupt
        Ctrl-C was typed, and the command did not exit by itself.
    """
    sweep(engine)
    running = _Running(engine, step, out, err)
    with _noting_resizes(running) if step.terminal else nullcontext():
        interruption = running.follow()
    if step.terminal and (running.failure or interruption):
        with suppress(OSError):
            out.write(_SHOW_CURSOR)  # a progress bar hid it
            out.flush()
    if running.failure is not None:
        raise running.failure
    if isinstance(interruption, KeyboardInterrupt) and running.code == 128 + signal.SIGINT:
        return running.code  # it has said so itself
    if interruption is not None:
        raise interruption
    if running.code is None:
        raise ToolchainError(f"the Docker daemon at {engine.where} does not end the container")
    return running.code


class _Running:
    """Creates, follows and removes a container in its own thread, which no signal interrupts."""

    def __init__(self, engine: Engine, step: Step, out: BinaryIO, err: BinaryIO) -> None:
        self.code: int | None = None
        self.failure: BaseException | None = None
        self.resized = False  # the terminal, since we looked
        self._engine = engine
        self._step = step
        self._streams = (out, err)
        self._container = ""
        self._started = threading.Event()
        self._signalled = threading.Event()
        self._removed = threading.Event()  # Thread.is_alive lies after an interrupted join (bpo-45274)

    def follow(self) -> BaseException | None:
        """Wait for the end; return the exception of a signal handler, if any."""
        threading.Thread(target=self._work, name="container", daemon=True).start()
        first: BaseException | None = None
        number: signal.Signals | None = None
        killed_at = deadline = float("inf")
        while not self._removed.is_set() and time.monotonic() < killed_at + _GIVE_UP_S:
            try:
                if number is None and time.monotonic() > deadline:
                    number = signal.SIGKILL
                if number is not None:
                    self._signal(number)
                    now = time.monotonic()
                    if number is signal.SIGKILL:
                        killed_at, deadline = now, float("inf")
                    else:
                        deadline = now + GRACE_S
                    number = None
                if self.resized:
                    self._resize()
                self._removed.wait(0.2)
            except (KeyboardInterrupt, SystemExit) as error:
                signal_number = signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM
                number = signal.SIGKILL if first else signal_number
                first = first or error
        return first

    def _resize(self) -> None:
        """Give the container's terminal the size of ours."""
        self.resized = False
        if self._started.is_set():
            columns, lines = os.get_terminal_size(self._streams[0].fileno())
            with suppress(ToolchainError), self._engine.request("resize a terminal"):
                self._engine.api.resize(self._container, height=lines, width=columns)

    def _signal(self, number: signal.Signals) -> None:
        self._signalled.set()
        if self._started.is_set():
            with suppress(ToolchainError):  # it has ended
                self._engine.kill(self._container, number.name)

    def _work(self) -> None:
        engine, api = self._engine, self._engine.api
        try:
            self._container = create(engine, self._step)
            # Before the start, or its first lines are lost.
            with engine.request("read what a container prints"):
                stream = api.attach(self._container, stream=True, demux=True)
            if self._signalled.is_set():
                return
            with engine.request(f"start a container of {self._step.image_name}"):
                api.start(self._container)
            self._started.set()
            if self._signalled.is_set():
                return
            if self._step.terminal:
                self._resize()
            for parts in self._read_output(stream):
                for part, target in zip(parts, self._streams, strict=True):
                    if part:
                        target.write(part)
                        target.flush()
            self.code = self._exit_code()
        except BaseException as error:
            self.failure = error
        finally:
            if self._container:
                with suppress(ToolchainError):  # the next step sweeps it away
                    engine.remove(self._container)
            self._removed.set()

    def _read_output(self, stream: Iterator[_Parts]) -> Iterator[_Parts]:
        with self._engine.request("read what a container prints"):
            yield from stream

    def _exit_code(self) -> int:
        """Return the exit code of the command; raise an error if it was killed."""
        name = f"the container of {self._step.image_name}"
        with self._engine.request("wait for a container", gone_is_fine=True):
            code = int(self._engine.api.wait(self._container, timeout=_WAIT_S)["StatusCode"])
            if code == _KILLED and self._ran_out_of_memory():
                memory = self._engine.api.inspect_container(self._container)["HostConfig"]["Memory"]
                raise ToolchainError(
                    f"{name} ran out of memory: it may have {memory >> 20} MiB",
                    "use a smaller --batch or --shape, or set TOOLCHAIN_JOBS=1; with --engine host "
                    "there is no limit",
                )
            if code in (_KILLED, _STOPPED) and not self._signalled.is_set():
                how = "killed" if code == _KILLED else "stopped"
                raise ToolchainError(
                    f"{name} was {how} by somebody else, such as `docker {how[:4]}`", "run it again"
                )
            return code
        raise ToolchainError(f"{name} was removed by somebody else while it ran", "run it again")

    def _ran_out_of_memory(self) -> bool:
        """Whether a container was killed for lack of memory, which the engine may report late."""
        until = time.monotonic() + (0 if self._signalled.is_set() else _LATE_S)
        while not self._engine.api.inspect_container(self._container)["State"]["OOMKilled"]:
            if time.monotonic() >= until:
                return False
            time.sleep(_PAUSE_S)
        return True


def create(engine: Engine, step: Step, *, interactive: bool = False) -> str:
    """Create the container of a step without starting it; return its id. The caller removes it.

    Parameters
    ----------
    interactive
        Whether the command reads the keyboard.
    """
    api = engine.api
    with engine.request(f"create a container of {step.image_name}"):
        machine = api.info()
        memory = step.memory_mib or int(machine["MemTotal"] * _MEMORY_SHARE) >> 20
        limits = api.create_host_config(
            init=True,
            network_mode=step.network,
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            tmpfs={"/tmp": "exec,mode=1777"},  # noqa: S108
            mounts=[_bind(mount) for mount in step.mounts],
            group_add=[str(group) for group in step.groups],
            mem_limit=f"{memory}m",
            memswap_limit=f"{memory}m",
            pids_limit=_PROCESSES_PER_CORE * machine["NCPU"],
            log_config={"Type": "none"},
        )
    try:
        with engine.request(f"create a container of {step.image_name}"):
            created = api.create_container(
                step.image,
                entrypoint=list(step.argv),
                command=[],
                user=":".join(map(str, step.user)),
                working_dir=str(step.folder),
                tty=step.terminal,
                stdin_open=interactive,
                labels=owner_labels(),
                environment=dict(step.environment),
                use_config_proxy=False,  # or the proxies of ~/.docker/config.json come on top
                host_config=limits,
            )
    except ToolchainError as error:
        if "bind source path does not exist" not in error.message:
            raise
        raise UsageError(
            f"the Docker daemon at {engine.where} does not see this machine's folders, "
            f"so a bind mount cannot work there: {error.message.rpartition(': ')[2]}",
            "use a daemon of this machine, or --engine host",
        ) from error
    return str(created["Id"])


def _bind(mount: Mount) -> Any:
    import docker.types

    return docker.types.Mount(
        target=str(mount.path), source=str(mount.path), type="bind", read_only=not mount.writable
    )


@contextmanager
def _noting_resizes(running: _Running) -> Iterator[None]:
    def note(*_: object) -> None:
        running.resized = True

    before = signal.signal(signal.SIGWINCH, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
