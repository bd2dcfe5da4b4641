"""Emits what the work items of a group do together on a GPU: shared memory, barriers, asynchronous copies.

The functions `edge_…` are those of `lowering/dialects/warp.cuh`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

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


# Shares a reduction out among the work items of a GPU's groups, and lets their partial results meet.

_GROUP = 256  # most items of a row; several of its warps then have a barrier for each reduction
_ROWS = 128  # items of a group that has several rows
_VECTORS = 2  # vectors of a row for each of its items, if the row is not too long
_BUSY = 8  # groups of `_ROWS` items for each unit: from there on, rows hide each other's waiting
_UNROLLED = 4  # most turns of an item that are unrolled


@dataclass(frozen=True)
class Sharing:
    """Which items compute a row of a value: `items` beside each other, for `rows` rows in a group.

    `items` is a power of two; those of a group fill its warps.
    """

    count: int
    items: int
    rows: int

    @property
    def groups(self) -> int:
        """Number of groups."""
        return -(-self.count // self.rows)


def sharing_of(count: int, vectors: int, units: int, *, together: bool = True) -> Sharing:
    """Return how work items share `count` rows of a number of vectors.

    Parameters
    ----------
    units
        Compute units of the GPU.
    together
        Whether a group may have several rows where a warp has more items than a row.
    """
    items = min(_GROUP, 1 << max(0, -(-vectors // _VECTORS) - 1).bit_length())
    while items > WARP and count * items > _BUSY * _ROWS * units:
        items //= 2
    if not together:
        return Sharing(count, max(items, WARP), 1)
    rows = max(1, _ROWS // items)
    while rows > 1 and rows * items > WARP and -(-count // rows) < units:
        rows //= 2
    return Sharing(count, items, rows)


class Sharers:
    """The items of a group, in the code that they run.

    Attributes
    ----------
    row
        Number of the item's row; items beyond the last row compute that one, too.
    own
        Number of the row in its group.
    item
        Number of the item in its row.
    exists
        Whether the row is not beyond the last one; None: it never is.
    """

    def __init__(self, nest: Nest, sharing: Sharing, group: Expr, number: Expr) -> None:
        self.nest, self.sharing = nest, sharing
        self.number = number
        self.item = nest.simplify(number % sharing.items)
        self.own = nest.simplify(number // sharing.items)
        at = nest.simplify(group * sharing.rows + self.own)
        self.exists = None if nest.analyzer.can_prove(at < sharing.count) else at < sharing.count
        self.row = nest.simplify(tirx.min(at, sharing.count - 1))
        self._begun = False

    def in_turns(self, count: int, emit: Callable[[Expr], None]) -> None:
        """Emit code for `count` things of a row, which its items share out."""
        nest, items = self.nest, self.sharing.items
        whole = count // items
        if whole:
            with (nest.unroll if whole <= _UNROLLED else nest.serial)(whole) as turn:
                emit(nest.simplify(turn * items + self.item))
        if rest := count - whole * items:
            condition = self.item < rest
            with nest.when(condition), nest.analyzer.constraint_scope(condition):
                emit(nest.simplify(self.item + whole * items))

    @contextmanager
    def first(self) -> Iterator[None]:
        """Emit code for one item of each row that exists."""
        conditions: list[Expr] = (
            [] if self.sharing.items == 1 else [tirx.EQ(self.item, tirx.const(0, "int32"))]
        )
        conditions += [] if self.exists is None else [self.exists]
        with self.nest.when(tirx.all(*conditions) if conditions else None):
            yield

    @contextmanager
    def exchange(self) -> Iterator[None]:
        """Emit stores to shared memory, which all items of the group run and then see.

        TVM lets buffers of shared memory overlap if one is last read before the other is first written: so
        stores wait until all items have read what was there.
        """
        if self._begun:
            barrier()
        self._begun = True
        yield
        barrier()

    def meet(self, totals: tirx.Buffer, combine: Callable[[Expr, Expr], Expr]) -> None:
        """Emit code after which each item's totals combine those of all items of its row.

        All items of the group run it. They all get the same bits.
        """
        count, dtype, items = int(totals.shape[0]), str(totals.dtype), self.sharing.items
        step = 1
        while step < min(items, WARP):
            for place in range(count):
                ir.buffer_store(totals, combine(totals[place], shuffled(totals[place], step)), [place])
            step *= 2
        if items <= WARP:
            return
        warps = items // WARP
        met = shared_memory(self.sharing.rows * warps * count, dtype)
        warp = self.nest.simplify(self.number // WARP)
        leads = tirx.EQ(self.nest.simplify(self.number % WARP), tirx.const(0, "int32"))
        with self.exchange(), self.nest.when(leads):
            for place in range(count):
                ir.buffer_store(met, totals[place], [warp * count + place])
        for place in range(count):
            for other in range(warps):
                value = met[(self.own * warps + other) * count + place]
                ir.buffer_store(totals, combine(totals[place], value) if other else value, [place])


@contextmanager
def sharers(nest: Nest, sharing: Sharing) -> Iterator[Sharers]:
    """Emit the groups that share rows out; yield their items."""
    with work_groups(nest, [sharing.groups], sharing.items * sharing.rows) as (group, number):
        yield Sharers(nest, sharing, group[0], number)
