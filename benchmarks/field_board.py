"""What an installation costs a board: bytes on its link, its time, its memory, its service's answers.

The board is the real edge-rt on this host, behind a real sshd, with the networks of the tests and, where the
size counts, a library with so many more bytes at its end.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.boards.ssh.proxy import proxy
from tests.boards.ssh.sshd import sshd
from tests.field.board import Board as FieldBoard
from tests.field.toy import APP
from tests.measuring.small_network import built
from tests.peak_memory import peak_kib
from tests.releases.made import ANNA, DAY, trust
from tests.releases.real import BOARD_CLASS, real_board, real_release
from tests.runtime import test_serve_example as service
from tests.waiting import until
from toolchain.boards.board import Board
from toolchain.boards.ssh.transport import SshTransport
from toolchain.bundles.read import Bundle, read_bundle
from toolchain.bundles.write import write_bundle
from toolchain.profiles import load_profile
from toolchain.releases.export import Delivery, export_release
from toolchain.releases.signed_release import SignedRelease
from toolchain.releases.trust import read_trust
from toolchain.rollouts.attempt import Attempt
from toolchain.rollouts.installer import Progress
from toolchain.rollouts.rollback import roll_back
from toolchain.runtime import ensure_runtime

PART_MIB = 64
TIMES = 50  # self-tests


def with_library(bundle: Bundle, path: Path, mib: int) -> Bundle:
    """Write the bundle with `mib` MiB behind its library, which the loader does not read; return it."""
    library = bundle.library + os.urandom(2**20) * mib
    write_bundle(path, bundle.manifest, library, bundle.sample, bundle.expected)
    return read_bundle(path)


def large_releases(folder: Path) -> tuple[SignedRelease, SignedRelease]:
    """Sign two releases that differ in one large part, and in the manifest, which has its digest."""
    bundle = built("local", folder)
    one, two = (with_library(bundle, folder / f"{name}.bundle", PART_MIB) for name in ("one", "two"))
    return real_release(one, folder, "1.0.0"), real_release(two, folder, "2.0.0")


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that it takes."""
    began = time.monotonic()
    work()
    return round(time.monotonic() - began, 2)


def over_ssh(folder: Path, releases: tuple[SignedRelease, SignedRelease]) -> dict[str, Any]:
    """Return what crosses the link for an update, and the seconds of what sends nothing."""
    chain = trust([ANNA], [ANNA], expires=int(time.time()) + DAY).enveloped().signed_by(ANNA, "the trust")
    (folder / "trust.json").write_bytes(chain.to_bytes() + b"\n")
    old, new = releases
    with sshd(folder / "sshd") as server, proxy(server.port) as link:
        transport = SshTransport(server.address(link.port), str(server.root))
        board = Board("b", load_profile("x86_64"), True, True, transport, BOARD_CLASS, BOARD_CLASS)

        def deploy(release: SignedRelease) -> str:
            delivery = Delivery(release, read_trust(folder / "trust.json"))
            outcome = Attempt(board, delivery, Progress()).run()
            assert outcome.error is None, outcome
            return outcome.state

        assert deploy(old) == "installed"
        before = link.sent
        update_s = timed(lambda: deploy(new))
        sent = link.sent - before
        changed = [size for digest, size in _parts(new).items() if digest not in _parts(old)]
        same_s = timed(lambda: deploy(new))
        back: list[str] = []
        back_s = timed(lambda: back.extend(end.outcome.state for end in roll_back([board], APP, 1)))
        transport.close()
    assert back == ["rolled-back"], back
    return {
        "parts": len(new.release.sizes),
        "changed_bytes": changed,
        "sent_bytes": sent,
        "sent_ratio": round(sent / sum(changed), 4),
        "update_s": update_s,
        "same_again_s": same_s,
        "rollback_s": back_s,
    }


def _parts(release: SignedRelease) -> dict[str, int]:
    """Return the size of each part by its digest."""
    digests = [each.digest.sha256 for each in release.statement.subject[1:]]
    return dict(zip(digests, release.release.sizes, strict=True))


def run_watched(argv: list[str], **more: Any) -> tuple[str, int]:
    """Run a command; return what it said and its peak memory in KiB."""
    peak = 0
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, **more) as child:
        while child.poll() is None:
            peak = max(peak, peak_kib(child.pid))
            time.sleep(0.0005)
        assert child.returncode == 0 and child.stdout
        return child.stdout.read(), peak


