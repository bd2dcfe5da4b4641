"""Provisioning for real: this host as a board, directly and through its own sshd."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.boards.ssh.sshd import Sshd
from toolchain.boards.board import Board
from toolchain.boards.edge_rt.install import install
from toolchain.boards.emulation import stored
from toolchain.boards.inventory.lookup import local_board
from toolchain.boards.local.transport import LocalTransport
from toolchain.boards.provisioning import How, SetupOptions, provision, unprovision
from toolchain.boards.provisioning import facts as facts_module
from toolchain.boards.provisioning.apply import Root, apply_steps
from toolchain.boards.provisioning.facts import Clock, read_facts
from toolchain.boards.provisioning.steps import (
    Cargo,
    Parcel,
    RunCommand,
    account_steps,
    governor_steps,
    removal_steps,
)
from toolchain.boards.ssh.transport import SshTransport
from toolchain.boards.transport import Home
from toolchain.errors import ToolchainError, UsageError

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("state")]


@pytest.fixture
def board(tmp_path: Path) -> Board:
    (tmp_path / "root").mkdir()
    return replace(local_board(), name="bench", transport=LocalTransport(tmp_path / "root"))


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a small file sent in edge-rt's place, which takes minutes to compile."""
    file = tmp_path / "program"
    file.write_bytes(b"#!/bin/sh\n")
    cargo = Cargo("bin/edge-rt-aaaa", file, file.stat().st_size, executable=True)
    parcels = (Parcel("edge-rt", (cargo,), "edge-rt", cargo.remote),)
    monkeypatch.setattr("toolchain.boards.provisioning.run.parcels_for", lambda *_, **__: parcels)
    return tmp_path / "root"


@pytest.fixture
def remote(server: Sshd, tmp_path: Path) -> Iterator[Board]:
    transport = SshTransport(server.address(), str(tmp_path / "a" / "b" / "root"))
    yield replace(local_board(), name="bench", transport=transport)
    transport.close()


def written(root: Path) -> dict[str, tuple[int, int]]:
    """Return inode and time of last change of everything below a folder."""
    found = {}
    for path in [root, *root.rglob("*")]:
        status = path.lstat()
        found[str(path)] = (status.st_ino, status.st_mtime_ns)
    return found


def test_the_second_run_changes_nothing(board: Board, small: Path) -> None:
    planned = provision(board, how=How(dry_run=True))
    assert list(small.iterdir()) == [] and not planned.changed
    first = provision(board)
    assert first.changed and first.steps == planned.steps
    assert (small.stat().st_mode & 0o777, os.access(small / "edge-rt", os.X_OK)) == (0o700, True)
    before = written(small)
    second = provision(board)
    assert not second.changed and second.steps == ()
    assert written(small) == before


def test_removal_leaves_nothing_and_can_be_repeated(board: Board, small: Path) -> None:
    provision(board)
    board.transport.put(b"x", "lib/0123.so")
    (small / ".edge-rt.123").symlink_to("bin/x")  # of a switch that was cut off
    assert unprovision(board, how=How(dry_run=True)).steps and (small / "lib").exists()
    assert unprovision(board).changed
    assert not small.exists()
    small.mkdir()
    (small / "mine").write_text("not of the toolchain")
    provision(board)
    unprovision(board)
    assert [path.name for path in small.iterdir()] == ["mine"]


@pytest.mark.slow
def test_removal_ends_what_runs_there_and_nothing_else(board: Board, small: Path) -> None:
    provision(board)
    program = small / "bin" / "edge-rt-aaaa"
    program.write_text("#!/bin/sh\ntrap '' TERM\nread forever\n")
    ours = board.transport.spawn(["bin/edge-rt-aaaa", "serve"])
    with subprocess.Popen(["sleep", "60"], cwd=small) as shell:  # a user who looks around there
        unprovision(board)
        assert shell.poll() is None
        shell.kill()
    assert ours.wait(60) == -9
    ours.close()


@pytest.mark.slow
def test_an_interrupted_run_is_continued(board: Board, small: Path) -> None:
    for number in (1, 2, 3):

        def stop(line: str, number: int = number) -> None:
            if line.startswith(f"{number}/"):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            provision(board, how=How(progress=stop))
        assert len(provision(board, how=How(dry_run=True)).steps) == 4 - number
        assert provision(board).changed
        assert not provision(board).changed
        with pytest.raises(KeyboardInterrupt):
            unprovision(board, how=How(progress=stop))
        unprovision(board)
        assert not small.exists()
        small.mkdir(mode=0o755)


