"""Candidates are compiled in processes of this host, which may hang or crash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from queue import SimpleQueue

from toolchain.processes.interrupts import let_signals_end_waits
from toolchain.processes.worker import Worker, WorkerDiedError
from toolchain.profiles import Profile
from toolchain.tasks.bench import Built
from toolchain.tasks.candidate import Candidate
from toolchain.tuning.build import build_candidate

# One function compiles in 0.1 to 3 s; unrolled ones take LLVM longer on a busy machine.
_COMPILE_S = 60.0


class HostBuilder:
    """Builds libraries for boards of a class; see `tasks.bench.Builder`."""

    def __init__(self, jobs: int, profile: Profile, folder: Path) -> None:
        self._profile, self._folder = profile, folder
        self._numbers = count()
        self._workers = [Worker() for _ in range(jobs)]
        self._free: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            self._free.put(worker)
        self._threads = ThreadPoolExecutor(max_workers=jobs)

    def build(self, candidates: Sequence[Candidate]) -> list[Built]:
        """Build candidates, in their order."""
        let_signals_end_waits()
        return list(self._threads.map(self._build, candidates))

    def close(self) -> None:
        """End the processes."""
        self._threads.shutdown(wait=False, cancel_futures=True)  # nothing new is begun
        for worker in self._workers:
            worker.end()
        self._threads.shutdown(wait=True)

    def _build(self, candidate: Candidate) -> Built:
        library = self._folder / f"{next(self._numbers)}.so"
        worker = self._free.get()
        try:
            built = worker.call(_COMPILE_S, build_candidate, candidate, self._profile, library)
            return replace(built, candidate=candidate)
        except TimeoutError as error:
            return Built(candidate, None, "timeout", f"compiling: {error}")
        except WorkerDiedError as error:
            return Built(candidate, None, "build", str(error))
        finally:
            self._free.put(worker)


@contextmanager
def host_builder(jobs: int, profile: Profile, folder: Path) -> Iterator[HostBuilder]:
    """Yield a builder; its processes are gone afterwards, Ctrl-C included."""
    builder = HostBuilder(jobs, profile, folder)
    try:
        yield builder
    finally:
        builder.close()