def bench_command(board: FieldBoard, folder: Path) -> list[str]:
    """Return the command that runs the current network alone for about a second."""
    current = board.app / "current"
    inputs = [word for path in sorted((current / "sample").iterdir()) for word in ("--input", str(path))]
    argv = [str(ensure_runtime("x86_64").program), "bench", str(current / "library.so"), *inputs]
    return [*argv, "--state", str(folder / "alone"), "--repeat", "50", "--min-repeat-ms", "20"]


def memory(folder: Path, releases: tuple[SignedRelease, SignedRelease]) -> dict[str, Any]:
    """Return the peak memory of an installation and its self-test beside the network's alone, in KiB."""
    board = real_board(folder / "board")
    for release in releases:
        file = export_release(release, None, folder / f"{release.release.version}.edge").file
        said, installer = run_watched(board.command("install", str(file)), env=board.variables())
    self_test = json.loads(said.splitlines()[-1])["test"]["memory_kib"]
    _, alone = run_watched(bench_command(board, folder))
    return {
        "part_mib": PART_MIB,
        "installer_kib": installer,
        "self_test_kib": self_test,
        "network_kib": alone,
        "beyond_the_network_mib": round((installer + self_test - alone) / 1024, 2),
    }


def small_files(folder: Path) -> tuple[tuple[Bundle, Bundle], list[str]]:
    """Return two networks that differ in their weights, and their release files."""
    old, new = built("local", _made(folder / "old")), built("local", _made(folder / "new"), flipped=0)
    files = [
        str(export_release(real_release(bundle, folder, version), None, folder / version).file)
        for bundle, version in ((old, "1.0.0"), (new, "2.0.0"))
    ]
    return (old, new), files


def service_gap(folder: Path) -> dict[str, Any]:
    """Return how a service answers 50 requests a second while edge-rt installs an update."""
    (old, new), files = small_files(folder)
    sdk = ensure_runtime("x86_64").library.parent
    program = folder / "serve"
    service.compiled(program, str(sdk))
    board = real_board(folder / "served")
    service.call(board, "install", files[0])
    (sample,) = old.sample.values()
    client = service.Client(
        folder / "socket", sample.tobytes(), [service.outputs(each) for each in (old, new)]
    )
    with service.serving((str(program),), board.app, client.path, sdk):
        until(client.path.exists)
        with client.asking():
            until(lambda: len(client.answers) >= 2 * service.A_SECOND)
            usual_s, client.gap_s = client.gap_s, 0.0
            service.call(board, "install", files[1])
            until(lambda: client.answers[-1] == 1)
            wanted = len(client.answers) + 2 * service.A_SECOND
            until(lambda: len(client.answers) >= wanted)
    return {
        "inferences": len(client.answers),
        "failed": len(client.wrong),
        "longest_gap_ms": round(client.gap_s * 1e3),
        "longest_gap_before_ms": round(usual_s * 1e3),
    }


def self_tests(folder: Path) -> dict[str, Any]:
    """Return the latency of a tiny network in self-tests, beside its measurement's, in microseconds.

    What `--slack-ms` of `toolchain deploy` has to forgive: a self-test has a few runs in a process that has
    only just begun, a measurement has thousands. Half of the self-tests are beside programs that keep every
    core busy twice.
    """
    board = real_board(folder / "tested")
    for file in small_files(folder)[1]:
        service.call(board, "install", file)
    said, _ = run_watched(bench_command(board, folder))
    alone = statistics.median(json.loads(said)["times_ms"]) * 1e3
    idle = _latencies(board)
    with busy():
        beside = _latencies(board)
    return {"measured_us": round(alone, 1), "self_tests_us": idle, "self_tests_beside_others_us": beside}


def _latencies(board: FieldBoard) -> dict[str, float]:
    found: list[float] = []
    for _ in range(TIMES):
        code, lines = board.call("rollback", "--app", APP)
        assert code == 0, lines
        found.append(lines[-1]["test"]["latency_us"])
    return {"least": min(found), "median": statistics.median(found), "most": max(found)}


@contextmanager
def busy() -> Iterator[None]:
    """Keep every core busy twice."""
    with ExitStack() as stack:
        for _ in range(2 * (os.cpu_count() or 1)):
            child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(child.wait)
            stack.callback(child.kill)
        yield


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def board_numbers(folder: Path) -> dict[str, Any]:
    """Return all of them."""
    releases = large_releases(_made(folder / "large"))
    return {
        "link": over_ssh(_made(folder / "link"), releases),
        "memory": memory(_made(folder / "memory"), releases),
        "service": service_gap(_made(folder / "service")),
        "self_tests": self_tests(_made(folder / "tests")),
    }
