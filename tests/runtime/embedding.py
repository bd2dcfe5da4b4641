"""A program of a user's that runs a network by libedge.so, call by call; prints what it saw as JSON.

    embedding.py LIBEDGE NETWORK DEVICE

On its standard input is a list of steps: ["set", INPUT, DTYPE, SHAPE, NUMBER, TIMES], whose elements
are all NUMBER, 1 without it, ["run"], ["first", OUTPUT],
["measure", NUMBER, MIN_REPEAT_MS], ["outputs"], ["shape", SHAPE, INPUT] or ["leave", DRIVER]: another library
of the program's takes the thread's CUDA context away.
"""

from __future__ import annotations

import ctypes
import json
import resource
import sys
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int64, c_void_p
from typing import Any

import numpy as np

from tests.runtime.loops import Options
from tests.runtime.shapes_client import Tensor


class Program:
    """A network that was opened."""

    def __init__(self, library: str, network: str, device: str) -> None:
        self.edge = edge = ctypes.CDLL(library)
        edge.edge_open.restype = c_void_p
        edge.edge_last_error.restype = c_char_p
        edge.edge_shape.restype = POINTER(c_int64)
        options = Options(size=ctypes.sizeof(Options), threads=1, device=device.encode())
        self.network = c_void_p(edge.edge_open(network.encode(), byref(options)))
        assert self.network, edge.edge_last_error()
        self.fetched: dict[int, Any] = {}

    def set(self, place: int, dtype: str, shape: Sequence[int], number: float = 1, times: int = 1) -> int:
        """Hand over one number in all places, several times; return how many pages of memory that took."""
        array = np.full(shape, number, dtype)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(times):
            self._set(place, dtype, shape, array)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    def _set(self, place: int, dtype: str, shape: Sequence[int], array: np.ndarray) -> None:
        extents = (c_int64 * len(shape))(*shape)
        value = Tensor(dtype.encode(), len(shape), extents, c_void_p(array.ctypes.data), array.nbytes)
        self.check(self.edge.edge_set_input(self.network, place, byref(value)))

    def run(self) -> None:
        """Run it."""
        self.check(self.edge.edge_run(self.network))

    def measure(self, number: int, min_repeat_ms: int) -> int:
        """Return over how many runs a repeat went."""
        ms, runs = c_double(), c_int()
        self.check(self.edge.edge_measure(self.network, number, min_repeat_ms, byref(ms), byref(runs)))
        return runs.value

    def outputs(self) -> list[list[Any]]:
        """Return type and shape of each output, looked at when all were fetched."""
        fetched = [Tensor() for _ in range(self.edge.edge_output_count(self.network))]
        for place, value in enumerate(fetched):
            self.check(self.edge.edge_output(self.network, place, byref(value)))
        return [[value.dtype.decode(), value.shape[: value.ndim]] for value in fetched]

    def first(self, place: int) -> float:
        """Return the first number of an output, where it lay when it was fetched first."""
        if place not in self.fetched:
            value = Tensor()
            self.check(self.edge.edge_output(self.network, place, byref(value)))
            self.fetched[place] = ctypes.cast(value.data, POINTER(ctypes.c_float))
        return float(self.fetched[place][0])

    def shape(self, shape: int, place: int) -> list[int] | None:
        """Return the extents of an input; None where the library says that there is no such input."""
        rank = c_int()
        extents = self.edge.edge_shape(self.network, shape, place, byref(rank))
        return extents[: rank.value] if extents else None

    def leave(self, driver: str) -> None:
        """Take the thread's context away."""
        assert ctypes.CDLL(driver).cuCtxSetCurrent(None) == 0

    def check(self, code: int) -> None:
        """Let the program end with what went wrong."""
        assert code == 0, self.edge.edge_last_error()


def main(library: str, network: str, device: str) -> None:
    """Take the steps; print what each returned."""
    program = Program(library, network, device)
    steps = json.load(sys.stdin)
    print(json.dumps([getattr(program, name)(*arguments) for name, *arguments in steps]))


if __name__ == "__main__":
    main(*sys.argv[1:])
