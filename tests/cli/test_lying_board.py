"""No answer of a board is believed that cannot be right: each verb, each field, each kind of lie."""

from __future__ import annotations

import io
import json
import os
import time
import tracemalloc
import unicodedata
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.boards.sshd import sshd
from tests.cli.conftest import Ran, Toolchain
from tests.cli.liar import BENCH, OUTPUTS, RUN, Liar, npy, npz, outputs_file, tiny_bundle
from toolchain.configuration.settings import configuration
from toolchain.host import host_profile
from toolchain.runtime import ensure_runtime

pytestmark = pytest.mark.slow

ESCAPE = "\x1b]0;mine\x07\x9b31m\r\x00"
MUCH = 400_000_000
BOUND = 100_000_000


@dataclass(frozen=True)
class Lies:
    """A board that lies, and a bundle to run there."""

    liar: Liar
    bundle: Path
    state: Path


@pytest.fixture(scope="module")
def lies(tmp_path_factory: pytest.TempPathFactory) -> Lies:
    folder = tmp_path_factory.mktemp("liar")
    runtime = ensure_runtime({"armv7a": "armv7"}.get(host_profile().arch, host_profile().arch))
    liar = Liar(folder / "state" / "boards" / "local", runtime)
    liar.install()
    return Lies(liar, tiny_bundle(folder / "tiny.bundle"), folder / "state")


@pytest.fixture
def liar(lies: Lies, monkeypatch: pytest.MonkeyPatch) -> Liar:
    monkeypatch.setenv("TOOLCHAIN_STATE_DIR", str(lies.state))
    monkeypatch.setattr(os, "fsync", lambda _: None)  # a third of the time, and nothing here is to survive
    lies.liar.be_honest()
    return lies.liar


@dataclass(frozen=True)
class Ask:
    """The commands whose answers are lies."""

    invoke: Toolchain
    bundle: Path
    folder: Path

    def __call__(self, verb: str, *options: object, board: str = "local") -> Ran:
        if verb == "status":
            return self.invoke("board", "status", board, *options)
        if verb == "provision":
            return self.invoke("board", "provision", board, *options)
        words: list[object] = [verb, self.bundle, "--board", board, "--threads", 1, *options]
        if verb == "run":
            data = self.folder / "x.npy"
            np.save(data, np.ones((1, 3), "float32"))
            words += ["--input", f"x={data}", "-o", self.folder / "out.npz"]
        if verb == "bench" and "--repeat" not in options:
            words += ["--repeat", 3]
        return self.invoke(*words)


@pytest.fixture
def ask(invoke: Toolchain, lies: Lies, folder: Path) -> Ask:
    return Ask(invoke, lies.bundle, folder)


def refused(ran: Ran, *words: str, code: int = 4) -> None:
    """Assert that it was called a lie, in clean words that name board, field and value."""
    clean(ran)
    assert ran.code == code, ran
    assert ran.says("board local", *words), ran.err


def clean(ran: Ran) -> None:
    said = ran.out + ran.err
    assert "bug in the toolchain" not in said, said
    controls = {c for c in said if unicodedata.category(c) == "Cc" and c not in "\n\t"}
    assert not controls, controls
    assert len(said) < 2000, len(said)


def changed(document: dict[str, Any], field: str, value: object) -> dict[str, Any]:
    """Return the document with another value at `a.0.b`; `MISSING` takes it out."""
    copied = json.loads(json.dumps(document))
    at = copied
    *way, last = [int(part) if part.isdigit() else part for part in field.split(".")]
    for part in way:
        at = at[part]
    if value is MISSING:
        del at[last]
    else:
        at[last] = value
    return copied


