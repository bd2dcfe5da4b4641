"""Estimates the time of a launch from the words per pipe, weighted by the trip counts of loops."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

import numpy as np

from toolchain.devices.kernel import Kernel
from toolchain.testbeds.mali.statistics import KernelStatistics

# Mali GPUs that the model knows.


@dataclass(frozen=True)
class Gpu:
    """A GPU of Arm's Midgard family.

    Attributes
    ----------
    cores
        Number of shader cores, over which work groups are spread.
    clock_mhz
        Clock of the cores.
    arithmetic_pipes
        Arithmetic pipes of a core, which also has a load/store and a texture pipe. Each pipe executes one
        instruction word per cycle.
    """

    name: str
    cores: int
    clock_mhz: int
    arithmetic_pipes: int


T860_MP4 = Gpu("mali-t860", cores=4, clock_mhz=800, arithmetic_pipes=2)
"""The GPU of an rk3399, at the highest clock of its devfreq table (Rockchip's kernel); a T860's core has two
arithmetic pipes, a load/store and a texture pipe (Arm, "The Midgard shader core", 2015)."""


# Computes for which share of a launch's work items a condition holds, for conditions as TVM writes them.
#
# Each work item of Midgard has its own program counter: items for which a condition is false skip the
# guarded code at no cost.

_PLACE = re.compile(r"\bget_(group|local)_id\((\d)\)")
_DEFINED = re.compile(r"\bint (\w+) = ([^;]+);")
_OPERATORS: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.And: np.logical_and,
    ast.Or: np.logical_or,
}


class Guards:
    """Evaluates conditions of a kernel for all work items of its launch."""

    def __init__(self, kernel: Kernel) -> None:
        self._places: dict[str, Any] = {}
        extents = [*reversed(kernel.groups), *reversed(kernel.group)]
        names = [f"group{axis}" for axis in (2, 1, 0)] + [f"local{axis}" for axis in (2, 1, 0)]
        for place, (name, extent) in enumerate(zip(names, extents, strict=True)):
            shape = [1] * len(extents)
            shape[place] = extent
            self._places[name] = np.arange(extent).reshape(shape)
        self._defined = dict(_DEFINED.findall(kernel.source))

    def share(self, condition: str) -> float:
        """Return the share of the work items for which a condition holds; 1 if it cannot be evaluated."""
        try:
            with np.errstate(all="raise"):
                return float(np.mean(self._value(_parsed(condition))))
        except (ValueError, SyntaxError, RecursionError, ArithmeticError, TypeError):
            return 1.0

    def _value(self, node: ast.AST) -> Any:
        match node:
            case ast.Expression(body):
                return self._value(body)
            case ast.Constant(int(value)):
                return value
            case ast.Name(name) if name in self._places:
                return self._places[name]
            case ast.Name(name) if name in self._defined:
                return self._value(_parsed(self._defined[name]))
            case ast.Call(ast.Name("convert_int"), [argument]):
                return self._value(argument)
            case ast.BinOp(left, by, right):
                return self._applied(by, left, right)
            case ast.Compare(left, [by], [right]):
                return self._applied(by, left, right)
            case ast.BoolOp(by, [first, *others]):
                value = self._value(first)
                for other in others:
                    value = _OPERATORS[type(by)](value, self._value(other))
                return value
        raise ValueError(ast.dump(node))  # such as a loop variable or a loaded value

    def _applied(self, by: ast.AST, left: ast.AST, right: ast.AST) -> Any:
        if type(by) not in _OPERATORS:
            raise ValueError(ast.dump(by))
        return _OPERATORS[type(by)](self._value(left), self._value(right))


def _parsed(text: str) -> ast.Expression:
    """Parse a C expression as Python; `/` becomes `//`, which is right since ids are never negative."""
    named = _PLACE.sub(r"\1\2", text)
    return ast.parse(
        re.sub(r"(?<!/)/(?!/)", "//", named).replace("&&", " and ").replace("||", " or ").strip(), mode="eval"
    )


# Reads the trip counts of a kernel's loops, and the share of work items that reach them, from its source.

_FROM = re.compile(r"(\w+)\s*=\s*(?:\(\w+\))?\s*(\d+)\s*$")
_TO = re.compile(r"^\s*(\w+)\s*<\s*(?:\(\w+\))?\s*(\d+)\s*$")
_HEAD = re.compile(r"\b(for|if|else)\b|[{};]")


@dataclass
class _Open:
    """A statement or block that is open at a position of the source.

    Attributes
    ----------
    word
        `for`, `if` or `else`; empty for another block, such as a function's.
    share
        Share of the work items reaching it that enter it.
    block
        Whether it has braces; else it ends with its first statement.
    """

    word: str
    share: float
    block: bool = False


@dataclass(frozen=True)
class Loop:
    """A `for` loop of the source.

    Attributes
    ----------
    turns
        Trip count, None if it is not a constant.
    share
        Share of the work items in the enclosing loop or kernel that conditions let reach this loop.
    """

    turns: int | None
    share: float = 1.0


def loops_of(kernel: Kernel) -> list[Loop]:
    """Return the loops of a kernel in the order of its source."""
    guards = Guards(kernel)
    opened: list[_Open] = []
    loops: list[Loop] = []
    last_if = 1.0
    for word, head in _words(kernel.source):
        if word == "for":
            share = 1.0
            for outer in reversed(opened):
                if outer.word == "for":
                    break
                share *= outer.share
            loops.append(Loop(_turns(*head.split(";")) if head.count(";") == 2 else None, share))
            opened.append(_Open(word, 1.0))
        elif word == "if":
            opened.append(_Open(word, guards.share(head)))
        elif word == "else":
            opened.append(_Open(word, 1.0 - last_if))
        elif word == "{":
            if opened and not opened[-1].block and opened[-1].word:
                opened[-1].block = True
            else:
                opened.append(_Open("", 1.0, block=True))
        else:  # the end of a block or statement also ends every enclosing statement without braces
            if word == "}" and opened:
                last_if = opened.pop().share
            while opened and not opened[-1].block:
                last_if = opened.pop().share
    return loops


def _words(source: str) -> Iterator[tuple[str, str]]:
    """Yield the tokens `for`, `if`, `else`, braces and semicolons; the first two with their parentheses."""
    at = 0
    while match := _HEAD.search(source, at):
        at = match.end()
        word, head = match[0], ""
        if word in ("for", "if"):
            begin = source.index("(", at) + 1
            at = _closing(source, begin)
            head = source[begin : at - 1]
        yield word, head


def _closing(source: str, begin: int) -> int:
    """Return the index after the parenthesis that closes the one before `begin`."""
    depth = 1
    for match in re.finditer(r"[()]", source[begin:]):
        depth += 1 if match[0] == "(" else -1
        if not depth:
            return begin + match.end()
    return len(source)


def _turns(begin: str, end: str, step: str) -> int | None:
    first, last = _FROM.search(begin), _TO.search(end)
    if first is None or last is None or first[1] != last[1]:
        return None
    name = re.escape(first[1])
    wide = re.search(rf"\b{name}\s*\+=\s*(\d+)", step)
    if wide is None and not re.search(rf"\+\+\s*{name}\b|\b{name}\s*\+\+", step):
        return None
    width = int(wide[1]) if wide else 1
    return max(0, -(-(int(last[2]) - int(first[2])) // width)) if width else None


@dataclass(frozen=True)
class Estimate:
    """Modelled work and time of a launch.

    Attributes
    ----------
    arithmetic, load_store, texture
        Instruction words that a work item executes in each pipe, on average.
    multiplies
        Multiplications per work item, on average.
    cycles
        Cycles of a core per work item.
    ms
        Time of the launch in milliseconds.
    """

    arithmetic: float
    load_store: float
    texture: float
    multiplies: float
    cycles: float
    ms: float

    def gflops(self, items: int) -> float:
        """Return the GFLOP/s of a launch of `items` work items, two operations per multiply-accumulate."""
        return 2e-6 * self.multiplies * items / self.ms


def estimate(kernel: Kernel, compiled: KernelStatistics, gpu: Gpu = T860_MP4) -> Estimate | None:
    """Estimate the time of a launch; None if the trip count of a loop is unknown.

    A lower bound: `max(A / arithmetic pipes, LS, T)` cycles per work item, without cache misses, waits for
    memory or launch overhead. Loop bodies are weighted by their trip counts; both sides of a condition
    outside of loops count. Work groups are spread evenly over the cores.

    It is within 9 % of the three times that TVM's article on Mali measured in 2018
    (docs/decisions/0042-a-model-of-mali.md).
    """
    loops = loops_of(kernel)
    if len(loops) != len(compiled.loops):
        loops = [loop for loop in loops if loop.turns != 1]  # the compiler removes loops with one iteration
    if len(loops) != len(compiled.loops) or any(loop.turns is None for loop in loops):
        return None
    turns = [(loop.turns or 0) * loop.share for loop in loops]
    times = [
        prod(
            count
            for count, (first, last) in zip(turns, compiled.loops, strict=True)
            if first <= place <= last
        )
        for place in range(len(compiled.blocks))
    ]
    weighed = list(zip(times, compiled.blocks, strict=True))
    arithmetic = sum(count * block.arithmetic for count, block in weighed)
    load_store = sum(count * block.load_store for count, block in weighed)
    texture = sum(count * block.texture for count, block in weighed)
    multiplies = sum(count * block.multiplies for count, block in weighed)
    cycles = max(arithmetic / gpu.arithmetic_pipes, load_store, texture)
    in_turn = ceil(prod(kernel.groups) / gpu.cores) * kernel.items_in_group  # on the busiest core
    return Estimate(
        arithmetic, load_store, texture, multiplies, cycles, in_turn * cycles / (gpu.clock_mhz * 1e3)
    )
