"""Simulates programs in a child process, `edge-rt vta`, one after another."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable, Sequence
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
    CycleCounts,
    EncodedProgram,
    Refused,
    SimOptions,
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
        Cycles by the cycle model, not measured on a board.
    memory
        Content of the memory after the run; None unless requested.
    timeline
        Cycles in which each instruction begins and ends; None unless requested.
    """

    model: CycleCounts
    milliseconds: float
    memory: bytes | None
    timeline: npt.NDArray[np.uint64] | None


Outcome = Simulated | Refused


class Simulator:
    """Owns the child process, a context manager.

    The process starts with the first program, and again after it was killed; it ends with the block.

    Parameters
    ----------
    command
        Command to start; by default this host's edge-rt, which is compiled if it is not in the cache.
    progress
        Called with a line now and then while edge-rt is compiled.
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

    def run(
        self,
        program: EncodedProgram,
        wish: SimOptions = SimOptions(),  # noqa: B008
        deadline_s: float = DEADLINE_S,
    ) -> Outcome:
        """Run one program; return its result, or the reason why it was refused.

        Raises
        ------
        UsageError
            The program is truncated or too large.
        ToolchainError
            The program did not end within the deadline, or the process died.
        CheckError
            The process's answer does not fit the request.
        """
        self._number = self._number + 1 & 0xFFFFFFFF
        request = request_of(program, wish, self._number)
        let_signals_end_waits()
        child = self._child or self._start()
        try:
            with killed_after(deadline_s, child) as late:
                header, parts = self._exchange(child, program, wish, request)
        except (EOFError, OSError) as error:
            reason = self._last_words()
            if late.is_set():
                raise ToolchainError(
                    f"the simulator had not ended a program of {program.instructions} instructions after "
                    f"{deadline_s:g} s and was killed",
                    "simulate a smaller program, or when the machine is less busy",
                ) from error
            raise ToolchainError(f"the simulator ended by itself: {reason}", "toolchain doctor") from error
        except BaseException:  # Ctrl-C included: a late answer must not be read as that of the next program
            self.close()
            raise
        if header.refused:
            return understood(Refused, parts[0], _ASKED, CycleCounts.NAME)
        model = understood(CycleCounts, parts[0], _ASKED, CycleCounts.NAME)
        return Simulated(
            model,
            program.config.cycles.milliseconds(model.cycles),
            parts[1] if wish.computes and wish.memory else None,
            intervals(parts[2]) if wish.timeline else None,
        )

    def close(self) -> None:
        """End the simulator's process."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                with suppress(OSError):  # data that was not written yet
                    stream.close()
        child.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        command = self._command
        if command is None:
            command = [str(ensure_runtime(host_arch(), progress=self._progress).program), "vta"]
        pipe = subprocess.PIPE
        with uninterrupted():
            # In its own session, so that Ctrl-C does not reach it.
            self._child = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
        return self._child

    def _exchange(
        self, child: subprocess.Popen[bytes], program: EncodedProgram, wish: SimOptions, request: bytes
    ) -> tuple[Announced, list[bytes]]:
        # The child reads the whole request before it answers, so the two cannot deadlock.
        assert child.stdin is not None and child.stdout is not None  # noqa: S101
        child.stdin.write(request)
        child.stdin.write(program.code)
        if wish.computes:
            child.stdin.write(program.memory)
        child.stdin.flush()
        header = announced(_exactly(child, ANSWER_BYTES), program, wish, self._number)
        if header is None:
            raise CheckError("the simulator's answer does not fit the request", "toolchain doctor")
        return header, [_exactly(child, size) for size in (header.document, header.memory, header.timeline)]

    def _last_words(self) -> str:
        child = self._child
        if child is None or child.stderr is None:
            return "it is gone"
        with suppress(subprocess.TimeoutExpired):
            child.wait(_SETTLE_S)  # so that a process that died by itself keeps its exit code
        child.kill()
        words, code = last_line(child.stderr.read()), child.wait()
        self.close()
        return words or f"no message, exit status {code}"


def host_arch() -> str:
    """Return the name of the edge-rt for this host's architecture.

    Raises
    ------
    UsageError
        edge-rt does not run on this host.
    """
    from toolchain.architectures.table import linux_rows, of_machine

    machine = platform.machine()
    row = of_machine(machine)
    if row and row.edge_rt:
        return row.edge_rt
    hosts = ", ".join(row.uname for row in linux_rows() if row.edge_rt)
    raise UsageError(f"edge-rt does not run on a {machine} host", f"use a host of: {hosts}")


def _exactly(child: subprocess.Popen[bytes], size: int) -> bytes:
    assert child.stdout is not None  # noqa: S101
    data = child.stdout.read(size)
    if len(data) != size:
        raise EOFError
    return data