MISSING = object()
NAN, INF = float("nan"), float("inf")
NO_TEXT = (MISSING, 5, [], {"a": 1}, True, ESCAPE, "x" * 5000)
NO_NUMBER = (MISSING, "abc", "5", NAN, INF, -INF, 10**300, True, [], {}, ESCAPE)
NO_COUNT = (*NO_NUMBER, 1.5, -1)
NO_TIME = (*NO_NUMBER, -1.0, 0, 1e300)
NO_LIST = (MISSING, {}, "abc", 1, None, [5], [None], [[]])

FIELDS: dict[str, dict[str, tuple[object, ...]]] = {
    "info": {
        "version": NO_TEXT,
        "fingerprint": NO_TEXT,
        "machine": NO_TEXT,
        "glibc": (*NO_TEXT, "new", "2.x", "2", "-1.5"),
        "cpu_features": (*NO_LIST, [ESCAPE], ["x"] * 3000),
        "logical_cpus": (*NO_COUNT, 0),
        "governor": NO_TEXT,
        "temperature_c": (*NO_NUMBER, 1e9),
    },
    "run": {
        "outputs": (*NO_LIST, [], RUN["outputs"] * 2),
        "outputs.0.shape": (*NO_LIST, [-1], [1, 5], [4], [1, 1, 4], [1] * 3000, [10**30]),
        "outputs.0.dtype": (*NO_TEXT, "float64", "no-type"),
        "threads": (*NO_COUNT, 0, 2),
    },
    "bench": {
        "times_ms": (*NO_LIST, [], [1.0] * 4, [1.0] * 2),
        "times_ms.1": (*NO_TIME[1:], 1e9),
        "number": (*NO_COUNT, 0),
        "runs": (*NO_COUNT, 4),
        "threads": (*NO_COUNT, 0, 2),
        "spin_us": NO_COUNT,
        "peak_rss_mib": (*NO_NUMBER, -0.5),
        "governor": NO_TEXT,
        "temperature_c": (*NO_NUMBER, 1e9),
        "operators": NO_LIST,
        "operators.0.name": NO_TEXT[:5],
        "operators.0.calls": (*NO_NUMBER, -1),
        "operators.0.ms": (*NO_NUMBER, -1),
    },
}
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


def test_the_truth_is_taken(ask: Ask, liar: Liar, folder: Path) -> None:
    assert liar.root.is_dir()
    ran = ask("run", "--json")
    assert ran.code == 0, ran.err
    with np.load(folder / "out.npz") as written:
        assert {name: written[name].tolist() for name in written.files} == {
            name: array.tolist() for name, array in OUTPUTS.items()
        }
    assert ask("verify", "--json").document["passed"] is True
    timed = ask("bench", "--profile", "--json").document
    assert (timed["mean_ms"], timed["runs"], timed["operators"]) == (1.5, 3, BENCH["operators"])
    assert ask("status", "--json").document[0]["edge_rt"] == "1.0.0"


def test_the_table_is_large() -> None:
    assert sum(len(values) for fields in FIELDS.values() for values in fields.values()) > 200


@pytest.mark.parametrize(
    ("verb", "field"), [(verb, field) for verb, fields in FIELDS.items() for field in fields]
)
def test_a_field_that_cannot_be_right(ask: Ask, liar: Liar, verb: str, field: str) -> None:
    truth = json.loads((liar.root / "lie" / verb).read_bytes())
    options = ("--profile",) if verb == "bench" else ()
    told = "run" if verb == "info" else verb
    for value in FIELDS[verb][field]:
        liar.say(verb, changed(truth, field, value))
        refused(ask(told, *options), f"`edge-rt {verb}`", field.split(".")[0], "edge-rt anew")


@pytest.mark.parametrize("verb", ["info", "run", "bench"])
def test_a_document_that_is_none(ask: Ask, liar: Liar, verb: str) -> None:
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
def test_a_failure_is_told_or_refused(
    ask: Ask, liar: Liar, answer: object, code: int, ours: int, words: list[str]
) -> None:
    liar.say("run", answer, code)
    refused(ask("run"), *words, code=ours)


