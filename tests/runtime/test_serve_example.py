"""The example that serves inferences goes from one release to the next without failing one."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.field.board import Board
from tests.field.toy import APP
from tests.measuring.small_network import built
from tests.releases.real import real_board, real_release
from tests.runtime.test_library import EXAMPLES
from tests.waiting import until
from toolchain.bundles.read import Bundle
from toolchain.linking.zig import run_zig, zig_cache_environment
from toolchain.releases.export import export_release
from toolchain.runtime import ensure_runtime

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

SHAPE = "1x3x16x16"
A_SECOND = 50  # requests


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bundle, Bundle]:
    """Return two networks that differ in their weights."""
    old, new = (tmp_path_factory.mktemp(name) for name in ("old", "new"))
    return built("local", old), built("local", new, flipped=0)


@pytest.fixture(scope="module")
def sdk() -> Path:
    return ensure_runtime("x86_64").library.parent


@pytest.fixture(scope="module", params=["C", "Python"])
def program(
    request: pytest.FixtureRequest, sdk: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, ...]:
    """Return how the example is started."""
    if request.param == "Python":
        return (sys.executable, str(EXAMPLES / "serve" / "serve.py"))
    program = tmp_path_factory.mktemp("serve") / "serve"
    compiled(program, str(sdk))
    return (str(program),)


def compiled(program: Path, libraries: str) -> None:
    """Compile the example in C; it looks for libedge.so in a folder."""
    runtime = ensure_runtime("x86_64")
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{runtime.header.parent}"]
    link = [f"-L{runtime.library.parent}", "-ledge", f"-Wl,-rpath,{libraries}", "-o", str(program)]
    source = str(EXAMPLES / "serve" / "serve.c")
    done = run_zig(["cc", *flags, source, *link], 120, zig_cache_environment())
    assert done.returncode == 0, done.output


@dataclass
class Client:
    """Asks again and again, from a thread of its own; `wrong` has what was not an answer of a release.

    `gap_s` is the longest time from one answer to the next, the pause before a request included.
    """

    path: Path
    data: bytes
    expected: list[np.ndarray]
    answers: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    answered_at: float = 0.0
    gap_s: float = 0.0

    def ask(self, halfway: Callable[[], None] = lambda: None) -> bytes:
        """Return the bytes of an answer; `halfway` is called when half of the request is sent."""
        half = len(self.data) // 2
        with socket.socket(socket.AF_UNIX) as to:
            to.settimeout(60)
            to.connect(str(self.path))
            to.sendall(self.data[:half])
            halfway()
            to.sendall(self.data[half:])
            answer = b""
            while piece := to.recv(65536):
                answer += piece
        return answer

    def ask_once(self) -> None:
        begun = time.monotonic()
        try:
            found = np.frombuffer(self.ask(), np.float32)
            fits = [found.size == e.size and np.allclose(found, e, 1e-4, 1e-6) for e in self.expected]
            if sum(fits) == 1:
                self.answers.append(fits.index(True))
            else:
                self.wrong.append(f"{found.size} values, of no release")
        except OSError as error:
            self.wrong.append(str(error))
        now = time.monotonic()
        self.slowest_s = max(self.slowest_s, now - begun)
        self.gap_s = max(self.gap_s, now - (self.answered_at or now))
        self.answered_at = now

    @contextmanager
    def asking(self) -> Iterator[None]:
        ended = threading.Event()

        def ask() -> None:
            while not ended.wait(1 / A_SECOND):
                self.ask_once()

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(120)


@contextmanager
def serving(program: tuple[str, ...], app: Path, path: Path, sdk: Path) -> Iterator[None]:
    command = [*program, str(app / "current"), SHAPE, str(path)]
    environment = {"EDGE_LIBRARY": str(sdk / "libedge.so"), "PATH": "/usr/bin:/bin"}
    with (app / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def files(releases: tuple[Bundle, Bundle], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return both as release files."""
    folder = tmp_path_factory.mktemp("files")

    def file(bundle: Bundle, version: str) -> str:
        return str(export_release(real_release(bundle, folder, version), None, folder / version).file)

    return file(releases[0], "1.0.0"), file(releases[1], "2.0.0")


def call(board: Board, *words: str) -> None:
    code, said = board.call(*words)
    assert code == 0, said


def outputs(bundle: Bundle) -> np.ndarray:
    return np.concatenate([values.ravel() for values in bundle.expected.values()])


def served(log: Path) -> str | None:
    """Return the release of the worker that came last."""
    lines = [line for line in log.read_text().splitlines() if line.startswith("serve: /")]
    return Path(lines[-1]).name if lines else None


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return real_board(tmp_path)


@pytest.fixture
def client(releases: tuple[Bundle, Bundle], tmp_path: Path) -> Client:
    (sample,) = releases[0].sample.values()
    return Client(tmp_path / "socket", sample.tobytes(), [outputs(each) for each in releases])


