"""A board among two whose server tries to take over the host while a model is tuned."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rpc.test_put_aside import make_a_liar_of
from tests.tuning.plain import plain
from toolchain.boards.board import Board
from toolchain.models.load import Model
from toolchain.records.store import RecordStore
from toolchain.rpc import lab
from toolchain.tuning.events import Event, Notice
from toolchain.tuning.options import TuneOptions
from toolchain.tuning.run.tune import tune

pytestmark = pytest.mark.slow


def test_the_others_go_on_and_it_is_said_what_it_tried(
    boards: list[Board], model: Model, store: RecordStore, state: Path, tmp_path: Path
) -> None:
    (program,) = (state / "emulated" / "a" / "root" / "bin").iterdir()
    make_a_liar_of(program, "take-over", tmp_path)
    events: list[Event] = []
    reasons: list[str | None] = []

    def listen(event: Event) -> None:
        events.append(event)
        if isinstance(event, Notice) and event.text.startswith("board"):
            reasons.append(lab.status().boards["a"].reason)

    how = TuneOptions(trials=3, heaviest=1, repeat=2, min_repeat_ms=1, timeout_s=30)
    result = tune(model, plain(boards[0]), boards, store, how, listen)
    assert result.to_json()["trials"] == 3
    assert result.to_json()["failed"] == 0
    assert result.boards == {"a": 0, "b": 3}
    notices = [event.text for event in events if isinstance(event, Notice)]
    (notice,) = [text for text in notices if text.startswith("board")]
    tried = "board a: its server sent kInitServer, which only a client may say"
    assert notice.startswith("board a is away: ")
    assert tried in notice
    assert reasons == [f"{tried}: it was put aside"]
