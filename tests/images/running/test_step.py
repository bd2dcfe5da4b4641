"""A command in a container: what it may do, what comes out of it, and how it ends."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.images.docker_proxy import DockerProxy
from tests.images.small_image import small_image
from tests.unique import UNIQUE
from tests.waiting import PATIENCE_S, until
from toolchain.errors import ToolchainError, UsageError
from toolchain.images.engine import Engine, connect
from toolchain.images.running.mounts import Mount
from toolchain.images.running.step import Step, run_step

pytestmark = pytest.mark.slow

TAG = f"edge-toolchain/test-step:{UNIQUE}"
# It says when it runs, and ends what it does when it is interrupted.
POLITE = "trap 'echo cleaning; exit 130' INT TERM; echo up; while :; do sleep 0.05; done"
STUBBORN = "trap '' INT TERM; echo up; while :; do sleep 0.05; done"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect() as engine, small_image(engine, tmp_path_factory.mktemp("image"), TAG) as tag:
        yield tag


class Stream(io.BytesIO):
    """Collects, and calls something once the first piece has come."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.then: Callable[[], object] | None = then

    def write(self, data: object) -> int:
        written = super().write(data)
        if self.then:
            then, self.then = self.then, None
            threading.Thread(target=then, daemon=True).start()
        return written


class Run:
    """Runs a shell script in the image; keeps what it printed."""

    def __init__(self, engine: Engine, image: str, folder: Path) -> None:
        self.engine, self.image, self.folder = engine, image, folder
        self.out, self.err = Stream(), Stream()

    def __call__(self, script: str, **more: object) -> int:
        options: dict[str, Any] = {"mounts": [Mount(self.folder, writable=True)], **more}
        step = Step(self.image, ["/bin/sh", "-c", script], self.folder, **options)
        return run_step(self.engine, step, self.out, self.err)

    @property
    def output(self) -> list[str]:
        return self.out.getvalue().decode().split("\n")[:-1]

    def containers(self) -> list[str]:
        listed = self.engine.api.containers(all=True, filters={"ancestor": self.image})
        return [container["Id"] for container in listed]


@pytest.fixture
def run(engine: Engine, image: str, tmp_path: Path) -> Iterator[Run]:
    running = Run(engine, image, tmp_path)
    yield running
    try:
        until(lambda: not running.containers())  # where somebody else removes it, that may not be done yet
    finally:
        for container in running.containers():
            engine.remove(container)


def send(number: signal.Signals, after: float = 0.0) -> Callable[[], None]:
    def act() -> None:
        time.sleep(after)
        os.kill(os.getpid(), number)

    return act


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Have signals raise what they raise in a command; pytest-xdist's workers ignore Ctrl-C."""

    def leave(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    kept = [signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGTERM, leave)]
    yield
    signal.signal(signal.SIGINT, kept[0])
    signal.signal(signal.SIGTERM, kept[1])


def test_separate_streams_and_exit_code(run: Run, tmp_path: Path) -> None:
    assert run("pwd; echo problem >&2; exit 7") == 7
    assert run.output == [str(tmp_path)]
    assert run.err.getvalue() == b"problem\n"


def test_output_is_streamed(run: Run, tmp_path: Path) -> None:
    # It ends because we have seen its first line.
    run.out = Stream((tmp_path / "seen").touch)
    assert run("echo first; while [ ! -e seen ]; do sleep 0.05; done; echo last") == 0
    assert run.output == ["first", "last"]


def test_large_output_is_complete(run: Run) -> None:
    assert run("dd if=/dev/zero bs=1000000 count=20 2>/dev/null") == 0
    assert len(run.out.getvalue()) == 20_000_000


def test_files_belong_to_the_caller(run: Run, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert run("id -u; id -g; id -G; echo x > file; mkdir folder", user=(4321, 4322), groups=[4323]) == 0
    assert run.output == ["4321", "4322", "4322 4323"]
    for name in ("file", "folder"):
        status = (tmp_path / name).stat()
        assert (status.st_uid, status.st_gid) == (4321, 4322)


def test_only_writable_mounts_are_writable(
    run: Run, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mounted = tmp_path_factory.mktemp("shown")
    (mounted / "data").write_text("read me\n")
    targets = f"/x /usr/x {mounted}/x /tmp/x"
    script = f"cat {mounted}/data; for f in {targets}; do echo 2>/dev/null > $f && echo $f; done"
    assert run(script, mounts=[Mount(tmp_path, writable=True), Mount(mounted)]) == 0
    assert run.output == ["read me", "/tmp/x"]
    assert [path.name for path in mounted.iterdir()] == ["data"]


def test_step_has_no_capabilities_and_no_network(run: Run) -> None:
    assert run("ls /sys/class/net; while read a b; do echo $a $b; done < /proc/self/status") == 0
    assert run.output[0] == "lo" and run.output[1].startswith("Name:")
    assert "CapEff: 0000000000000000" in run.output and "CapBnd: 0000000000000000" in run.output
    assert "NoNewPrivs: 1" in run.output


def test_out_of_memory_names_the_limit(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolchain.images.running.step._LATE_S", PATIENCE_S)  # a busy engine's
    with pytest.raises(ToolchainError, match="ran out of memory: it may have 32 MiB") as raised:
        run("exec dd if=/dev/zero of=/dev/null bs=300000000 count=1", memory_mib=32)
    assert raised.value.exit_code == 1 and "--batch" in raised.value.hint


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda engine, container: engine.kill(container), "was killed by somebody else"),
        (lambda engine, container: engine.kill(container, "SIGTERM"), "was stopped by somebody else"),
        (lambda engine, container: engine.remove(container), "was removed by somebody else|killed by"),
    ],
    ids=["killed", "stopped", "removed"],
)
def test_container_killed_by_others_is_reported(
    run: Run, act: Callable[[Engine, str], None], says: str
) -> None:
    run.out = Stream(lambda: act(run.engine, run.containers()[0]))
    with pytest.raises(ToolchainError, match=says):
        run("echo up; sleep 60")


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_interrupts_the_command(run: Run) -> None:
    run.out = Stream(send(signal.SIGINT))
    begun = time.monotonic()
    assert run(POLITE) == 130
    assert run.output == ["up", "cleaning"]
    assert time.monotonic() - begun < 50


