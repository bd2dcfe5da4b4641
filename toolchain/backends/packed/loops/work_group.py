"""Emits what the work items of a group do together on a GPU: shared memory, barriers, asynchronous copies.

The functions `edge_…` are those of `lowering/dialects/warp.cuh`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.recognise.expressions import bind
from toolchain.backends.packed.recognise.read import Expr

WARP = 32
"""Work items of a warp, which execute together."""

COPIED = 16
"""Bytes that one copy moves at most."""

WORD = 4
"""Bytes of a number in shared memory."""

ARRIVALS = 4096
"""Counters of arrivals in a kernel; `edge_last_to_arrive` takes the number of one."""


@contextmanager
def work_groups(nest: Nest, groups: Sequence[int], items: int) -> Iterator[tuple[list[Expr], Expr]]:
    """Emit a grid of at most three axes; yield the place of the group, and the number of the item in it."""
    with ExitStack() as stack:
        places: list[Expr] = [
            bind(nest.analyzer, stack.enter_context(ir.launch_thread(f"blockIdx.{axis}", count)), count)
            for axis, count in zip("xyz", groups, strict=False)
        ]
        item = stack.enter_context(ir.launch_thread("threadIdx.x", items))
        yield places, bind(nest.analyzer, item, items)


def shared_memory(count: int, dtype: str) -> tirx.Buffer:
    """Return a buffer that the items of a group share."""
    return ir.alloc_buffer((count,), dtype, scope="shared")


def halves_of(shared: tirx.Buffer) -> tirx.Buffer:
    """Return float16 numbers in the place of the words of shared memory, two in each."""
    count = int(shared.shape[0]) * 2
    halves: tirx.Buffer = ir.decl_buffer((count,), "float16", data=shared.data, scope="shared")
    return halves


def barrier() -> None:
    """Emit a barrier: items of the group see what the others wrote to shared memory before it."""
    ir.evaluate(ir.tvm_storage_sync("shared"))


def copy_vector(to: Expr, source: Expr, inside: Expr | None = None, size: int = COPIED) -> None:
    """Emit a copy to shared memory, which `await_copies` waits for.

    Parameters
    ----------
    to, source
        Loads of the first elements.
    inside
        Whether the source exists; if it does not, zeros are written. None: it does.
    size
        Bytes: 4, 8 or 16.
    """
    addresses = (tirx.address_of(to), tirx.address_of(source))
    if inside is None:
        _call(f"edge_cp_async_{size}", *addresses)
    else:
        read = tirx.Select(inside, tirx.const(size, "int32"), tirx.const(0, "int32"))
        _call(f"edge_cp_async_{size}_or_zeros", *addresses, read)


def copy_number(to: tirx.Buffer, at: Expr, value: Expr, inside: Expr | None = None) -> None:
    """Emit a copy of a number to shared memory; `await_copies` waits for it.

    Parameters
    ----------
    to
        Of float32, or float16, which items store: asynchronous copies move 4 bytes or more.
    value
        A load, or a value that the item computes and stores.
    inside
        Whether the value exists; if it does not, zero is written. None: it does.
    """
    if not isinstance(value, TensorLoad) or to.dtype != "float32":
        zero = tirx.const(0, to.dtype)
        ir.buffer_store(to, value if inside is None else tirx.if_then_else(inside, value, zero), [at])
        return
    copy_vector(to[at], value, inside, WORD)


def end_copies() -> None:
    """Emit the end of a batch of copies."""
    _call("edge_cp_async_commit")


def await_copies(left: int) -> None:
    """Emit a wait for all of this item's batches of copies but the newest `left`."""
    _call("edge_cp_async_wait", tirx.IntImm("int32", left))


def last_to_arrive(nest: Nest, number: Expr, groups: int) -> Expr:
    """Emit the arrival of a group, after all its stores; return whether all others had arrived before.

    It then sees what they stored before they arrived.

    Parameters
    ----------
    number
        Number of the counter, below `ARRIVALS`, which these groups share.
    groups
        Number of groups that arrive.
    """
    last = nest.local((1,), "int32")
    ir.buffer_store(last, tirx.call_extern("int32", "edge_last_to_arrive", number, groups), [0])
    return tirx.NE(last[0], tirx.const(0, "int32"))


def shuffled(value: Expr, distance: int) -> Expr:
    """Return a number of another item of the warp: of the one whose number in it differs by one bit.

    All items of the warp must run it.
    """
    found: Expr = tirx.call_extern(str(value.ty.dtype), "edge_shuffle_xor", value, distance)
    return found


def _call(name: str, *arguments: Expr) -> None:
    ir.evaluate(tirx.call_extern("int32", name, *arguments))
