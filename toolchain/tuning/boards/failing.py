"""What kind of failure it is that a board tells of: by what edge-rt says, whose words `native/src` has."""

from __future__ import annotations

import re

from toolchain.devices.failure import Failure
from toolchain.devices.kind import DeviceKind
from toolchain.foreign import first_line, shortened

_LOG = "its log:"
_PLACE = re.compile(r"\S*/(?=[^/\s]+:\d+)")  # folders before FILE:LINE
_WHICH = re.compile(r"kernel \w+ does not compile")
_LINES = 3  # of a compiler's log: the first error, with its place and the code


def failure_of(error: BaseException, stage: Failure, kind: DeviceKind) -> tuple[Failure, str]:
    """Return what kind of failure an error of a session is, and its message.

    Parameters
    ----------
    stage
        What it is where the message says nothing more special.
    kind
        Of the device that computes: its row knows what edge-rt says.
    """
    text = str(error)
    failure = next((each for words, each in kind.failures.items() if words in text), stage)
    said, log, rest = text.partition(_LOG)
    if failure != "build" or not log:
        return failure, first_line(error)
    lines = [line.strip() for line in rest.splitlines() if line.strip()]
    wrong = next((place for place, line in enumerate(lines) if "error" in line.lower()), 0)
    # The place in the driver's own file is long, and nothing that the user could look at.
    quoted = [_PLACE.sub("", shortened(line)) for line in lines[wrong : wrong + _LINES]]
    which = _WHICH.search(said)
    return failure, f"{which[0] if which else first_line(error)}: {' | '.join(quoted)}"
