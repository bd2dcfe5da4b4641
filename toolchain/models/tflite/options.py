"""Reads the options of an operator, whatever fields their type has."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

from toolchain.errors import UsageError
from toolchain.models.tflite.budget import ByteBudget

MOST_NUMBERS = 1024
"""Of a vector that is no weights: operands, dimensions, options."""


def names_of(codes: type) -> dict[int, str]:
    """Return the name of each code of a schema's enumeration, without what Python adds to the class."""
    return {value: name for name, value in vars(codes).items() if not name.startswith("_")}


def read_options(schema: ModuleType, operator: Any, budget: ByteBudget) -> dict[str, Any]:
    """Return the fields of an operator's options by the schema's names; empty if it has none.

    Parameters
    ----------
    schema
        The package `tflite`.
    operator
        Its view of an operator.
    """
    code = operator.BuiltinOptionsType()
    kind = names_of(schema.BuiltinOptions).get(code, "NONE")
    table = operator.BuiltinOptions()
    if kind == "NONE" or table is None:
        return {}
    options = getattr(schema, kind)()
    options.Init(table.Bytes, table.Pos)
    members = [name for name in vars(type(options)) if name[0].isupper() and name != "Init"]
    fields = [
        name for name in members if not name.startswith("GetRootAs") and "BufferHasIdentifier" not in name
    ]
    vectors = {name.removesuffix("Length") for name in fields if name.endswith("Length")}
    found: dict[str, Any] = {}
    for name in vectors:
        if f"{name}AsNumpy" in fields:
            found[_snake(name)] = numbers(getattr(options, f"{name}AsNumpy")(), budget)
    for name in fields:
        if not any(name.startswith(vector) for vector in vectors):
            found[_snake(name)] = getattr(options, name)()
    return found


def numbers(vector: Any, budget: ByteBudget) -> list[int]:
    """Return a vector of the file; `tflite` gives 0 for one that is absent.

    Raises
    ------
    UsageError
        It is longer than any that is read, or the file's vectors are many times the file.
    """
    if isinstance(vector, int):
        return []
    if len(vector) > MOST_NUMBERS:
        raise UsageError(
            f"{budget.origin}: an operator or a tensor has {len(vector)} operands, dimensions or options; "
            f"at most {MOST_NUMBERS} are read",
            "convert the network with operators of fewer operands, for shorter sequences for example",
        )
    budget.spend(vector.nbytes)
    return [number.item() for number in vector]


def _snake(name: str) -> str:
    """Return a method's name as the schema spells the field: `DilationHFactor` is `dilation_h_factor`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
