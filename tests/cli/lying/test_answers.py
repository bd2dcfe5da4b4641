"""Answers that are no documents, and failures that are told."""

from __future__ import annotations

import pytest

from tests.cli.lying.asking import ESCAPE, Ask, clean, refused
from tests.cli.lying.liar import RUN, Liar

pytestmark = pytest.mark.slow


DOCUMENTS = {
    "empty": b"",
    "no JSON": b"Segmentation fault",
    "a list": b"[]",
    "a number": b"5",
    "null": b"null",
    "two documents": b"{} {}",
    "no UTF-8": b'{"version": "\xff\xfe"}',
    "half a character": b'{"version": "\\ud800"}',
    "escapes": ESCAPE.encode(),
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "deep and whole": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "many digits": b'{"a": 1' + b"0" * 10_000 + b"}",
    "cut off": b'{"version": "1.0',
    "zeros": bytes(1000),
    "large": b'{"a": "' + b"x" * 8_000_000 + b'"}',
    "many": b"[" + b"[]," * 2_000_000 + b"[]]",
}


@pytest.mark.parametrize("verb", ["info", "run", "bench"])
def test_refuses_answer_that_is_no_document(ask: Ask, liar: Liar, verb: str) -> None:
    for document in DOCUMENTS.values():
        liar.say(verb, document)
        ran = ask("verify" if verb in ("info", "run") else verb, "--json")
        clean(ran)
        error = ran.document["error"]
        nothing = verb == "info" and not document.strip()
        assert ran.code == error["code"] == (1 if nothing else 4), ran
        assert "board local" in error["message"] and error["hint"]


CLAIMS = [
    # what it says, with which exit code, ours, and the words that show what it said
    ({"error": {"message": "no such thing"}}, 1, 1, ["no such thing"]),
    ({"error": {"message": f"a{ESCAPE}b"}}, 1, 1, ["run of tiny on board local: a"]),
    ({"error": {"message": "x" * 100_000}}, 1, 1, ["xxx…"]),
    ({"error": {"message": f"wrong {ESCAPE}"}}, 2, 2, ["wrong "]),
    ({"error": {"message": "lacks", "missing": ["a-feature"]}}, 5, 2, ["CPU features a-feature"]),
    ({"error": {"message": "busy", "holder": {"pid": 7, "what": f"bench{ESCAPE}"}}}, 75, 1, ["busy: bench"]),
    ({"error": {"message": f"busy{ESCAPE}", "holder": None}}, 75, 1, ["is busy: busy"]),
    ({"error": {"message": "lacks", "missing": []}}, 5, 4, ["error.missing"]),
    ({"error": {"message": "lacks", "missing": ["another"]}}, 5, 4, ["error.missing is 'another'"]),
    ({"error": {"message": "lacks", "missing": ["cpu"]}}, 5, 4, ["error.missing is 'cpu'"]),
    ({"error": {"message": "lacks", "missing": ["a-feature", "opencl"]}}, 5, 4, ["error.missing is"]),
    ({"error": {"message": "lacks", "missing": "a-feature"}}, 5, 4, ["error.missing"]),
    ({"error": {"message": "lacks", "missing": [ESCAPE]}}, 5, 4, ["error.missing.0"]),
    ({"error": {"message": "lacks", "missing": [1]}}, 5, 4, ["error.missing.0 is 1"]),
    ({"error": {"message": "busy", "holder": "me"}}, 75, 4, ["error.holder is 'me'"]),
    ({"error": {"message": "busy", "holder": {"pid": "7", "what": "x"}}}, 75, 4, ["error.holder.pid is '7'"]),
    ({"error": {"message": "busy", "holder": {"pid": -7, "what": "x"}}}, 75, 4, ["error.holder.pid is -7"]),
    ({"error": {"message": "busy", "holder": {"pid": 7, "what": 1}}}, 75, 4, ["error.holder.what is 1"]),
    ({"error": {"message": None}}, 1, 4, ["error.message is None"]),
    ({"error": {"message": ["no"]}}, 1, 4, ["error.message is a list"]),
    ({"error": {}}, 1, 4, ["error.message is missing"]),
    ({"error": "no"}, 1, 4, ["error is 'no'"]),
    ({"error": []}, 2, 4, ["error is a list of 0"]),
    ({}, 1, 4, ["error is missing"]),
    (RUN, 1, 4, ["error is missing"]),
    ([], 75, 4, ["it is a list of 0"]),
    (b"Killed", 137, 4, ["Invalid JSON", "'Killed'"]),
    (ESCAPE.encode(), 3, 4, ["Invalid JSON"]),
    (b"[" * 100_000, 3, 4, ["Invalid JSON"]),
    (b"", 3, 1, ["gave no answer (exit code 3): it said nothing"]),
    (b"", 255, 1, ["gave no answer (exit code 255)"]),
]


@pytest.mark.parametrize(("answer", "code", "ours", "words"), CLAIMS)
def test_failure_answer_is_reported_or_refused(
    ask: Ask, liar: Liar, answer: object, code: int, ours: int, words: list[str]
) -> None:
    liar.say("run", answer, code)
    refused(ask("run"), *words, code=ours)


@pytest.mark.parametrize("code", [1, 3, 127])
def test_an_info_that_fails(ask: Ask, liar: Liar, code: int) -> None:
    liar.say("info", b"", code, script=f"printf 'edge-rt: {ESCAPE[:-1]} gone' >&2")
    refused(ask("verify"), "edge-rt does not work there", f"exit code {code}", "gone", code=1)


def test_signal_is_reported(ask: Ask, liar: Liar) -> None:
    liar.say("run", b"", script="kill -SEGV $$")
    refused(ask("run"), "crashed with SIGSEGV", code=1)
