"""The table of carriers: what each declares, what it refuses, and carriers of plugins."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import get_args

import pytest

from tests import plugins
from tests.rollouts.toys import delivery, toy_board
from toolchain.errors import MissingError, UsageError
from toolchain.events.rollouts import ReleaseStored
from toolchain.rollouts import carriers
from toolchain.rollouts.carrier import ABILITIES, Ability, Carrier, FilePlace
from toolchain.rollouts.carriers import (
    OWN,
    carrier_of,
    carrier_to,
    export_formats,
    find_carrier,
    fleet_status,
)

METHODS = {"preview": "preview", "status": "status", "rollback": "roll_back"}
BUCKET = """
from toolchain.rollouts.carrier import Carrier
class Bucket(Carrier):
    name, reaches = {name!r}, {reaches!r}
    def address(self, text):
        return text
    def send(self, delivery, place, stop):
        yield from ()
"""


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    carriers.PLUGINS.forget()
    sys.modules.pop("edge_bucket", None)


def install(
    folder: Path, patch: pytest.MonkeyPatch, text: str, name: str = "bucket", package: str = "edge"
) -> None:
    """Install a plugin with one carrier."""
    plugins.install(folder, patch, package, group=carriers.PLUGINS.group, **{name: "edge_bucket:Bucket"})
    (folder / "edge_bucket.py").write_text(text)


@pytest.mark.parametrize("name", OWN)
def test_a_carrier_can_what_it_declares_and_refuses_the_rest(name: str) -> None:
    carrier = find_carrier(name)
    assert carrier.name == name and set(ABILITIES) == set(get_args(Ability)) >= carrier.can
    overridden = {
        ability
        for ability, method in METHODS.items()
        if getattr(type(carrier), method) is not getattr(Carrier, method)
    }
    assert overridden == carrier.can - {"phases"}
    for ability, words in ABILITIES.items():
        if ability in carrier.can:
            carrier.need(ability)
            continue
        with pytest.raises(UsageError, match=f"carrier {name} cannot {words}"):
            carrier.need(ability)


@pytest.mark.parametrize("name", [name for name in OWN if name != "ssh"])
def test_what_is_asked_of_a_carrier_that_cannot_names_it(name: str, tmp_path: Path) -> None:
    carrier, board = find_carrier(name), toy_board(tmp_path / "b")
    for ask in (
        lambda: carrier.preview(delivery(tmp_path), [board], 1),
        lambda: carrier.status([board], 1),
        lambda: carrier.roll_back([board], None, 1),
    ):
        with pytest.raises(UsageError, match=f"carrier {name} cannot"):
            ask()


def test_boards_are_reached_by_one_carrier_at_a_time(tmp_path: Path) -> None:
    board = toy_board(tmp_path / "b")
    assert carrier_of([]).name == carrier_of([board]).name == "ssh"
    other = replace(board, name="c", carrier="mender")
    with pytest.raises(UsageError, match="several carriers: b by ssh, c by mender"):
        carrier_of([board, other])
    with pytest.raises(
        UsageError, match=r"\[boards.c\]: carrier mender brings releases to a file, not to boards"
    ):
        carrier_of([other])
    with pytest.raises(UsageError, match="hawk: there is no such carrier"):
        carrier_of([replace(board, carrier="hawk")])


def test_the_status_of_a_fleet_asks_each_carrier(tmp_path: Path) -> None:
    board = toy_board(tmp_path / "b")
    rows = fleet_status([replace(board, name="c", carrier="oci"), board], 2)
    assert [(row.name, row.state) for row in rows] == [("c", "failed"), ("b", "none")]
    assert rows[0].error is not None and "carrier oci brings releases to an address" in rows[0].error


def test_a_file_has_what_its_event_says(tmp_path: Path) -> None:
    given = delivery(tmp_path)
    (file,) = find_carrier("file").send(given, FilePlace(tmp_path / "out.edge"), Event())
    assert isinstance(file, ReleaseStored) and file.bytes == (tmp_path / "out.edge").stat().st_size
    both = [*find_carrier("file").send(given, FilePlace(tmp_path / "copy", bundle_only=True), Event())]
    assert [event.place for event in both] == [f"{tmp_path}/copy", f"{tmp_path}/copy.release"]


@pytest.mark.parametrize(
    ("name", "option", "says"),
    [("mender", "bundle-only", "--device-type"), ("file", "device-type", "--bundle-only")],
)
def test_an_option_of_another_carrier_is_refused(name: str, option: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"--format {name} cannot be combined with --{option}") as raised:
        find_carrier(name).need_options([option])
    assert says in raised.value.hint


def test_a_plugins_carrier_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert export_formats() == ("file", "mender")
    install(tmp_path, monkeypatch, BUCKET.format(name="bucket", reaches="an address"))
    assert export_formats() == ("file", "mender", "bucket") and "edge_bucket" not in sys.modules
    assert carrier_to("bucket://b/c").name == "bucket" == carrier_to("bucket://b/c").address("bucket")
    assert carrier_to("https://example.org/a:1").name == carrier_to("example.org/a:1").name == "oci"
    with pytest.raises(UsageError, match="--format bucket: carrier bucket brings releases to an address"):
        find_carrier("bucket").need_reach("a file", "--format bucket")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import no_such_module", "cannot be loaded: No module named 'no_such_module'"),
        ("import sys; sys.exit('why')", "cannot be loaded: why"),
        ("Bucket = 3", "edge_bucket:Bucket is no `Carrier` of that name"),
        (BUCKET.format(name="other", reaches="a file"), "edge_bucket:Bucket is no `Carrier` of that name"),
    ],
)
def test_a_broken_plugin_is_named_and_harms_no_other_carrier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    install(tmp_path, monkeypatch, text)
    assert find_carrier("ssh").name == "ssh" and "bucket" in export_formats()
    with pytest.raises(MissingError, match="carrier bucket comes from a plugin") as raised:
        find_carrier("bucket")
    assert says in raised.value.message


def test_a_plugin_cannot_take_the_place_of_a_carrier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, BUCKET.format(name="ssh", reaches="boards"), "ssh")
    assert type(find_carrier("ssh")).__module__ == "toolchain.rollouts.ssh"
    assert "ssh" not in export_formats()
