"""A real scheduler and workers on loopback: candidates are compiled there, whatever becomes of a worker."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from tests.boards.ssh.sshd import free_port
from tests.tuning.builders.fleet_code import Crashing, Refused, Said
from tests.waiting import until
from toolchain.errors import MissingError, ToolchainError
from toolchain.tuning.builders import fleet
from toolchain.tuning.builders import fleet as member
from toolchain.tuning.builders.fleet import FleetCompilers, Versions, compile_as_member

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
HOWTO = ROOT / "docs" / "howto" / "fleet-of-builders.md"
LOOPBACK = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]],
        cwd=ROOT,  # where the tests' own code can be imported from
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def scheduling() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    process = started("scheduler", *LOOPBACK, "--port", "0", "--no-show")
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "Scheduler at:" in line:
                yield line.split()[-1].removeprefix("tcp://"), process
                break
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    with scheduling() as (address, _process):
        yield address


def worker(scheduler: str) -> subprocess.Popen[str]:
    return started("worker", f"tcp://{scheduler}", *LOOPBACK, "--no-nanny", "--nthreads", "1")


def wait_for_workers(scheduler: str, count: int) -> None:
    from distributed import Client

    with Client(scheduler, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=120)


@pytest.fixture
def workers(scheduler: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Two, which are there."""
    from distributed import Client

    processes = [worker(scheduler), worker(scheduler)]
    try:
        wait_for_workers(scheduler, 2)
        yield processes
        with Client(scheduler, set_as_default=False) as client:
            for process in processes:
                process.kill()
            until(lambda: not client.ncores())
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_worker_that_is_killed_in_the_middle_costs_time_alone(
    scheduler: str, workers: list[subprocess.Popen[str]]
) -> None:
    told: list[str] = []
    with closing(FleetCompilers(f"dask://{scheduler}", told.append)) as compilers:
        assert compilers.lanes == 2
        made = compilers.compile([(Said("a"), "a"), (Refused(), "b"), (Crashing(), "c"), (Said("d"), "d")])
        assert [each.failure for each in made] == [None, "build", "build", None]
        assert made[1].message == "b: no such instruction"
        assert made[2].message == "compiling: the process ended with exit code -6"

        killer = subprocess.Popen(["sh", "-c", f"sleep 2; kill -KILL {workers[0].pid}"])
        made = compilers.compile([(Said(str(n), takes_s=1), f"main_{n}") for n in range(6)])
        killer.wait()
        assert [each.objects for each in made] == [(f"main_{n} {n}".encode(),) for n in range(6)]
        assert workers[0].wait(60) == -9

        workers[1].kill()
        fleet_alone = pytest.MonkeyPatch()
        fleet_alone.setattr(fleet, "_ALONE_S", 2.0)
        with fleet_alone.context(), pytest.raises(ToolchainError, match="no worker could be reached for 2 s"):
            compilers.compile([(Said("never"), "main")])
        fleet_alone.undo()
        address = f"--builders dask://{scheduler}"
        assert told == [f"{address}: no worker can be reached; waiting 2 s at most"]


def typed(words: str, **replaced: str) -> list[str]:
    """Return the command of the how-to that begins so, after `dask`, with other words in place of some."""
    text = HOWTO.read_text().replace("\\\n", "")
    (line,) = [line.strip() for line in text.splitlines() if line.strip().startswith(words)]
    for word, other in replaced.items():
        line = line.replace(word, other)
    return line[line.index("dask ") :].split()[1:]


def test_a_fleet_as_the_howto_says_listens_on_loopback_alone() -> None:
    begun: list[subprocess.Popen[str]] = []
    try:
        free = str(free_port())
        begun.append(started(*typed("dask scheduler", **{"8786": free})))
        begun.append(started(*typed("dask worker", **{"8786": free})))
        far = {"8786": free, "8801": str(free_port())}
        begun.append(started(*typed("ssh -R", **far)))  # what it starts there
        wait_for_workers(f"127.0.0.1:{free}", 2)
        families = [psutil.Process(process.pid) for process in begun]
        families += [child for parent in families for child in parent.children(recursive=True)]
        sockets = [socket for each in families for socket in each.net_connections("inet")]
        listening = [socket.laddr for socket in sockets if socket.status == psutil.CONN_LISTEN]
        assert len(listening) >= 7, "two of the scheduler, two of each worker, one of a nanny"
        assert {place.ip for place in listening} == {"127.0.0.1"}, listening
        assert {int(free), int(far["8801"])} <= {place.port for place in listening}
    finally:
        for process in reversed(begun):
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
            process.wait()


