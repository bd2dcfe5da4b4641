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
    mounts = {(str(m.path.relative_to(home)), m.writable) for m in mounts_for(reads, writes)}
    always = {("state", False), ("state/events", True), ("data", True), ("cache", True)}
    assert always <= mounts
    work = {mount for mount in mounts if mount[0] in ("work", "work/deep") and not mount[1]}
    assert len(work) == 1
    return mounts - always - work


def test_workspace_is_the_configurations_folder_or_the_current_one(home: Path) -> None:
    from toolchain.configuration.settings import configuration

    assert Mount(home / "work" / "deep") in mounts_for([], [])
    (home / "work" / "toolchain.toml").touch()
    configuration.cache_clear()
    assert Mount(home / "work") in mounts_for([], [])


def test_files_in_the_workspace_need_no_further_mount(home: Path) -> None:
    assert extra(home, [Path("model.onnx"), Path("sub/x.npy")], []) == set()


def test_only_the_output_folder_is_writable(home: Path) -> None:
    assert extra(home, [], [Path("out")]) == {("work/deep/out", True)}
    assert extra(home, [], [Path("out"), Path("out/sub")]) == {("work/deep/out", True)}


def test_files_outside_the_workspace_bring_their_folder(home: Path) -> None:
    assert extra(home, [Path("../../a/model.onnx")], [Path("../../b")]) == {("a", False), ("b", True)}


def test_link_targets_are_mounted(home: Path) -> None:
    (home / "far" / "out").mkdir(parents=True)
    (home / "far" / "real.onnx").touch()
    Path("model.onnx").symlink_to(home / "far" / "real.onnx")
    Path("out").symlink_to(home / "far" / "out")
    assert extra(home, [Path("model.onnx")], []) == {("far", False)}
    assert extra(home, [], [Path("out")]) == {("far/out", True)}
    (home / "link").symlink_to(home / "far")
    assert extra(home, [home / "link" / "real.onnx"], []) == {("link", False), ("far", False)}


def test_file_in_the_home_folder_is_mounted_without_its_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".ssh").mkdir()
    for name in (".ssh/id_ed25519", "net.onnx", "net.onnx.data", "net.data", "networth.ods", "notes"):
        (home / name).touch()
    monkeypatch.setenv("HOME", str(home))
    expected = {("net.onnx", False), ("net.onnx.data", False), ("net.data", False)}
    assert extra(home, [home / "net.onnx"], []) == expected
    (home / "deep" / "er").mkdir(parents=True)
    (home / "deep" / "link.onnx").symlink_to(home / "net.onnx")
    assert extra(home, [home / "deep" / "link.onnx"], []) == {("deep", False), *expected}
    monkeypatch.setenv("HOME", str(home / "deep" / "er"))
    assert extra(home, [home / "notes"], []) == {("notes", False)}, "it contains the home folder"
    (home / "deep" / "home").symlink_to(home)
    monkeypatch.setenv("HOME", str(home / "deep" / "home"))
    assert extra(home, [home / "notes"], []) == {("notes", False)}


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("folder", ["/", "/tmp", "/usr", "/etc", "/proc/self", "/opt/venv/lib"])
def test_refuses_to_hide_folders_of_the_image(folder: str) -> None:
    with pytest.raises(UsageError, match=f"a container has a folder {folder} of its own") as raised:
        mounts_for([], [Path(folder)])
    assert "--engine host" in raised.value.hint
    # A file there may be had by itself.
    file = Path(folder) / "model.onnx"
    if not folder.startswith(("/proc", "/opt/venv")):
        assert Mount(file) in mounts_for([file], [])


@pytest.mark.usefixtures("home")
def test_refuses_a_workspace_that_hides_folders_of_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/tmp")
    with pytest.raises(UsageError, match="/tmp"):
        mounts_for([], [])


def test_missing_writable_folders_are_made_and_removed_if_empty(tmp_path: Path) -> None:
    used, unused, read_only = tmp_path / "a" / "used", tmp_path / "b" / "unused", tmp_path / "c"
    with ensure_folders([Mount(used, True), Mount(unused, True), Mount(read_only)]):
        assert used.is_dir() and unused.is_dir() and not read_only.exists()
        (used / "file").touch()
    assert (used / "file").exists()
    assert not (tmp_path / "b").exists()


def test_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ToolchainError, match="file/out"),
        ensure_folders([Mount(tmp_path / "file" / "out", True)]),
    ):
        pass
