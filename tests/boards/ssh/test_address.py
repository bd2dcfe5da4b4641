"""Addresses as users type them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.boards.ssh.address import parse_address, show_address
from toolchain.boards.ssh.hostkeys import checked_host_key, fingerprint
from toolchain.errors import UsageError

# Made with ssh-keygen; the fingerprint is what `ssh-keygen -lf` says of it.
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBHTwor31auiReAEDlmPpISJiyJ+JH4uc6ozGRihBNoW"
FINGERPRINT = "SHA256:3p05N33X+rxRBZFJu4hckVh/CvOoOEoa5JUJFOX5sOk"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("board", (None, "board", None)),
        ("pi@192.168.1.7", ("pi", "192.168.1.7", None)),
        ("pi@board.lan:2222", ("pi", "board.lan", 2222)),
        ("::1", (None, "::1", None)),
        ("root@[::1]", ("root", "::1", None)),
        ("root@[fe80::1%eth0]:22", ("root", "fe80::1%eth0", 22)),
        ("a@b@host", ("a@b", "host", None)),
    ],
)
def test_parses_addresses(text: str, parts: tuple[str | None, str, int | None]) -> None:
    assert parse_address(text) == parts


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a host"),
        ("@host", "not a user"),
        ("host:", "no port"),
        ("host:0", "not a port"),
        ("host:65536", "not a port"),
        ("host:ssh", "not a port"),
        ("host:٣", "not a port"),
        ("[host]:22", "not an IPv6 address"),
        ("[::1]22", "not a host"),
        ("-oProxyCommand=x", "not a host"),
        ("-l@host", "not a user"),
        ("a b", "not a host"),
        ("host;reboot", "not a host"),
    ],
)
def test_refuses_malformed_address(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as raised:
        parse_address(text)
    assert repr(text) in raised.value.message
    assert "[USER@]HOST[:PORT]" in raised.value.hint or "ports are" in raised.value.hint


@given(
    user=st.none() | st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True),
    host=st.from_regex(r"[a-z][a-z0-9.-]{0,10}", fullmatch=True) | st.ip_addresses().map(str),
    port=st.none() | st.integers(1, 65535),
)
def test_shown_address_parses_to_itself(user: str | None, host: str, port: int | None) -> None:
    assert parse_address(show_address(user, host, port)) == (user, host, port)


@given(st.text())
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        user, host, _ = parse_address(text)
    except UsageError:
        return
    assert not host.startswith("-") and not (user or "").startswith("-")


def test_a_fingerprint_is_that_of_ssh_keygen() -> None:
    assert fingerprint(KEY) == FINGERPRINT
    assert checked_host_key(KEY + " root@board") == KEY
    for wrong in ("", "ssh-ed25519", "ssh-ed25519 !!!", "ssh-rsa " + KEY.split()[1], "ssh-ed25519 AAAA"):
        with pytest.raises(UsageError, match="not a host key"):
            checked_host_key(wrong)
