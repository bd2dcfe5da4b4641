"""Runs a network once, with nothing but Python: edge_example.py LIBRARY SHAPE INPUT.

    python3 edge_example.py mobilenet-rk3399.so 1x3x224x224 input.bin

INPUT holds float32 values in C order. Prints each output's values, one on a line. `libedge.so` lies
beside this file, or where EDGE_LIBRARY says.
"""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import POINTER, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path


class Tensor(ctypes.Structure):  # edge_tensor
    _fields_ = (
        ("dtype", c_char_p),
        ("ndim", c_int),
        ("shape", POINTER(c_int64)),
        ("data", c_void_p),
        ("bytes", c_size_t),
    )


edge = ctypes.CDLL(os.environ.get("EDGE_LIBRARY") or str(Path(__file__).with_name("libedge.so")))
edge.edge_open.restype = c_void_p
edge.edge_open.argtypes = [c_char_p, c_void_p]
edge.edge_set_input.argtypes = [c_void_p, c_int, POINTER(Tensor)]
edge.edge_run.argtypes = [c_void_p]
edge.edge_output_count.argtypes = [c_void_p]
edge.edge_output.argtypes = [c_void_p, c_int, POINTER(Tensor)]
edge.edge_close.argtypes = [c_void_p]
edge.edge_last_error.restype = c_char_p


def checked(status: int) -> None:
    """End with the library's own words when a call failed."""
    if status != 0:
        sys.exit(f"edge_example: {edge.edge_last_error().decode()}")


def run(library: str, shape: list[int], data: bytes) -> list[list[float]]:
    """Return the outputs of one inference, each as a list of numbers."""
    network = edge.edge_open(os.fsencode(library), None)  # None: one thread for each core
    checked(0 if network else 1)
    extents = (c_int64 * len(shape))(*shape)
    held = ctypes.create_string_buffer(data, len(data))
    given = Tensor(b"float32", len(shape), extents, ctypes.cast(held, c_void_p), len(data))
    checked(edge.edge_set_input(network, 0, ctypes.byref(given)))
    checked(edge.edge_run(network))
    outputs = []
    for index in range(edge.edge_output_count(network)):
        found = Tensor()  # valid until the next run
        checked(edge.edge_output(network, index, ctypes.byref(found)))
        values = ctypes.cast(found.data, POINTER(c_float))
        outputs.append([values[i] for i in range(found.bytes // ctypes.sizeof(c_float))])
    edge.edge_close(network)
    return outputs


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: edge_example.py LIBRARY SHAPE INPUT")
    dimensions = [int(extent) for extent in sys.argv[2].split("x")]
    for output in run(sys.argv[1], dimensions, Path(sys.argv[3]).read_bytes()):
        for value in output:
            print(f"{value:.9g}")
