"""What kind of failure it is that a board tells of: by what edge-rt says, whose words `native/src` has."""

from __future__ import annotations

import re
from collections.abc import Mapping

from toolchain.foreign import first_line, shortened
from toolchain.records.record import Failure

_SAID: Mapping[str, Failure] = {
    # opencl/launch.cc
    "the work group is too large": "work group",
    " of a work group; device": "work group",
    "the kernel needs too many registers": "registers",
    # opencl/program.cc
    " does not compile, ": "build",
}
_LOG = "its log:"
_PLACE = re.compile(r"\S*/(?=[^/\s]+:\d+)")  # folders before FILE:LINE
_WHICH = re.compile(r"kernel \w+ does not compile")
_LINES = 3  # of a compiler's log: the first error, with its place and the code


def failure_of(error: BaseException, stage: Failure) -> tuple[Failure, str]:
    """Return what kind of failure an error of a session is, and its message.

    Parameters
    ----------
    stage
        What it is where the message says nothing more special.
    """
    text = str(error)
    kind = next((kind for words, kind in _SAID.items() if words in text), stage)
    said, log, rest = text.partition(_LOG)
    if kind != "build" or not log:
        return kind, first_line(error)
    lines = [line.strip() for line in rest.splitlines() if line.strip()]
    wrong = next((place for place, line in enumerate(lines) if "error" in line.lower()), 0)
    # The place in the driver's own file is long, and nothing that the user could look at.
    quoted = [_PLACE.sub("", shortened(line)) for line in lines[wrong : wrong + _LINES]]
    which = _WHICH.search(said)
    return kind, f"{which[0] if which else first_line(error)}: {' | '.join(quoted)}"
