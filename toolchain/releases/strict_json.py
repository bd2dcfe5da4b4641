"""Reads JSON as strictly as boards do, so that host and board never read one payload in two ways."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

MOST_BYTES = 262144
MOST_VALUES = 4096
DEEPEST = 8
LARGEST = 2**53  # every integer up to it is exact in a double, which other readers may use

_SURROGATE = re.compile("[\ud800-\udfff]")


def parse(data: bytes) -> Any:
    """Return the value of a JSON document with integers alone.

    Raises
    ------
    ValueError
        It is no such document, or it exceeds a limit of docs/release-format.md.
    """
    if len(data) > MOST_BYTES:
        raise ValueError(f"it has {len(data)} bytes, more than the {MOST_BYTES} allowed")
    if data.startswith(b"\xef\xbb\xbf"):
        raise ValueError("it begins with a byte order mark")
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_float=_refuse_float,
            parse_constant=_refuse_float,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON (line {error.lineno}, column {error.colno})") from None
    except UnicodeDecodeError:
        raise ValueError("it is not text in UTF-8") from None
    except RecursionError:
        raise ValueError(f"it is nested deeper than {DEEPEST} levels") from None
    if (count := _check(value, 0)) > MOST_VALUES:
        raise ValueError(f"it has {count} values, more than the {MOST_VALUES} allowed")
    return value


def dump(value: Any) -> bytes:
    """Return the shortest JSON of a value, as UTF-8 on one line."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has one key twice")
    return found


def _refuse_float(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is not an integer")


def _integer(text: str) -> int:
    if len(text) > 17 or text == "-0" or abs(int(text)) > LARGEST:
        raise ValueError(f"{text[:40]} is not an integer between -2^53 and 2^53")
    return int(text)


def _check(value: Any, depth: int) -> int:
    """Return how many values there are in `value`, itself included; refuse depth and odd characters."""
    if isinstance(value, str):
        _check_text(value)
        return 1
    if not isinstance(value, dict | list):
        return 1
    if depth == DEEPEST:
        raise ValueError(f"it is nested deeper than {DEEPEST} levels")
    if isinstance(value, list):
        return 1 + sum(_check(each, depth + 1) for each in value)
    for key in value:
        _check_text(key)
    return 1 + sum(_check(each, depth + 1) for each in value.values())


def _check_text(text: str) -> None:
    if "\0" in text or _SURROGATE.search(text):
        raise ValueError("a text has a NUL or half of a surrogate pair")
