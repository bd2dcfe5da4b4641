"""Arrays that do not fit the small network, and what is said of them. The fixture `files` makes them."""

from __future__ import annotations

from tests.measuring.small_network import INPUT

INPUTS = [
    ("data=good.npy", ["--input data", INPUT]),
    (f"{INPUT}=shape.npy", ["--input", "[1, 3, 8, 8]", "[1, 3, 16, 16]"]),
    (f"{INPUT}=dtype.npy", ["--input", "float64", "float32"]),
    (f"{INPUT}=text.npy", ["text.npy"]),
    (f"{INPUT}=objects.npy", ["objects.npy"]),
    (f"{INPUT}=nosuch.npy", ["nosuch.npy"]),
    ("good.npy", ["--input good.npy", "NAME=FILE.npy"]),
]
