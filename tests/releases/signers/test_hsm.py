"""A release signed by a key in a PKCS#11 token: SoftHSM's, which tools/servers.sh unpacks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.refusals import refused
from tests.cli.running import Toolchain
from tests.releases.made import small_bundle
from toolchain.errors import UsageError
from toolchain.releases.signers.hsm import KeyAddress, parse_uri

_UNPACKED = Path(__file__).parents[3] / ".venv" / "softhsm2-util" / "usr"
PINS = ("--so-pin", "5678", "--pin", "1234")
_MAKE_KEY = """
import sys, pkcs11
from pkcs11 import Attribute, KeyType, Mechanism
token = pkcs11.lib(sys.argv[1]).get_token(token_label="rel")
with token.open(user_pin="1234", rw=True) as session:
    ed25519 = bytes.fromhex("130c656477617264733235353139")  # its name, as PKCS#11 3.0 writes it
    for label, kind, parameters, mechanism in (
        ("ed", KeyType.EC_EDWARDS, ed25519, Mechanism.EC_EDWARDS_KEY_PAIR_GEN),
        ("ec", KeyType.EC, bytes.fromhex("06082a8648ce3d030107"), Mechanism.EC_KEY_PAIR_GEN),
    ):
        domain = session.create_domain_parameters(kind, {Attribute.EC_PARAMS: parameters}, local=True)
        domain.generate_keypair(store=True, label=label, mechanism=mechanism)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the module's path, with a token `rel` whose PIN is 1234 and that has a key of two kinds."""
    program = shutil.which("softhsm2-util", path=f"{os.environ['PATH']}{os.pathsep}{_UNPACKED / 'bin'}")
    assert program, "no softhsm2-util here: tools/servers.sh unpacks one"
    module = Path(program).parents[1] / "lib" / "softhsm" / "libsofthsm2.so"
    (tmp_path / "tokens").mkdir()
    (tmp_path / "softhsm2.conf").write_text(f"directories.tokendir = {tmp_path / 'tokens'}\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(tmp_path / "softhsm2.conf"))
    for command in (
        [
            program,
            "--module",
            module,
            "--init-token",
            "--free",
            "--label",
            "rel",
            "--so-pin",
            "5678",
            "--pin",
            "1234",
        ],
        [sys.executable, "-c", _MAKE_KEY, module],
    ):
        subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)
    return module


@pytest.mark.slow
def test_a_key_in_a_token_signs(
    module: Path, folder: Path, invoke: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_bundle(folder / "tiny.bundle")
    terms = ("--version", "2.0.0", "--expires", "2100-01-01", "--unverified")
    key = f"pkcs11:token=rel;object=ed?module-path={module}"
    sign = ("release", "sign", "tiny.bundle", *terms, "--key")
    monkeypatch.setenv("TOOLCHAIN_PKCS11_PIN", "9999")
    wrong = invoke(*sign, key)
    assert wrong.code == 2 and wrong.says("PIN", "wrong") and "9999" not in wrong.err
    monkeypatch.setenv("TOOLCHAIN_PKCS11_PIN", "1234")
    refused(invoke, folder, 2, ["not an Ed25519 key"], *sign, key.replace("object=ed", "object=ec"))
    refused(invoke, folder, 2, ["no key 'no'"], *sign, key.replace("object=ed", "object=no"))
    refused(invoke, folder, 2, ["no token 'other'"], *sign, key.replace("token=rel", "token=other"))
    refused(invoke, folder, 1, ["/nosuch.so"], *sign, "pkcs11:token=rel;object=ed?module-path=/nosuch.so")
    for command in ((*sign, key), ("release", "init", "--key", key)):
        ran = invoke(*command)
        assert ran.code == 0 and "1234" not in ran.out + ran.err, ran.err
    ran = invoke("release", "verify", "tiny.bundle", "--trust", "trust.json", "--json")
    assert ran.code == 0 and len(ran.document["signers"]) == 1


def test_names_of_keys_in_tokens() -> None:
    found = parse_uri("pkcs11:object=my%20key;token=rel?module-path=/usr/lib/m.so")
    assert found == KeyAddress("rel", "my key", Path("/usr/lib/m.so"))
    for uri in (
        "pkcs11:",
        "pkcs11:token=a",
        "pkcs11:token=a;object=b?module-path=m.so",
        "pkcs11:token=a;token=a",
    ):
        with pytest.raises(UsageError, match="--key pkcs11"):
            parse_uri(uri)
