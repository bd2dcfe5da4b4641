"""The table `power` of a board: forms that are allowed, errors for others, and no secret in any of them."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from toolchain.configuration.file import FILE_NAME
from toolchain.configuration.power import PowerCommands
from toolchain.configuration.settings import configuration, read_configuration
from toolchain.errors import UsageError

KEY = "ssh-ed25519 " + b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32)).decode()
WORD = "s3cret"


def read(folder: Path, power: str, host: str = "h") -> PowerCommands | None:
    entry = f'class = "rk3399"\nhost = "{host}"\nhost_key = "{KEY}"'
    if host == "local":
        entry = 'class = "local"\nhost = "local"'
    (folder / FILE_NAME).write_text(f"[boards.rk]\n{entry}\npower = {power}\n")
    return read_configuration(folder, {}).boards["rk"].power


def test_lists_of_words_and_texts(tmp_path: Path) -> None:
    power = read(tmp_path, """{on = ["relay", "a b", "3"], off = "relay 'a b' $HOME;", pause_s = 2}""")
    assert power is not None
    assert power.on == ("relay", "a b", "3")
    assert power.off == ("relay", "a b", "$HOME;"), "no shell sees it"
    assert power.cycle is None and power.pause_s == 2 and power.most_cycles == 2


def test_a_program_with_a_path_is_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    power = read(tmp_path, """{on = ["./relay", "./x"], off = ["~/relay"], cycle = ["/opt/relay"]}""")
    assert power is not None
    assert power.on == (str(tmp_path / "relay"), "./x")
    assert (power.off, power.cycle) == (("/home/anna/relay",), ("/opt/relay",))


@pytest.mark.parametrize(
    ("power", "said", "hint"),
    [
        (f'{{on = ["{WORD}"]}}', "`on` is there without `off`", "edit"),
        (f'{{off = ["{WORD}"]}}', "`off` is there without `on`", "edit"),
        ("{}", "give `on` and `off`, or `cycle`", "edit"),
        ("{cycle = []}", "it names no program", "edit"),
        ('{cycle = ""}', "it names no program", "edit"),
        (f'{{cycle = ["", "{WORD}"]}}', "it names no program", "edit"),
        (f'{{cycle = "relay \'{WORD}"}}', "No closing quotation", "edit"),
        (f'{{cycle = ["relay", 3, "{WORD}"]}}', "power.cycle.1", "edit"),
        (f'{{cycle = ["relay", "{WORD}\\u0000"]}}', "it holds a NUL", "edit"),
        (f'{{cicle = ["{WORD}"]}}', "unknown key 'boards.rk.power.cicle'", "boot_s, cycle"),
        ('{cycle = ["relay"], most_cycles = -1}', "boards.rk.power.most_cycles", "edit"),
        ('{cycle = ["relay"], timeout_s = 0}', "boards.rk.power.timeout_s", "edit"),
        ('{cycle = ["relay"], boot_s = inf}', "boards.rk.power.boot_s", "edit"),
        ('{cycle = ["~nobody-of-that-name/relay"]}', "there is no such home folder", "edit"),
        (f'"relay {WORD}"', "boards.rk.power", "edit"),
    ],
)
def test_what_is_not_allowed_is_named_without_its_words(
    tmp_path: Path, power: str, said: str, hint: str
) -> None:
    with pytest.raises(UsageError) as raised:
        read(tmp_path, power)
    assert str(tmp_path / FILE_NAME) in raised.value.message and said in raised.value.message
    assert hint in raised.value.hint
    assert WORD not in str(raised.value)


def test_this_machine_has_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="this one cannot switch itself on again"):
        read(tmp_path, '{cycle = ["relay"]}', host="local")


def test_a_change_of_the_file_keeps_it_and_shows_no_word_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from toolchain.boards.inventory import register

    power = f'{{on = ["relay", "{WORD}"], off = ["relay"]}}'
    read(tmp_path, power)
    monkeypatch.chdir(tmp_path)
    configuration.cache_clear()
    register.log_in_as("rk", "anna")
    assert power in (tmp_path / FILE_NAME).read_text()
    text = (tmp_path / FILE_NAME).read_text().replace("on = ", "off = [1], on = ")
    (tmp_path / FILE_NAME).write_text(text.replace('off = ["relay"]', "pause_s = 1"))
    with pytest.raises(UsageError) as raised:
        register.log_in_as("rk", "berta")
    assert WORD not in str(raised.value)


def test_a_place_at_labgrid(tmp_path: Path) -> None:
    def read_place(table: str) -> str:
        entry = f'class = "rk3399"\nhost = "h"\nhost_key = "{KEY}"\nlabgrid = {table}\n'
        (tmp_path / FILE_NAME).write_text(f"[boards.rk]\n{entry}")
        place = read_configuration(tmp_path, {}).boards["rk"].labgrid
        assert place is not None
        return f"{place.coordinator} {place.place} {place.wait_s:g}"

    assert read_place('{coordinator = "lab:20408", place = "rack-1", wait_s = 60}') == "lab:20408 rack-1 60"
    for table, said in (
        ('{coordinator = "lab", place = "rack-1"}', "labgrid.coordinator"),
        ('{coordinator = "lab:1", place = "--kick"}', "labgrid.place"),
        ('{coordinator = "lab:1", place = "+token"}', "labgrid.place"),
        ('{coordinator = "lab:1"}', "labgrid.place is missing"),
        ('{coordinator = "lab:1", place = "a", plase = "b"}', "unknown key 'boards.rk.labgrid.plase'"),
    ):
        with pytest.raises(UsageError) as raised:
            read_place(table)
        assert said in raised.value.message
        if "key" in said or "missing" in said:
            assert raised.value.hint.endswith("the keys are: coordinator, place, wait_s")
