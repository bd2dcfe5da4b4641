"""A program of a user's that runs a network in several shapes by libedge.so; prints what it saw as JSON.

    shapes_client.py LIBEDGE NETWORK PAD HEIGHTxWIDTH...

Each is run with an input (1, 3, HEIGHT, WIDTH) of ones.
"""

from __future__ import annotations

import ctypes
import json
import sys
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p

from tests.runtime.loops import Options


class Tensor(Structure):
    """`edge_tensor`."""

    _fields_ = (
        ("dtype", c_char_p),
        ("ndim", c_int),
        ("shape", POINTER(c_int64)),
        ("data", c_void_p),
        ("bytes", c_size_t),
    )


def ones(height: int, width: int) -> Tensor:
    """Return an input of ones."""
    count = 3 * height * width
    data = (ctypes.c_float * count)(*[1.0] * count)
    shape = (c_int64 * 4)(1, 3, height, width)
    return Tensor(b"float32", 4, shape, ctypes.cast(data, c_void_p), 4 * count)


def main(library: str, network: str, pad: str, *sizes: str) -> None:
    """Run each size; print the document."""
    edge = ctypes.CDLL(library)
    edge.edge_open.restype = c_void_p
    edge.edge_last_error.restype = edge.edge_last_error_kind.restype = c_char_p
    edge.edge_shape.restype = POINTER(c_int64)
    edge.edge_set_input.argtypes = [c_void_p, c_int, POINTER(Tensor)]
    edge.edge_output.argtypes = [c_void_p, c_int, POINTER(Tensor)]
    for function in (edge.edge_run, edge.edge_shape_count):
        function.argtypes = [c_void_p]
    edge.edge_shape.argtypes = [c_void_p, c_int, c_int, POINTER(c_int)]
    options = Options(size=ctypes.sizeof(Options), threads=1, pad=int(pad))
    opened = edge.edge_open(network.encode(), byref(options))
    if not opened:
        print(json.dumps({"error": edge.edge_last_error().decode()}))
        return
    rank = c_int()
    count = edge.edge_shape_count(opened)
    shapes = [edge.edge_shape(opened, place, 0, byref(rank))[: rank.value] for place in range(count)]
    beyond = [
        edge.edge_shape(opened, *place, byref(rank)) for place in ((count, 0), (-1, 0), (0, 1), (0, -1))
    ]
    runs: list[object] = []
    for size in sizes:
        edge.edge_set_input(opened, 0, byref(ones(*map(int, size.split("x")))))
        if code := edge.edge_run(opened):
            runs.append([code, edge.edge_last_error_kind().decode(), edge.edge_last_error().decode()])
            continue
        output = Tensor()
        assert edge.edge_output(opened, 0, byref(output)) == 0
        values = ctypes.cast(output.data, POINTER(ctypes.c_float))[: output.bytes // 4]
        runs.append({"shape": output.shape[: output.ndim], "values": values})
    document = {"shapes": shapes, "beyond": [bool(value) for value in beyond], "runs": runs}
    print(json.dumps(document))


if __name__ == "__main__":
    main(*sys.argv[1:])
