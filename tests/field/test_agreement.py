"""Host and board agree about every field of a statement and of a trust, whatever stands in it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.field.program import Checks, RefusalError, changed
from tests.field.signed import ANNA, NOW, RELEASE, TRUST, public, sign, statement, trust
from toolchain.errors import ToolchainError
from toolchain.releases.envelope import PublicKey, parse_envelope
from toolchain.releases.signed_release import ReleaseKeys, check_release
from toolchain.releases.trust import check_chain

pytestmark = pytest.mark.slow  # the program may have to be compiled

_LENGTHS = (16, 17, 32, 33, 63, 64, 65, 200, 201, 233, 234, 256, 257, 1025)
_WORDS = (
    *("", "a", "A", "_", "-", "_a", "a.b", "a b", "a\n", "ä", "\x80", "\x7f", "\u200b", "a:b", "a+b"),
    *("a+emulated", "ä" * 128, "ä" * 129, *("a" * count for count in _LENGTHS)),
    *(
        "0",
        "0.0",
        "00",
        "0.5",
        "1.",
        ".5",
        "1e5",
        "1E5",
        "1.e5",
        "1e39",
        "1e400",
        "1e-400",
        "1_0",
        "2.27",
        "2.27a",
    ),
    *("1.0.0", "1.0.0-rc.1", "01.0.0", "1.0.0-01", "9007199254740993.0.0", "1.0.0-99999999999999999999"),
    *("cpu", "opencl:", "opencl:x y", "opencl:ä", "values", "equal", "x86_64"),
)
_NUMBERS = (
    0,
    1,
    -1,
    2,
    64,
    4096,
    4097,
    10_000,
    10_001,
    86_400,
    86_401,
    2**31,
    2**53 - 1,
    2**53,
    2**53 + 1,
    1.5,
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, [], {}, [None], ["a", "a"], ["a", "b"], *_WORDS, *_NUMBERS),
    *([word] for word in _WORDS),
    *({"a": word} for word in _WORDS),
    *({word: "a"} for word in _WORDS),
)
_BOARD = sign(trust([ANNA], [ANNA]), TRUST, ANNA)
_KEYS = ReleaseKeys([PublicKey(public(ANNA))], 1)


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _paths(each, (*path, key))


def _ask_trust(checks: Checks, envelope: bytes) -> None:
    checks.ask("trust", envelope)


def _read_trust(envelope: bytes) -> None:
    check_chain([parse_envelope(envelope, TRUST, "it")], "it")


def _ask_release(checks: Checks, envelope: bytes) -> None:
    checks.ask("release", envelope, _BOARD, NOW)


def _read_release(envelope: bytes) -> None:
    check_release(parse_envelope(envelope, RELEASE, "it"), _KEYS, "it", NOW)


def _refuses(read: Callable[[], None]) -> bool:
    try:
        read()
    except (ToolchainError, RefusalError):
        return True
    return False


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("good", "kind", "ask", "read"),
    [
        (statement(), RELEASE, _ask_release, _read_release),
        (trust([ANNA], [ANNA]), TRUST, _ask_trust, _read_trust),
    ],
    ids=["statement", "trust"],
)
def test_both_ends_accept_the_same(
    checks: Checks,
    good: Any,
    kind: str,
    ask: Callable[[Checks, bytes], None],
    read: Callable[[bytes], None],
    count: int,
) -> None:
    changes = [(path, value) for path in _paths(good) for value in _VALUES]
    accepted = 0
    for path, value in random.Random(29).sample(changes, min(count, len(changes))):
        envelope = sign(changed(good, path, value), kind, ANNA)
        refused = _refuses(partial(ask, checks, envelope))
        assert _refuses(partial(read, envelope)) == refused, (path, value)
        accepted += not refused
    assert accepted, "every change was refused: both may refuse all"
