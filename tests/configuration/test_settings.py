"""Where settings come from, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.configuration.file import FILE_NAME
from toolchain.configuration.settings import configuration, read_configuration, settings
from toolchain.errors import UsageError


def test_environment_over_file_over_default(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('board = "rk3399"\njobs = 3\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    found = read_configuration(below, {"TOOLCHAIN_JOBS": "5", "TOOLCHAIN_ENGINE": ""})
    assert (found.settings.board, found.settings.jobs, found.settings.engine) == ("rk3399", 5, "auto")
    assert found.file == tmp_path / FILE_NAME
    assert found.origins["board"] == str(tmp_path / FILE_NAME)
    assert found.origins["jobs"] == "TOOLCHAIN_JOBS"
    assert found.origins["engine"] == "default"


def test_folders_in_the_file_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('state_dir = "var"\ndata_dir = "~/records"\n')
    (tmp_path / "sub").mkdir()
    found = read_configuration(tmp_path / "sub", {})
    assert found.settings.state_dir == tmp_path / "var"
    assert found.settings.data_dir == Path.home() / "records"


@pytest.mark.parametrize(
    ("text", "named", "hint"),
    [
        ("bord = 'local'", "'bord'", "board"),
        ("jobs = 0", "jobs = 0", "edit"),
        ("jobs = 'many'", "jobs = 'many': it must be a whole number", "edit"),
        ("jobs = 1.5", "it must be a whole number", "edit"),
        ("board = 3", "board = 3: it must be a text", "edit"),
        ("cache_dir = 3", "it must be a path", "edit"),
        ("unchecked_peers = 'so'", "it must be true or false", "edit"),
        ("boards = 3", "it must be a table", "edit"),
        ("[boards]\nx = 3", "boards.x = 3: it must be a table", "edit"),
        ("[boards.'x y']\nclass = 'rk3399'\nhost = 'a'\nhost_key = 'k a'", "wanted: a board's name", "edit"),
        ("[boards.x]\nclass = 'rk3399'\nhost = 'a'\ngroups = 'g'", "it must be a list", "edit"),
        ("[boards.x]\nclass = 'rk3399'\nhost = 'a'", "boards.x = …: host_key is missing", "edit"),
        ("debian_image = 'x'", "wanted: A registry's Debian image", "edit"),
        ("image_tag = 'a/b'", "wanted: Tag of this toolchain's images", "edit"),
        ("engine = 'dokcer'", "'auto', 'docker' or 'host'", "edit"),
        ("[board]\nname = 'x'", "board", "edit"),
        ("board = ", "cannot be read: it is not TOML: ", "edit"),
        ("board = '\udc80'", "cannot be read: it is not text in UTF-8", "edit"),
        ("jobs = nan", "jobs = nan", "edit"),
        ("jobs = 1e300", "jobs = 1e+300", "edit"),
        ("jobs = 5000", "jobs = 5000", "edit"),
        ("jobs = " + "9" * 5000, "cannot be read", "edit"),
        ("a = " + "[" * 5000, "cannot be read", "edit"),
        ('cache_dir = "a\\u0000b"', "it holds a NUL", "edit"),
        ('"\\u001b[31m" = 3', "'\\x1b[31m'", "board"),
        ('data_dir = "~no-such-user/x"', "no such home folder", "edit"),
    ],
)
def test_a_wrong_file_is_named_with_key_and_what_is_allowed(
    tmp_path: Path, text: str, named: str, hint: str
) -> None:
    (tmp_path / FILE_NAME).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UsageError) as raised:
        read_configuration(tmp_path, {})
    assert str(tmp_path / FILE_NAME) in raised.value.message
    assert named in raised.value.message
    assert hint in raised.value.hint
    assert not any(word in str(raised.value) for word in ("Input ", "Value error", "codec", "<class"))


def test_a_wrong_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"TOOLCHAIN_JOBS: jobs = '-1'"):
        read_configuration(tmp_path, {"TOOLCHAIN_JOBS": "-1"})


def test_it_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCHAIN_BOARD", "first")
    assert settings().board == "first"
    monkeypatch.setenv("TOOLCHAIN_BOARD", "second")
    assert settings().board == "first"


def test_a_removed_folder_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(UsageError, match="current folder was removed"):
        configuration()
