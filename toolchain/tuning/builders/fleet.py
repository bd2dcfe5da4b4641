"""Compiles candidates on a fleet: the hosts of a Dask cluster.

A fleet must be trusted like this host: whoever can reach the scheduler can run code on its workers, and their
answers are unpickled here. Dask encrypts and checks certificates if its configuration says so.
"""

from __future__ import annotations

import ipaddress
import logging
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from toolchain import __version__
from toolchain.errors import MissingError, ToolchainError
from toolchain.foreign import first_line
from toolchain.processes.worker import Worker, WorkerDiedError
from toolchain.tasks.candidate import CandidateCode
from toolchain.tuning.builders.compiled import COMPILE_S, CompiledCandidate, compile_code

if TYPE_CHECKING:
    from distributed import Future


# Compiles on a worker of a fleet, in a process of its own that may hang or crash.

_PROTOCOL = 1  # version of `compile_as_member`: incremented when its arguments or its result change


@dataclass(frozen=True)
class Versions:
    """Versions that must be equal on both sides, since one generates the code that the other compiles."""

    tool: str
    tvm: str
    protocol: int

    def __str__(self) -> str:
        return f"edge-toolchain {self.tool} with TVM {self.tvm}, protocol {self.protocol}"


def versions_here() -> Versions:
    """Return the versions of this process."""
    return Versions(__version__, version("apache-tvm"), _PROTOCOL)


def compile_as_member(asked: Versions, item: bytes) -> CompiledCandidate:
    """Compile one function.

    Parameters
    ----------
    asked
        Versions of the run. They are checked on each call, since workers may join later.
    item
        Pickled code and symbol; only the process that compiles unpickles them, and imports what they need.

    Raises
    ------
    ToolchainError
        This worker has another version.
    """
    if asked != versions_here():
        raise ToolchainError(f"a worker of the fleet is {versions_here()}, the run is {asked}")
    worker = _free_worker()
    try:
        return worker.call(COMPILE_S, _compile_pickled, item)
    except TimeoutError as error:
        return CompiledCandidate(failure="timeout", message=f"compiling: {error}")
    except WorkerDiedError as error:
        return CompiledCandidate(failure="build", message=f"compiling: {error}")
    finally:
        with _lock:
            _idle.append(worker)


_idle: list[Worker] = []  # grows to the number of concurrent calls; they end with this process
_lock = threading.Lock()


def _free_worker() -> Worker:
    with _lock:
        return _idle.pop() if _idle else Worker()


def _compile_pickled(item: bytes) -> CompiledCandidate:
    return compile_code(*pickle.loads(item))  # noqa: S301 - of the run that this worker serves


SCHEME = "dask://"
_CONNECT_S = 10.0
_ANSWER_S = 60.0  # for workers to report their versions, which imports modules on perhaps busy hosts
_POLL_S = 0.05
_LOOK_S = 1.0
_ALONE_S = 60.0  # how long a run waits for a worker when all are gone; a restart takes seconds
_LOOKING_S = 5.0  # for the scheduler to list its workers
_CLOSE_S = 5.0
_LOOPBACK = "--host 127.0.0.1 --dashboard-address 127.0.0.1:0"
_WORKER = f"dask worker HOST:PORT {_LOOPBACK}"
_AGAIN = "what was measured is kept: run it again when the fleet is there, or without --builders on this host"
_INSTALL = "install edge-toolchain {tool} there, or use an image of this version"


