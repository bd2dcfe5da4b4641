"""Build contexts: the same bytes whoever writes them, and nothing that tools leave behind."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from toolchain.images.catalogue import image_named
from toolchain.images.contents import Item, digest_of, files_of, items_of, write_context

NAMES = st.text("abc", min_size=1, max_size=3)


def tree(folder: Path) -> Path:
    (folder / "b" / "__pycache__").mkdir(parents=True)
    (folder / "b" / "__pycache__" / "x.pyc").write_bytes(b"junk")
    (folder / ".hidden").write_text("junk")
    (folder / "b" / "run").write_text("#!/bin/sh\n")
    (folder / "b" / "run").chmod(0o755)
    (folder / "a").write_text("a\n")
    return folder


def test_context_is_reproducible(tmp_path: Path) -> None:
    written: list[bytes] = []
    for name in ("one", "two"):
        folder = tree(tmp_path / name)
        os.utime(folder / "a", (len(written) * 1e6, len(written) * 1e6))
        (folder / "a").chmod(0o600 if written else 0o664)
        target = tmp_path / f"{name}.tar"
        write_context(target, [*files_of(folder), Item("made", b"text")], ["certs"])
        written.append(target.read_bytes())
    assert written[0] == written[1]
    with tarfile.open(tmp_path / "one.tar") as archive:
        entries = {entry.name: entry for entry in archive}
    assert list(entries) == ["certs", "a", "b/run", "made"]
    assert entries["b/run"].mode == 0o755 and entries["a"].mode == 0o644
    assert {(e.uid, e.gid, e.mtime) for e in entries.values()} == {(0, 0, 0)}


@given(st.dictionaries(NAMES, st.binary(max_size=3), min_size=1), st.data())
def test_digest_depends_on_content_and_not_on_order(files: dict[str, bytes], data: st.DataObject) -> None:
    one = [Item(name, content) for name, content in files.items()]
    assert digest_of(one) == digest_of(reversed(one))
    name = data.draw(st.sampled_from(sorted(files)))
    for changed in (
        [Item(i.name, i.content + b"!" if i.name == name else i.content) for i in one],
        [Item(i.name, i.content, i.name == name) for i in one],
        [Item(i.name + "!" if i.name == name else i.name, i.content) for i in one],
        [i for i in one if i.name != name],
    ):
        assert digest_of(changed) != digest_of(one)


def test_only_the_base_image_contains_the_code() -> None:
    names = {item.name for item in items_of(image_named("base"))}
    assert {"Dockerfile", "packages.sh", "requirements.txt", "code/toolchain/cli/root.py"} <= names
    assert "code/toolchain/boards_shipped/rk3399/board.toml" in names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".so")]
    above = {item.name for item in items_of(image_named("aarch64"))}
    assert above == {"Dockerfile", "packages.sh", "slim-cross.sh"}


def test_shared_scripts_go_into_images_that_name_them() -> None:
    names = {
        image: {item.name for item in items_of(image_named(image))} for image in ("base", "vta-sim", "armhf")
    }
    assert "slim-cross.sh" in names["armhf"] and "slim-cross.sh" not in names["base"] | names["vta-sim"]
