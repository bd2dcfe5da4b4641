"""Too much, and without end."""

from __future__ import annotations

import os
import shutil
import time
import tracemalloc

import pytest

from tests.cli.lying.asking import BOUND, Ask, clean, refused
from tests.cli.lying.liar import Liar

pytestmark = pytest.mark.slow


MUCH = 400_000_000


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


def test_refuses_folder_with_too_many_entries(ask: Ask, liar: Liar) -> None:
    runs, old = liar.root / "run", time.time() - 1e6
    for number in range(250):  # of owners that were killed
        folder = runs / str(number)
        folder.mkdir(parents=True)
        os.utime(folder, (old, old))
    for left in (150, 50, 0):
        assert ask("run").code == 0
        assert len([*runs.iterdir()]) == left, "some at a time"
    try:
        for number in range(10_001):
            (runs / str(number)).mkdir()
        begun = time.monotonic()
        ran = ask("run")
        refused(ran, "run has 10001 entries or more; at most 10000 are read", "empty it: ls ")
        assert time.monotonic() - begun < 60
    finally:
        shutil.rmtree(runs)


@pytest.mark.parametrize("script", ["exec yes", "exec yes >&2", "exec sleep 600", "sleep 600 & sleep 600"])
@pytest.mark.parametrize("verb", ["info", "run"])
def test_endless_output_is_ended(
    ask: Ask, liar: Liar, verb: str, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolchain.boards.edge_rt.install._INFO_SECONDS", 0.5)
    liar.say(verb, b"", script=script)
    begun = time.monotonic()
    ran = ask("run", "--timeout", 0.5)
    clean(ran)
    assert ran.code == 1 and ran.says("board local", "did not end within 0.5 s", "hint: "), ran
    assert time.monotonic() - begun < 30
