"""All attacks, and the page that shows them: `python -m tests.field.attacks.table` writes it."""

from __future__ import annotations

from pathlib import Path

from tests.field.attacks.attack import Attack, Passes
from tests.field.attacks.boards import BOARDS
from tests.field.attacks.contents import CONTENTS
from tests.field.attacks.envelopes import ENVELOPES
from tests.field.attacks.scene import Scene
from tests.field.attacks.signatures import SIGNATURES
from tests.field.attacks.trusts import TRUSTS
from toolchain.files.atomic import write_bytes

PAGE = Path(__file__).parents[3] / "docs" / "field-attacks.md"
_RIGHT = Passes("all is right")
GOOD = Attack("none", [Scene()], _RIGHT, _RIGHT)
"""What every other row changes in one respect."""

TABLE = {
    "Who signed": SIGNATURES,
    "Whose signatures count": TRUSTS,
    "Envelopes": ENVELOPES,
    "What is signed": CONTENTS,
    "One board": BOARDS,
}
ATTACKS = [GOOD, *(attack for section in TABLE.values() for attack in section)]


def page() -> str:
    """Return the text of the page."""
    lines = [
        "# Attacks on releases",
        "",
        "Made by `python -m tests.field.attacks.table`; tests/field/test_attacks.py makes each of them, in",
        "every way, against the functions of `toolchain release verify` and against a board's installer.",
        "The trust wants two root keys, and two of three release keys. A cell has words of the host's error,",
        "or the code of the board's cause; the board is then as it was before. That both ends accept the",
        "same statements and trusts, whatever their fields hold, tests/field/test_agreement.py compares.",
    ]
    for title, attacks in TABLE.items():
        lines += ["", f"## {title}", "", "| attack | host | board |", "|---|---|---|", *map(str, attacks)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_bytes(PAGE, page().encode())
