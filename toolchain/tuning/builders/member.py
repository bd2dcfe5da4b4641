"""What the workers of a fleet run. Each compiles in a process of its own, which may hang or crash."""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass
from importlib.metadata import version

from toolchain import __version__
from toolchain.errors import ToolchainError
from toolchain.processes.worker import Worker, WorkerDiedError
from toolchain.tuning.builders.compiled import COMPILE_S, Compiled, compile_code

_PROTOCOL = 1  # of `compile_as_member`: grows when its arguments or its answer change


@dataclass(frozen=True)
class Versions:
    """What must be the same on both sides: code is made by one and compiled by the other."""

    tool: str
    tvm: str
    protocol: int

    def __str__(self) -> str:
        return f"edge-toolchain {self.tool} with TVM {self.tvm}, protocol {self.protocol}"


def versions_here() -> Versions:
    """Return this process's."""
    return Versions(__version__, version("apache-tvm"), _PROTOCOL)


def compile_as_member(asked: Versions, item: bytes) -> Compiled:
    """Compile one function.

    Parameters
    ----------
    asked
        Of who asks: workers may join when the run has begun.
    item
        Code and symbol, pickled: only the process that compiles imports what they need.

    Raises
    ------
    ToolchainError
        This worker is of another version.
    """
    if asked != versions_here():
        raise ToolchainError(f"a worker of the fleet is {versions_here()}, the run is {asked}")
    worker = _free_worker()
    try:
        return worker.call(COMPILE_S, _compile_pickled, item)
    except TimeoutError as error:
        return Compiled(failure="timeout", message=f"compiling: {error}")
    except WorkerDiedError as error:
        return Compiled(failure="build", message=f"compiling: {error}")
    finally:
        with _lock:
            _idle.append(worker)


_idle: list[Worker] = []  # as many as tasks ran here at a time; they end with this process
_lock = threading.Lock()


def _free_worker() -> Worker:
    with _lock:
        return _idle.pop() if _idle else Worker()


def _compile_pickled(item: bytes) -> Compiled:
    return compile_code(*pickle.loads(item))  # noqa: S301 - of the run that this worker serves
