"""`toolchain release`, from keys to a file for a stick."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from tests.images.docker_registry import docker_registry
from tests.releases.made import small_bundle
from toolchain.measuring.verifications import remember
from toolchain.releases.signed_release import open_release
from toolchain.releases.signers.openssh import make_pair
from toolchain.releases.trust import TRUST_TYPE, read_trust

pytestmark = pytest.mark.slow  # with its whole file

TERMS = ("--version", "2.0.0", "--expires", "2100-01-01")


@pytest.fixture
def field(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the commands' folder with keys of three people, a bundle and a trust of two root keys."""
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(folder.parent / "data"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    for name in ("anna", "bert", "cara"):
        make_pair(folder / name, "")
    small_bundle(folder / "tiny.bundle")
    return folder


@pytest.fixture
def trusted(field: Path, invoke: Toolchain) -> Path:
    options = ("--key", "anna", "--key", "bert", "--root-threshold", "2", "--release-key", "cara.pub")
    assert invoke("release", "init", *options).code == 0
    return field


def verified(folder: Path, board_class: str = "rk3399+emulated") -> None:
    remember(hashlib.sha256((folder / "tiny.bundle").read_bytes()).hexdigest(), board_class, 1e-5, "cpu")


def test_keys_are_made_with_and_without_a_passphrase(
    folder: Path, invoke: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invoke("release", "keygen", "-o", "open", "--no-passphrase").says("open can sign")
    monkeypatch.setenv("TOOLCHAIN_KEY_PASSPHRASE", "geheim")
    ran = invoke("release", "keygen", "-o", "locked", "--json")
    assert ran.code == 0 and "geheim" not in ran.out + ran.err
    assert (folder / "locked").stat().st_mode & 0o777 == 0o600
    assert ran.document["fingerprint"].startswith("SHA256:")
    refused(invoke, folder, 2, ["locked exists", "-o FILE"], "release", "keygen", "-o", "locked")
    monkeypatch.setenv("TOOLCHAIN_KEY_PASSPHRASE", "")
    refused(invoke, folder, 2, ["empty", "--no-passphrase"], "release", "keygen", "-o", "more")


def test_a_release_is_signed_by_several_and_verified(trusted: Path, invoke: Toolchain) -> None:
    refused(
        invoke, trusted, 2, ["never verified on an emulated board of class rk3399", "toolchain verify"],
        "release", "sign", "tiny.bundle", "--key", "cara", *TERMS,
    )  # fmt: skip
    verified(trusted)
    dry = invoke("release", "sign", "tiny.bundle", "--key", "cara.pub", *TERMS, "--dry-run", "--json")
    assert dry.document["dry_run"] and not (trusted / "tiny.bundle.release").exists()
    ran = invoke(
        "release", "sign", "tiny.bundle", "--key", "cara", *TERMS,
        "--latency-ms", "12.5", "--memory-mib", "64", "--provenance", "commit=4f2a91", "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert ran.document["budget"] == {"latency_us": 12500, "memory_kib": 65536}
    assert ran.document["verified"]["error_ppb"] == 10_000
    payload = open_release(trusted / "tiny.bundle").envelope.payload
    assert invoke("release", "sign", "tiny.bundle", "--key", "anna").code == 0
    assert open_release(trusted / "tiny.bundle").envelope.payload == payload
    ran = invoke("release", "verify", "tiny.bundle", "--trust", "trust.json", "--json")
    assert ran.code == 0 and ran.document["valid"] and len(ran.document["signers"]) == 1
    assert invoke("release", "verify", "tiny.bundle", "--trust", "anna.pub").code == 0
    refused(
        invoke, trusted, 4, ["0 of the 1 trusted key"],
        "release", "verify", "tiny.bundle", "--trust", "bert.pub",
    )  # fmt: skip
    ran = invoke("release", "inspect", "tiny.bundle", "--json")
    assert ran.document["statement"]["predicate"]["provenance"]["commit"] == "4f2a91"
    assert invoke("release", "inspect", "tiny.bundle").says("not checked")


def test_emulated_boards_do_not_verify_for_real_ones(trusted: Path, invoke: Toolchain) -> None:
    small_bundle(trusted / "tiny.bundle", emulated=False)
    verified(trusted)
    sign = ("release", "sign", "tiny.bundle", "--key", "cara", *TERMS)
    refused(invoke, trusted, 2, ["a board of class rk3399; it was on: rk3399+emulated"], *sign)
    ran = invoke(*sign, "--unverified", "--json")
    assert ran.code == 0 and ran.document["verified"] is None and ran.document["classes"] == ["rk3399"]
    (trusted / "tiny.bundle.release").unlink()
    verified(trusted, "rk3399")
    assert invoke(*sign, "--json").document["verified"]["board_class"] == "rk3399"


def test_a_trust_is_changed_by_people_one_after_the_other(trusted: Path, invoke: Toolchain) -> None:
    change = ("release", "trust", "rotate", "trust.json", "bert.pub", "cara.pub", "--key", "anna")
    ran = invoke(*change, "--json")
    assert ran.code == 0 and not ran.document["complete"]
    assert [(m["version"], m["signatures"], m["threshold"]) for m in ran.document["missing"]] == [
        (1, 1, 2),
        (2, 1, 2),
    ]
    assert read_trust(trusted / "trust.json").newest.version == 1
    refused(invoke, trusted, 2, ["waits for signatures already", "trust sign"], *change)
    assert invoke("release", "trust", "show", "trust.json").says("trust sign trust.json --key KEY")
    assert not invoke("release", "trust", "sign", "trust.json", "--key", "cara", "--json").document[
        "complete"
    ]
    assert invoke("release", "trust", "sign", "trust.json", "--key", "bert", "--json").document["complete"]
    assert not (trusted / "trust.json.next").exists()
    chain = read_trust(trusted / "trust.json")
    assert chain.newest.version == 2 and len(chain.envelopes) == 2
    (trusted / "trust.json.next").write_bytes(chain.envelopes[-1].to_bytes())  # as a crash would leave it
    ran = invoke(
        "release", "trust", "remove-key", "trust.json", chain.newest.keys[0].key.fingerprint,
        "--root-threshold", "1", "--key", "anna", "--key", "cara", "--json",
    )  # fmt: skip
    assert ran.code == 0 and ran.document["version"] == 3 and ran.document["complete"], ran.err
    assert (
        invoke("release", "trust", "rotate", "trust.json", "--expires", "2090-01-01", "--key", "cara").code
        == 0
    )
    ran = invoke("release", "trust", "add-key", "trust.json", "anna.pub", "--key", "cara", "--json")
    assert ran.document["version"] == 5
    assert {key["release"] for key in ran.document["keys"]} == {True}


def test_export_writes_the_stream_and_the_bundle(trusted: Path, invoke: Toolchain) -> None:
    verified(trusted)
    invoke("release", "sign", "tiny.bundle", "--key", "cara", *TERMS)
    ran = invoke("release", "export", "tiny.bundle", "-o", "stick", "--trust", "trust.json", "--json")
    assert ran.code == 0, ran.err
    content = (trusted / "stick").read_bytes()
    magic, line, rest = content.split(b"\n", 2)
    header, release = json.loads(line), open_release(trusted / "tiny.bundle")
    assert magic == b"edge-release 1" and header["class"] is None
    start = sum(header["trust"]) + header["release"]
    assert json.loads(rest[: header["trust"][0]])["payloadType"].endswith("trust+json")
    for part in release.parts:
        assert hashlib.sha256(rest[start : start + part.size]).hexdigest() == part.sha256
        start += part.size
    assert start == len(rest)
    assert invoke("release", "export", "tiny.bundle", "-o", "copy", "--bundle-only").code == 0
    assert open_release(trusted / "copy").digest == release.digest
    refused(invoke, trusted, 2, ["-o tiny.bundle"], "release", "export", "tiny.bundle", "-o", "tiny.bundle")


def test_options_of_another_carrier_are_refused_before_the_bundle_is_read(
    trusted: Path, invoke: Toolchain
) -> None:
    export = ("release", "export", "none.bundle", "-o", "out")
    says = ["--format mender cannot be combined with --bundle-only", "--device-type"]
    refused(invoke, trusted, 2, says, *export, "--format", "mender", "--bundle-only")
    says = ["--format file cannot be combined with --device-type", "--bundle-only"]
    refused(invoke, trusted, 2, says, *export, "--device-type", "rk3399")
    refused(invoke, trusted, 2, ["without https://"], "release", "push", "https://a.b/c:1", "none.bundle")


def test_a_release_goes_to_a_registry_and_comes_back(
    trusted: Path, invoke: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))  # has no passwords
    verified(trusted)
    invoke("release", "sign", "tiny.bundle", "--key", "cara", *TERMS)
    with docker_registry(tmp_path / "registry") as port:
        address = f"127.0.0.1:{port}/team/tiny"
        pushed = invoke("release", "push", f"{address}:2.0.0", "tiny.bundle", "--json").document
        assert set(pushed) == {"reference", "digest", "app", "version"}
        assert pushed["reference"] == f"{address}@{pushed['digest']}" and pushed["version"] == "2.0.0"
        again = invoke("release", "push", f"{address}:stable", "tiny.bundle")
        assert again.out == f"pushed {pushed['app']} 2.0.0: {pushed['reference']}\n"
        pull = ("release", "pull", pushed["reference"], "-o", "got.bundle", "--trust", "trust.json", "--json")
        pulled = invoke(*pull).document
    assert pulled == {**pushed, "bundle": str(trusted / "got.bundle")}
    assert (trusted / "got.bundle").read_bytes() == (trusted / "tiny.bundle").read_bytes()


def other_keys(folder: Path) -> None:
    for kind in ("rsa", "ecdsa"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", folder / kind], check=True, timeout=60
        )
    (folder / "dsa.pub").write_text("ssh-dss AAAAB3NzaC1kc3MAAAA= x\n")
    pem = ["ssh-keygen", "-q", "-t", "rsa", "-m", "PEM", "-N", "", "-f", folder / "pem"]
    subprocess.run(pem, check=True, timeout=60)
    (folder / "text").write_text("a letter\n")
    (folder / "noise").write_bytes(bytes(range(256)))
    (folder / "empty").touch()
    (folder / "huge").write_bytes(bytes(2**17))
    (folder / "shared").write_bytes((folder / "anna").read_bytes())
    (folder / "shared").chmod(0o644)
    cut = (folder / "anna").read_bytes()
    (folder / "cut").write_bytes(cut[:100] + cut[-37:])
    (folder / "cut").chmod(0o600)
    os.mkfifo(folder / "pipe")


KEYS = [
    ("nosuch", ["nosuch", "No such file", "`toolchain release keygen` makes one"]),
    ("rsa", ["rsa", "kind ssh-rsa", "keygen"]),
    ("rsa.pub", ["rsa.pub", "ssh-rsa"]),
    ("ecdsa", ["ecdsa-sha2-nistp256"]),
    ("dsa.pub", ["ssh-dss"]),
    ("pem", ["BEGIN RSA PRIVATE KEY"]),
    ("text", ["text", "cannot be used as a key"]),
    ("noise", ["not text"]),
    ("empty", ["empty"]),
    ("huge", ["huge", "65536"]),
    ("shared", ["other users may read", "chmod 600"]),
    ("cut", ["cut"]),
    ("pipe", ["it is a pipe"]),
    (".", ["it is a folder"]),
    ("anna.pub", ["not in an ssh-agent", "ssh-add"]),
    ("agent:SHA256:x", ["agent:SHA256:x", "ssh-add"]),
    ("pkcs11:token=t;object=o", ["module-path"]),
    ("pkcs11:token=t;pin-value=1234?module-path=/x", ["pin-value"]),
]


def test_refuses_keys_that_cannot_sign(trusted: Path, invoke: Toolchain) -> None:
    other_keys(trusted)
    for name, says in KEYS:
        refused(
            invoke, trusted, 2, says, "release", "sign", "tiny.bundle", "--unverified", "--key", name, *TERMS
        )


OPTIONS = [
    (["--version", "2"], ["--version", "not a semantic version"]),
    (["--version", "01.0.0"], ["--version", "not a semantic version"]),
    (["--version", "1.0.0+linux"], ["build metadata"]),
    (["--version", "1.0.0-" + "a" * 64], ["at most 64"]),
    (["--expires", "2020-01-01"], ["--expires", "past"]),
    (["--expires", "soon"], ["soon", "not a day"]),
    (["--app", "../x"], ["--app '../x'", "a-z"]),
    (["--classes", "rk3398"], ["rk3398"]),
    (["--classes", "rk3399,rk3399"], ["occurs twice"]),
    (["--latency-ms", "0"], ["--latency-ms"]),
    (["--runs", "0"], ["--runs"]),
    (["--provenance", "commit"], ["--provenance commit", "NAME=TEXT"]),
]


@pytest.mark.parametrize(("options", "says"), OPTIONS, ids=[" ".join(row[0])[:30] for row in OPTIONS])
def test_refuses_bad_sign_options(
    field: Path, invoke: Toolchain, options: list[str], says: list[str]
) -> None:
    refused(
        invoke,
        field,
        2,
        says,
        "release",
        "sign",
        "tiny.bundle",
        "--unverified",
        "--key",
        "anna",
        *TERMS,
        *options,
    )


def tar_bundle(folder: Path) -> None:
    small_bundle(folder / "tiny.bundle", format="tar")


def cut_bundle(folder: Path) -> None:
    (folder / "tiny.bundle").write_bytes((folder / "tiny.bundle").read_bytes()[:9000])


def changed_bundle(folder: Path) -> None:
    content = bytearray((folder / "tiny.bundle").read_bytes())
    content[7000] ^= 1
    (folder / "tiny.bundle").write_bytes(content)


SIGN = ["release", "sign", "tiny.bundle", "--unverified", "--key", "anna"]


def signed_by_anna(_: Path) -> None:
    from click.testing import CliRunner

    from toolchain.cli.commands.release import release

    done = CliRunner().invoke(release, [*SIGN[1:], *TERMS])
    assert done.exit_code == 0, done.output


def then(*steps: Callable[[Path], object]) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        for step in steps:
            step(folder)

    return do


def write(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


_TRUST = {"payloadType": TRUST_TYPE, "signatures": []}
BAD = [
    ("tar", tar_bundle, 2, ["tar of objects", "--format so"], [*SIGN, *TERMS]),
    ("cut", cut_bundle, 2, ["truncated"], [*SIGN, *TERMS]),
    ("changed", changed_bundle, 4, ["fails its check"], [*SIGN, *TERMS]),
    ("no terms", None, 2, ["--version is needed"], SIGN),
    ("again by one key", signed_by_anna, 2, ["signed by key", "already"], SIGN),
    ("other version", signed_by_anna, 2, ["--version", "cannot change", "remove"],
     [*SIGN, "--version", "3.0.0"]),
    ("no release", None, 2, ["no release", "release sign"], ["release", "inspect", "tiny.bundle"]),
    ("no bundle", None, 2, ["nosuch"], ["release", "inspect", "nosuch"]),
    ("release is a folder", lambda f: (f / "tiny.bundle.release").mkdir(), 2, ["folder"],
     ["release", "inspect", "tiny.bundle"]),
    ("release is text", write("tiny.bundle.release", "hello"), 4, ["not a DSSE envelope"],
     ["release", "inspect", "tiny.bundle"]),
    ("release is huge", write("tiny.bundle.release", " " * 300_000), 2, ["262144"],
     ["release", "inspect", "tiny.bundle"]),
    ("another bundle", then(signed_by_anna, lambda f: small_bundle(f / "tiny.bundle", board="b")), 4,
     ["another bundle", "remove"], ["release", "verify", "tiny.bundle", "--trust", "anna.pub"]),
    ("no trust", signed_by_anna, 2, ["nosuch", "`toolchain release init` makes one"],
     ["release", "verify", "tiny.bundle", "--trust", "nosuch"]),
    ("trust is none", then(signed_by_anna, write("t", "{}")), 4, ["not a DSSE envelope"],
     ["release", "verify", "tiny.bundle", "--trust", "t"]),
    ("trust is a letter", write("t", "dear anna"), 4, ["it is not JSON (line 1, column 1)"],
     ["release", "trust", "show", "t"]),
    ("trust is not base64", write("t", json.dumps({**_TRUST, "payload": "!"})), 4, ["standard base64"],
     ["release", "trust", "show", "t"]),
    ("trust is a folder", signed_by_anna, 2, ["folder"],
     ["release", "verify", "tiny.bundle", "--trust", "."]),
    ("trust is empty", write("t", ""), 2, ["empty"], ["release", "trust", "show", "t"]),
    ("trust is missing", None, 2, ["nosuch", "release init"], ["release", "trust", "show", "nosuch"]),
    ("trust exists", write("trust.json", ""), 2, ["empty"], ["release", "init", "--key", "anna"]),
    ("threshold", None, 2, ["threshold of root is 2", "--root-threshold"],
     ["release", "init", "--key", "anna", "--root-threshold", "2"]),
    ("key twice", None, 2, ["named twice"], ["release", "init", "--key", "anna", "--key", "anna.pub"]),
    ("trust past", None, 2, ["past"], ["release", "init", "--key", "anna", "--expires", "2020-01-01"]),
    ("nothing waits", None, 2, ["nothing waits", "trust.json.next"],
     ["release", "trust", "sign", "trust.json", "--key", "anna"]),
    ("wrong folder", signed_by_anna, 1, ["x"], ["release", "export", "tiny.bundle", "-o", "tiny.bundle/x"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("prepare", "code", "says", "arguments"), [row[1:] for row in BAD], ids=[r[0] for r in BAD]
)
def test_refuses_unusable_arguments(
    field: Path,
    invoke: Toolchain,
    prepare: Callable[[Path], object] | None,
    code: int,
    says: list[str],
    arguments: list[str],
) -> None:
    os.chdir(field)
    if prepare is not None:
        prepare(field)
    refused(invoke, field, code, says, *arguments)


CHANGES = [
    (["rotate", "trust.json", "--key", "cara"], ["not a root key"]),
    (["remove-key", "trust.json", "cara.pub", "--key", "anna"], ["--threshold"]),
    (["remove-key", "trust.json", "12345678", "--key", "anna"], ["no key of this id"]),
    (["add-key", "trust.json", "cara.pub", "--key", "anna"], ["named twice"]),
    (["rotate", "trust.json", "bert.pub", "--key", "anna"], ["new key is missing"]),
]


def test_refuses_impossible_trust_changes(trusted: Path, invoke: Toolchain) -> None:
    for arguments, says in CHANGES:
        refused(invoke, trusted, 2, says, "release", "trust", *arguments)
    damaged = (trusted / "trust.json").read_bytes().replace(b'payload"', b'x"')
    (trusted / "trust.json.next").write_bytes(damaged)
    refused(invoke, trusted, 4, ["trust.json.next"], "release", "trust", "show", "trust.json")


def test_without_a_terminal_the_environment_has_the_passphrase(
    field: Path, invoke: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_pair(field / "locked", "geheim")
    init = ("release", "init", "--key", "locked")
    refused(invoke, field, 2, ["no terminal", "TOOLCHAIN_KEY_PASSPHRASE", "ssh-add locked"], *init)
    monkeypatch.setenv("TOOLCHAIN_KEY_PASSPHRASE", "falsch")
    ran = invoke(*init)
    assert ran.code == 2 and ran.says("passphrase is wrong") and "falsch" not in ran.err
    monkeypatch.setenv("TOOLCHAIN_KEY_PASSPHRASE", "geheim")
    assert invoke(*init).code == 0


def test_a_terminal_asks_for_the_passphrase_and_does_not_show_it(field: Path) -> None:
    make_pair(field / "locked", "geheim")
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(field)
        arguments = ["-m", "toolchain", "release", "init", "--key", "locked"]
        os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606
    shown = b""
    with suppress(OSError):  # the other end closes when the command ends
        while chunk := os.read(terminal, 1000):
            if b"Passphrase of locked" in chunk:
                os.write(terminal, b"geheim\n")
            shown += chunk
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, shown
    assert b"wrote trust.json" in shown and b"geheim" not in shown
