from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.errors import UsageError
from toolchain.records.postgres.connection import parse_address, shown_address


@pytest.mark.parametrize(
    ("url", "parameters", "name"),
    [
        (
            "postgresql://team@db.example.org:5433/records",
            {"user": "team", "host": "db.example.org", "port": "5433", "dbname": "records"},
            "postgresql://team@db.example.org:5433/records",
        ),
        ("postgres://h/r", {"host": "h", "dbname": "r"}, "postgresql://h/r"),
        ("postgresql:///r", {"dbname": "r"}, "postgresql:///r"),
        ("postgresql://u@[::1]:1/r", {"user": "u", "host": "::1", "port": "1", "dbname": "r"}, None),
        ("postgresql://u@%2FTmp%2Fx/r", {"user": "u", "host": "/Tmp/x", "dbname": "r"}, None),
        (
            "postgresql://h/r?sslmode=verify-full&sslrootcert=/a%20b",
            {"host": "h", "dbname": "r", "sslmode": "verify-full", "sslrootcert": "/a b"},
            "postgresql://h/r",
        ),
    ],
)
def test_parses_urls(url: str, parameters: dict[str, str], name: str | None) -> None:
    address = parse_address(url)
    assert (address.parameters, address.password) == (parameters, None)
    assert name is None or address.name == name


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_any_password_is_parsed_and_never_shown(password: str) -> None:
    written = quote(password, safe="")
    for url in (f"postgresql://u:{written}@h:1/r", f"postgresql://u@h:1/r?password={written}"):
        address = parse_address(url)
        assert address.password == password
        assert address.parameters == {"user": "u", "host": "h", "port": "1", "dbname": "r"}
        assert (address.name, shown_address(url)) == ("postgresql://u@h:1/r",) * 2
        assert repr(address) == repr(parse_address("postgresql://u@h:1/r"))


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:secret@h/r",
        "secret",
        "host=h password=secret",
        "postgresql://u:sec/secret@h/r",
        "postgresql://u:12/secret@h/r",
        "postgresql://u:12?secret@h/r",
        "postgresql://u:12#secret@h/r",
        "postgresql://u:x@h:secret/r",
        "postgresql://u:x@h:99999999/r",
        "postgresql://[secret/r",
        "postgresql://h/r?secret",
        "postgresql://u:secret%00@h/r",
    ],
)
def test_malformed_urls_are_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(UsageError, match="records_url") as caught:
        parse_address(url)
    assert "secret" not in str(caught.value) + shown_address(url) and caught.value.hint
