"""Build arguments: those that an image takes, and files that are handed over by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.errors import UsageError
from toolchain.images.catalogue import Image
from toolchain.images.making.build import check_arguments, declared_arguments, resolved_arguments


def image(tables: Path, name: str, dockerfile: str) -> Image:
    (tables / name).mkdir()
    (tables / name / "Dockerfile").write_text(dockerfile)
    return Image(name=name, description="a test", folder=name)


def test_declared_arguments_of_a_dockerfile(tables: Path) -> None:
    text = (
        "ARG FOUNDATION\nARG DEBIAN=x\nARG MIRROR\nFROM ${FOUNDATION}\nARG  WORD\nARG _N1=a b\n"
        "# ARG COMMENTED\nRUN echo ARG ECHOED\nARG WORD\n"
    )
    assert declared_arguments(image(tables, "toy", text)) == {"WORD", "_N1"}
    assert declared_arguments(Image(name="board", description="a test", system="arm64")) == set()


def test_refuses_keys_that_no_image_takes(tables: Path) -> None:
    images = [image(tables, "one", "ARG A\n"), image(tables, "two", "ARG B=1\n")]
    check_arguments({"A": "x", "B": ""}, images)
    with pytest.raises(UsageError, match=r"--build-arg C: none of one, two takes it") as caught:
        check_arguments({"A": "x", "C": "x"}, iter(images))
    assert caught.value.hint == "they take: A, B"
    with pytest.raises(UsageError) as caught:
        check_arguments({"a": "x"}, [image(tables, "none", "FROM x\n")])
    assert caught.value.hint == "they take none"


def test_argument_files_are_added_to_the_context(tmp_path: Path) -> None:
    (tmp_path / "a b.zip").touch()
    arguments = {"NDK_ARCHIVE": str(tmp_path / "a b.zip"), "WORD": "a b.zip", "OTHER_ARCHIVE": ""}
    values, files = resolved_arguments(arguments)
    assert values == {**arguments, "NDK_ARCHIVE": "given/a b.zip"}
    assert [(item.name, item.content) for item in files] == [("given/a b.zip", tmp_path / "a b.zip")]
    assert arguments["NDK_ARCHIVE"] == str(tmp_path / "a b.zip"), "what was given is left alone"


def test_tilde_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ndk.zip").touch()
    assert resolved_arguments({"NDK_ARCHIVE": "~/ndk.zip"})[1][0].content == tmp_path / "ndk.zip"


def test_unknown_users_home_folder_is_reported() -> None:
    with pytest.raises(UsageError, match=r"NDK_ARCHIVE=~nosuchuser/x\.zip: no such file"):
        resolved_arguments({"NDK_ARCHIVE": "~nosuchuser/x.zip"})


@pytest.mark.parametrize("name", ["gone.zip", "."])
def test_missing_argument_file_is_reported_before_the_build(tables: Path, name: str) -> None:
    arguments = {"NDK_ARCHIVE": str(tables / name)}
    with pytest.raises(UsageError, match=r"--build-arg NDK_ARCHIVE=\S+: no such file"):
        check_arguments(arguments, [image(tables, "toy", "ARG NDK_ARCHIVE\n")])


def test_refuses_two_argument_files_of_one_name(tmp_path: Path) -> None:
    files = [tmp_path / folder / "sdk.zip" for folder in ("one", "two")]
    for file in files:
        file.parent.mkdir()
        file.touch()
    with pytest.raises(UsageError, match=r"B_ARCHIVE=.*another file of this name is given") as caught:
        resolved_arguments({"A_ARCHIVE": str(files[0]), "B_ARCHIVE": str(files[1])})
    assert caught.value.hint == "rename one of the two"
    values, _ = resolved_arguments({"A_ARCHIVE": str(files[0]), "B_ARCHIVE": str(files[0])})
    assert values["A_ARCHIVE"] == values["B_ARCHIVE"] == "given/sdk.zip"
