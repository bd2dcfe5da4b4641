"""The state that lets a later call go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.documents import step, verified
from toolchain.acceptance.state import AcceptState, begin_state, read_state, state_file, write_state

FRESH = AcceptState(toolchain="1", edge_rt="ab", record_class="rk3399", identity="", date="2026-11-28")


@pytest.fixture
def kept(state: Path) -> Path:
    """Return the file of a state with a step."""
    file = state_file("b")
    assert file.is_relative_to(state)
    before = FRESH.model_copy(
        update={
            "date": "2026-11-27",
            "steps": {"verify:cpu:mobilenet": step("verify:cpu:mobilenet", verified())},
            "uploads": ("lib/1.so",),
        }
    )
    write_state(file, before)
    return file


def test_a_later_call_goes_on(kept: Path) -> None:
    found = begin_state(kept, FRESH, again=False)
    assert found.date == "2026-11-27" and found.steps["verify:cpu:mobilenet"].found == verified()
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "other", [{"toolchain": "2"}, {"edge_rt": "cd"}, {"record_class": "rk3399+emulated"}, {"identity": "1"}]
)
def test_with_other_versions_it_begins_anew(kept: Path, other: dict[str, str]) -> None:
    found = begin_state(kept, FRESH.model_copy(update=other), again=False)
    assert found.steps == {} and found.date == "2026-11-28"


def test_fresh_repeats_all_and_still_knows_what_was_on_the_board(kept: Path) -> None:
    found = begin_state(kept, FRESH, again=True)
    assert found.steps == {} and found.uploads == ("lib/1.so",)


@pytest.mark.parametrize("text", ["", "{", '{"schema_version": 2}', "[]"])
def test_a_broken_state_is_none(kept: Path, text: str) -> None:
    kept.write_text(text)
    assert read_state(kept) is None and begin_state(kept, FRESH, again=False) is FRESH
