"""Interprets the option `--builders`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from toolchain.configuration.settings import settings
from toolchain.errors import UsageError
from toolchain.processes.interrupts import let_signals_end_waits
from toolchain.processes.worker import Worker, WorkerDiedError
from toolchain.tasks.candidate import CandidateCode
from toolchain.tuning.builders.compiled import COMPILE_S, CompiledCandidate, Compilers, compile_code
from toolchain.tuning.builders.fleet import SCHEME, FleetCompilers

# Compiles candidates in worker processes of this host, which may hang or crash.

_ATTEMPTS = 2  # a process killed from outside is no failure of the function


class HostCompilers:
    """Compiles in processes of this host that live as long as the run, so that each imports TVM once.

    See `Compilers`.
    """

    def __init__(self, jobs: int) -> None:
        self.lanes = jobs
        self._workers = [Worker() for _ in range(jobs)]
        self._free: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            self._free.put(worker)
        self._threads = ThreadPoolExecutor(max_workers=jobs)

    def compile(self, codes: Sequence[tuple[CandidateCode, str]]) -> list[CompiledCandidate]:
        """Compile functions, each given with its symbol; return them in the same order."""
        let_signals_end_waits()
        return list(self._threads.map(self._compile, codes))

    def close(self) -> None:
        """End the worker processes that compile candidates."""
        self._threads.shutdown(wait=False, cancel_futures=True)  # cancels what has not begun
        for worker in self._workers:
            worker.end()
        self._threads.shutdown(wait=True)

    def _compile(self, item: tuple[CandidateCode, str]) -> CompiledCandidate:
        worker = self._free.get()
        died = ""
        try:
            for _ in range(_ATTEMPTS):
                try:
                    return worker.call(COMPILE_S, compile_code, *item)
                except WorkerDiedError as error:
                    died = str(error)
            return CompiledCandidate(failure="build", message=f"compiling: {died}")
        except TimeoutError as error:
            return CompiledCandidate(failure="timeout", message=f"compiling: {error}")
        finally:
            self._free.put(worker)


_MOST = 4096  # the same limit as for the setting `jobs`


def compilers_for(builders: str | None, notice: Callable[[str], None]) -> Compilers:
    """Start the processes, or connect to the fleet, that compile candidates.

    Parameters
    ----------
    builders
        A number of processes of this host, or `dask://HOST:PORT`; None: as many as the setting `jobs`.
    notice
        Called with warnings and news about them for the user.

    Raises
    ------
    UsageError
        `builders` is neither a number nor an address.
    MissingError
        Dask, which a fleet needs, is not installed.
    ToolchainError
        The fleet does not answer, or has another version.
    """
    if builders is None:
        return HostCompilers(settings().jobs)
    check_builders(builders)
    if builders.startswith(SCHEME):
        return FleetCompilers(builders, notice)
    return HostCompilers(int(builders))


def check_builders(builders: str) -> None:
    """Check that `builders` is a number of processes or has a fleet's scheme; connects to nothing.

    Raises
    ------
    UsageError
        It is neither.
    """
    if builders.startswith(SCHEME) or (builders.isdecimal() and 1 <= int(builders) <= _MOST):
        return
    raise UsageError(
        f"--builders {builders}: neither a number of processes (1 to {_MOST}) nor a fleet's address",
        "such as --builders 4, or --builders dask://HOST:8786",
    )
