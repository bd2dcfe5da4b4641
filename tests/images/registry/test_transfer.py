"""What the engine says of a push or pull: passed on, told as progress, and explained."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import docker.errors
import pytest
import requests.exceptions

from toolchain.errors import ToolchainError
from toolchain.images.registry import exchange as transfer
from toolchain.images.registry.exchange import explained, listen

Event = dict[str, Any]


def heard(events: list[Event]) -> tuple[list[Event], list[str]]:
    lines: list[str] = []
    return list(listen(lambda: events, "base", lines.append)), lines


def moving(layer: str, done: int, total: int, status: str = "Pushing") -> Event:
    return {"status": status, "id": layer, "progressDetail": {"current": done << 20, "total": total << 20}}


def test_yields_every_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_BETWEEN_SECONDS", 0)
    events: list[Event] = [
        {"status": "Preparing", "id": "a"},
        moving("a", 1, 10),
        moving("b", 2, 20),
        moving("a", 10, 10),
        moving("b", 2, 20),  # nothing new
        {"status": "Pushed", "progressDetail": {}, "id": "a"},
        {"progressDetail": None, "aux": {"Digest": "sha256:0"}},
    ]
    passed, lines = heard(events)
    assert passed == events
    assert lines == ["base: pushing 1 of 10 MiB", "base: pushing 3 of 30 MiB", "base: pushing 12 of 30 MiB"]


def test_progress_distinguishes_download_and_extraction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_BETWEEN_SECONDS", 0)
    _, lines = heard([moving("a", 5, 5, "Downloading"), moving("a", 1, 5, "Extracting")])
    assert lines == ["base: downloading 5 of 5 MiB", "base: extracting 1 of 5 MiB"]


def test_progress_never_exceeds_the_total(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon counts what it compresses otherwise than what it announced."""
    monkeypatch.setattr(transfer, "_BETWEEN_SECONDS", 0)
    assert heard([moving("a", 12, 10)])[1] == ["base: pushing 10 of 10 MiB"]


def test_progress_is_reported_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "_BETWEEN_SECONDS", 3600)
    assert heard([moving("a", done, 1000) for done in range(1000)])[1] == []


def test_error_event_raises() -> None:
    events = [moving("a", 1, 10), {"error": "denied: no", "errorDetail": {}}, moving("a", 2, 10)]
    passed = []
    with pytest.raises(ToolchainError, match="denied: no"):
        for event in listen(lambda: events, "base", print):
            passed.append(event)  # noqa: PERF402 - it raises on the way
    assert passed == events[:1]


def test_exceptions_of_the_sdk_are_raised_here() -> None:
    def broken() -> Iterator[Event]:
        yield moving("a", 1, 2)
        raise requests.exceptions.ConnectionError("gone")

    with pytest.raises(requests.exceptions.ConnectionError, match="gone"):
        list(listen(broken, "base", print))
    with pytest.raises(ZeroDivisionError):  # before there is anything to iterate over
        list(listen(lambda: [{"status": 1 // 0}], "base", print))


def test_silent_daemon_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def silent() -> Iterator[Event]:
        yield moving("a", 1, 2)
        release.wait(60)

    events = listen(silent, "base", print)
    assert next(events) == moving("a", 1, 2)
    monkeypatch.setattr(transfer, "_SILENCE_SECONDS", 0.1)  # now: the first one may take longer
    with pytest.raises(ToolchainError, match=r"Docker has reported nothing for 0\.1 s"):
        next(events)
    release.set()


@pytest.mark.parametrize(
    ("complaint", "hint"),
    [
        ("Get https://h/v2/: http: server gave HTTP response to HTTPS client", "insecure-registries"),
        ("tls: x509: certificate signed by unknown authority", "/etc/docker/certs.d/box:5000/ca.crt"),
        ("no basic auth credentials", "`docker login box:5000`"),
        ("unauthorized: authentication required", "`docker login box:5000`"),
        ("pull access denied, repository does not exist", "does the repository exist?"),
        ("manifest unknown: manifest unknown", "push it {first}"),
        ("NAME UNKNOWN: repository name not known", "push it {first}"),
        ("dial tcp 127.0.0.1:1: connect: connection refused", "does a registry listen at box:5000?"),
        ("lookup box: no such host", "is the name of the registry right?"),
        ("something else entirely", ""),
    ],
)
def test_known_errors_get_a_hint(complaint: str, hint: str) -> None:
    errors: list[Exception] = [ToolchainError(complaint), docker.errors.DockerException(complaint)]
    errors.append(docker.errors.APIError("500 Server Error", explanation=complaint))
    for error in errors:
        with (
            pytest.raises(ToolchainError) as caught,
            explained("pull base", "box:5000/team", "push it {first}"),
        ):
            raise error
        assert caught.value.message == f"cannot pull base: {complaint}"
        assert hint in caught.value.hint and (hint or not caught.value.hint)


def test_errors_with_a_hint_stay_unchanged() -> None:
    error = ToolchainError("denied", "a better hint")
    with pytest.raises(ToolchainError) as caught, explained("pull base", "box", ""):
        raise error
    assert caught.value is error


def test_dead_daemon_is_reported() -> None:
    with pytest.raises(ToolchainError, match="stopped answering: reset") as caught, explained("x", "y", "z"):
        raise requests.exceptions.ConnectionError("reset")
    assert caught.value.hint == "`docker info`"


def test_success_and_bugs_pass_through() -> None:
    with explained("pull base", "box", ""):
        pass
    with pytest.raises(KeyError), explained("pull base", "box", ""):
        raise KeyError
