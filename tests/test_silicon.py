"""docs/silicon.md and the README's column "on silicon" say what the files of real boards say, and no more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.silicon_page import PAGE, devices_on_silicon, documents, page, said_in_readme
from tests.acceptance.documents import document, step, verified
from toolchain.errors import UsageError
from toolchain.profiles import class_names

README = Path(__file__).parent.parent / "README.md"
BY_HAND = {("x86_64", "opencl"): "NVIDIA H100"}
"""What the README says of a device that no file is about."""
KINDS = {"VTA": "vta", "Mali": "opencl", "OpenCL": "opencl", "NVIDIA": "cuda"}


def rows() -> list[tuple[str, str, str]]:
    """Return class, kind of device and the last column of each row of the README's table of boards."""
    table = README.read_text().partition("| board class | device |")[2].partition("\n\n")[0]
    found, board_class = [], ""
    for line in table.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        board_class = cells[0].strip("| `") or board_class
        kind = next((kind for word, kind in KINDS.items() if word in cells[1]), "cpu")
        found.append((board_class, kind, cells[-1]))
    return found


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page(documents()), "stale: run `make docs`"


def test_the_readme_has_every_class() -> None:
    assert {board_class for board_class, _, _ in rows()} == set(class_names())


@pytest.mark.parametrize(("board_class", "kind", "says"), rows())
def test_the_readme_says_what_the_files_say(board_class: str, kind: str, says: str) -> None:
    wanted = said_in_readme(board_class, kind, documents())
    if wanted == "never" and (board_class, kind) in BY_HAND:
        wanted = BY_HAND[board_class, kind]
    assert wanted in says, f"{board_class}, {kind}: {says!r} where the files in docs/silicon say {wanted!r}"


def test_without_files_the_page_says_that_there_are_none() -> None:
    assert "None yet" in page([])


def test_a_file_makes_the_page_and_the_column() -> None:
    found = [("rk3399.json", document(step("verify:cpu:mobilenet", verified())))]
    text = page(found)
    assert "| `rk3399` |" in text and "mobilenet" in text and "None yet" not in text
    assert re.search(r"\[2026-11-27\]", said_in_readme("rk3399", "cpu", found))
    assert said_in_readme("rk3399", "opencl", found) == "never"
    assert said_in_readme("pynq", "cpu", found) == "never"


def test_neither_wrong_numbers_nor_a_simulation_count() -> None:
    wrong = step(
        "verify:cpu:resnet-18", verified(network="resnet-18"), result="failed", reason="wrong numbers"
    )
    assert devices_on_silicon(document(step("verify:cpu:mobilenet", verified()), wrong)) == set()
    simulated = step("verify:vta:resnet-18-int8", verified(device="vta", real=False))
    assert devices_on_silicon(document(simulated)) == set()


def test_an_emulated_board_has_no_place_there(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(document(emulated=True).text())
    with pytest.raises(UsageError, match="emulated"):
        documents(tmp_path)