def test_workers_on_a_network_are_warned_of(
    scheduler: str, workers: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    del workers
    told: list[str] = []
    FleetCompilers(f"dask://{scheduler}", told.append).close()
    assert told == []
    monkeypatch.setattr(fleet, "_is_open", lambda _worker: True)
    FleetCompilers(f"dask://{scheduler}", told.append).close()
    (warning,) = told
    assert warning.startswith(f"warning: --builders dask://{scheduler}: tcp://127.0.0.1:")
    assert "without TLS" in warning


@pytest.mark.parametrize(
    ("worker", "open_to"),
    [
        ("tcp://127.0.0.1:4000", False),
        ("tcp://[::1]:4000", False),
        ("tcp://localhost:4000", False),
        ("tls://10.0.0.3:4000", False),
        ("tcp://10.0.0.3:4000", True),
        ("tcp://0.0.0.0:4000", True),
        ("tcp://[2001:db8::1]:4000", True),
        ("tcp://builder1:4000", True),
    ],
)
def test_who_is_reached_over_a_network(worker: str, open_to: bool) -> None:
    assert fleet._is_open(worker) is open_to


def test_a_worker_that_comes_in_time_is_told_of(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "_ALONE_S", 300.0)
    first = worker(scheduler)
    others: list[subprocess.Popen[str]] = []
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        if len(told) == 1:
            others.append(worker(scheduler))

    try:
        wait_for_workers(scheduler, 1)
        with closing(FleetCompilers(f"dask://{scheduler}", tell)) as compilers:
            first.kill()
            first.wait()
            (made,) = compilers.compile([(Said("a"), "a")])
    finally:
        for process in [first, *others]:
            process.kill()
            process.wait()
    assert made.objects and told == [
        f"--builders dask://{scheduler}: no worker can be reached; waiting 300 s at most",
        f"--builders dask://{scheduler}: a worker is back",
    ]


def test_a_scheduler_that_goes_away_is_named() -> None:
    with scheduling() as (address, process), worker(address) as alone:
        try:
            wait_for_workers(address, 1)
            with closing(FleetCompilers(f"dask://{address}", print)) as compilers:
                gone = f"--builders dask://{address}: the scheduler is gone"
                kill = threading.Timer(1, process.kill)
                kill.start()
                with pytest.raises(ToolchainError, match=gone) as caught:
                    compilers.compile([(Said("a", takes_s=60), "a")])
                kill.join()
                assert "what was measured is kept: run it again" in caught.value.hint
                until(lambda: compilers._client.status == "closed")
                with pytest.raises(ToolchainError, match=gone):
                    compilers.compile([(Said("a"), "a")])
        finally:
            alone.kill()


def test_a_worker_of_another_version_is_named_with_both(
    scheduler: str, workers: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    del workers
    theirs = str(member.versions_here())
    monkeypatch.setattr(member, "_PROTOCOL", 99)
    with pytest.raises(ToolchainError, match=r"worker tcp://127\.0\.0\.1:\d+ is edge-toolchain") as caught:
        FleetCompilers(f"dask://{scheduler}", print)
    assert f" is {theirs}, this is {member.versions_here()}" in caught.value.message


def test_a_worker_that_joins_later_is_asked_as_well() -> None:
    with pytest.raises(ToolchainError, match=r"a worker of the fleet is .*, the run is edge-toolchain 9.9"):
        compile_as_member(Versions("9.9", "0.99", 1), b"")


def test_no_scheduler_is_an_error_within_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "_CONNECT_S", 2.0)
    with pytest.raises(
        ToolchainError, match=r"--builders dask://127.0.0.1:9: no Dask scheduler answers"
    ) as caught:
        FleetCompilers("dask://127.0.0.1:9", print)
    assert caught.value.exit_code == 1


def test_without_the_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingError) as caught:
        FleetCompilers("dask://127.0.0.1:9", print)
    assert caught.value.exit_code == 3
    assert 'pip install "edge-toolchain[fleet]"' in caught.value.hint
