"""The example that serves inferences goes from one release to the next without failing one."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tests.measuring.small_network import built
from tests.runtime.test_library import EXAMPLES
from tests.waiting import until
from toolchain.bundles.read import Bundle
from toolchain.linking.zig import run_zig, zig_cache_environment
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
class App:
    """The folder of an app, as edge-rt lays it out."""

    folder: Path

    def put(self, bundle: Bundle, library: bytes | None = None) -> Path:
        release = self.folder / "releases" / bundle.sha256
        release.mkdir(parents=True, exist_ok=True)
        (release / "library.so").write_bytes(bundle.library if library is None else library)
        return release

    def activate(self, release: Path) -> None:
        """Do as edge-rt does: one rename."""
        new = self.folder / ".new"
        new.symlink_to(release.relative_to(self.folder))
        new.replace(self.folder / "current")


@dataclass
class Client:
    """Asks again and again, from a thread of its own; `wrong` has what was not an answer of a release."""

    path: Path
    data: bytes
    expected: list[np.ndarray]
    answers: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0

    def ask(self) -> bytes:
        with socket.socket(socket.AF_UNIX) as to:
            to.settimeout(60)
            to.connect(str(self.path))
            to.sendall(self.data)
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
        self.slowest_s = max(self.slowest_s, time.monotonic() - begun)

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
def serving(program: tuple[str, ...], app: App, path: Path, sdk: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [*program, str(app.folder / "current"), SHAPE, str(path)]
    environment = {"EDGE_LIBRARY": str(sdk / "libedge.so"), "PATH": "/usr/bin:/bin"}
    with (app.folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()


def test_no_inference_fails_while_a_release_is_activated(
    program: tuple[str, ...], releases: tuple[Bundle, Bundle], sdk: Path, tmp_path: Path
) -> None:
    app = App(tmp_path / "field" / "counter")
    old, new = (app.put(bundle) for bundle in releases)
    broken = app.put(releases[0], releases[0].library[:4096]).rename(old.parent / "broken")
    app.put(releases[0])
    app.activate(old)
    (sample,) = releases[0].sample.values()
    expected = [np.concatenate([v.ravel() for v in b.expected.values()]) for b in releases]
    client = Client(tmp_path / "socket", sample.tobytes(), expected)

    def served() -> list[str]:
        lines = (app.folder / "log").read_text().splitlines()
        return [line for line in lines if line.endswith((old.name, new.name))]

    with serving(program, app, client.path, sdk):
        until(lambda: len(served()) == 1)
        with client.asking():
            for count, release in enumerate((new, old, new), 2):
                until(lambda: len(client.answers) >= 20 * (count - 1))  # noqa: B023
                app.activate(release)
                until(lambda: len(served()) == count)  # noqa: B023
            app.activate(broken)  # a worker can't open it: the release before goes on
            until(lambda: "broken" in (app.folder / "log").read_text())
            answered = len(client.answers)
            until(lambda: len(client.answers) >= answered + 20)
        with socket.socket(socket.AF_UNIX) as short:
            short.connect(str(client.path))  # sends nothing
        assert client.ask(), "one bad client does no harm"
    print(f"{len(client.answers)} inferences, the slowest took {client.slowest_s * 1e3:.0f} ms")
    assert not client.wrong
    assert client.answers[0] == 0 and client.answers[-1] == 1
    assert not client.path.exists()


# Arguments: the example's folder, that of an app. Opens what `current` leads to, lets it lead to another
# release, opens it again, and prints the outputs of the first, of the second, and once more of the first.
OPENING = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from serve import Network
folder, shape = Path(sys.argv[2]), [1, 3, 16, 16]
data = (folder / "input").read_bytes()
first = Network(folder / "current", shape)
sys.stdout.buffer.write(first.infer(data))
os.replace(folder / "next", folder / "current")
second = Network(folder / "current", shape)
sys.stdout.buffer.write(second.infer(data))
sys.stdout.buffer.write(first.infer(data))
"""


def test_a_path_through_current_opens_what_it_leads_to_now(
    releases: tuple[Bundle, Bundle], sdk: Path, tmp_path: Path
) -> None:
    """Beside the release before, though dlopen takes a known path for the file that it opened there."""
    app = App(tmp_path)
    old, new = (app.put(bundle) for bundle in releases)
    app.activate(old)
    (tmp_path / "next").symlink_to(new.relative_to(tmp_path))
    (sample,) = releases[0].sample.values()
    (tmp_path / "input").write_bytes(sample.tobytes())
    done = subprocess.run(
        [sys.executable, "-c", OPENING, EXAMPLES / "serve", tmp_path],
        env={"EDGE_LIBRARY": str(sdk / "libedge.so")},
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    found = np.split(np.frombuffer(done.stdout, np.float32), 3)
    expected = [np.concatenate([v.ravel() for v in b.expected.values()]) for b in releases]
    for values, wanted in zip(found, (expected[0], expected[1], expected[0]), strict=True):
        np.testing.assert_allclose(values, wanted, 1e-4, 1e-6)
