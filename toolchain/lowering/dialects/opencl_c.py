"""Corrects OpenCL C where TVM's code generator writes CUDA or C++.

A vector literal is `(float4)(a, b, c, d)` in OpenCL C, and a lane is `v.s2`; TVM's generator for C, which
OpenCL's inherits, writes `float4(a, b, c, d)` and `v[2]` for a shuffle (tvm/src/target/source/codegen_c.cc).
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_LITERAL = re.compile(r"(?<!\w)((?:float|half|int|uint|short|ushort|char|uchar|long|ulong)(?:2|4|8|16))\(")
_LOAD = re.compile(r"\bvload(?:2|4|8|16)\(")
_LANE = re.compile(r"\[(\d+)\]")


def corrected(source: str) -> str:
    """Return a kernel's source as valid OpenCL C."""
    return _lanes(_LITERAL.sub(r"(\1)(", source))


def _lanes(source: str) -> str:
    """Return a source in which lanes of loaded vectors are accessed by name."""
    parts, done = [], 0
    for load in _LOAD.finditer(source):
        end = closed(source, load.end())
        if lane := _LANE.match(source, end):
            parts += [source[done:end], f".s{int(lane[1]):x}"]
            done = lane.end()
    return "".join([*parts, source[done:]])


def closed(source: str, at: int) -> int:
    """Return the index after the closing parenthesis or bracket that matches the one opened before `at`."""
    depth = 1
    while depth:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(source[at], 0)
        at += 1
    return at


# Rewrites addresses in the loops of a kernel's source to pointers that advance, with constant offsets.
#
# TVM writes every address as a sum of products of all loop counters, from the beginning of the buffer. A
# compiler that must add in 32 bits before it widens (SPIR-V's integers may overflow, C's may not) cannot
# use the constants in such a sum as offsets, and computes the products in every iteration. For the inner
# loop of a 3x3 convolution in tiles of 7 columns, Mesa's compiler for the Mali-T860 emits 39 words instead
# of 67; 28 are multiplications (by its model; compilers that hoist such work out of loops gain less).

_PARAMETER = re.compile(r"(__global (?:const )?\w+\*) (?:restrict )?(\w+)")
_DEFINITION = re.compile(r"__kernel void \w+\(([^(){};]*)\) \{$")
_LOOP = re.compile(r"( *)for \(int (\w+) = 0; \2 < (\d+); \+\+\2\) \{$")
_ASSIGNED = re.compile(r" *int (cse_v\d+) = (.*);$")
_ID = re.compile(r"convert_int\(get_(group|local)_id\((\d)\)\)")
_OF_ID = re.compile(r"^id_(group|local)_(\d)$")
_CONSTANT = ""  # name of the constant term in a sum


@dataclass(frozen=True)
class _Loop:
    """A loop with a constant number of iterations, `turns`."""

    line: int
    counter: str
    turns: int


@dataclass(frozen=True)
class _Use:
    """An address in a line of the source: the parameter of the buffer, and the sum that is added to it."""

    line: int
    begin: int
    end: int
    indexed: bool
    buffer: str
    sum: Mapping[str, int]


@dataclass
class _Source:
    """The lines of a kernel, and for each line the innermost loops without a condition between them."""

    lines: list[str]
    types: dict[str, str] = field(default_factory=dict)
    loops: dict[int, tuple[_Loop, ...]] = field(default_factory=dict)
    counters: dict[int, frozenset[str]] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)


def with_running_addresses(source: str) -> str:
    """Return the source of a kernel with pointers that its loops advance."""
    read = _read(source)
    pointers: defaultdict[tuple[object, ...], list[_Use]] = defaultdict(list)
    for line, loops in read.loops.items():
        for use in _uses(read, line):
            rest = tuple(sorted((name, factor) for name, factor in use.sum.items() if name != _CONSTANT))
            pointers[loops, use.buffer, rest].append(use)
    moves: defaultdict[int, list[str]] = defaultdict(list)
    declared: defaultdict[int, list[str]] = defaultdict(list)
    replaced: defaultdict[int, list[tuple[_Use, str]]] = defaultdict(list)
    for number, uses in enumerate(pointers.values()):
        loops, pointer, first = read.loops[uses[0].line], f"along_{number}", uses[0]
        counters = {loop.counter for loop in loops}
        begin = [(name, factor) for name, factor in first.sum.items() if name not in counters | {_CONSTANT}]
        declared[loops[0].line].append(
            f"{read.types[first.buffer]} {pointer} = {first.buffer} + ({_text(begin)});"
        )
        for loop, inner in zip(loops, [*loops[1:], None], strict=True):
            back = 0 if inner is None else first.sum.get(inner.counter, 0) * inner.turns
            if step := first.sum.get(loop.counter, 0) - back:
                moves[loop.line].append(f"{pointer} += {step}")
        for use in uses:
            replaced[use.line].append((use, pointer))
    return "\n".join(_written(read, declared, moves, replaced))