class FleetCompilers:
    """Compiles on the workers of a Dask cluster; see `Compilers`.

    If a worker goes away, Dask repeats its work on another.

    Parameters
    ----------
    address
        `dask://HOST:PORT` of the scheduler.
    notice
        Called with news for the user: all workers are gone, or one is back.

    Raises
    ------
    MissingError
        `distributed` is not installed.
    ToolchainError
        No scheduler answers at the address, it has no workers, or one has another version.
    """

    def __init__(self, address: str, notice: Callable[[str], None]) -> None:
        self._address, self._notice = address, notice
        self._client = _connected(address)
        try:
            self._check_versions()
        except BaseException:
            self.close()
            raise
        self.lanes = sum(self._client.ncores().values())
        if open_to := [each for each in sorted(self._client.ncores()) if _is_open(each)]:
            notice(
                f"warning: --builders {address}: {', '.join(open_to)}: without TLS, whoever reaches such a "
                "worker can run programs there and here; see docs/howto/fleet-of-builders.md"
            )

    def compile(self, codes: Sequence[tuple[CandidateCode, str]]) -> list[CompiledCandidate]:
        """Compile functions, each given with its symbol; return them in the same order.

        Raises
        ------
        ToolchainError
            The scheduler or all its workers are gone.
        """
        from distributed.client import ClosedClientError

        asked = versions_here()
        try:
            futures = [
                self._client.submit(compile_as_member, asked, pickle.dumps(item), pure=False)
                for item in codes
            ]
        except ClosedClientError as error:  # the connection was lost between two calls
            raise self._gone() from error
        self._wait(futures)
        return [self._compiled(future) for future in futures]

    def close(self) -> None:
        """Disconnect from the fleet, which drops the remaining work of this run."""
        self._client.close(timeout=_CLOSE_S)

    def _check_versions(self) -> None:
        asked = {
            worker: self._client.submit(versions_here, workers=[worker], pure=False)
            for worker in self._client.ncores()
        }
        if not asked:
            raise ToolchainError(
                f"--builders {self._address}: the scheduler has no workers",
                f"start some, in an environment or an image of this version: `{_WORKER}`",
            )
        own = versions_here()
        for worker, answer in sorted(asked.items()):
            try:
                versions = answer.result(timeout=_ANSWER_S)
            except Exception as error:  # anything the worker raises; usually it lacks the module
                raise ToolchainError(
                    f"--builders {self._address}: worker {worker} does not report its version, which must be "
                    f"{own}: {first_line(error)}",
                    _INSTALL.format(tool=own.tool),
                ) from error
            if versions != own:
                raise ToolchainError(
                    f"--builders {self._address}: worker {worker} is {versions}, this is {own}",
                    _INSTALL.format(tool=own.tool),
                )

    def _wait(self, futures: Sequence[Future]) -> None:
        there = time.monotonic()  # when a worker was last seen
        looked = there
        told = False  # whether the user was told that there is no worker
        while not all(future.done() for future in futures):
            time.sleep(_POLL_S)
            now = time.monotonic()
            if now - looked < _LOOK_S:
                continue
            looked = now
            if self._workers():
                if told:
                    self._notice_return()
                there, told = now, False
            elif not told:
                told = True
                self._notice(
                    f"--builders {self._address}: no worker can be reached; waiting {_ALONE_S:g} s at most"
                )
            elif now - there > _ALONE_S:
                raise ToolchainError(
                    f"--builders {self._address}: no worker could be reached for {_ALONE_S:g} s",
                    _AGAIN,
                )
        if told and any(future.status == "finished" for future in futures):  # done between two looks
            self._notice_return()

    def _notice_return(self) -> None:
        self._notice(f"--builders {self._address}: a worker is back")

    def _workers(self) -> int:
        """Return the number of workers; 0 if the scheduler does not answer."""
        if self._client.status != "running":
            return 0
        client = self._client
        try:
            return len(client.sync(client.scheduler.ncores, callback_timeout=_LOOKING_S))
        except (OSError, TimeoutError):
            return 0

    def _compiled(self, future: Future) -> CompiledCandidate:
        from distributed import KilledWorker

        if future.status == "finished":
            compiled: CompiledCandidate = future.result()
            return compiled
        if future.status == "error":
            error = future.exception()
            if isinstance(error, KilledWorker):
                return CompiledCandidate(
                    failure="build", message="compiling: several workers died while compiling it"
                )
            if isinstance(error, ToolchainError):
                raise error
            raise ToolchainError(
                f"--builders {self._address}: a worker failed: {first_line(error)}", "see the worker's log"
            )
        raise self._gone()

    def _gone(self) -> ToolchainError:
        return ToolchainError(
            f"--builders {self._address}: the scheduler is gone, or dropped the work of this run",
            _AGAIN,
        )


def _is_open(worker: str) -> bool:
    """Whether anybody on the network can reach a worker: it listens without TLS beyond loopback."""
    scheme, _, place = worker.rpartition("://")
    host = place.rpartition(":")[0].strip("[]")
    try:
        return scheme == "tcp" and not ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return scheme == "tcp" and host != "localhost"


def _connected(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingError(
            f"--builders {address}: Dask's `distributed` is not installed here",
            'pip install "edge-toolchain[fleet]"',
        ) from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # we turn what matters into our own errors
    try:
        # Without a scheme Dask uses the one of its configuration: tcp, or tls with certificates.
        return Client(
            address.removeprefix(SCHEME), timeout=_CONNECT_S, set_as_default=False, name="edge-toolchain"
        )
    except (OSError, TimeoutError, ValueError, RuntimeError) as error:
        raise ToolchainError(
            f"--builders {address}: no Dask scheduler answers there in {_CONNECT_S:g} s: {first_line(error)}",
            f"start one: `dask scheduler {_LOOPBACK}`, and for each builder `{_WORKER}`",
        ) from error
