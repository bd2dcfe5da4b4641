"""Attacks on the readers: what is no envelope, and what does not end."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

from tests.field.attacks.attack import Attack
from tests.field.attacks.scene import PAYLOAD, Scene, release, signature, with_release, with_signatures
from tests.field.program import changed
from tests.field.signed import ANNA, EVE, RELEASE, envelope

_GOOD = json.loads(release())
_WHY = "is not a DSSE envelope"


def _of(value: Any) -> Scene:
    return with_release(json.dumps(value).encode())


def _payload(text: str) -> Scene:
    return _of({**_GOOD, "payload": text})


def _signature(sig: str) -> Scene:
    return _of(changed(_GOOD, ["signatures", 0, "sig"], sig))


_SIG = _GOOD["signatures"][0]["sig"]
ENVELOPES = [
    Attack("no envelope", [_of([]), _of(None), with_release(b"x"), with_release(b"\n")], _WHY, "envelope"),
    Attack(
        "a key too many or too few",
        [
            _of({**_GOOD, "more": 1}),
            _of({"payloadType": RELEASE, "payload": _GOOD["payload"]}),
            _of(changed(_GOOD, ["signatures", 0], lambda each: {**each, "cert": ""})),
            _of(changed(_GOOD, ["signatures", 0], {"sig": _SIG})),
        ],
        _WHY,
        "envelope",
    ),
    Attack(
        "values of other types",
        [
            _of({**_GOOD, "signatures": {}}),
            _of({**_GOOD, "payload": None}),
            _of({**_GOOD, "payloadType": 1}),
            _of(changed(_GOOD, ["signatures", 0, "keyid"], 1)),
            _of(changed(_GOOD, ["signatures", 0], _SIG)),
        ],
        _WHY,
        "envelope",
    ),
    Attack(
        "a key of the envelope twice",
        [
            with_release(release().replace(b'{"payloadType"', b'{"payloadType": "x", "payloadType"', 1)),
            with_release(release().replace(b'"payload":', b'"payload": "", "payload":', 1)),
            with_release(release().replace(b'"signatures":', b'"signatures": [], "signatures":', 1)),
        ],
        "one key twice",
        "envelope",
    ),
    Attack(
        "base64 that readers take in two ways",
        [
            _payload(b64encode(b"\xff\xff\xff").decode().replace("/", "_")),
            _payload("MQ"),
            _payload("MQ=="[:3]),
            _payload("MQ==\n"),
            _payload("MQ== "),
            _payload("MR=="),
            _payload("MQ==MQ=="),
            _signature(_SIG + "\n"),
            _signature(_SIG.rstrip("=")),
        ],
        _WHY,
        "envelope",
    ),
    Attack(
        "signatures of other lengths",
        [with_signatures(("", b"x" * size)) for size in (0, 63, 65, 128)],
        _WHY,
        "envelope",
    ),
    Attack(
        "an id without end",
        [with_signatures(("x" * 257, signature(ANNA)[1]), signature(EVE))],
        _WHY,
        "envelope",
    ),
    Attack(
        "an envelope of more than 256 KiB",
        [
            with_release(release() + b" " * 262_144),
            with_release(envelope(PAYLOAD + b" " * 262_144, RELEASE, [signature(ANNA)])),
            with_release(b'{"payload":"' + b"A" * 8_000_000),
        ],
        "more than 262144 bytes",
        "stream",
    ),
    Attack(
        "an envelope that is too deep, or has too many values",
        [
            with_release(b"[" * 100_000),
            with_release(b"[" * 9 + b"]" * 9),
            with_release(b"[" + b"1," * 4096 + b"1]"),
        ],
        _WHY,
        "envelope",
    ),
    Attack(
        "text that is not UTF-8, or has a byte order mark, NUL or half of a surrogate pair",
        [
            with_release(b"\xef\xbb\xbf" + release()),
            with_release(release().replace(b'"keyid": "', b'"keyid": "\xff', 1)),
            with_release(release().replace(b'"keyid": "', b'"keyid": "\\u0000', 1)),
            with_release(release().replace(b'"keyid": "', b'"keyid": "\\ud800', 1)),
        ],
        _WHY,
        "envelope",
    ),
    Attack(
        "something behind the envelope",
        [with_release(release() + b"x"), with_release(release() + release())],
        _WHY,
        "envelope",
    ),
]
