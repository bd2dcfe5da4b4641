"""Shares a reduction out among the work items of a GPU's groups, and lets their partial results meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tvm import tirx
from tvm.tirx.script.builder import ir

from toolchain.backends.packed.loops.nest import Nest
from toolchain.backends.packed.loops.work_group import WARP, barrier, shared_memory, shuffled, work_groups
from toolchain.backends.packed.recognise.read import Expr

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