@pytest.mark.parametrize("code", [1, 3, 127])
def test_an_info_that_fails(ask: Ask, liar: Liar, code: int) -> None:
    liar.say("info", b"", code, script=f"printf 'edge-rt: {ESCAPE[:-1]} gone' >&2")
    refused(ask("verify"), "edge-rt does not work there", f"exit code {code}", "gone", code=1)


def test_a_signal_is_told(ask: Ask, liar: Liar) -> None:
    liar.say("run", b"", script="kill -SEGV $$")
    refused(ask("run"), "crashed with SIGSEGV", code=1)


Y, FOUND, N = OUTPUTS.values()


def files() -> Iterator[Any]:
    right = outputs_file(OUTPUTS)
    members = [(f"{place}.npy", npy(array)) for place, array in enumerate(OUTPUTS.values())]

    def but(place: int, data: bytes, name: str | None = None) -> bytes:
        named = [*members]
        named[place] = (name or named[place][0], data)
        return npz(named)

    def archive(compression: int) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", compression) as written:
            for name, data in members:
                written.writestr(name, data)
        return buffer.getvalue()

    pickled = io.BytesIO()
    np.save(pickled, np.array([{"a": 1}], object), allow_pickle=True)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("0.npy", bytes(50_000_000))
    flipped = bytearray(right)
    flipped[len(right) // 3] ^= 1
    yield from {
        "nothing": b"",
        "no zip": b"x" * len(right),
        "cut off": right[:-1],
        "half": right[: len(right) // 2],
        "more": right + b"\0",
        "a bit": bytes(flipped),
        "other dtype": but(0, npy(Y.astype("float64"))),
        "other order": but(0, npy(Y.astype(">f4"))),
        "same size": but(0, npy(Y.view("int32"))),
        "other shape": but(0, npy(Y.reshape(4))),
        "huge shape": but(0, npy(Y, "4294967296,4294967296,")),
        "negative shape": but(0, npy(Y, "-1,4,")),
        "shape of code": but(0, npy(Y, "print('x'),")),
        "pickled": but(0, pickled.getvalue()),
        "no array": but(0, b"\x93NUMPY\x03\x00"),
        "no bool": but(1, npy(FOUND.view("uint8") * 2).replace(b"|u1", b"|b1")),
        "wrong name": but(2, npy(N), "n.npy"),
        "path as name": but(2, npy(N), "../../x.npy"),
        "a name twice": but(2, npy(N), "1.npy"),
        "one too few": npz(members[:2]),
        "one too many": npz([*members, members[0]]),
        "none": npz([]),
        "64-bit lengths": right.replace(
            b"PK\5\6", b"PK\6\6" + b"\xff" * 52 + b"PK\6\7" + bytes(16) + b"PK\5\6"
        ),
        "another writer": archive(zipfile.ZIP_STORED),
        "deflated": archive(zipfile.ZIP_DEFLATED),
        "a bomb": bomb.getvalue(),
    }.items()


@pytest.mark.parametrize("content", [pytest.param(data, id=name) for name, data in files()])
def test_outputs_that_are_not_the_bundles(ask: Ask, liar: Liar, folder: Path, content: bytes) -> None:
    (liar.root / "lie" / "out.npz").write_bytes(content)
    ran = ask("run")
    clean(ran)
    assert ran.code == 4 and "out.npz" in ran.err, ran
    assert not (folder / "out.npz").exists()


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ('rm "$out"', 1, "has no file"),
        ('rm "$out"; mkfifo "$out"', 1, "has no file"),
        ('rm "$out"; ln -s /dev/zero "$out"', 1, "has no file"),
        ('rm "$out"; mkdir "$out"', 1, "has no file"),
        ('rm "$out"; ln -s nothing "$out"', 1, "has no file"),
        ("rm -r run", 1, "has no file"),
        ('truncate -s 100G "$out"', 4, "has more than the"),
    ],
)
def test_outputs_that_are_no_file(ask: Ask, liar: Liar, script: str, code: int, words: str) -> None:
    liar.say("run", RUN, script=script)
    ran = ask("run")
    clean(ran)
    assert ran.code == code and ran.says(words), ran
    assert not [*(liar.root / "run").glob("*")]


