"""The same lies behind an SSH server."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.boards.ssh.sshd import sshd
from tests.cli.lying.asking import BOUND, ESCAPE, Ask, changed, clean
from tests.cli.lying.liar import RUN, Liar
from toolchain.configuration.settings import configuration
from toolchain.host import host_profile

pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize(
    ("verb", "answer", "script", "words"),
    [
        ("info", changed({"version": "1"}, "machine", ESCAPE), "", ["board far", "`edge-rt info`"]),
        ("run", changed(RUN, "threads", "abc"), "", ["threads is 'abc'"]),
        ("run", RUN, 'head -c 60000000 /dev/zero >"$out"', ["out.npz has more than the"]),
        ("run", b"", "head -c 20000000 /dev/zero", ["it has 20000000 bytes"]),
        ("run", RUN, 'rm "$out"; ln -s /dev/zero "$out"', ["no file"]),
        ("run", RUN, 'rm "$out"; ln -s /proc/self/mem "$out"', ["board far", "cannot read"]),
        ("run", b"", "head -c 20000000 /dev/zero >&2; exit 3", ["exit code 3"]),
        ("run", b"", "exec yes", ["did not end within 1 s"]),
    ],
)
def test_refuses_false_answer_over_ssh(
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
