"""`toolchain image build`."""

from __future__ import annotations

from tests.cli.running import Toolchain


def test_a_dry_run_makes_nothing_and_names_foundations(invoke: Toolchain) -> None:
    ran = invoke("image", "build", "armhf", "--no-cache", "--dry-run", "--json")
    assert ran.code == 0
    assert [row["name"] for row in ran.document] == ["base", "armhf"]
    assert ran.document[1]["make"] is True
