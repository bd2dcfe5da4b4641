"""What runs in a board's `sh`, run in this host's: words arrive as they are, files whole or not at all."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.boards.ssh.beds import CSH, TCSH
from toolchain.boards.ssh import scripts
from toolchain.boards.ssh.transport import parse_listing

TOKEN = "0123abcd"  # noqa: S105 - no secret


def ran(
    script: str, root: Path | str, *arguments: str, content: bytes = b"", limit: float = 20
) -> subprocess.CompletedProcess[bytes]:
    """Run a script as sshd does: by the login shell, with what comes on the channel.

    The channel of a command stays open until it has ended; others end with what they get.
    """
    line = scripts.command_line(script, TOKEN, str(root), *arguments)
    argv = ["bash", "-c", line]
    if script is not scripts.RUN:
        return subprocess.run(argv, input=content, capture_output=True, timeout=limit)
    reading, writing = os.pipe()
    with (
        os.fdopen(reading, "rb") as channel,
        os.fdopen(writing, "wb", buffering=0) as ours,
        subprocess.Popen(
            argv, stdin=channel, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        ) as child,
    ):
        ours.write(content)
        assert child.stdout is not None and child.stderr is not None
        code = child.wait(limit)
        ours.close()  # as sshd does then; the watcher ends
        return subprocess.CompletedProcess(argv, code, child.stdout.read(), child.stderr.read())


def said(done: subprocess.CompletedProcess[bytes]) -> tuple[bytes, bytes]:
    """Return the first line, less the token, and the rest."""
    first, _, rest = done.stdout.partition(b"\n")
    token, _, word = first.partition(b" ")
    assert token == TOKEN.encode()
    return word, rest


# What shells obey or split: quotes, variables, patterns, options, blanks.
words = st.text(st.sampled_from("a'\"$`\\*?[]{}~!;&|<>()#-= \t\n"), min_size=1, max_size=8)


@settings(max_examples=15)
@given(st.lists(words, max_size=3))
def test_a_command_gets_its_words_as_they_are(arguments: list[str]) -> None:
    done = ran(scripts.RUN, "/", "0", "0", "printf", "%s\\0", *arguments)
    word, rest = said(done)
    assert word.startswith(b"ready ")
    assert rest == b"".join(each.encode() + b"\0" for each in arguments or [""])


@pytest.mark.parametrize(
    ("command", "word"),
    [("nosuchprogram", b"missing"), ("./gone", b"missing"), ("./plain", b"denied"), ("./folder", b"missing")],
)
def test_reports_program_that_cannot_run(tmp_path: Path, command: str, word: bytes) -> None:
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    (tmp_path / "folder").mkdir()
    assert said(ran(scripts.RUN, tmp_path, "0", "0", command)) == (word, b"")


@pytest.mark.parametrize("script", [scripts.RUN, scripts.PUT, scripts.GET, scripts.LISTING, scripts.REMOVE])
def test_reports_missing_folder(tmp_path: Path, script: str) -> None:
    assert said(ran(script, tmp_path / "gone", "x", "0", "")) == (b"folder", b"")


def test_input_of_a_size_reaches_the_command_and_no_more(tmp_path: Path) -> None:
    done = ran(scripts.RUN, tmp_path, "0", "5", "cat", content=b"12345")
    assert said(done)[1] == b"12345" and done.returncode == 0
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder for temporary files."""
    monkeypatch.setenv("TMPDIR", "/gone")


