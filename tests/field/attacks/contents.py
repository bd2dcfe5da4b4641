"""Attacks on what a release is about: its statement, its parts, its time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.field.attacks.attack import Attack, Passes
from tests.field.attacks.scene import PAYLOAD, TOY, Scene, release, restated, with_release
from tests.field.signed import DAY, NOW
from tests.field.toy import Toy

_OTHER = Toy("3.0.0")
_NO_RELEASE = "is not a release"


def _payload(data: bytes) -> Scene:
    return with_release(release(payload=data))


def _edited(change: Callable[[dict[str, Any]], object]) -> Scene:
    return with_release(restated(change))


def _swapped(statement: dict[str, Any]) -> None:
    sample, expected = statement["subject"][3:5]
    sample["digest"], expected["digest"] = expected["digest"], sample["digest"]


def _from_the_other(statement: dict[str, Any]) -> None:
    statement["subject"][2] = _OTHER.statement["subject"][2]


def _in_part(name: str) -> Scene:
    """Return the scene in which one bit of a part is changed, in the bundle and on the way."""
    part = TOY.parts[name]
    broken = part[:-1] + bytes([part[-1] ^ 1])
    parts = b"".join(broken if each == name else content for each, content in TOY.parts.items())
    return replace(Scene(), bundle=TOY.bundle.replace(part, broken), parts=parts)


def _size(index: int, size: int) -> Scene:
    return _edited(lambda statement: statement["predicate"]["sizes"].__setitem__(index, size))


CONTENTS = [
    Attack(
        "another bundle's bytes with this release",
        [replace(Scene(), bundle=_OTHER.bundle, parts=b"".join(_OTHER.parts.values()))],
        "is for another bundle",
        "digest",
    ),
    Attack(
        "one bit of a part is changed",
        [_in_part(name) for name in TOY.parts],
        "is for another bundle",
        "digest",
    ),
    Attack(
        "parts exchanged within a signed statement, or taken from another",
        [_edited(_swapped), _edited(_from_the_other)],
        "names another",
        "digest",
    ),
    Attack(
        "the bundle ends early",
        [replace(Scene(), bundle=TOY.bundle[:1500], parts=Scene().parts[:-1])],
        "is for another bundle",
        "link",
    ),
    Attack(
        "more follows the last part",
        [replace(Scene(), bundle=TOY.bundle + bytes(512), parts=Scene().parts + bytes(1 << 20))],
        "is for another bundle",
        Passes("it reads as many bytes as were signed for, and none of what follows"),
    ),
    Attack(
        "a key of the statement twice",
        [
            _payload(PAYLOAD.replace(b'"app":', b'"app": "other", "app":', 1)),
            _payload(PAYLOAD.replace(b'"sha256":', b'"sha256": "", "sha256":', 1)),
        ],
        _NO_RELEASE,
        "statement",
    ),
    Attack(
        "numbers that readers take in two ways",
        [
            _payload(PAYLOAD.replace(b'"runs": 3', b'"runs": ' + number, 1))
            for number in (b"3.0", b"3e0", b"03", b"+3", b"-0", b"9007199254740993", b"NaN", b"true", b'"3"')
        ],
        _NO_RELEASE,
        "statement",
    ),
    Attack(
        "a signed payload that is no statement",
        [_payload(data) for data in (b"", b"{}", b"[" * 100_000, b"0" * 190_000, b"\xff", PAYLOAD + b"x")],
        _NO_RELEASE,
        "statement",
    ),
    Attack(
        "parts that would be written elsewhere",
        [
            _edited(lambda statement, name=name: statement["subject"][2].update(name=name))  # type: ignore[misc]
            for name in (
                "../library.so",
                "/etc/passwd",
                "sample/../../x",
                "release.json",
                "library.so\0.txt",
                "",
            )
        ],
        _NO_RELEASE,
        "statement",
    ),
    Attack(
        "an app whose folder would lie elsewhere, or on a file of the board",
        [
            _edited(lambda statement, app=app: statement["predicate"].update(app=app))  # type: ignore[misc]
            for app in ("..", "../x", "/x", "lock", "trust.json", "")
        ],
        _NO_RELEASE,
        "statement",
    ),
    Attack(
        "parts larger than a board takes (endless data)",
        [_size(1, 2**31 + 1), _size(0, 2**22 + 1), _size(1, 2**53), _size(1, -1)],
        _NO_RELEASE,
        "statement",
    ),
    Attack(
        "a part that is longer than its bytes", [_size(1, 1 << 20)], "shorter than its release says", "link"
    ),
    Attack("a part that is shorter than its bytes", [_size(1, 10)], "names another", "digest"),
    Attack("the release has expired", [replace(Scene(), now=NOW + 90 * DAY + 1)], "expired on", "expired"),
    Attack(
        "the clock was set back",
        [replace(Scene(), now=NOW - DAY - 1), replace(Scene(), now=0)],
        "from the future",
        "clock",
    ),
]
