"""Build contexts: the same bytes whoever writes them, and nothing that tools leave behind."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from toolchain.images.catalogue import image_named
from toolchain.images.contents.context import Item, digest, files_of, write_context
from toolchain.images.contents.sources import items

NAMES = st.text("abc", min_size=1, max_size=3)


def tree(folder: Path) -> Path:
    (folder / "b" / "__pycache__").mkdir(parents=True)
    (folder / "b" / "__pycache__" / "x.pyc").write_bytes(b"junk")
    (folder / ".hidden").write_text("junk")
    (folder / "b" / "run").write_text("#!/bin/sh\n")
    (folder / "b" / "run").chmod(0o755)
    (folder / "a").write_text("a\n")
    return folder


def test_the_same_files_give_the_same_bytes_at_any_time(tmp_path: Path) -> None:
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
        found = {entry.name: entry for entry in archive}
    assert list(found) == ["certs", "a", "b/run", "made"]
    assert found["b/run"].mode == 0o755 and found["a"].mode == 0o644
    assert {(e.uid, e.gid, e.mtime) for e in found.values()} == {(0, 0, 0)}


@given(st.dictionaries(NAMES, st.binary(max_size=3), min_size=1), st.data())
def test_the_digest_tells_every_change_and_no_order(files: dict[str, bytes], data: st.DataObject) -> None:
    one = [Item(name, content) for name, content in files.items()]
    assert digest(one) == digest(reversed(one))
    name = data.draw(st.sampled_from(sorted(files)))
    for changed in (
        [Item(i.name, i.content + b"!" if i.name == name else i.content) for i in one],
        [Item(i.name, i.content, i.name == name) for i in one],
        [Item(i.name + "!" if i.name == name else i.name, i.content) for i in one],
        [i for i in one if i.name != name],
    ):
        assert digest(changed) != digest(one)


def test_code_goes_into_the_base_alone() -> None:
    names = {item.name for item in items(image_named("base"))}
    assert {"Dockerfile", "packages.sh", "requirements.txt", "code/toolchain/cli/root.py"} <= names
    assert "code/toolchain/boards_shipped/rk3399/board.toml" in names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".so")]
    above = {item.name for item in items(image_named("aarch64"))}
    assert above == {"Dockerfile", "packages.sh", "slim-cross.sh"}


def test_a_script_of_several_images_goes_where_it_is_named() -> None:
    names = {each: {item.name for item in items(image_named(each))} for each in ("base", "vta-sim", "armhf")}
    assert "slim-cross.sh" in names["armhf"] and "slim-cross.sh" not in names["base"] | names["vta-sim"]
