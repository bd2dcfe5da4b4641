"""Finds the kind of failure of a session's error, from the cause that edge-rt sends with it."""

from __future__ import annotations

import re

from toolchain.devices.kind import DeviceKind, Failure
from toolchain.foreign import first_line, shortened

# The format of native/src/cause.h. RPC transmits only the message of an error; TVM's client adds a line.
_CAUSE = re.compile(r"\A(?:RPCError: Error caught from RPC call:\n)?\[cause ([a-z-]{1,40})\] ")
_PLACE = re.compile(r"\S*/(?=[^/\s]+:\d+)")  # folders before FILE:LINE
_WHICH = re.compile(r"kernel \w+ does not compile")
_LINES = 3  # lines quoted from a compiler's log: the first error, its location and the code


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
