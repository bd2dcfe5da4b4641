"""Boards with small roots are provisioned and left as they were, or are refused untouched."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.boards.beds import NO_ANSWER, NO_STAT_F, OLD_MV, Bed, RunningBed, running
from tests.howto.page import ROOT
from toolchain.boards.board import Board
from toolchain.boards.edge_rt.install import install
from toolchain.boards.edge_rt.status import status
from toolchain.boards.inventory.lookup import local_board
from toolchain.boards.provisioning import How, SetupOptions, provision, unprovision
from toolchain.boards.ssh.transport import SshTransport
from toolchain.errors import ToolchainError

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]
HOME = ".edge-toolchain"
DATA = {"/data": "size=400m,mode=777"}


def _needed_commands() -> list[str]:
    """Return the commands that docs/howto/provision.md says a board needs."""
    page = (ROOT / "docs/howto/provision.md").read_text()
    found = re.search(r"- A POSIX shell with coreutils or busybox: (.*?)Needless", page, re.DOTALL)
    assert found
    return re.findall(r"`(\w+)`", found[1])


@dataclass(frozen=True)
class Situation:
    """A board that can be used, the `root` of its entry, and a warning that provisioning gives."""

    bed: Bed
    root: str = HOME
    warns: str = ""


SITUATIONS = {
    # Yocto's core-image-minimal, Buildroot: no getconf, no ldd, which all of these beds lack.
    "glibc without its programs": Situation(Bed()),
    "no other commands than the how-to names": Situation(
        Bed(only=_needed_commands()),
    ),
    "the login is root": Situation(Bed(user="root")),
    "mv without -T": Situation(Bed(programs={"bin/mv": OLD_MV})),
    "df that finds no line for the folder": Situation(Bed(is_mount=False)),
    "df that prints nothing": Situation(Bed(programs={"bin/df": NO_ANSWER})),
    "no df": Situation(Bed(without=("df",))),
    "neither df nor stat -f": Situation(
        Bed(programs={"bin/df": NO_ANSWER, "bin/stat": NO_STAT_F}),
        warns=r"does not say how much is free",
    ),
    "a root without any writable folder but one": Situation(
        Bed(read_only=True, file_systems=DATA), root="/data/edge"
    ),
    "little flash": Situation(
        Bed(file_systems={"/data": "size=20m,mode=777"}),
        root="/data/edge",
        warns=r"has 1\d MiB in /data/edge left for networks",
    ),
    "home and /tmp without programs": Situation(
        Bed(binds={"/home": "noexec", "/tmp": "noexec"}, file_systems=DATA), root="/data/edge"
    ),
}


@dataclass(frozen=True)
class Refusal:
    """A board that cannot be used as it is: words of the error and of its hint."""

    bed: Bed
    says: str
    hint: str
    root: str = HOME
    options: SetupOptions = field(default_factory=SetupOptions)


REFUSALS = {
    "home without programs": Refusal(
        Bed(binds={"/home": "noexec", "/tmp": "noexec"}, file_systems=DATA),
        r"no program may run in /home/edge/\.edge-toolchain: its file system, /home, is mounted noexec; "
        "nothing was written",
        'root = "/data/edge"',
    ),
    "the folder is on a file system without programs": Refusal(
        Bed(file_systems={"/data": "noexec,mode=777"}),
        r"no program may run in /data/edge: .* /data, is mounted noexec",
        'root = "/FOLDER"',
        root="/data/edge",
    ),
    "a root that is read-only": Refusal(
        Bed(read_only=True, file_systems=DATA),
        "is mounted read-only; nothing was written",
        'root = "/data/edge"',
    ),
    "flash that is too small": Refusal(
        Bed(file_systems={"/data": "size=4m,mode=777"}),
        r"has 4 MiB free in /data/edge, \d MiB are needed; nothing was written",
        "root = ",
        root="/data/edge",
    ),
    "flash that is smaller than asked for": Refusal(
        Bed(file_systems={"/data": "size=20m,mode=777"}),
        r"has 20 MiB free in .*, 3\d MiB are needed \(30 of them for networks: --spare-mib\)",
        "root = ",
        root="/data/edge",
        options=SetupOptions(spare_mib=30),
    ),
    "sudo that wants a terminal": Refusal(
        Bed(sudoers="Defaults requiretty\nedge ALL=(ALL) NOPASSWD: ALL\n"),
        r"to make the folder /opt/x/edge .* needs root, and sudo .* works only at a terminal \(requiretty\)",
        "Defaults:edge !requiretty",
        root="/opt/x/edge",
    ),
}


def board_on(bed: RunningBed, root: str) -> Board:
    return replace(local_board(), name="bed", transport=SshTransport(bed.address, root))


@contextlib.contextmanager
def started(bed: Bed, root: str, folder: Path) -> Iterator[tuple[RunningBed, Board]]:
    with running(bed, folder) as there:
        board = board_on(there, root)
        yield there, board
        board.transport.close()


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_small_root_is_provisioned_and_left_as_it_was(name: str, tmp_path: Path) -> None:
    situation = SITUATIONS[name]
    with started(situation.bed, situation.root, tmp_path) as (bed, board):
        before = bed.everything()
        options = SetupOptions(sdk=situation.warns == "")  # its link leads to a folder
        planned = provision(board, options, How(dry_run=True))
        assert bed.everything() == before
        result = provision(board, options)
        assert [step.title for step in planned.steps] == [step.title for step in result.steps]
        assert result.facts.glibc is not None
        assert len(result.warnings) == bool(situation.warns)
        if situation.warns:
            assert re.search(situation.warns, result.warnings[0])
        assert (status(board).disk_free_mib is None) == ("does not say" in situation.warns)
        program = board.transport.run(["./edge-rt", "info"])
        assert program.returncode == 0, program.stderr
        assert not provision(board, options).changed
        assert [path for path in bed.everything() - before if "/." in path.rpartition(HOME)[2]] == []
        assert unprovision(board).changed
        assert bed.everything() == before


@pytest.mark.parametrize("name", REFUSALS)
def test_a_board_that_cannot_be_used_is_refused_untouched(name: str, tmp_path: Path) -> None:
    refusal = REFUSALS[name]
    with started(refusal.bed, refusal.root, tmp_path) as (bed, board):
        before = bed.everything()
        with pytest.raises(ToolchainError, match=refusal.says) as caught:
            provision(board, refusal.options)
        assert refusal.hint in caught.value.hint
        assert bed.everything() == before


def test_leftovers_of_killed_command_are_removed(tmp_path: Path) -> None:
    """Where nothing else can be written, input of commands goes through a folder below the board's own."""
    with started(Bed(read_only=True, file_systems=DATA), "/data/edge", tmp_path) as (bed, board):
        before = bed.everything()
        provision(board)
        (bed.root / "data/edge/.input.999999999").mkdir()
        assert unprovision(board).changed
        assert bed.everything() == before


@pytest.mark.parametrize("renewed", [provision, install], ids=["provision", "any command"])
def test_old_versions_make_room_for_a_new_one(renewed: Callable[[Board], object], tmp_path: Path) -> None:
    """Little flash holds as many versions as are kept, and not one more."""
    bed = Bed(file_systems={"/data": "size=14m,mode=777"})
    with started(bed, "/data/edge", tmp_path) as (there, board):
        provision(board)
        folder = there.root / "data/edge"
        (program,) = (folder / "bin").iterdir()
        for age, name in enumerate(("one", "two", "in-use")):
            old = program.with_name(f"edge-rt-{name}")
            if name == "in-use":
                program.rename(old)
            else:
                old.write_bytes(bytes(4 * 2**20))
            os.utime(old, (1000 + age, 1000 + age))
        (folder / "edge-rt").unlink()
        (folder / "edge-rt").symlink_to("bin/edge-rt-in-use")
        renewed(board)
        assert {path.name for path in (folder / "bin").iterdir()} == {
            "edge-rt-two",
            "edge-rt-in-use",
            program.name,
        }
