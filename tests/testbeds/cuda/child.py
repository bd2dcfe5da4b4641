"""Runs functions in processes of their own, with the emulated driver.

A context that has failed stays failed, and NVRTC must not find this driver where it looks for NVIDIA's. One
process imports numpy and forks for each call.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from tests.testbeds.cuda.host import Driver
from toolchain.testbeds.cuda import ensure_emulated_cuda

_ROOT = Path(__file__).parents[3]
_SECONDS = 300.0


@dataclass(frozen=True)
class Ended:
    """What a function returned, and what the driver said meanwhile."""

    value: Any
    said: str


def in_child(function: Callable[..., Any], *arguments: Any, **environment: str) -> Ended:
    """Call a function of a test module with a `Driver` and arguments.

    Parameters
    ----------
    environment
        Variables for the driver, such as `EDGE_CUDA_FAULT`.
    """
    return in_children(function, [arguments], **environment)[0]


def in_children(
    function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], **environment: str
) -> list[Ended]:
    """Call a function several times, each in a process of its own."""
    server = _server()
    file = str(ensure_emulated_cuda())
    overdue = threading.Timer(_SECONDS, server.kill)
    overdue.start()
    try:
        pickle.dump((file, function.__module__, function.__name__, arguments, environment), server.stdin)
        server.stdin.flush()
        answers = pickle.load(server.stdout)
    except EOFError:
        raise AssertionError("the process of the tests on the emulated driver has ended") from None
    finally:
        overdue.cancel()
    for value, printed, status in answers:
        assert status == 0, f"status {status}: {value} {printed}"
    return [Ended(value, printed) for value, printed, _ in answers]


@cache
def _server() -> Any:
    command = [sys.executable, "-m", "tests.testbeds.cuda.child"]
    server = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(server.kill)
    return server


def main() -> None:
    """Answer until the parent process closes its end."""
    answers_to = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what functions print is no answer
    while True:
        try:
            file, module, name, arguments, environment = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        function = getattr(import_module(module), name)
        answers = [_call(function, file, argument, environment) for argument in arguments]
        pickle.dump(answers, answers_to)
        answers_to.flush()


def _call(
    function: Callable[..., Any], file: str, arguments: tuple[Any, ...], environment: dict[str, str]
) -> tuple[Any, str, int]:
    with tempfile.TemporaryFile() as value, tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            os.dup2(output.fileno(), 2)
            os.environ.update(environment)
            _answer(function, file, arguments, value)
        _, status = os.waitpid(child, 0)
        data = _content(value)
        return (pickle.loads(data) if data else None), _content(output).decode(errors="replace"), status


def _answer(function: Callable[..., Any], file: str, arguments: tuple[Any, ...], to: Any) -> NoReturn:
    try:
        pickle.dump(function(Driver(file), *arguments), to)
        to.flush()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _content(file: Any) -> bytes:
    file.seek(0)
    return bytes(file.read())


if __name__ == "__main__":
    main()