def test_a_newer_version_takes_the_link_and_the_old_one_stays(board: Board, small: Path) -> None:
    provision(board)
    os.rename(small / "bin" / "edge-rt-aaaa", small / "bin" / "edge-rt-old")  # noqa: PTH104
    os.remove(small / "edge-rt")  # noqa: PTH107
    (small / "edge-rt").symlink_to("bin/edge-rt-old")
    provision(board)
    assert (small / "edge-rt").readlink() == Path("bin/edge-rt-aaaa")
    assert (small / "bin" / "edge-rt-old").exists()


@pytest.mark.usefixtures("small")
def test_a_board_that_does_not_suit_its_class_is_left_as_it_was(board: Board, tmp_path: Path) -> None:
    arm = "armv7a" if board.profile.arch == "aarch64" else "aarch64"
    wrong = board.profile.model_copy(update={"name": "other", "triple": f"{arm}-unknown-linux-gnu"})
    with pytest.raises(ToolchainError, match=r"bench is a .* machine, its class other is"):
        provision(replace(board, profile=wrong))
    newer = board.profile.model_copy(update={"glibc": "9.99"})
    with pytest.raises(ToolchainError, match=r"bench has glibc \d.*needs 9\.99"):
        provision(replace(board, profile=newer))
    assert list((tmp_path / "root").iterdir()) == []


def test_refuses_clock_off_by_years(
    board: Board, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "date").write_text("#!/bin/sh\necho 86400\n")  # a board without a battery
    (tmp_path / "date").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ToolchainError, match=r"clock of board bench is \d\d years behind"):
        provision(board)
    assert list(small.iterdir()) == []
    assert "years behind" in provision(board, SetupOptions(ignore_clock=True)).warnings[0]


def test_refused_options_write_nothing(board: Board, small: Path) -> None:
    huge = Cargo("bin/x", small, 2**60)
    with pytest.MonkeyPatch.context() as patch:
        parcels = (Parcel("x", (huge,), "x", "bin/x"),)
        patch.setattr("toolchain.boards.provisioning.run.parcels_for", lambda *_, **__: parcels)
        with pytest.raises(ToolchainError, match=r"MiB free in .* MiB are needed"):
            provision(board)
    for options in (
        SetupOptions(governor="no-such"),
        SetupOptions(governor="nosuch"),
        SetupOptions(account="root"),
    ):
        with pytest.raises(UsageError):
            provision(board, options)
    assert list(small.iterdir()) == []


def test_the_governor_is_written_and_restored(board: Board, tmp_path: Path) -> None:
    # Files in the place of /sys, which a test must not change; what writes them is the board's shell.
    folders = [tmp_path / "policy0", tmp_path / "policy4"]
    for folder, governor in zip(folders, ("ondemand", "powersave"), strict=True):
        folder.mkdir()
        (folder / "scaling_governor").write_text(f"{governor}\n")

    def now() -> list[str]:
        return [(folder / "scaling_governor").read_text().strip() for folder in folders]

    home = Home(board.transport, ".")
    policies = tuple(Clock(str(f), g, ()) for f, g in zip(folders, now(), strict=True))
    facts = replace(read_facts(board, home), clocks=policies)
    options = SetupOptions(governor="performance")
    apply_steps(board, home, governor_steps(facts, options), Root(()), print)
    assert now() == ["performance"] * 2
    after = read_facts(board, home)
    assert after.record.governors == {str(folders[0]): "ondemand", str(folders[1]): "powersave"}
    policies = tuple(replace(policy, governor="performance") for policy in policies)
    apply_steps(board, home, removal_steps(replace(after, clocks=policies), None), Root(()), print)
    assert now() == ["ondemand", "powersave"]
    assert not (tmp_path / "root").exists()


