"""Computes for which share of a launch's work items a condition holds, for conditions as TVM writes them.

Each work item of Midgard has its own program counter: items for which a condition is false skip the guarded
code at no cost.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from toolchain.devices.kernel import Kernel

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
