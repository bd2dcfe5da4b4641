"""What a peer does in its process: it warms up, shows that it is right, is timed, and answers."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.nvidia.travel.judging import error_of, floats
from benchmarks.nvidia.travel.smi import Watch

_WARM_UP = 10  # PyTorch records its CUDA graphs within the first three
_MOST_CALLS = 100_000
_SAID = 250  # characters of an error


def answer(measure: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Read the request that the command line names, measure what it asks for, and write the answer.

    A failure's last line says what happened. PyTorch's own last lines say how to get a longer log.
    """
    request = json.loads(Path(sys.argv[1]).read_text())
    try:
        told = measure(request)
    except Exception as error:
        traceback.print_exc()
        said = " ".join(str(error).split())[:_SAID]
        raise SystemExit(f"{type(error).__name__}: {said}") from None
    Path(request["answer"]).write_text(json.dumps(told))


def measured_if_right(
    request: dict[str, Any],
    infer: Callable[[], Any],
    bytes_of: Callable[[Any], bytes],
    run: Callable[[int], float],
) -> dict[str, Any]:
    """Return samples in milliseconds and what nvidia-smi saw meanwhile; write the output that was judged.

    Who is wrong has no samples.

    The first inferences of a peer may compute otherwise than those that are timed: PyTorch computes kernel
    by kernel before it replays a graph. So the output is that of an inference after them.

    Parameters
    ----------
    infer
        Computes one inference.
    bytes_of
        Returns what `infer` returned as float32 numbers.
    run
        Computes so many inferences; returns the milliseconds of all.
    """
    for _ in range(_WARM_UP):
        infer()
    Path(request["output"]).write_bytes(bytes_of(infer()))
    if not _is_right(request):
        return {"times_ms": []}
    with Watch(request["gpu"]) as watch:
        times = _sampled(run, request["samples"], request["milliseconds"])
    return {"times_ms": times, "gpu": watch.seen}


def _is_right(request: dict[str, Any]) -> bool:
    """Whether the output is accepted; the runner says why it is not."""
    output, expected = (floats(Path(request[name]).read_bytes()) for name in ("output", "expected"))
    try:
        error = error_of(output, expected, request["classes"], request["softmax"])
    except ValueError:  # of another size
        return False
    return error <= float(request["tolerance"])


def _sampled(run: Callable[[int], float], samples: int, milliseconds: int) -> list[float]:
    """Return samples of at least so many milliseconds, each divided by its inferences."""
    number = 1
    while run(number) < milliseconds and number < _MOST_CALLS:
        number *= 2
    return [run(number) / number for _ in range(samples)]
