"""What of this host a container sees: no more than a step needs, under the same names."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.errors import ToolchainError, UsageError
from toolchain.images.running.mounts import Mount, ensure_folders, mounts_for


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a workspace, the current one, and folders of ours elsewhere."""
    for name in ("data", "cache", "state"):
        monkeypatch.setenv(f"TOOLCHAIN_{name.upper()}_DIR", str(tmp_path / name))
    (tmp_path / "state").mkdir()
    (tmp_path / "work" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work" / "deep")
    return tmp_path


def extra(home: Path, reads: list[Path], writes: list[Path]) -> set[tuple[str, bool]]:
    """Return what is mounted on top of the workspace and our own folders."""
    found = {(str(m.path.relative_to(home)), m.writable) for m in mounts_for(reads, writes)}
    always = {("state", False), ("state/events", True), ("data", True), ("cache", True)}
    assert always <= found
    work = {each for each in found if each[0] in ("work", "work/deep") and not each[1]}
    assert len(work) == 1
    return found - always - work


def test_the_workspace_is_the_folder_of_the_file_else_the_current_one(home: Path) -> None:
    from toolchain.configuration.settings import configuration

    assert Mount(home / "work" / "deep") in mounts_for([], [])
    (home / "work" / "toolchain.toml").touch()
    configuration.cache_clear()
    assert Mount(home / "work") in mounts_for([], [])


def test_what_lies_in_the_workspace_is_mounted_once(home: Path) -> None:
    assert extra(home, [Path("model.onnx"), Path("sub/x.npy")], []) == set()


def test_an_output_folder_in_it_can_be_written_and_nothing_else(home: Path) -> None:
    assert extra(home, [], [Path("out")]) == {("work/deep/out", True)}
    assert extra(home, [], [Path("out"), Path("out/sub")]) == {("work/deep/out", True)}


def test_files_elsewhere_come_with_their_folder_which_may_hold_a_networks_weights(home: Path) -> None:
    assert extra(home, [Path("../../a/model.onnx")], [Path("../../b")]) == {("a", False), ("b", True)}


def test_what_a_link_leads_to_comes_too(home: Path) -> None:
    (home / "far" / "out").mkdir(parents=True)
    (home / "far" / "real.onnx").touch()
    Path("model.onnx").symlink_to(home / "far" / "real.onnx")
    Path("out").symlink_to(home / "far" / "out")
    assert extra(home, [Path("model.onnx")], []) == {("far", False)}
    assert extra(home, [], [Path("out")]) == {("far/out", True)}
    (home / "link").symlink_to(home / "far")
    assert extra(home, [home / "link" / "real.onnx"], []) == {("link", False), ("far", False)}


def test_a_file_in_the_home_folder_comes_without_the_keys_beside_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".ssh").mkdir()
    for name in (".ssh/id_ed25519", "net.onnx", "net.onnx.data", "net.data", "networth.ods", "notes"):
        (home / name).touch()
    monkeypatch.setenv("HOME", str(home))
    ours = {("net.onnx", False), ("net.onnx.data", False), ("net.data", False)}
    assert extra(home, [home / "net.onnx"], []) == ours
    (home / "deep" / "er").mkdir(parents=True)
    (home / "deep" / "link.onnx").symlink_to(home / "net.onnx")
    assert extra(home, [home / "deep" / "link.onnx"], []) == {("deep", False), *ours}
    monkeypatch.setenv("HOME", str(home / "deep" / "er"))
    assert extra(home, [home / "notes"], []) == {("notes", False)}, "it contains the home folder"
    (home / "deep" / "home").symlink_to(home)
    monkeypatch.setenv("HOME", str(home / "deep" / "home"))
    assert extra(home, [home / "notes"], []) == {("notes", False)}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("folder", ["/", "/tmp", "/usr", "/etc", "/proc/self", "/opt/venv/lib"])
def test_folders_that_the_image_needs_are_refused(folder: str) -> None:
    with pytest.raises(UsageError, match=f"a container has a folder {folder} of its own") as raised:
        mounts_for([], [Path(folder)])
    assert "--engine host" in raised.value.hint
    # A file there may be had by itself.
    file = Path(folder) / "model.onnx"
    if not folder.startswith(("/proc", "/opt/venv")):
        assert Mount(file) in mounts_for([file], [])


@pytest.mark.usefixtures("home")
def test_a_workspace_that_the_image_needs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/tmp")
    with pytest.raises(UsageError, match="/tmp"):
        mounts_for([], [])


def test_folders_to_write_are_there_while_it_runs_and_stay_if_they_are_used(tmp_path: Path) -> None:
    used, unused, shown = tmp_path / "a" / "used", tmp_path / "b" / "unused", tmp_path / "c"
    with ensure_folders([Mount(used, True), Mount(unused, True), Mount(shown)]):
        assert used.is_dir() and unused.is_dir() and not shown.exists()
        (used / "file").touch()
    assert (used / "file").exists()
    assert not (tmp_path / "b").exists()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ToolchainError, match="file/out"),
        ensure_folders([Mount(tmp_path / "file" / "out", True)]),
    ):
        pass
