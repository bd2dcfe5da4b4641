"""Provisioning of a board that is a machine of its own: an arm64 container with sudo and a real sshd."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.boards.provisioning.test_design import NAME, bit, written
from toolchain.boards.board import Board
from toolchain.boards.edge_rt.install import install
from toolchain.boards.emulation import emulated
from toolchain.boards.provisioning import How, SetupOptions, provision, set_passwords, unprovision
from toolchain.boards.provisioning import facts as facts_module
from toolchain.boards.provisioning.design import read_design
from toolchain.boards.provisioning.facts import read_facts
from toolchain.boards.ssh.transport import SshTransport
from toolchain.boards.transport import Home
from toolchain.configuration.settings import configuration
from toolchain.errors import ToolchainError, UsageError

pytestmark = pytest.mark.slow

PASSWORD = "correct horse"  # noqa: S105 - of an account in a container on loopback
WITH_PASSWORD = f"""
echo 'edge:{PASSWORD}' | chpasswd
chmod 0640 /etc/sudoers.d/edge
echo 'edge ALL=(ALL) ALL' > /etc/sudoers.d/edge
"""
SERVE = ("--tracker", "127.0.0.1:9", "--port", "9090", "--key", "k")
WITHOUT = "echo 'edge ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/edge"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    state = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOOLCHAIN_STATE_DIR", str(state))
        configuration.cache_clear()
        board = emulated.start("rk3399", kind="container", name="bench", progress=print)
        yield board
        configuration.cache_clear()
        assert isinstance(board.transport, SshTransport)
        board.transport.close()
        emulated.stop("bench")
    configuration.cache_clear()


@pytest.fixture
def board(made: Board) -> Iterator[Board]:
    """Return the board, provisioned, with a sudo that wants no password."""
    assert isinstance(made.transport, SshTransport)
    provision(made)
    yield made


def as_root(board: Board, script: str, given: str = "") -> None:
    assert isinstance(board.transport, SshTransport)
    with contextlib.closing(SshTransport(board.transport.address, ".")) as home:
        sudo = ["sudo", "-S", "-k", "-p", ""] if given else ["sudo", "-n"]
        done = home.run([*sudo, "sh", "-c", script], input=given.encode() + b"\n" if given else None)
    assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def sudo_wants_a_password(board: Board) -> Iterator[None]:
    as_root(board, WITH_PASSWORD)
    try:
        yield
    finally:
        as_root(board, WITHOUT, PASSWORD)


@pytest.mark.full
def test_passwords_are_turned_off_and_on_by_a_sudo_that_wants_one(board: Board) -> None:
    how = How(ask_sudo=lambda: PASSWORD)
    with sudo_wants_a_password(board):
        with pytest.raises(ToolchainError, match=r"sudo asks .* for a password"):
            set_passwords(board, "off", How())
        assert set_passwords(board, "off", how).changed
        assert not set_passwords(board, "off", how).changed
        assert set_passwords(board, "on", how).changed


def with_root(board: Board, root: str) -> Board:
    assert isinstance(board.transport, SshTransport)
    return replace(board, transport=SshTransport(board.transport.address, root))


def test_a_started_board_is_provisioned(board: Board) -> None:
    assert not provision(board).changed
    found = install(board)
    assert found.facts.machine == "aarch64"
    assert board.transport.run(["readlink", "edge-rt"]).stdout.decode().strip() == found.program


def test_a_design_is_loaded_and_forgotten(board: Board, tmp_path: Path) -> None:
    """/dev/xdevcfg is a FAKE: a file, in a container that has no logic."""
    design = read_design(written(tmp_path, bit()), NAME, "0.0.2", 2)
    with pytest.raises(UsageError, match="no programmable logic that Linux can load"):
        provision(board, design=design)
    as_root(board, "touch /dev/xdevcfg; chmod 0600 /dev/xdevcfg")
    try:
        assert provision(board, design=design).changed
        assert not provision(board, design=design).changed
        assert board.transport.run(["cat", "/run/edge-rt/vta-design"]).stdout.decode() == design.note
        as_root(board, f'[ "$(sha256sum < /dev/xdevcfg | cut -c1-64)" = {design.sha256} ]')
        as_root(board, "rm -r /run/edge-rt")  # as a restart does
        assert provision(board, design=design).changed
        assert unprovision(board).changed
        as_root(board, "[ ! -e /run/edge-rt ]")
    finally:
        as_root(board, "rm -f /dev/xdevcfg")


def test_removal_ends_what_runs_and_provisioning_brings_it_back(board: Board) -> None:
    serving = board.transport.spawn(install(board).command("serve", *SERVE))
    time.sleep(1)
    assert serving.poll() is None
    assert unprovision(board).changed
    serving.wait(60)
    serving.close()
    with pytest.raises(ToolchainError, match="never made"):
        board.transport.run(["true"])
    home = with_root(board, ".")
    assert b"edge-rt" not in home.transport.run(["ps", "-eo", "args"]).stdout
    assert not unprovision(board).changed
    assert provision(board).changed


def test_sudo_with_a_password_needs_ask_sudo_and_the_right_one(board: Board) -> None:
    asked = []

    def ask() -> str:
        asked.append(True)
        return PASSWORD

    unprovision(board)
    folder = with_root(board, "/opt/edge-toolchain")
    with sudo_wants_a_password(board):
        with pytest.raises(
            ToolchainError, match=r"to make the folder /opt/edge-toolchain for edge needs root"
        ):
            provision(folder)
        with pytest.raises(UsageError, match="sudo refuses edge") as raised:
            provision(folder, how=How(ask_sudo=lambda: "wrong"))
        assert "wrong" not in str(raised.value)
        planned = provision(folder, how=How(dry_run=True, ask_sudo=ask))
        assert not asked and planned.steps[0].needs_root
        assert provision(folder, how=How(ask_sudo=ask)).changed and len(asked) == 1
        assert not provision(folder, how=How(ask_sudo=ask)).changed and len(asked) == 1
        listed = folder.transport.run(["stat", "-c", "%U %a", "."]).stdout.decode().split()
        assert listed == ["edge", "700"]
        # Without root, an account that is wished for is left out, and the home folder is used.
        without = provision(board, SetupOptions(account="tooling"))
        assert without.facts.root == "/home/edge/.edge-toolchain"
        assert "asks edge for a password" in without.skipped[0]
        assert unprovision(folder).changed
    as_root(board, "rmdir /opt/edge-toolchain 2>/dev/null || true")


def test_no_sudo_at_all_is_an_installation_in_the_home_folder(board: Board) -> None:
    unprovision(board)
    as_root(board, "mv /etc/sudoers.d/edge /root/edge")  # from here on nothing of ours can become root
    try:
        result = provision(board, SetupOptions(account="tooling"))
        assert result.skipped and result.changed
        assert install(board).facts.machine == "aarch64"
        with pytest.raises(UsageError, match="sudo refuses edge"):
            provision(board, SetupOptions(account="tooling"), how=How(ask_sudo=lambda: "x"))
    finally:
        restore_sudo(board)


def restore_sudo(board: Board) -> None:
    """Give sudo back through Docker, as nothing on the board can."""
    found = subprocess.run(
        ["docker", "ps", "-q", "--filter", f"publish={board.transport.address.port}"],  # type: ignore[attr-defined]
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    subprocess.run(["docker", "exec", found[0], "mv", "/root/edge", "/etc/sudoers.d/edge"], check=True)


def test_an_account_of_its_own_is_made_used_and_removed(board: Board) -> None:
    unprovision(board)  # what a board is that was just added: no folder of ours anywhere
    options = SetupOptions(account="tooling")
    planned = provision(board, options, how=How(dry_run=True))
    assert [step.needs_root for step in planned.steps] == [True]
    first = provision(board, options)
    assert first.moved and first.facts.root == "/home/tooling/.edge-toolchain"
    assert not provision(board, options).changed
    with pytest.raises(UsageError, match="made by someone else"):
        provision(board, SetupOptions(account="nobody"))
    with pytest.raises(UsageError, match="had that account before"):
        unprovision(board, account="nobody")
    assert unprovision(board, account="tooling").changed
    home = with_root(board, ".").transport
    assert home.run(["id", "tooling"]).returncode != 0
    assert home.run(["ls", "/home/tooling"]).returncode != 0


def test_a_governor_is_refused_where_there_is_none(board: Board) -> None:
    with pytest.raises(UsageError, match="no CPU frequency control"):
        provision(board, SetupOptions(governor="performance"))


def test_the_governor_of_a_gpu_is_set_by_root_and_restored(
    board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Files of root's in the place of /sys, which a container must not change.
    gpu = "/opt/class/devfreq/ff9a0000.gpu"
    script = tmp_path / "facts.sh"
    script.write_text(facts_module._SCRIPT.read_text().replace("/sys/class", "/opt/class"))
    monkeypatch.setattr(facts_module, "_SCRIPT", script)
    governor = f"{gpu}/governor"
    as_root(board, f"mkdir -p {gpu} && echo 'powersave performance' > {gpu}/available_governors"
                   f" && echo powersave > {governor} && chmod 644 {governor}")  # fmt: skip

    def now() -> str:
        return board.transport.run(["cat", governor]).stdout.decode().strip()

    try:
        options = SetupOptions(gpu_governor="performance")
        planned = provision(board, options, how=How(dry_run=True))
        assert [step.needs_root for step in planned.steps if "GPU governor" in step.title] == [True]
        assert now() == "powersave"
        assert provision(board, options).changed and now() == "performance"
        assert not provision(board, options).changed
        assert unprovision(board).changed
        home = with_root(board, ".").transport
        assert home.run(["cat", governor]).stdout.decode().strip() == "powersave"
    finally:
        as_root(board, "rm -r /opt/class")


@pytest.mark.parametrize("how", ["read-only", "noexec"])
def test_a_folder_that_takes_nothing_is_told_before_anything_is_written(board: Board, how: str) -> None:
    folder = with_root(board, "stuck/here")
    home = with_root(board, ".").transport
    home.run(["mkdir", "-p", "stuck"])
    if how == "read-only":
        home.run(["chmod", "555", "stuck"])
        assert provision(folder, how=How(dry_run=True)).steps[0].needs_root  # sudo could make it
        needs_root = "to make the folder .*/stuck/here for edge needs root"
        with sudo_wants_a_password(board), pytest.raises(ToolchainError, match=needs_root):
            provision(folder)
        home.run(["chmod", "755", "stuck"])
    else:
        folder = with_root(board, "/dev/shm/here")  # as Docker mounts it
        with pytest.raises(ToolchainError, match=r"no program may run in /dev/shm/here: .*noexec"):
            provision(folder)
        assert home.run(["ls", "/dev/shm"]).stdout == b""
    assert home.run(["ls", "stuck"]).stdout == b""
    home.run(["rmdir", "stuck"])


def test_a_killed_run_is_continued_by_the_next(board: Board) -> None:
    code = (
        "from toolchain.boards.inventory.lookup import find_board\n"
        "from toolchain.boards.provisioning import How, provision\n"
        "provision(find_board('bench'), how=How(progress=lambda line: print(line, flush=True)))\n"
    )
    unprovision(board)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if line.startswith("2/"):  # the upload
                break
        run.kill()
    assert provision(board).changed
    assert install(board).facts.machine == "aarch64"
    assert not provision(board).changed


def test_clock_and_facts_are_the_boards_own(board: Board) -> None:
    assert isinstance(board.transport, SshTransport)
    home = Home(with_root(board, ".").transport, board.transport.root)
    facts = read_facts(board, home, now=lambda: time.time() + 10 * 365 * 86400)
    assert facts.machine == "aarch64" and facts.user == "edge" and facts.sudo == "free"
    assert facts.clock_offset_s < -9 * 365 * 86400
    assert Path(facts.root) == Path("/home/edge/.edge-toolchain")
