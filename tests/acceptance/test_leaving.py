"""A board is left as it was."""

from __future__ import annotations

from pathlib import Path

from toolchain.acceptance.leaving import entries, keeping, remove_what_came
from toolchain.boards.edge_rt.install import stock
from toolchain.boards.local.transport import LocalTransport


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_what_came_goes_and_what_was_there_stays(tmp_path: Path) -> None:
    transport = LocalTransport(tmp_path)
    for number in range(8):
        transport.put(b"theirs", f"lib/{number}.so")
    transport.put(b"release", "shop/releases/a/library.so")
    transport.put(b"theirs", "bin/edge-rt-old", executable=True)
    transport.put(b"", "state/measure.lock")
    there = tree(tmp_path)
    before = entries(transport)
    uploads: list[str] = []
    guarded = keeping(transport, before, uploads.append)
    for number in range(3):  # each would make room by removing the oldest of theirs
        stock(guarded, f"lib/ours{number}.so", b"ours", keep=8)
    stock(guarded, "bin/edge-rt-new", b"ours", keep=1, executable=True)
    for name in ("begun", "0.npy"):
        guarded.put(b"x", f"run/abc/{name}")
    transport.put(b"x", "state/sessions/1/x.so")
    assert there.items() <= tree(tmp_path).items()
    assert uploads == ["lib/ours0.so", "lib/ours1.so", "lib/ours2.so", "run/abc"]
    remove_what_came(transport, before, uploads)
    assert tree(tmp_path) == there


def test_what_others_upload_meanwhile_stays(tmp_path: Path) -> None:
    """They may wait for their turn to measure."""
    transport = LocalTransport(tmp_path)
    uploads: list[str] = []
    before = entries(transport)
    keeping(transport, before, uploads.append).put(b"ours", "lib/ours.so")
    transport.put(b"theirs", "lib/theirs.so")
    transport.put(b"theirs", "run/theirs/begun")
    remove_what_came(transport, before, uploads)
    assert set(tree(tmp_path)) == {"lib/theirs.so", "run/theirs/begun"}


def test_a_lock_that_came_stays_for_others_may_hold_it(tmp_path: Path) -> None:
    transport = LocalTransport(tmp_path)
    before = entries(transport)
    transport.put(b"", "state/measure.lock")
    transport.put(b"x", "state/devices/cache")
    remove_what_came(transport, before, ())
    assert list(tree(tmp_path)) == ["state/measure.lock"]


def test_files_of_ours_may_be_removed_meanwhile(tmp_path: Path) -> None:
    transport = LocalTransport(tmp_path)
    transport.put(b"theirs", "lib/a.so")
    guarded = keeping(transport, entries(transport), lambda _entry: None)
    guarded.put(b"ours", "lib/b.so")
    guarded.remove("lib/a.so", "lib/b.so")
    assert list(tree(tmp_path)) == ["lib/a.so"] and guarded.kind == "local"


def test_a_board_that_is_one_device_of_its_machine_has_its_own_state(tmp_path: Path) -> None:
    transport = LocalTransport(tmp_path)
    transport.put(b"theirs", "state/sessions/1/x.so")
    before = entries(transport, "cuda:1")
    transport.put(b"ours", "state-cuda-1/sessions/2/x.so")
    transport.put(b"theirs", "state/sessions/2/x.so")
    remove_what_came(transport, before, (), "cuda:1")
    assert set(tree(tmp_path)) == {"state/sessions/1/x.so", "state/sessions/2/x.so"}
