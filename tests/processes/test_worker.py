"""A worker that hangs, dies or fails is given up in time, and the next call works again."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from toolchain.processes.worker import Worker, WorkerDiedError

pytestmark = pytest.mark.slow


def _add(a: int, b: int) -> int:
    return a + b


def _stop_oneself() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _fail() -> None:
    raise ValueError("no")


def _pid() -> int:
    return os.getpid()


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


def test_answers_and_stays_the_same_process(worker: Worker) -> None:
    assert worker.call(60, _add, 2, 3) == 5
    assert worker.call(60, _pid) == worker.call(60, _pid)


def test_suspended_process_is_killed_at_the_deadline(worker: Worker) -> None:
    pid = worker.call(60, _pid)
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        worker.call(0.5, _stop_oneself)
    assert time.monotonic() - begun < 60
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert worker.call(60, _add, 1, 1) == 2


def test_suspended_process_that_reads_nothing_is_killed_at_the_deadline(worker: Worker) -> None:
    os.kill(worker.call(60, _pid), signal.SIGSTOP)
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        worker.call(0.5, len, bytes(8 << 20))  # far more than a pipe takes
    assert time.monotonic() - begun < 60
    assert worker.call(60, len, bytes(8 << 20)) == 8 << 20


def test_crash_says_the_signal(worker: Worker) -> None:
    with pytest.raises(WorkerDiedError, match="-11"):
        worker.call(60, _die)
    assert worker.call(60, _add, 1, 1) == 2


def test_exception_comes_back_and_the_process_stays(worker: Worker) -> None:
    pid = worker.call(60, _pid)
    with pytest.raises(ValueError, match="no"):
        worker.call(60, _fail)
    assert worker.call(60, _pid) == pid


def test_closing_twice_is_fine(worker: Worker) -> None:
    worker.call(60, _pid)
    worker.close()
    worker.close()


def test_a_parent_that_lets_go_in_the_middle_hears_nothing(
    worker: Worker, capfd: pytest.CaptureFixture[str]
) -> None:
    """As when a signal ends the parent between request and answer."""
    worker.call(60, _add, 1, 1)
    process, connection = worker._process, worker._connection
    assert connection is not None and process is not None
    connection.send((_add, (1, 1)))
    time.sleep(0.3)  # the answer lies in the pipe, unread: closing resets the connection
    connection.close()
    assert process.wait(60) == 0
    assert capfd.readouterr().err == ""


def test_a_process_that_was_ended_is_said_to_be() -> None:
    worker = Worker()
    ending = threading.Timer(0.5, worker.end)
    worker.call(60, int)
    ending.start()
    with pytest.raises(WorkerDiedError, match="the process was ended with the run"):
        worker.call(60, time.sleep, 60)
    ending.join()


def test_a_process_that_no_longer_answers_has_no_exit_code() -> None:
    worker = Worker()
    with pytest.raises(WorkerDiedError, match="the process no longer answered, and was ended"):
        worker.call(60, _deaf)
    worker.close()


def _deaf() -> None:
    """Close the line to the parent, and live on."""
    os.closerange(3, 256)
    time.sleep(60)
