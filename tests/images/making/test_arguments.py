"""Build arguments: those that an image takes, and files that are handed over by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.errors import UsageError
from toolchain.images.catalogue import Image
from toolchain.images.making.arguments import check, declared, with_files


def image(tables: Path, name: str, dockerfile: str) -> Image:
    (tables / name).mkdir()
    (tables / name / "Dockerfile").write_text(dockerfile)
    return Image(name=name, description="a test", folder=name)


def test_what_a_dockerfile_takes_from_its_user(tables: Path) -> None:
    text = (
        "ARG FOUNDATION\nARG DEBIAN=x\nARG MIRROR\nFROM ${FOUNDATION}\nARG  WORD\nARG _N1=a b\n"
        "# ARG COMMENTED\nRUN echo ARG ECHOED\nARG WORD\n"
    )
    assert declared(image(tables, "toy", text)) == {"WORD", "_N1"}
    assert declared(Image(name="board", description="a test", system="arm64")) == set()


def test_a_key_that_one_of_the_images_takes_is_right(tables: Path) -> None:
    images = [image(tables, "one", "ARG A\n"), image(tables, "two", "ARG B=1\n")]
    check({"A": "x", "B": ""}, images)
    with pytest.raises(UsageError, match=r"--build-arg C: none of one, two takes it") as caught:
        check({"A": "x", "C": "x"}, iter(images))
    assert caught.value.hint == "they take: A, B"
    with pytest.raises(UsageError) as caught:
        check({"a": "x"}, [image(tables, "none", "FROM x\n")])
    assert caught.value.hint == "they take none"


def test_a_file_goes_into_the_context_under_its_name(tmp_path: Path) -> None:
    (tmp_path / "a b.zip").touch()
    given = {"NDK_ARCHIVE": str(tmp_path / "a b.zip"), "WORD": "a b.zip", "OTHER_ARCHIVE": ""}
    values, files = with_files(given)
    assert values == {**given, "NDK_ARCHIVE": "given/a b.zip"}
    assert [(item.name, item.content) for item in files] == [("given/a b.zip", tmp_path / "a b.zip")]
    assert given["NDK_ARCHIVE"] == str(tmp_path / "a b.zip"), "what was given is left alone"


def test_a_home_folder_is_meant_by_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ndk.zip").touch()
    assert with_files({"NDK_ARCHIVE": "~/ndk.zip"})[1][0].content == tmp_path / "ndk.zip"


def test_the_home_folder_of_nobody_is_told() -> None:
    with pytest.raises(UsageError, match=r"NDK_ARCHIVE=~nosuchuser/x\.zip: no such file"):
        with_files({"NDK_ARCHIVE": "~nosuchuser/x.zip"})


@pytest.mark.parametrize("name", ["gone.zip", "."])
def test_a_file_that_is_not_there_is_told_before_anything_is_built(tables: Path, name: str) -> None:
    given = {"NDK_ARCHIVE": str(tables / name)}
    with pytest.raises(UsageError, match=r"--build-arg NDK_ARCHIVE=\S+: no such file"):
        check(given, [image(tables, "toy", "ARG NDK_ARCHIVE\n")])


def test_two_files_of_one_name_do_not_take_each_others_place(tmp_path: Path) -> None:
    files = [tmp_path / folder / "sdk.zip" for folder in ("one", "two")]
    for file in files:
        file.parent.mkdir()
        file.touch()
    with pytest.raises(UsageError, match=r"B_ARCHIVE=.*another file of this name is given") as caught:
        with_files({"A_ARCHIVE": str(files[0]), "B_ARCHIVE": str(files[1])})
    assert caught.value.hint == "rename one of the two"
    values, _ = with_files({"A_ARCHIVE": str(files[0]), "B_ARCHIVE": str(files[0])})
    assert values["A_ARCHIVE"] == values["B_ARCHIVE"] == "given/sdk.zip"
