"""Splits a function with more than one contraction into several functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from tvm import tirx
from tvm.sym import Analyzer

from toolchain.backends.packed.recognise.contraction import Contraction, recognise
from toolchain.backends.packed.recognise.expressions import bind, calls, inlined
from toolchain.backends.packed.recognise.read import Expr, Read, Stage, UnreadableError, loads, shape_of

FLOATING = frozenset({"float32", "float16"})


def parts(read: Read, stored: Set[str] = FLOATING) -> list[tuple[Read, Contraction | None]]:
    """Return the functions into which a function is split, in order, with the contraction of each.

    The output of every part but the last is a parameter of later parts.

    Parameters
    ----------
    stored
        Types in which the function of a contraction may store its result.
    """
    contraction = recognise(read)
    if contraction is None:
        return [(read, None)]
    before = [buffer for buffer in contraction.operands if _computed(read, buffer)]
    end = _end(read, contraction.y, stored)
    if not before and end.same_as(read.output):
        return [(read, contraction)]
    found: list[tuple[Read, Contraction | None]] = []
    for part in split(read, [*before, end]):
        found += [(part, contraction)] if part.output.same_as(end) else parts(part, stored)
    return found


def split(read: Read, cuts: Sequence[tirx.Buffer]) -> list[Read]:
    """Return functions that compute each buffer of `cuts`, and the output from them."""
    targets = [*cuts] if cuts[-1].same_as(read.output) else [*cuts, read.output]
    return [until(read, target, [cut for cut in cuts if not cut.same_as(target)]) for target in targets]


def until(read: Read, target: tirx.Buffer, given: Sequence[tirx.Buffer] = ()) -> Read:
    """Return the function that computes only `target`, with `given` among its parameters."""
    wanted = [target]
    stages: list[Stage] = []
    for stage in reversed(read.stages):
        written = [part.buffer for part in stage.parts]
        if any(among(buffer, wanted) and not among(buffer, given) for buffer in written):
            stages.insert(0, stage)
            wanted += [load.source for part in stage.parts for load in loads(part.value)]
    known = [param for param in read.params if read.producer(param) is None]
    inputs = [buffer for buffer in (*known, *given) if among(buffer, wanted)]
    return Read((*inputs, target), tuple(stages))


def among(buffer: tirx.Buffer, buffers: Iterable[tirx.Buffer]) -> bool:
    """Return whether a buffer is one of these."""
    return any(buffer.same_as(each) for each in buffers)


def _computed(read: Read, buffer: tirx.Buffer) -> bool:
    """Return whether a buffer is computed and too expensive to compute for every read."""
    if read.producer(buffer) is None:
        return False
    stages = until(read, buffer, []).stages
    return any(stage.init is not None or calls(stage.value) for stage in stages)


def _end(read: Read, y: tirx.Buffer, stored: Set[str]) -> tirx.Buffer:
    """Return the last value that depends element-wise on `y` and on which all later values depend."""
    after = [stage.buffer for stage in read.stages]
    while not after.pop(0).same_as(y):
        pass
    for buffer in reversed(after):
        rest = until(read, read.output, [buffer])
        needs = rest.producer(y) is not None
        if (buffer.same_as(read.output) or not needs) and _elementwise(read, y, buffer, stored):
            return buffer
    return y


def _elementwise(read: Read, y: tirx.Buffer, buffer: tirx.Buffer, stored: Set[str]) -> bool:
    """Return whether an element of `buffer` depends on no other element of `y` than its own."""
    if shape_of(buffer) != shape_of(y):
        return False
    analyzer = Analyzer()
    here = [bind(analyzer, tirx.Var("i", "int32"), extent) for extent in shape_of(y)]
    own = True

    def load(source: tirx.Buffer, index: list[Expr]) -> Expr | None:
        nonlocal own
        if source.same_as(y):
            own &= all(analyzer.can_prove_equal(*pair) for pair in zip(index, here, strict=True))
        elif read.producer(source) is not None:
            return None
        return tirx.BufferLoad(source, index)

    try:
        inlined(read, load, analyzer)(buffer, list(here))
    except UnreadableError:
        return False
    return own and str(buffer.dtype) in stored
