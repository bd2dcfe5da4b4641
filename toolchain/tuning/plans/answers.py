"""Reads what a board answers about candidates, and decides which times are believed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from toolchain.answers import Answer, Sentence, Several, Word, lie, shown, understood
from toolchain.devices.kind import DeviceKind, Failure
from toolchain.devices.table import kind_of
from toolchain.foreign import first_line, shortened
from toolchain.measuring.answers import Simulated
from toolchain.quantities import counted
from toolchain.records.record import RecordKey
from toolchain.targets.target import BoardTarget
from toolchain.tasks.candidate import FileCode, ModelledRun, Times, least_task_ms
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Result

_Number = Annotated[float, Field(ge=0)]
# The format of native/src/cause.h. RPC transmits only the message of an error; TVM's client adds a line.
_CAUSE = re.compile(r"\A(?:RPCError: Error caught from RPC call:\n)?\[cause ([a-z-]{1,40})\] ")
_PLACE = re.compile(r"\S*/(?=[^/\s]+:\d+)")  # folders before FILE:LINE
_WHICH = re.compile(r"kernel \w+ does not compile")
_LINES = 3  # lines quoted from a compiler's log: the first error, its location and the code


class Conditions(Answer):
    """Clock, temperature, and number of other processes that compute there; None if unknown."""

    clock_mhz: Annotated[float, Field(ge=0)] | None
    temperature_c: float | None
    others: Annotated[int, Field(ge=0)] | None

    def text(self) -> str | None:
        """Return them as records have them: JSON, or None if nothing is known."""
        known = self.model_dump()
        return json.dumps(known) if any(value is not None for value in known.values()) else None


def were_others_there(known: str | None) -> bool:
    """Return whether other processes computed on a device, given its conditions as records have them."""
    return known is not None and bool(json.loads(known)["others"])


def known_conditions(board: str, said: object) -> str | None:
    """Return the answer of `edge.conditions` as records have it.

    Raises
    ------
    CheckError
        It has the wrong form.
    """
    what = "the answer of edge.conditions"
    if not isinstance(said, str):
        raise lie(board, what, f"it is {shown(said)}, not text")
    return None if said == "null" else understood(Conditions, said, board, what).text()


def failure_of(error: BaseException, stage: Failure, kind: DeviceKind) -> tuple[Failure, str]:
    """Return the kind of failure and the message of an error that a session raised.

    Parameters
    ----------
    stage
        The kind of failure if edge-rt sends no cause, or one that the device's row does not list.
    kind
        Kind of the device that computes. Each session checks that its edge-rt was made from the sources of
        this toolchain, so the causes match those in its row.
    """
    found = _CAUSE.match(str(error))
    if found is None:
        return stage, first_line(error)
    text = str(error)[found.end() :]
    failure, said = kind.failures.get(found[1], stage), first_line(RuntimeError(text))
    return failure, _with_log(said, text) if failure == "build" else said


def _with_log(said: str, text: str) -> str:
    """Return the message followed by the first error of the compiler's log in `text`."""
    lines = [line.strip() for line in text.splitlines()[1:] if line.strip()]
    if not lines:
        return said
    wrong = next((place for place, line in enumerate(lines) if "error" in line.lower()), 0)
    # Paths of the driver's own files are long, and the user cannot open them.
    quoted = [_PLACE.sub("", shortened(line)) for line in lines[wrong : wrong + _LINES]]
    which = _WHICH.search(said)
    return f"{which[0] if which else said}: {' | '.join(quoted)}"


@dataclass(frozen=True)
class PossibleTimes:
    """The times that a measurement can have; all others are refused, so that none of them is stored.

    Attributes
    ----------
    samples
        Number of times. A model gives one, since it does not vary.
    least_ms
        Time that no hardware of this kind can beat.
    most_s
        Deadline of the process that measured.
    """

    samples: int
    least_ms: float
    most_s: float

    def problem(self, times_ms: Sequence[float], *, modelled: bool = False) -> str:
        """Return why times cannot be right; an empty string if they can.

        Parameters
        ----------
        modelled
            Whether a model computed them: then nobody waited that long.
        """
        samples = 1 if modelled else self.samples
        if len(times_ms) != samples:
            return f"it has {counted(len(times_ms), 'time')}, not {samples}"
        for ms in times_ms:
            if not ms >= self.least_ms:  # NaN is never greater
                return f"{shown(ms)} ms, but hardware of its kind needs at least {self.least_ms:.3g} ms"
            if not (modelled or ms <= self.most_s * 1e3):
                return f"{shown(ms / 1e3)} s in a process that had {self.most_s:g} s"
        return ""


def possible_times(
    task: Task, key: RecordKey, target: BoardTarget, samples: int, most_s: float
) -> PossibleTimes:
    """Return the times that candidates of a task can take on boards of a target."""
    measured = target.rates.peak_flops() if target.rates else None
    return PossibleTimes(samples, least_task_ms(task, key, measured), most_s)


class CandidateLine(Answer):
    """A line of edge-rt about a candidate that it measured, as native/src/offline/trial.cc writes it."""

    candidate: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    failure: Literal["wrong result", "timeout", "runtime", "upload"] | None
    ms: Several[_Number]
    modelled: Simulated | None = None
    message: Sentence
    device: Word
    governor: Word | None
    temperature_c: float | None
    conditions: Conditions

    def problem(self, possible: PossibleTimes, code: FileCode | None = None) -> str:
        """Return why the line cannot be right; an empty string if it can. Who failed has no times.

        Parameters
        ----------
        code
            The candidate's code, if it is a file of a device's own; None for a library.
        """
        if self.failure is not None:
            return f"it has {counted(len(self.ms), 'time')}, not 0" if self.ms else ""
        try:
            times = self._times(code)
        except ValueError as error:
            return str(error)
        return possible.problem(times.ms, modelled=times.modelled)

    def _times(self, code: FileCode | None) -> Times:
        """Return the times; a ValueError says what cannot be right."""
        said = self.modelled
        run = ModelledRun(said.cycles, said.mhz, said.version) if said else None
        modelled = code.modelled_ms(self.device, run) if code else None
        if run is not None and (modelled is None or self.ms):
            raise ValueError("a model's time is beside a clock's, or of a library")
        return Times(self.ms) if modelled is None else Times((modelled,), modelled=True)

    def result(self, board: str, kind: str, code: FileCode | None = None) -> Result:
        """Return the line, of which `problem` found none, as the result of a board.

        Parameters
        ----------
        kind
            Kind of the device that computed, whose row says what its causes of failure mean.
        """
        if self.failure in ("runtime", "upload"):
            failure, message = failure_of(RuntimeError(self.message), self.failure, kind_of(kind))
            return Result(failure=failure, message=message, board=board)
        if self.failure is not None:
            return Result(failure=self.failure, message=self.message, board=board)
        times = self._times(code)
        return Result(
            times.ms,
            board=board,
            governor=self.governor,
            temperature_c=self.temperature_c,
            conditions=self.conditions.text(),
            modelled=times.modelled,
        )
