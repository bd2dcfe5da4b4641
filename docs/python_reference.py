"""The reference of what `import toolchain` offers: signatures, and docstrings as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass

import toolchain
from toolchain.records.lookup import SHIPPED

_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\S.*)\n((?:    .*(?:\n|$)|\n)+)", re.MULTILINE)
_WIDTH = 90  # of a signature in one line


def python() -> Iterator[str]:
    """Yield the sections of the reference, one for each name."""
    for name in toolchain.__all__:
        yield f"## {name}\n\n{_signature(name)}\n\n{_documentation(getattr(toolchain, name))}"


def _signature(name: str) -> str:
    """Return how it is called, as a block of code."""
    value = getattr(toolchain, name)
    if isinstance(value, type) and not is_dataclass(value):
        return f"    class toolchain.{name}"
    signature = inspect.signature(value)
    defaults = {field.name: field for field in fields(value)} if is_dataclass(value) else {}
    bare = [
        parameter.replace(
            annotation=_Bare(parameter.annotation), default=_default(parameter, defaults.get(parameter.name))
        )
        for parameter in signature.parameters.values()
    ]
    back = "" if isinstance(value, type) else f" -> {signature.return_annotation}"
    parts = [str(parameter).replace("'", '"') for parameter in bare]
    return _wrapped(f"toolchain.{name}", _with_star(signature, parts), back.replace("'", ""))


class _Bare(str):
    """An annotation that is printed as it was written, without quotes."""

    def __repr__(self) -> str:
        return str(self)


def _default(parameter: inspect.Parameter, field: Field[object] | None) -> object:
    """Return the default as one would write it, the same on every machine."""
    value = parameter.default
    if field is not None and field.default_factory is not MISSING:
        value = field.default_factory()
    if value == SHIPPED:
        return _Bare("SHIPPED")
    return _Bare(value.__name__) if inspect.isfunction(value) else value


def _with_star(signature: inspect.Signature, parts: list[str]) -> list[str]:
    """Return the parameters with `*` before the first that can only be named."""
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    named = next((place for place, kind in enumerate(kinds) if kind is inspect.Parameter.KEYWORD_ONLY), None)
    return parts if named is None else [*parts[:named], "*", *parts[named:]]


def _wrapped(name: str, parts: list[str], back: str) -> str:
    line = f"    {name}({', '.join(parts)}){back}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"    {name}(", *(f"        {part}," for part in parts), f"    ){back}"])


def _documentation(value: object) -> str:
    """Return a numpydoc docstring with its sections as lists."""
    first, *rest = _SECTION.split(inspect.cleandoc(value.__doc__ or ""))
    said = [first.strip()]
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        entries = _ENTRY.findall(f"{body.rstrip()}\n")
        listed = [f"- {_names(title, names)}: {' '.join(text.split())}" for names, text in entries]
        said.append(f"**{title}**\n\n" + "\n".join(listed))
    return "\n\n".join(said) + "\n"


def _names(section: str, names: str) -> str:
    return names if section == "Returns" else ", ".join(f"`{name}`" for name in names.split(", "))
