"""The board's readers of JSON, envelopes, trusts and statements: each text gets an answer or a refusal.

What is tried: trusts and statements with something wrong in one place, and signed, since their readers see
nothing that is not; damaged envelopes; damaged JSON. The program has sanitizers.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.field.program import EDGE_REFUSED, Checks, sanitized
from tests.field.signed import ANNA, BERT, NOW, RELEASE, TRUST, sign, statement, trust
from tests.fuzz.child import Child
from tests.fuzz.json_values import mutated_json
from tests.fuzz.loop import Attempt, run

pytestmark = pytest.mark.slow  # the program may have to be compiled

BOARD = sign(trust([ANNA], [ANNA]), TRUST, ANNA)
KINDS = {"envelope", "signature", "threshold", "trust", "statement", "expired", "clock", "text"}


def damaged(random: Random, data: bytes) -> bytes:
    """Return bytes with a few of them changed, left out or repeated."""
    for _ in range(random.randrange(4)):
        at, size = random.randrange(len(data) + 1), random.choice((0, 1, 5))
        more = random.choice(
            (b"", random.randbytes(2), b'"', b"\\u", b"[" * 20, b"9" * 30, data[at : at + 40])
        )
        data = data[:at] + more + data[at + size :]
    return data


def text(value: Any) -> bytes:
    """Return JSON; a lone surrogate is written as UTF-8 cannot have it."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def asked(random: Random) -> tuple[str, *tuple[bytes | str | int, ...]]:
    """Return a request."""
    match random.randrange(4):
        case 0:
            return "json", damaged(random, text(mutated_json(random, statement())))
        case 1:
            changed = damaged(random, text(mutated_json(random, trust([ANNA, BERT], [BERT], version=2))))
            return "newest", BOARD, sign(changed, TRUST, ANNA, BERT)
        case 2:
            changed = damaged(random, text(mutated_json(random, statement())))
            return "release", sign(changed, RELEASE, ANNA), BOARD, NOW
        case _:
            return "release", damaged(random, sign(statement(), RELEASE, ANNA)), BOARD, NOW


@contextmanager
def harness() -> Iterator[Attempt]:
    """Yield what asks the program once."""
    with tempfile.TemporaryDirectory() as folder, Child([sanitized()], Path(folder) / "words") as child:
        checks = Checks(child)

        def attempt(random: Random) -> None:
            request = asked(random)
            answer = json.loads(checks.text(*request))
            if isinstance(answer, dict) and set(answer) == {"code", "kind", "message"}:
                assert (answer["code"], answer["kind"] in KINDS) == (EDGE_REFUSED, True), answer

        yield attempt


def test_release() -> None:
    run("release", harness, 1, cases=600)
