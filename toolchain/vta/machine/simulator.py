"""The machine in software: a child process, `edge-rt vta`, that runs one program after another."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import numpy.typing as npt

from toolchain.answers import understood
from toolchain.errors import CheckError, ToolchainError, UsageError
from toolchain.foreign import last_line
from toolchain.processes.deadline import killed_after
from toolchain.processes.interrupts import let_signals_end_waits, uninterrupted
from toolchain.runtime import ensure_runtime
from toolchain.vta.machine.requests import (
    ANSWER_BYTES,
    Announced,
    Model,
    Program,
    Refused,
    Wish,
    announced,
    intervals,
    request_of,
)

DEADLINE_S = 120.0
_SETTLE_S = 2.0
_ASKED = "the simulator"


@dataclass(frozen=True)
class Simulated:
    """A program that ran to its end.

    Attributes
    ----------
    model
        Cycles: a model's, not a board's.
    memory
        As it is after; None unless it was wished for.
    timeline
        When each instruction begins and ends, in cycles of the model; None unless it was wished for.
    """

    model: Model
    milliseconds: float
    memory: bytes | None
    timeline: npt.NDArray[np.uint64] | None


Outcome = Simulated | Refused


def simulate(
    programs: Iterable[Program],
    *,
    strict: bool = False,
    trace: bool = False,
    computes: bool = True,
    memory: bool = True,
    deadline_s: float = DEADLINE_S,
) -> list[Outcome]:
    """Run programs one after another; the meaning of the options is that of `Wish`, `trace` its timeline.

    Raises
    ------
    ToolchainError
        As `Simulator.run` does. A program that is refused is no error here.
    """
    wish = Wish(strict=strict, computes=computes, memory=memory, timeline=trace)
    with Simulator() as simulator:
        return [simulator.run(program, wish, deadline_s) for program in programs]


class Simulator:
    """One child process, started at the first program and again after it was killed; ended with the block.

    Parameters
    ----------
    command
        What to start; by default this host's edge-rt, which is compiled where it is not in the cache.
    progress
        Called with a line now and then while it is compiled.
    """

    def __init__(
        self, command: Sequence[str] | None = None, *, progress: Callable[[str], None] | None = None
    ) -> None:
        self._command, self._progress = command, progress
        self._child: subprocess.Popen[bytes] | None = None
        self._number = 0

    def __enter__(self) -> Simulator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, program: Program, wish: Wish = Wish(), deadline_s: float = DEADLINE_S) -> Outcome:  # noqa: B008
        """Run one program, or say why the machine would not.

        Raises
        ------
        UsageError
            It is cut or too large.
        ToolchainError
            No end within the deadline, or the process died.
        CheckError
            The process answers what cannot be right.
        """
        self._number = self._number + 1 & 0xFFFFFFFF
        request = request_of(program, wish, self._number)
        let_signals_end_waits()
        child = self._child or self._start()
        try:
            with killed_after(deadline_s, child) as late:
                said, parts = self._exchange(child, program, wish, request)
        except (EOFError, OSError) as error:
            reason = self._last_words()
            if late.is_set():
                raise ToolchainError(
                    f"the simulator had not ended a program of {program.instructions} instructions after "
                    f"{deadline_s:g} s and was killed",
                    "simulate a smaller program, or when the machine is less busy",
                ) from error
            raise ToolchainError(f"the simulator ended by itself: {reason}", "toolchain doctor") from error
        except BaseException:  # Ctrl-C included: an answer that comes too late must not be read later
            self.close()
            raise
        if said.refused:
            return understood(Refused, parts[0], _ASKED, Model.NAME)
        model = understood(Model, parts[0], _ASKED, Model.NAME)
        return Simulated(
            model,
            program.config.cycles.milliseconds(model.cycles),
            parts[1] if wish.computes and wish.memory else None,
            intervals(parts[2]) if wish.timeline else None,
        )

    def close(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                with suppress(OSError):  # what was not written yet
                    stream.close()
        child.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        command = self._command
        if command is None:
            command = [str(ensure_runtime(host_arch(), progress=self._progress).program), "vta"]
        pipe = subprocess.PIPE
        with uninterrupted():
            # A session of its own: Ctrl-C comes to us alone.
            self._child = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
        return self._child

    def _exchange(
        self, child: subprocess.Popen[bytes], program: Program, wish: Wish, request: bytes
    ) -> tuple[Announced, list[bytes]]:
        # It reads all of a request before it answers: neither side waits for the other.
        assert child.stdin is not None and child.stdout is not None  # noqa: S101
        child.stdin.write(request)
        child.stdin.write(program.code)
        if wish.computes:
            child.stdin.write(program.memory)
        child.stdin.flush()
        said = announced(_exactly(child, ANSWER_BYTES), program, wish, self._number)
        if said is None:
            raise CheckError("the simulator's answer does not fit the request", "toolchain doctor")
        return said, [_exactly(child, size) for size in (said.document, said.memory, said.timeline)]

    def _last_words(self) -> str:
        child = self._child
        if child is None or child.stderr is None:
            return "it is gone"
        with suppress(subprocess.TimeoutExpired):
            child.wait(_SETTLE_S)  # one that died by itself shows its own code
        child.kill()
        words, code = last_line(child.stderr.read()), child.wait()
        self.close()
        return words or f"no message, exit status {code}"


def host_arch() -> str:
    """Return which edge-rt runs on this host.

    Raises
    ------
    UsageError
        There is none for it.
    """
    from toolchain.architectures.table import LINUX

    machine = platform.machine()
    for row in LINUX.values():
        if row.uname == machine and row.edge_rt:
            return row.edge_rt
    raise UsageError(f"edge-rt does not run on a {machine} host", "use an x86-64 or arm64 host")


def _exactly(child: subprocess.Popen[bytes], size: int) -> bytes:
    assert child.stdout is not None  # noqa: S101
    data = child.stdout.read(size)
    if len(data) != size:
        raise EOFError
    return data
