"""Where ssh goes: what the address leaves open, ssh_config says."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolchain.boards.ssh.address import SshAddress
from toolchain.boards.ssh.route import openssh_options, resolve
from toolchain.errors import UsageError

# Made with ssh-keygen.
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBHTwor31auiReAEDlmPpISJiyJ+JH4uc6ozGRihBNoW"


def test_ssh_config_fills_what_the_address_leaves_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(
        "Host lab-*\n  HostName 10.0.0.7\n  Port 2022\n  User pi\n  IdentityFile ~/.ssh/lab\n"
        "  ProxyJump me@gate:2,second\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    route = resolve(SshAddress("lab-1", None, None, KEY))
    assert (route.host, route.port, route.user) == ("10.0.0.7", 2022, "pi")
    assert route.identities == (tmp_path / ".ssh" / "lab",)
    assert route.proxy[-5:] == ("me@gate:2", "-W", "[10.0.0.7]:2022", "--", "second")
    mine = resolve(SshAddress("lab-1", 22, "root", KEY, tmp_path / "id", jump="other"))
    assert (mine.port, mine.user, mine.identities, mine.use_agent) == (22, "root", (tmp_path / "id",), False)
    assert mine.proxy[-1] == "other"
    alone = resolve(SshAddress("lab-1", None, "root", KEY, use_config=False))
    assert (alone.host, alone.port, alone.proxy) == ("lab-1", 22, ())
    words = openssh_options(SshAddress("lab-1", None, None, KEY, name="one"), tmp_path / "known hosts")
    assert f'UserKnownHostsFile="{tmp_path}/known hosts"' in words
    assert "HostKeyAlias=one" in words and "-p" not in words
    (tmp_path / ".ssh" / "config").write_text("Match exec\n")
    with pytest.raises(UsageError, match="config cannot be used"):
        resolve(SshAddress("lab-1", None, None, KEY))
