"""Attacks that a lying or deceived host makes on one board: what is right elsewhere, or was right once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.field.attacks.attack import Attack, Passes
from tests.field.attacks.scene import FIRST, ROOT, Scene, restated, successor
from tests.field.signed import BERT, CARA, EVE

_VERIFY = Passes("`verify` knows no board; `deploy --dry-run` and the board ask what runs there")
_NO_STREAM = Passes("the host reads two files, no stream")
REVOKED = successor(*ROOT, release=[BERT, CARA, EVE])
OTHER, THIRD = successor(*ROOT), successor(*ROOT, version=3)


def _said(**header: object) -> Scene:
    return replace(Scene(), header=header)


def _after(*installed: str, **more: Any) -> Scene:
    return replace(Scene(), installed=installed, **more)


def _stream(old: bytes, new: bytes) -> Scene:
    return replace(Scene(), stream=lambda data: data.replace(old, new, 1))


def _other_bundle(statement: dict[str, Any]) -> None:
    statement["subject"][0]["digest"]["sha256"] = "cd" * 32


BOARDS = [
    Attack(
        "rollback: an older version than is installed, or was",
        [_after("2.0.1"), _after("3.0.0-rc.1"), _after("2.0.1", header={"downgrade": True})],
        _VERIFY,
        "version",
    ),
    Attack(
        "rollback to a version that the board's policy allows",
        [_after("2.0.1", header={"downgrade": True}, policy={"downgrade": True})],
        _VERIFY,
        Passes("the host's operator and the board's owner both want it"),
    ),
    Attack(
        "freeze: an old release where the host knows a newer one",
        [_said(newest="2.0.1")],
        _VERIFY,
        "version",
    ),
    Attack(
        "another bundle under the installed version",
        [
            _after("2.0.0", release=restated(_other_bundle)),
            _after(
                "2.0.0",
                release=restated(_other_bundle),
                header={"downgrade": True},
                policy={"downgrade": True},
            ),
        ],
        "is for another bundle",
        "version",
    ),
    Attack(
        "a board of another class",
        [
            *(_said(**{"class": name}) for name in ("pynq", "rk339", "rk3399 ", "RK3399", "rk3399+emulated")),
            _said(**{"class": None}),
            replace(Scene(), policy={"class": "pynq"}),
        ],
        Passes("`verify` knows no board; `deploy` and the board compare the class"),
        "class",
    ),
    Attack(
        "a trust from before a key was revoked",
        [replace(Scene(), had=REVOKED)],
        Passes("its trust file is whole; the board has the newer trust"),
        "trust",
    ),
    Attack(
        "a fork of the trust, by root keys that signed two successors",
        [replace(Scene(), had=REVOKED, trusts=trusts) for trusts in ([FIRST, OTHER], [FIRST, OTHER, THIRD])],
        Passes("each branch is a whole trust file; the board has the other"),
        "trust",
    ),
    Attack("the release of another app", [_said(app="another")], _NO_STREAM, "app"),
    Attack(
        "a stream that is none",
        [
            _stream(b"edge-release 1", b"edge-release 2"),
            _stream(b"edge-release 1\n", b""),
            _stream(b'"newest": null', b'"newest": null, "newest": "9.0.0"'),
            _said(more=1),
            _said(**{"class": ""}),
            _said(newest="2"),
            _said(app="../x"),
            _said(trust=[-1]),
            _said(release=2**53),
            replace(Scene(), stream=lambda data: data.replace(b"\n{", b"\n" + b" " * 5000 + b"{", 1)),
        ],
        _NO_STREAM,
        "stream",
    ),
    Attack(
        "a stream that stops",
        [replace(Scene(), stream=lambda data: data[:-1]), replace(Scene(), stream=lambda data: data[:200])],
        _NO_STREAM,
        "link",
    ),
]
