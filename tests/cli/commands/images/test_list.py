"""`toolchain image list`."""

from __future__ import annotations

from tests.cli.running import Toolchain
from toolchain.images.catalogue import catalogue


def test_list_has_every_image_of_the_table(invoke: Toolchain) -> None:
    ran = invoke("image", "list", "--json")
    assert ran.code == 0
    assert [row["name"] for row in ran.document] == list(catalogue())
    for row in ran.document:
        assert row["tag"] == catalogue()[row["name"]].tag
        assert (row["size_mib"] is None) == (row["id"] is None) == (row["state"] == "absent")
        assert row["stale"] == (row["state"] != "current")
    assert invoke("image", "list").out.splitlines()[0].split() == ["NAME", "TAG", "SIZE", "AGE", "STATE"]