@pytest.mark.usefixtures("interruptible")
def test_second_ctrl_c_kills_the_command(run: Run) -> None:
    run.out = Stream(lambda: (send(signal.SIGINT)(), send(signal.SIGINT, 0.5)()))
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(STUBBORN)
    assert time.monotonic() - begun < 50


@pytest.mark.usefixtures("interruptible")
def test_command_that_ignores_ctrl_c_is_killed_after_the_grace(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolchain.images.running.step.GRACE_S", 0.5)
    run.out = Stream(send(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        run(STUBBORN)


@pytest.mark.usefixtures("interruptible")
def test_sigterm_ends_the_command(run: Run) -> None:
    run.out = Stream(send(signal.SIGTERM))
    with pytest.raises(SystemExit) as raised:
        run(POLITE)
    assert raised.value.code == 128 + signal.SIGTERM
    assert run.output == ["up", "cleaning"]


def test_closed_output_ends_the_command(run: Run) -> None:
    class Closed(io.BytesIO):
        def write(self, _: object) -> int:
            raise BrokenPipeError

    run.out = Closed()  # type: ignore[assignment]
    with pytest.raises(BrokenPipeError):
        run("echo up; sleep 60")


def test_daemon_that_stops_answering_is_reported(
    run: Run, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(prefix="et-") as short:  # a socket's name is limited to 107 bytes
        proxy = DockerProxy(Path(short) / "sock")
        monkeypatch.setenv("DOCKER_HOST", f"unix://{short}/sock")
        try:
            with connect() as over_proxy:
                run.engine = over_proxy
                run.out = Stream(proxy.close)
                with pytest.raises(ToolchainError, match="stopped answering: cannot wait for a container"):
                    run("echo up; sleep 60")
        finally:
            proxy.close()
            run.engine = engine
    for container in run.containers():  # as the next step would, were we dead
        engine.remove(container)


def test_folders_invisible_to_the_daemon_are_reported(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a bind mount cannot work there.*nowhere"):
        run("true", mounts=[Mount(tmp_path), Mount(Path("/nowhere/at/all"))])


def test_next_step_removes_containers_of_killed_processes(run: Run) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from toolchain.images.engine import connect\n"
        "from toolchain.images.running.step import Step, run_step\n"
        "with connect() as engine:\n"
        f"    step = Step({run.image!r}, ['/bin/sh', '-c', 'echo up; sleep 60'], Path('/'), [])\n"
        "    run_step(engine, step, sys.stdout.buffer, sys.stderr.buffer)\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for container in both:
            assert container.stdout and container.stdout.readline() == b"up\n"
        assert len(run.containers()) == 2
        both[0].kill()
        both[0].wait()
        assert run("echo next") == 0
        assert len(run.containers()) == 1  # the other one's process lives
        both[1].terminate()
        both[1].wait()
        assert run("echo next") == 0
        assert run.containers() == []
    finally:
        for container in both:
            container.kill()
            container.wait()
            if container.stdout:
                container.stdout.close()


def test_container_terminal_has_the_size_of_ours(run: Run) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from toolchain.images.engine import connect\n"
        "from toolchain.images.running.step import Step, run_step\n"
        'script = \'after() { while [ "$(stty size)" = "$1" ]; do sleep 0.1; done; stty size; }; \'\n'
        'script += \'after "0 0"; echo problem >&2; after "33 91"\'\n'
        "with connect() as engine:\n"
        f"    step = Step({run.image!r}, ['/bin/sh', '-c', script], Path('/'), [], terminal=True)\n"
        "    sys.exit(run_step(engine, step, sys.stdout.buffer, sys.stderr.buffer))\n"
    )
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 91, 0, 0))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=terminal, stderr=terminal)
    os.close(terminal)
    output = b""
    try:
        with suppress(OSError):  # at its end
            while data := os.read(controller, 1000):
                output += data
                if b"problem" in data:
                    fcntl.ioctl(controller, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
                    process.send_signal(signal.SIGWINCH)
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()
        os.close(controller)
    assert output.split() == [b"33", b"91", b"problem", b"40", b"100"]