@pytest.mark.usefixtures("nowhere")
def test_input_goes_through_the_boards_folder_where_no_other_can_be_written(tmp_path: Path) -> None:
    done = ran(scripts.RUN, tmp_path, "0", "5", "cat", content=b"12345")
    assert said(done)[1] == b"12345" and (done.returncode, done.stderr) == (0, b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("nowhere")
def test_a_killed_run_leaves_a_private_folder_which_the_next_run_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, programs = tmp_path / "board", tmp_path / "programs"
    root.mkdir()
    programs.mkdir()
    mkfifo = programs / "mkfifo"
    mkfifo.write_text("#!/bin/sh\nkill -KILL $PPID\n")
    mkfifo.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        assert ran(scripts.RUN, root, "0", "5", "cat", content=b"12345").returncode == -9
    (left,) = root.iterdir()
    assert left.stat().st_mode & 0o777 == 0o700
    alive = root / f".input.{os.getpid()}"
    alive.mkdir()
    assert said(ran(scripts.RUN, root, "0", "5", "cat", content=b"12345"))[1] == b"12345"
    assert list(root.iterdir()) == [alive], "another run is still at work there"


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("there", ["file", "link"])
def test_does_not_follow_link_in_place_of_run_folder(tmp_path: Path, there: str) -> None:
    root, other = tmp_path / "board", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    (other / "precious").touch()
    left = root / ".input.999999999"
    left.symlink_to(other) if there == "link" else left.touch()
    assert said(ran(scripts.RUN, root, "0", "5", "cat", content=b"12345"))[1] == b"12345"
    assert (other / "precious").exists()


@pytest.mark.usefixtures("nowhere")
def test_reports_board_without_writable_folder() -> None:
    assert said(ran(scripts.RUN, "/proc", "0", "5", "cat", content=b"12345")) == (b"pipe", b"")


def test_a_command_ends_when_the_channel_does(tmp_path: Path) -> None:
    """With its children, at once: `sleep` would take a minute."""
    line = scripts.command_line(scripts.RUN, TOKEN, str(tmp_path), "0", "0", "sh", "-c", "sleep 60 & wait")
    with subprocess.Popen(
        ["sh", "-c", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as child:
        assert child.stdout is not None and child.stdout.readline().startswith(f"{TOKEN} ready".encode())
        assert child.stdin is not None
        child.stdin.close()
        assert child.stdout.read() == b"", "nobody holds the channel any more"
        assert child.wait(20) == -9


@pytest.mark.slow
@pytest.mark.parametrize("tools", ["with setsid", "without"])
@pytest.mark.parametrize("grace", ["0", "2"])
def test_a_command_that_leads_no_group_ends_with_its_children(tmp_path: Path, tools: str, grace: str) -> None:
    """dropbear starts commands in its own process group, which must not be killed."""
    if tools == "without":
        for name in ("cat", "sed", "sleep", "sh"):
            program = shutil.which(name)
            assert program is not None
            (tmp_path / name).symlink_to(program)
    path = str(tmp_path) if tools == "without" else os.environ["PATH"]
    stubborn = "trap '' TERM; (trap '' TERM; sleep 300; :) & echo up; wait; sleep 300"
    line = scripts.command_line(scripts.RUN, TOKEN, str(tmp_path), grace, "0", "sh", "-c", stubborn)
    # The outer shell leads a group of its own, with a process that is none of the command's.
    outer = f"sleep 300 & sh -c {shlex.quote(line)}; kill $!; echo alive; wait"
    with subprocess.Popen(
        ["sh", "-c", outer],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PATH": path},
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline().startswith(f"{TOKEN} ready".encode())
        assert child.stdout.readline() == b"up\n"
        child.stdin.close()
        assert child.stdout.read() == b"alive\n", "what is not the command's lives, and nothing of it does"
        assert child.wait(20) == 0


def test_a_file_is_put_whole_with_its_mode_and_folder(tmp_path: Path) -> None:
    content = os.urandom(100_000)
    done = ran(scripts.PUT, tmp_path, "new folder/deep/a b", str(len(content)), "750", content=content)
    assert said(done) == (b"ready", b"") and done.returncode == 0
    file = tmp_path / "new folder" / "deep" / "a b"
    assert file.read_bytes() == content and file.stat().st_mode & 0o777 == 0o750
    assert list(file.parent.iterdir()) == [file]


def test_a_file_that_was_cut_short_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    done = ran(scripts.PUT, tmp_path, "file", "10", "", content=b"short")
    assert done.returncode == 1 and b"file: cut short" in done.stderr
    assert (tmp_path / "file").read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_no_file_takes_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    done = ran(scripts.PUT, tmp_path, "folder", "1", "", content=b"x")
    assert done.returncode == 1 and b"Is a directory" in done.stderr
    assert list((tmp_path / "folder").iterdir()) == []


def test_stale_partial_uploads_are_removed(tmp_path: Path) -> None:
    old, new, other = (tmp_path / f".{name}.part" for name in ("file.dead", "file.alive", "other.dead"))
    for part in (old, new, other):
        part.touch()
    os.utime(old, (0, 0))
    os.utime(other, (0, 0))
    assert ran(scripts.PUT, tmp_path, "file", "1", "", content=b"x").returncode == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        ".file.alive.part",
        ".other.dead.part",
        "file",
    ]


@pytest.mark.parametrize("name", ["-rf", "a b", "$HOME", "*"])
def test_names_are_not_options_or_patterns(tmp_path: Path, name: str) -> None:
    (tmp_path / "precious").write_bytes(b"p")
    assert ran(scripts.PUT, tmp_path, name, "3", "", content=b"abc").returncode == 0
    assert said(ran(scripts.GET, tmp_path, name)) == (b"ready", b"abc")
    assert ran(scripts.TOUCH, tmp_path, name).returncode == 0
    entries = parse_listing(said(ran(scripts.LISTING, tmp_path, "."))[1], "board", ".")
    assert set(entries) == {name, "precious"}
    assert ran(scripts.REMOVE, tmp_path, name).returncode == 0
    assert [each.name for each in tmp_path.iterdir()] == ["precious"]


def test_a_listing_has_sizes_and_no_hidden_entries(tmp_path: Path) -> None:
    assert said(ran(scripts.LISTING, tmp_path, ".")) == (b"ready", b"")
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / ".hidden").touch()
    os.utime(tmp_path / "file", (1000, 1000))
    assert said(ran(scripts.LISTING, tmp_path, "."))[1] == b"5 1000 file\n"
    assert said(ran(scripts.LISTING, tmp_path, "gone"))[1] == b""


def test_reports_missing_files(tmp_path: Path) -> None:
    assert said(ran(scripts.GET, tmp_path, "gone")) == (b"missing", b"")
    done = ran(scripts.TOUCH, tmp_path, "gone")
    assert done.returncode == 1 and b"no such file" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert ran(scripts.REMOVE, tmp_path, "gone").returncode == 0


@pytest.mark.parametrize("before", [None, b"", b"ssh-rsa AAAA no newline", b"ssh-rsa AAAA\n"])
def test_a_key_is_installed_once_on_a_line_of_its_own(tmp_path: Path, before: bytes | None) -> None:
    file = tmp_path / ".ssh" / "authorized_keys"
    if before is not None:
        file.parent.mkdir()
        file.write_bytes(before)
    for _ in range(2):
        assert ran(scripts.INSTALL_KEY, tmp_path, "ssh-ed25519 B me").returncode == 0
    others = [before.decode().strip()] if before else []
    assert file.read_text().splitlines() == [*others, "ssh-ed25519 B me"]
    if before is None:
        assert file.stat().st_mode & 0o077 == file.parent.stat().st_mode & 0o077 == 0


def test_a_key_inside_a_longer_line_is_another(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    file = tmp_path / ".ssh" / "authorized_keys"
    file.write_text('command="x" ssh-ed25519 B me\n')
    assert ran(scripts.INSTALL_KEY, tmp_path, "ssh-ed25519 B me").returncode == 0
    assert len(file.read_text().splitlines()) == 2


@pytest.mark.slow
@settings(max_examples=25)
@given(
    st.lists(words | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=4)
)
@pytest.mark.parametrize(
    "shell", [["bash"], ["sh"], [TCSH, "-f"], [CSH, "-f"]], ids=["bash", "sh", "tcsh", "csh"]
)
def test_a_command_line_is_one_sh_whatever_the_login_shell_is(shell: list[str], arguments: list[str]) -> None:
    line = scripts.command_line("printf '%s\\0' \"$@\"\nexit 5", *arguments, "x" * 3000)
    done = subprocess.run([*shell, "-c", line], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (5, b"")
    assert done.stdout.decode().split("\0")[:-1] == [*arguments, "x" * 3000]