def _read(source: str) -> _Source:
    """Parse the lines, and find for each the loops around it that have no condition between them."""
    read = _Source(source.split("\n"))
    around: list[_Loop | None] = []  # None: a condition, or a loop with another form
    for number, line in enumerate(read.lines):
        if definition := _DEFINITION.match(line):
            read.types.update({name: kind for kind, name in _PARAMETER.findall(definition[1])})
            continue
        if assigned := _ASSIGNED.match(line):
            read.named[assigned[1]] = assigned[2]
        text = line.strip()
        if text.startswith("}") and around:
            around.pop()
        inner = [each for each in around[_after(around) :] if each is not None]
        if inner:
            read.loops[number] = tuple(inner)
            read.counters[number] = frozenset(each.counter for each in around if each is not None)
        if text.endswith("{"):
            loop = _LOOP.match(line)
            around.append(_Loop(number, loop[2], int(loop[3])) if loop else None)
    return read


def _after(around: Sequence[_Loop | None]) -> int:
    return max((place + 1 for place, each in enumerate(around) if each is None), default=0)


def _uses(read: _Source, line: int) -> Iterator[_Use]:
    """Yield the addresses in a line that are sums of products with constants."""
    text = read.lines[line]
    for found in re.finditer(r"\b(\w+)( \+ \(|\[)", text):
        if found[1] not in read.types:
            continue
        end = closed(text, found.end())
        total = _sum(read, text[found.end() : end - 1])
        names = set(total or ()) - {_CONSTANT} - read.counters[line]
        if total is not None and all(map(_OF_ID.match, names)):
            yield _Use(line, found.start(), end, found[2] == "[", found[1], total)


def _sum(read: _Source, text: str) -> dict[str, int] | None:
    """Parse a sum to factors of ids and counters; None if the text is not such a sum."""
    try:
        return _factors(ast.parse(_ID.sub(r"id_\1_\2", text).strip(), mode="eval").body, read)
    except (SyntaxError, ValueError):
        return None


def _factors(node: ast.expr, read: _Source) -> dict[str, int]:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return {_CONSTANT: node.value}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return {name: -factor for name, factor in _factors(node.operand, read).items()}
    if isinstance(node, ast.Name):
        if node.id in read.named:
            known = _sum(read, read.named[node.id])
            if known is None:
                raise ValueError(node.id)
            return known
        return {node.id: 1}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
        left, right = _factors(node.left, read), _factors(node.right, read)
        if isinstance(node.op, ast.Mult):
            if set(left) <= {_CONSTANT}:
                left, right = right, left
            if not set(right) <= {_CONSTANT}:
                raise ValueError("a product of what is no constant")
            times = right.get(_CONSTANT, 0)
            return {name: factor * times for name, factor in left.items()}
        sign = -1 if isinstance(node.op, ast.Sub) else 1
        return {
            name: left.get(name, 0) + sign * right.get(name, 0) for name in dict.fromkeys([*left, *right])
        }
    raise ValueError(ast.dump(node))


def _text(factors: Sequence[tuple[str, int]]) -> str:
    """Return a sum as source code."""
    terms = [(_OF_ID.sub(r"convert_int(get_\1_id(\2))", name), factor) for name, factor in factors if factor]
    return " + ".join(f"({name}) * {factor}" for name, factor in terms) or "0"


def _written(
    read: _Source,
    declared: Mapping[int, list[str]],
    moves: Mapping[int, list[str]],
    replaced: Mapping[int, list[tuple[_Use, str]]],
) -> Iterator[str]:
    for number, line in enumerate(read.lines):
        text = line
        for use, pointer in sorted(replaced.get(number, []), key=lambda each: -each[0].begin):
            offset = use.sum.get(_CONSTANT, 0)
            address = f"{pointer}[{offset}]" if use.indexed else f"{pointer} + {offset}"
            text = text[: use.begin] + address + text[use.end :]
        for step in moves.get(number, []):
            text = text.replace(") {", f", {step}) {{")
        indent = " " * (len(line) - len(line.lstrip()))
        yield from (indent + each for each in declared.get(number, []))
        yield text
