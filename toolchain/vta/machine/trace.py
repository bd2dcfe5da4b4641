"""Writes a program's timeline as a trace for Perfetto and chrome://tracing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from toolchain.files.atomic import write_text
from toolchain.vta.isa import Instruction, PipelineStage
from toolchain.vta.isa.instructions import text_of

_Event = dict[str, Any]
_PROCESS = 1
# The queues of tokens that each flag of a stage pushes to, and pops from.
_PUSHES = {
    ("push_next", PipelineStage.LOAD): "L2G",
    ("push_prev", PipelineStage.COMPUTE): "G2L",
    ("push_next", PipelineStage.COMPUTE): "G2S",
    ("push_prev", PipelineStage.STORE): "S2G",
}
_POPS = {
    ("pop_prev", PipelineStage.COMPUTE): "L2G",
    ("pop_next", PipelineStage.LOAD): "G2L",
    ("pop_prev", PipelineStage.STORE): "G2S",
    ("pop_next", PipelineStage.COMPUTE): "S2G",
}


def trace_of(
    instructions: Sequence[Instruction], timeline: npt.NDArray[np.uint64], mhz: float
) -> dict[str, Any]:
    """Return a trace in the Chrome format: a track for each stage, an arrow for each token.

    Parameters
    ----------
    timeline
        Begin and end of each instruction in cycles, as the simulator returns them.
    mhz
        Clock rate of the design, to convert cycles to the format's microseconds.
    """
    events: list[_Event] = [_named("process_name", 0, "VTA (cycle model, not a board)")]
    events += [_named("thread_name", stage, stage.name.lower()) for stage in PipelineStage]
    pushed: dict[str, list[_Event]] = {link: [] for link in _PUSHES.values()}
    popped: dict[str, list[_Event]] = {link: [] for link in _PUSHES.values()}
    for index, (instruction, (begin, end)) in enumerate(zip(instructions, timeline.tolist(), strict=True)):
        track = {"pid": _PROCESS, "tid": int(instruction.stage)}
        text = text_of(instruction)
        span = {"ts": begin / mhz, "dur": (end - begin) / mhz}
        details = {"instruction": index, "text": text, "cycles": end - begin}
        events.append({"ph": "X", "name": text.split()[0], **span, **track, "args": details})
        for link in _links(instruction, _PUSHES):
            pushed[link].append({"ph": "s", "ts": end / mhz, **track})
        for link in _links(instruction, _POPS):
            popped[link].append({"ph": "f", "bp": "e", "ts": begin / mhz, **track})
    for link in pushed:
        for number, pair in enumerate(
            zip(pushed[link], popped[link], strict=False)
        ):  # tokens that are left over get no arrow
            events += [{**end, "name": link, "cat": "token", "id": f"{link} {number}"} for end in pair]
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def write_trace(
    file: Path, instructions: Sequence[Instruction], timeline: npt.NDArray[np.uint64] | None, mhz: float
) -> None:
    """Write a trace to a file, atomically.

    Raises
    ------
    ToolchainError
        The file system refused.
    """
    assert timeline is not None  # noqa: S101 - it was requested
    write_text(file, json.dumps(trace_of(instructions, timeline, mhz)) + "\n")


def _links(instruction: Instruction, table: dict[tuple[str, PipelineStage], str]) -> list[str]:
    stage = instruction.stage
    return [link for (flag, where), link in table.items() if where is stage and getattr(instruction, flag)]


def _named(what: str, track: int, name: str) -> _Event:
    return {"ph": "M", "name": what, "pid": _PROCESS, "tid": int(track), "args": {"name": name}}
