"""Compiles on a worker of a fleet, in a process of its own that may hang or crash."""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass
from importlib.metadata import version

from toolchain import __version__
from toolchain.errors import ToolchainError
from toolchain.processes.worker import Worker, WorkerDiedError
from toolchain.tuning.builders.compiled import COMPILE_S, CompiledCandidate, compile_code

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
