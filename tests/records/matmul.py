"""A small function to tune; run as a program, it prints its hashes."""

from __future__ import annotations

from hashlib import sha256

from tvm import te
from tvm.tirx import PrimFunc

from toolchain.lowering.functions.definition import definition_of
from toolchain.lowering.functions.tasks import workload_hash


def matmul(size: int) -> PrimFunc:
    """Return a square float32 matrix product."""
    a = te.placeholder((size, size), name="A")
    b = te.placeholder((size, size), name="B")
    k = te.reduce_axis((0, size), "k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c])


if __name__ == "__main__":
    print(workload_hash(matmul(16)), sha256(definition_of(matmul(16)).encode()).hexdigest())
