"""Numbers of things in messages: one board, two boards."""

from __future__ import annotations


def counted(number: int, thing: str, things: str | None = None) -> str:
    """Return a number with its noun, in the plural unless the number is 1.

    Parameters
    ----------
    thing, things
        The noun in the singular, which may have words before it (`more board`), and in the plural; default:
        with an s.
    """
    return f"{number} {thing if number == 1 else things or f'{thing}s'}"
