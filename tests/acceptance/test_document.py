"""The document: what it may hold, and what is refused when it is read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.acceptance.documents import document, step, verified
from toolchain.acceptance.document import MOST_BYTES, read_acceptance
from toolchain.errors import UsageError

GOOD = document(step("facts"), step("verify:cpu:mobilenet", verified()))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(GOOD.text())
    assert read_acceptance(tmp_path / "x.json") == GOOD


def changed(**values: Any) -> str:
    return json.dumps({**json.loads(GOOD.text()), **values})


def step_changed(**values: Any) -> str:
    found = json.loads(GOOD.text())
    found["steps"][1].update(values)
    return json.dumps(found)


def measured_changed(**values: Any) -> str:
    found = json.loads(GOOD.text())
    found["steps"][1]["found"].update(values)
    return json.dumps(found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "JSON"),
        ("[]", "no acceptance"),
        ("{" * 5000, "JSON"),
        (changed(schema_version=2), "schema_version"),
        (changed(board="bobs-board"), "board"),
        (changed(board_class="../rk3399"), "board_class"),
        (changed(board_class="<script>"), "board_class"),
        (changed(edge_rt="x" * 12), "edge_rt"),
        (changed(date="today"), "date"),
        (changed(emulated="no"), "emulated"),
        (changed(steps=[{"name": "facts", "result": "passed"}] * 2), "twice"),
        (step_changed(result="perfect"), "result"),
        (step_changed(result="failed"), "needs a reason"),
        (step_changed(reason="\x1b[31mred"), "reason"),
        (step_changed(seconds=-1), "seconds"),
        (measured_changed(kind="other"), "kind"),
        (measured_changed(error=-1.0), "error"),
        (measured_changed(network="a | b"), "network"),
        (measured_changed(network="x" * 200), "network"),
        (measured_changed(host="rock.example.org"), "host"),
        (GOOD.text().replace("0.00001", "NaN"), "error"),
        (GOOD.text().replace("0.00001", "1e999"), "error"),
    ],
)
def test_hostile_files_are_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(UsageError) as refused:
        read_acceptance(file)
    assert says in refused.value.message and str(file) in refused.value.message
    assert refused.value.message.isprintable()


def test_what_is_no_file_of_that_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b" " * (MOST_BYTES + 1))
    os.mkfifo(tmp_path / "pipe")
    for name, says in (("large", "bytes"), ("pipe", "pipe"), ("none", "No such file"), ("", "folder")):
        with pytest.raises(UsageError, match=says):
            read_acceptance(tmp_path / name)


def test_a_result_that_is_not_good_explains_itself() -> None:
    with pytest.raises(ValidationError, match="needs a reason"):
        step("facts", result="skipped")
    assert not document(step("facts", result="failed", reason="wrong numbers")).passed
    assert document(step("facts", result="missed", reason="slow")).passed