def test_no_inference_fails_while_edge_rt_changes_the_release(
    program: tuple[str, ...],
    board: Board,
    client: Client,
    releases: tuple[Bundle, Bundle],
    files: tuple[str, str],
    sdk: Path,
    tmp_path: Path,
) -> None:
    call(board, "install", files[0])
    log = board.app / "log"

    def wait_for_answers() -> None:
        wanted = len(client.answers) + 20
        until(lambda: len(client.answers) >= wanted)

    with serving(program, board.app, client.path, sdk):
        until(lambda: served(log) == board.current())
        with client.asking():
            wait_for_answers()
            for words, now in (
                (("install", files[1]), 1),
                (("rollback", "--app", APP), 0),
                (("install", files[1]), 1),
            ):
                before = board.current()
                call(board, *words)
                assert board.current() != before
                until(lambda: served(log) == board.current())
                # Both workers take requests until the one before has been told.
                until(lambda: client.answers[-20:] == [now] * 20)  # noqa: B023
            # edge-rt would refuse such a release. No worker can open it: the one before goes on.
            broken = board.app / "releases" / "broken"
            broken.mkdir()
            (broken / "library.so").write_bytes(releases[0].library[:4096])
            (tmp_path / "link").symlink_to(broken)
            (tmp_path / "link").replace(board.app / "current")
            until(lambda: "broken" in log.read_text())
            wait_for_answers()
        with socket.socket(socket.AF_UNIX) as short:
            short.connect(str(client.path))  # sends nothing
        assert client.ask(), "one bad client does no harm"
    print(f"{len(client.answers)} inferences; the slowest took {client.slowest_s * 1e3:.0f} ms, ", end="")
    print(f"the longest gap between two answers {client.gap_s * 1e3:.0f} ms")
    assert not client.wrong
    assert (client.answers[0], client.answers[-1]) == (0, 1)
    assert not client.path.exists()


def test_a_request_that_has_begun_is_answered_by_the_release_that_took_it(
    program: tuple[str, ...], board: Board, client: Client, files: tuple[str, str], sdk: Path, tmp_path: Path
) -> None:
    """The signal that ends the worker before comes while it waits for the rest of a request."""
    installed = []
    for file in files:
        call(board, "install", file)
        installed.append(board.app / "releases" / str(board.current()))
    log = board.app / "log"

    def change(release: Path) -> None:
        (tmp_path / "link").symlink_to(release)
        (tmp_path / "link").replace(board.app / "current")
        until(lambda: served(log) == release.name)
        time.sleep(0.3)  # the parent tells the worker before once the new one is ready

    with serving(program, board.app, client.path, sdk):
        until(lambda: served(log) == installed[1].name)
        for attempt in range(4):  # a request may take 5 s, which a busy machine may exceed
            before = (attempt + 1) % 2
            begun = time.monotonic()
            answer = b""
            with suppress(OSError):
                answer = client.ask(partial(change, installed[1 - before]))
            if answer:
                break
            assert time.monotonic() - begun > 5
        np.testing.assert_allclose(np.frombuffer(answer, np.float32), client.expected[before], 1e-4, 1e-6)
        # On a busy machine the worker before may not have been told yet, and take the next request, too.
        until(lambda: np.allclose(np.frombuffer(client.ask(), np.float32), client.expected[1 - before], 1e-4))


# Arguments: the example's folder, the link `current`, the input, a command. Opens what `current` names, runs
# the command, opens it again, and prints the outputs of the first, of the second, and once more of the first.
OPENING = """
import subprocess, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from serve import Network
current, shape = Path(sys.argv[2]), [1, 3, 16, 16]
data = Path(sys.argv[3]).read_bytes()
first = Network(current, shape)
sys.stdout.buffer.write(first.infer(data))
subprocess.run(sys.argv[4:], check=True, stdout=sys.stderr)
second = Network(current, shape)
sys.stdout.buffer.write(second.infer(data))
sys.stdout.buffer.write(first.infer(data))
"""


def test_a_path_through_current_opens_what_it_leads_to_now(
    releases: tuple[Bundle, Bundle], files: tuple[str, str], sdk: Path, tmp_path: Path
) -> None:
    """Beside the release before, though dlopen takes a known path for the file that it opened there."""
    board = real_board(tmp_path)
    call(board, "install", files[0])
    (sample,) = releases[0].sample.values()
    (tmp_path / "input").write_bytes(sample.tobytes())
    opened = [EXAMPLES / "serve", board.app / "current", tmp_path / "input"]
    done = subprocess.run(
        [sys.executable, "-c", OPENING, *opened, *board.command("install", files[1])],
        env={"EDGE_LIBRARY": str(sdk / "libedge.so")},
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    found = np.split(np.frombuffer(done.stdout, np.float32), 3)
    for values, release in zip(found, (releases[0], releases[1], releases[0]), strict=True):
        np.testing.assert_allclose(values, outputs(release), 1e-4, 1e-6)
