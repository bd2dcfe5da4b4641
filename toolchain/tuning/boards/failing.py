"""Which kind of failure an error of a session is, by the cause that edge-rt sends with it."""

from __future__ import annotations

import re

from toolchain.devices.failure import Failure
from toolchain.devices.kind import DeviceKind
from toolchain.foreign import first_line, shortened

# As native/src/cause.h writes it: RPC carries nothing of an error but its message. TVM's client adds a line.
_CAUSE = re.compile(r"\A(?:RPCError: Error caught from RPC call:\n)?\[cause ([a-z-]{1,40})\] ")
_PLACE = re.compile(r"\S*/(?=[^/\s]+:\d+)")  # folders before FILE:LINE
_WHICH = re.compile(r"kernel \w+ does not compile")
_LINES = 3  # of a compiler's log: the first error, with its place and the code


def failure_of(error: BaseException, stage: Failure, kind: DeviceKind) -> tuple[Failure, str]:
    """Return the kind of failure and the message of an error that a session raised.

    Parameters
    ----------
    stage
        The kind of failure where edge-rt sends no cause, or one that the device's row does not have.
    kind
        Of the device that computes. Each session checks that its edge-rt was made from the sources of this
        toolchain, so the causes are those of its row.
    """
    found = _CAUSE.match(str(error))
    if found is None:
        return stage, first_line(error)
    text = str(error)[found.end() :]
    failure, said = kind.failures.get(found[1], stage), first_line(RuntimeError(text))
    return failure, _with_log(said, text) if failure == "build" else said


def _with_log(said: str, text: str) -> str:
    """Return what is said of a kernel, and the first error of the compiler's log, which follows in `text`."""
    lines = [line.strip() for line in text.splitlines()[1:] if line.strip()]
    if not lines:
        return said
    wrong = next((place for place, line in enumerate(lines) if "error" in line.lower()), 0)
    # The place in the driver's own file is long, and nothing that the user could look at.
    quoted = [_PLACE.sub("", shortened(line)) for line in lines[wrong : wrong + _LINES]]
    which = _WHICH.search(said)
    return f"{which[0] if which else said}: {' | '.join(quoted)}"
