"""Objects that were kept are whole or not there, and no more of them than wanted."""

from __future__ import annotations

import os
from pathlib import Path

from toolchain.lowering.kernels.store import ObjectStore, fingerprint


def test_what_was_put_is_there(cache: Path) -> None:
    assert ObjectStore().get("a") is None
    ObjectStore().put("a", b"object")
    assert ObjectStore().get("a") == b"object"
    assert [path.name for path in (cache / "objects" / fingerprint()).iterdir()] == ["a"]


def test_what_is_damaged_is_not_there(cache: Path) -> None:
    store = ObjectStore()
    for name in ("cut", "changed", "empty"):
        store.put(name, b"object")
    folder = cache / "objects" / fingerprint()
    whole = (folder / "cut").read_bytes()
    (folder / "cut").write_bytes(whole[:-1])
    (folder / "changed").write_bytes(whole[:-1] + b"X")
    (folder / "empty").write_bytes(b"")
    assert [ObjectStore().get(name) for name in ("cut", "changed", "empty")] == [None] * 3
    store.put("cut", b"object")
    assert store.get("cut") == b"object"


def test_a_folder_that_cannot_be_made_is_said_once_and_does_no_harm(cache: Path) -> None:
    (cache / "objects").write_text("in the way")
    store = ObjectStore()
    store.put("a", b"object")
    assert str(cache / "objects") in store.refused
    assert store.get("a") is None
    store.prune()


def test_the_oldest_go_first_those_of_other_versions_too(cache: Path) -> None:
    store = ObjectStore()
    older = cache / "objects" / ("0" * 32)
    older.mkdir(parents=True)
    (older / "foreign").write_bytes(bytes(1000))
    for name in ("used", "unused", "new"):
        store.put(name, bytes(1000))
    for age, path in enumerate((older / "foreign", store.folder / "used", store.folder / "unused")):
        os.utime(path, (1000 + age, 1000 + age))
    assert store.get("used")  # which makes it young again
    store.prune(2500)
    assert [store.get(name) is not None for name in ("used", "unused", "new")] == [True, False, True]
    assert not older.exists()
