"""What may be published of names that a board, a driver or this host gives."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from toolchain.acceptance.public import (
    class_name,
    hardware_name,
    kernel_version,
    keyword,
    network_name,
    telling_words,
)
from toolchain.boards.inventory.lookup import find_board

KEY = base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32)).decode()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Intel(R) Xeon(R) CPU E5-2670 v3 @ 2.30GHz", "Intel(R) Xeon(R) CPU E5-2670 v3 @ 2.30GHz"),
        ("  AMD   EPYC 9B45 \n", "AMD EPYC 9B45"),
        ("Mali-T860", "Mali-T860"),
        ("rosalind's machine", None),
        ("/home/x", None),
        ("Rosalind CPU", None),
        ("<b>", None),
        ("", None),
        (None, None),
    ],
)
def test_names_of_hardware(name: str | None, said: str | None) -> None:
    assert hardware_name(name, frozenset({"rosalind"})) == said


def test_of_a_kernel_only_numbers() -> None:
    assert kernel_version("4.4.194-11-rosalind-gb2d12ab") == "4.4.194"
    assert kernel_version("6.1") == "6.1"
    assert kernel_version("rosalinds") is None and kernel_version(None) is None


def test_only_what_everybody_has_keeps_its_name() -> None:
    assert class_name("rk3399") == "rk3399" and class_name("x86_64") == "x86_64"
    assert class_name("rosalinds-class") == "own"
    assert network_name("zoo:mobilenet") == "mobilenet"
    assert network_name("zoo:mine") == network_name("/home/rosalind/mine.onnx") == "own"


def test_a_class_of_ones_own_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "boards" / "secret").mkdir(parents=True)
    (tmp_path / "boards" / "secret" / "board.toml").touch()
    (tmp_path / "toolchain.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert class_name("secret") == "own"


def test_words_of_ours_fit_the_document() -> None:
    assert keyword("fused conv2d|add") == "fused_conv2d_add"
    assert len(keyword("x" * 500)) == 100 and keyword("") == "_" and keyword("..a") == "a"


def test_telling_words_are_those_of_board_and_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    assert state
    (tmp_path / "toolchain.toml").write_text(
        f'[boards.kitchen]\nclass = "rk3399"\nhost = "rock.example.org"\nuser = "rosalind"\n'
        f'root = "/srv/experiments"\ngroups = ["night-shift"]\nhost_key = "ssh-ed25519 {KEY}"\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("socket.gethostname", lambda: "workhorse")
    found = telling_words(find_board("kitchen"))
    wanted = {"kitchen", "rock.example.org", "example", "rosalind", "experiments", "night-shift", "workhorse"}
    assert wanted <= found
    assert not found & {"home", "root", "srv/", "x86_64"}