@pytest.mark.parametrize(
    ("verb", "script", "code"),
    [
        ("info", f"head -c {MUCH} /dev/zero", 4),
        ("run", f"head -c {MUCH} /dev/zero; exit 1", 4),
        ("bench", f"head -c {MUCH} /dev/zero | tr '\\0' '['", 4),
        ("run", f"head -c {MUCH} /dev/zero >&2; exit 1", 1),
    ],
)
def test_much_output_takes_little_memory(ask: Ask, liar: Liar, verb: str, script: str, code: int) -> None:
    ask("verify" if verb != "bench" else verb)  # what is imported is not of this
    liar.say(verb, b"", script=script)
    tracemalloc.start()
    try:
        ran = ask("verify" if verb != "bench" else verb, "--timeout", 100)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    clean(ran)
    assert ran.code == code, ran
    assert code == 1 or ran.says(f"it has {MUCH} bytes"), ran.err
    assert peak < BOUND


@pytest.mark.parametrize("script", ["exec yes", "exec yes >&2", "exec sleep 600", "sleep 600 & sleep 600"])
@pytest.mark.parametrize("verb", ["info", "run"])
def test_what_never_ends_is_ended(
    ask: Ask, liar: Liar, verb: str, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolchain.boards.edge_rt.install._INFO_SECONDS", 0.5)
    liar.say(verb, b"", script=script)
    begun = time.monotonic()
    ran = ask("run", "--timeout", 0.5)
    clean(ran)
    assert ran.code == 1 and "did not end within 0.5 s" in ran.err, ran
    assert time.monotonic() - begun < 30


def test_a_scratch_folder_that_is_not_there(ask: Ask, liar: Liar, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolchain.boards.local.transport import LocalTransport

    assert liar.root.is_dir()
    whole = LocalTransport.listing
    monkeypatch.setattr(LocalTransport, "listing", lambda *at: {} if at[1] == "run" else whole(*at))
    refused(ask("run"), "the listing of its folder run", "is missing")


def system_says(liar: Liar, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the board's `sh` print a file, whatever it is asked; return the file."""
    programs = folder / "programs"
    programs.mkdir()
    lines = folder / "lines"
    (programs / "sh").write_text(f"#!/bin/sh\ncat {lines}\n")
    (programs / "sh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert liar.root.is_dir()
    return lines


STATE = {
    "load_1min": ("abc", "nan", "inf", "-1", "1e400", ESCAPE[:-3], "[]"),
    "uptime_s": ("abc", "nan", "1.5", "-3", "9" * 5000),
    "millidegrees": ("abc", "²", "nan", "9" * 400, "9" * 5000),
    "governor": (ESCAPE[:-3], "x" * 5000),
    "memory_free_kib": ("inf", "-1", "1" * 300),
    "disk_free_kib": ("nan", "abc", "1" * 300),
    "node": (ESCAPE[:-3],),
}


@pytest.mark.parametrize("field", STATE)
def test_a_state_that_cannot_be(
    ask: Ask, liar: Liar, folder: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    lines = system_says(liar, folder, monkeypatch)
    for value in STATE[field]:
        lines.write_text(f"{field}={value}\nother=1\n")
        ran = ask("status")
        clean(ran)
        assert ran.code == 1 and ran.out.startswith("local") and field in ran.out, ran
    document = ask("status", "--json").document[0]
    assert field in document["error"] and document["load_1min"] is None


@pytest.mark.parametrize(
    "said",
    [b"{", b"[" * 50_000, ESCAPE.encode(), b'{"version": 5}', b'{"version": "\\u001b"}', b"x" * 100_000],
)
def test_a_broken_edge_rt_is_shown_by_status(ask: Ask, liar: Liar, said: bytes) -> None:
    liar.say("info", said)
    ran = ask("status")
    clean(ran)
    assert ran.code == 0 and "edge-rt broken: " in ran.out, ran


SAYS = {
    "edge-toolchain facts 1": (" ", "Last login"),
    "machine=M": (" ", f"machine={ESCAPE[:-3]}"),
    "user=me": (f"user={ESCAPE[:-3]}", "user=" + "x" * 5000),
    "mode=700": ("mode=999", "mode=rwx", "mode=-1"),
    "free_kib=99999999": ("free_kib=abc", "free_kib=nan", "free_kib=-5", "free_kib=" + "9" * 5000),
    "clock=NOW": ("clock=abc", "clock=1" + "0" * 300, "clock=-1", "clock=inf"),
    "writable=yes": ("writable=", "writable=perhaps"),
    "sudo=none": ("sudo=always",),
    "record=": ("record=[]", "record={", "record=" + "[" * 100_000, 'record={"governors": {"a": 5}}'),
    "entry=bin": ("policy=a", "file=nan nan x", "file=1 2", "link=x", "colour=blue"),
}


@pytest.mark.parametrize("line", SAYS)
def test_provisioning_believes_no_facts_that_cannot_be(
    ask: Ask, liar: Liar, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    said = system_says(liar, folder, monkeypatch)
    lines = [*SAYS, "bits=64", "glibc=glibc 9.9", "uid=1000", "home=/home/me", "root=/home/me/x", "end"]
    for lie in ("", *SAYS[line]):
        text = "\n".join(lie if lie and each == line else each for each in lines) + "\n"
        text = text.replace("machine=M", f"machine={host_profile().arch}")
        said.write_text(text.replace("NOW", f"{time.time():.0f}"))
        ran = ask("provision", "--dry-run")
        clean(ran)
        if lie:
            assert ran.code in (1, 4) and ran.says("board local", "hint: "), ran
        else:
            assert ran.code == 0, ran


@pytest.mark.parametrize(
    ("verb", "answer", "script", "words"),
    [
        ("info", changed({"version": "1"}, "machine", ESCAPE), "", ["board far", "`edge-rt info`"]),
        ("run", changed(RUN, "threads", "abc"), "", ["threads is 'abc'"]),
        ("run", RUN, 'head -c 60000000 /dev/zero >"$out"', ["out.npz has more than the"]),
        ("run", b"", "head -c 20000000 /dev/zero", ["it has 20000000 bytes"]),
        ("run", RUN, 'rm "$out"; ln -s /dev/zero "$out"', ["no file"]),
        ("run", b"", "head -c 20000000 /dev/zero >&2; exit 3", ["exit code 3"]),
        ("run", b"", "exec yes", ["did not end within 1 s"]),
    ],
)
def test_a_lie_over_ssh(
    far: Liar, ask: Ask, verb: str, answer: object, script: str, words: list[str]
) -> None:
    far.say(verb, answer, script=script)
    tracemalloc.start()
    try:
        ran = ask("run", "--timeout", 1 if script == "exec yes" else 60, board="far")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    clean(ran)
    assert ran.code in (1, 4) and ran.says(*words), ran
    assert peak < BOUND


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def far(server: Any, liar: Liar, folder: Path) -> Liar:
    """The same liar behind a real sshd, as the board `far`."""
    address = server.address()
    entry = {
        "class": host_profile().name,
        "host": address.host,
        "port": address.port,
        "user": address.user,
        "host_key": address.host_key,
        "identity": str(address.identity),
        "root": str(liar.root),
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in entry.items()]
    (folder / "toolchain.toml").write_text("[boards.far]\n" + "\n".join(lines) + "\n")
    configuration.cache_clear()
    return liar