def test_the_gpus_governor_is_found_written_and_restored(
    board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Folders in the place of /sys: two clocks, of which Mali's own driver leads to the GPU's.
    classes, device = tmp_path / "sys" / "class", tmp_path / "sys" / "ff9a0000.gpu"
    governed = {"ff9a0000.gpu": device / "devfreq" / "ff9a0000.gpu", "dmc": tmp_path / "sys" / "dmc"}
    (classes / "devfreq").mkdir(parents=True)
    for name, folder in governed.items():
        folder.mkdir(parents=True)
        (folder / "governor").write_text("simple_ondemand\n")
        (folder / "available_governors").write_text("powersave performance simple_ondemand\n")
        (classes / "devfreq" / name).symlink_to(folder)
    (classes / "misc" / "mali0").mkdir(parents=True)
    (classes / "misc" / "mali0" / "device").symlink_to(device)
    script = tmp_path / "facts.sh"
    script.write_text(facts_module._SCRIPT.read_text().replace("/sys/class", str(classes)))
    monkeypatch.setattr(facts_module, "_SCRIPT", script)
    home = Home(board.transport, ".")

    def gpus() -> list[Clock]:
        return [clock for clock in read_facts(board, home).clocks if clock.unit == "GPU"]

    available = ("powersave", "performance", "simple_ondemand")
    assert gpus() == [Clock(f"{classes}/devfreq/ff9a0000.gpu", "simple_ondemand", available, "GPU")]
    steps = governor_steps(read_facts(board, home), SetupOptions(gpu_governor="performance"))
    apply_steps(board, home, steps, Root(()), print)
    assert [clock.governor for clock in gpus()] == ["performance"]
    assert not governor_steps(read_facts(board, home), SetupOptions(gpu_governor="performance"))
    undo = removal_steps(read_facts(board, home), None)
    (classes / "devfreq" / "ff9a0000.gpu").unlink()  # a kernel without that class
    assert [Path(clock.folder).name for clock in gpus()] == ["ff9a0000.gpu"]
    (classes / "devfreq" / "ff9a0000.gpu").symlink_to(governed["ff9a0000.gpu"])
    apply_steps(board, home, undo, Root(()), print)
    assert (governed["ff9a0000.gpu"] / "governor").read_text() == "simple_ondemand\n"
    assert (governed["dmc"] / "governor").read_text() == "simple_ondemand\n"


def test_a_step_that_fails_says_which_and_how_to_go_on(board: Board, tmp_path: Path) -> None:
    home = Home(board.transport, ".")
    policy = Clock(str(tmp_path / "gone"), "ondemand", ())
    facts = replace(read_facts(board, home), clocks=(policy,))
    steps = governor_steps(facts, SetupOptions(governor="performance"))
    with pytest.raises(
        ToolchainError, match=r"could not set the CPU governor performance .gone.*gone"
    ) as raised:
        apply_steps(board, home, steps, Root(()), print)
    assert "same command again" in raised.value.hint


def test_a_board_that_is_a_process_has_nothing_to_provision(board: Board, tmp_path: Path) -> None:
    process = replace(board, transport=LocalTransport(tmp_path, ("qemu-aarch64-static",)))
    for call in (provision, unprovision):
        with pytest.raises(UsageError, match="is a process of this host"):
            call(process)
    assert stored.names() == []


@pytest.mark.usefixtures("small")
def test_over_ssh_the_folder_is_made_and_removed(remote: Board, tmp_path: Path) -> None:
    root = tmp_path / "a" / "b" / "root"
    with pytest.raises(ToolchainError, match="never made") as raised:
        remote.transport.run(["true"])
    assert "board provision" in raised.value.hint
    planned = provision(remote, how=How(dry_run=True))
    assert not (tmp_path / "a").exists()
    assert planned.steps[0].title == f"make the folder {root}"
    assert provision(remote).changed
    assert (root.stat().st_mode & 0o777, os.access(root / "edge-rt", os.X_OK)) == (0o700, True)
    assert not provision(remote).changed
    assert unprovision(remote).changed
    assert not root.exists()
    assert not unprovision(remote).changed


@pytest.mark.usefixtures("small")
def test_over_ssh_a_folder_that_cannot_be_made_is_told(remote: Board, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    file = tmp_path / "a" / "b" / "root"
    file.write_text("a file where the folder should be")
    with pytest.raises(ToolchainError, match="could not make the folder"):
        provision(remote)
    assert file.read_text() == "a file where the folder should be"


@pytest.mark.slow
def test_edge_rt_answers_where_it_was_provisioned(remote: Board) -> None:
    assert provision(remote).changed
    assert not provision(remote).changed
    found = install(remote)
    assert found.facts.machine == remote.profile.arch
    assert remote.transport.listing("bin").keys() == {found.program.removeprefix("bin/")}
    unprovision(remote)


def test_an_account_is_made_where_no_folder_is(remote: Board) -> None:
    assert isinstance(remote.transport, SshTransport)
    home = SshTransport(remote.transport.address, ".")
    try:
        there = Home(home, remote.transport.root)
        facts = read_facts(remote, there, "tooling")
        assert facts.mode == ""  # nothing was ever provisioned there
        (step,) = account_steps(facts, SetupOptions(account="tooling"))
        harmless = replace(
            step, action=RunCommand(("true",))
        )  # no accounts on the machine that runs the tests
        apply_steps(remote, there, [harmless], Root(()), print)
    finally:
        home.close()
