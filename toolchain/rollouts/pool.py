"""Runs the jobs of a phase in threads, with later tries, until all have ended or the user stops them."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence

from toolchain.rollouts.outcome import Outcome
from toolchain.rollouts.worker import Job

_TICK_S = 0.2


def run_jobs(
    jobs: Sequence[Job],
    at_once: int,
    stop: threading.Event,
    done: Callable[[Job, Outcome | None], bool],
    tick: Callable[[], None],
) -> list[Job]:
    """Run jobs, `at_once` at the same time; return those that never began.

    Parameters
    ----------
    stop
        No job begins any more once it is set; those at work end by themselves.
    done
        Called in this thread with each result, None for a job that is to be tried again; returns whether
        other jobs may begin.
    tick
        Called in this thread several times a second.
    """
    waiting, at_work = list(jobs), 0
    again: list[Job] = []
    results: queue.SimpleQueue[tuple[Job, Outcome | BaseException | None]] = queue.SimpleQueue()
    open_gate = True
    while at_work or ((waiting or again) and open_gate and not stop.is_set()):
        while at_work < at_once and open_gate and not stop.is_set():
            job = _next(waiting, again)
            if job is None:
                break
            at_work += 1
            _start(job, results)
        try:
            job, result = results.get(timeout=_TICK_S)
        except queue.Empty:
            tick()
            continue
        tick()
        at_work -= 1
        if isinstance(result, BaseException):
            raise result
        if result is None:
            again.append(job)
        open_gate = done(job, result) and open_gate
    for job in again:
        done(job, job.give_up())
    return waiting


def _next(waiting: list[Job], again: list[Job]) -> Job | None:
    """Take the next job that may begin: one that was never tried comes first."""
    if waiting:
        return waiting.pop(0)
    due = [job for job in again if job.not_before <= time.monotonic()]
    if not due:
        return None
    again.remove(due[0])
    return due[0]


def _start(job: Job, results: queue.SimpleQueue[tuple[Job, Outcome | BaseException | None]]) -> None:
    def run() -> None:
        try:
            results.put((job, job.run()))
        except BaseException as error:  # for the thread that waits
            results.put((job, error))

    threading.Thread(target=run, name=f"rollout {job.board.name}", daemon=True).start()
