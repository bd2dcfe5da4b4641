"""`toolchain init`."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.running import Toolchain
from toolchain.configuration.keys import Settings, starter_text
from toolchain.configuration.settings import read_configuration


def test_the_file_has_every_key_and_changes_nothing(invoke: Toolchain, folder: Path) -> None:
    before = read_configuration(folder, {}).settings
    ran = invoke("init", "--json")
    assert ran.code == 0 and ran.document == {"file": str(folder / "toolchain.toml")}
    assert read_configuration(folder, {}).settings == before


def test_every_line_is_good_once_its_comment_sign_is_gone(folder: Path) -> None:
    keys = re.sub(r"^# (\w+ = )", r"\1", starter_text(), flags=re.MULTILINE)
    (folder / "toolchain.toml").write_text(keys)
    found = read_configuration(folder, {})
    assert found.settings == Settings()
    assert set(found.origins.values()) == {str(folder / "toolchain.toml")}


def test_a_key_that_the_environment_holds_is_marked() -> None:
    text = starter_text({"TOOLCHAIN_JOBS": "3", "TOOLCHAIN_RECORDS_URL": "postgresql://me:secret@host/x"})
    marked = [line for line in text.splitlines() if " is set now, and counts instead" in line]
    assert marked == [
        f"# TOOLCHAIN_{name} is set now, and counts instead of this file." for name in ("RECORDS_URL", "JOBS")
    ]
    assert "secret" not in text and " is set now" not in starter_text({})


def test_existing_file_is_not_changed(invoke: Toolchain, folder: Path) -> None:
    (folder / "toolchain.toml").write_text("jobs = 1  # mine\n")
    ran = invoke("init")
    assert ran.code == 2 and ran.says(str(folder / "toolchain.toml"), "hint: ")
    assert (folder / "toolchain.toml").read_text() == "jobs = 1  # mine\n"
    assert [path.name for path in folder.iterdir()] == ["toolchain.toml"]
