"""The page and its stream as a browser gets them, and as others try to."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.events.logs import BEGAN, NAME, step, write_log
from tests.reports.pages import Page
from tests.rpc.second_user import as_second_user, needs_a_second_user
from tests.ui.pages import TOKEN, Served, served
from tests.waiting import until
from toolchain.configuration.settings import configuration
from toolchain.errors import ToolchainError
from toolchain.events.lines import EndLine, StepLine
from toolchain.events.log import MOST_BYTES, EventLog
from toolchain.ui import server
from toolchain.ui import stream as event_stream
from toolchain.ui.server import page

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def served_page(state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Serve the page of a state folder of the test's own."""
    monkeypatch.setattr(event_stream, "POLL_S", 0.01)
    assert not (state / "events").exists()
    with served() as started:
        yield started


def take(stream: Iterator[tuple[str, Any]], name: str) -> Any:
    """Return the data of the next event of that name."""
    return next(data for event, data in stream if event == name)


def log_texts(stream: Iterator[tuple[str, Any]]) -> list[str]:
    """Return the next lines of a log in a word or two."""
    lines = take(stream, "lines")["lines"]
    return [line.get("text") or line.get("how") or line["event"] for line in lines]


def test_stream_survives_broken_settings(
    served_page: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toolchain.toml").write_text("[boards")
    configuration.cache_clear()
    latest: dict[str, Any] = {}
    with served_page.stream() as stream:
        while not {"ready", "boards"} <= latest.keys():
            name, latest[name] = next(stream)
    assert "toolchain.toml" in latest["boards"]["problem"]


def test_content_security_policy_allows_only_our_script(served_page: Served) -> None:
    answer = served_page.get()
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.body == page()
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    assert all(f"{name} 'none'" in policy for name in ("base-uri", "form-action", "frame-ancestors"))
    for kind in ("script", "style"):
        (text,) = re.findall(f"<{kind}>(.*?)</{kind}>", answer.body.decode(), re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert "set-cookie" not in answer.headers and not any(h.startswith("access-") for h in answer.headers)


def test_page_fetches_nothing_and_sets_no_html() -> None:
    text = page().decode()
    parsed = Page(text)
    assert [address for address in parsed.fetched if not address.startswith("data:image/svg+xml,")] == []
    assert len(parsed.ids) == len(set(parsed.ids))
    assert not re.search(
        r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval|Function|srcdoc)\b", text
    )
    assert not re.search(r"https?://(?!www\.w3\.org/)|\bstyle=|@import|url\(", text)


def test_foreign_requests_get_nothing(served_page: Served) -> None:
    for path in ("/", f"/{TOKEN}", f"/{TOKEN}x/", "/events", "/favicon.ico"):
        answer = served_page.get(path)
        assert answer.status == 404 and TOKEN.encode() not in answer.body
    assert served_page.get(Host=f"evil.example:{served_page.port}").status == 403
    assert served_page.get(f"/{TOKEN}/events", Origin="http://evil.example").status == 403
    assert served_page.get(f"/{TOKEN}/events", Host=None).status == 403
    posted = served_page.get(method="POST")
    assert (posted.status, posted.headers["allow"]) == (405, "GET")
    assert "content-security-policy" in posted.headers


@pytest.mark.parametrize(
    "path",
    ["../../etc/passwd", "..%2f..%2fetc/passwd", "/etc/passwd", "page.html", "events/../events", "events?x"],
)
def test_other_paths_are_refused(served_page: Served, path: str) -> None:
    assert served_page.get(f"/{TOKEN}/{path}").status == 404


def test_refuses_long_requests(served_page: Served) -> None:
    assert served_page.get(X="y" * 40_000).status == 431


def test_listens_on_loopback_only(served_page: Served) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", served_page.port), timeout=5)
    assert served_page.server._listening.getsockname()[0] == "127.0.0.1"


def test_other_users_are_refused_despite_the_token(served_page: Served) -> None:
    needs_a_second_user()
    answer = as_second_user(lambda: page_answer(served_page))
    assert answer[0] == 403 and b"user 65534's" in answer[1]


@pytest.mark.slow
def test_flood_by_another_user_does_not_block_the_owner(served_page: Served) -> None:
    needs_a_second_user()
    statuses: list[int] = []
    reading, writing = os.pipe()

    def flood() -> None:
        os.write(writing, b"x")
        until_s = time.monotonic() + 3.0
        kept: list[socket.socket] = []
        while time.monotonic() < until_s:
            with suppress(OSError):
                kept.append(socket.create_connection(("127.0.0.1", served_page.port), timeout=1))
            del kept[:-200]

    flooding = threading.Thread(target=as_second_user, args=(flood,))
    flooding.start()
    try:
        os.read(reading, 1)
        while flooding.is_alive():
            statuses.append(served_page.get().status)
    finally:
        flooding.join()
        os.close(reading)
        os.close(writing)
    assert len(statuses) > 5 and set(statuses) == {200}


def test_head_request(served_page: Served) -> None:
    answer = served_page.get(method="HEAD")
    assert (answer.status, answer.body) == (405, b"")


def test_page_creates_no_board_folder(served_page: Served, state: Path) -> None:
    with served_page.stream() as stream:
        assert [row["name"] for row in take(stream, "boards")["boards"]] == ["local"]
    assert not (state / "boards").exists()


def page_answer(served_page: Served) -> tuple[int, bytes]:
    answer = served_page.get()
    return answer.status, answer.body


def test_port_in_use_is_reported(served_page: Served) -> None:
    with pytest.raises(
        ToolchainError, match=f"port {served_page.port}: cannot listen on 127.0.0.1: Address already"
    ):
        server.listen(served_page.port)


def test_stream_follows_a_command_to_its_end(served_page: Served) -> None:
    with served_page.stream() as stream:
        take(stream, "ready")
        log = EventLog()
        log.begin("build", f"{EVIL} for rk3399", (EVIL,))
        began = take(stream, "lines")
        assert began["lines"][0]["title"] == f"{EVIL} for rk3399", "a text, which the page shows as one"
        log.write(StepLine(text="linking"))
        assert log_texts(stream) == ["linking"]
        log.end(EndLine(how="done"))
        assert log_texts(stream) == ["done"]


def test_late_client_gets_earlier_lines(served_page: Served, state: Path) -> None:
    write_log(state / "events", BEGAN, step("searching"))
    for _ in range(2):
        with served_page.stream() as stream:
            assert next(stream) == ("reset", {})
            assert log_texts(stream) == ["began", "searching", "killed"]
            take(stream, "ready")
    with served_page.stream() as stream:
        take(stream, "ready")
        (state / "events" / NAME).unlink()
        assert take(stream, "removed") == {"log": NAME}


def test_boards_are_listed_with_their_problems(
    served_page: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "toolchain.toml").write_text(
        '[boards.b1]\nclass = "none"\nhost = "h"\nhost_key = "ssh-ed25519 AA"\n'
    )
    monkeypatch.chdir(tmp_path)
    with served_page.stream() as stream:
        boards = take(stream, "boards")
        rows = {row["name"]: row for row in boards["boards"]}
        assert not boards["lab"] and rows["local"]["emulated"] is False and "problem" not in rows["local"]
        assert "class" in rows["b1"]["problem"]


def test_leases_are_shown_with_their_board(served_page: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    from toolchain.rpc import lab

    leases = ({"key": "local", "board": "local", "user": EVIL, "held_s": 61.2, "left_s": 9.0},)
    behind = {"holder": {"pid": 7, "what": f"bench for {EVIL}"}, "ahead": 1, "waited_s": 2.4}
    boards = {"local": lab.BoardStatus("local", "serving", None, behind)}
    waiting = (
        {"key": "local", "board": None, "user": "ann", "waited_s": 5.4},
        {"key": "rk3399", "board": None, "user": "bob", "waited_s": 7.0},
    )
    monkeypatch.setattr(lab, "status", lambda: lab.LabStatus("127.0.0.1", 9, 1, boards, {}, leases, waiting))
    with served_page.stream() as stream:
        (row,) = take(stream, "boards")["boards"]
        assert (row["lab"], row["leases"]) == ("serving", [{"user": EVIL, "held_s": 61}])
        assert row["waiting"] == [{"user": "ann", "waited_s": 5}]
        assert row["waits"] == {"what": f"bench for {EVIL}", "ahead": 1, "waited_s": 2}


def test_silent_client_is_disconnected(served_page: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as hurried, served_page.connect() as silent, served_page.connect() as slow:
        hurried.setattr(server, "HEAD_S", 1.0)
        slow.sendall(b"GET / HTTP/1.1\r\nHost:")
        assert silent.recv(1) == b""
        assert slow.recv(1) == b""
    assert served_page.get().status == 200


@pytest.mark.slow
def test_client_that_does_not_read_is_disconnected(
    served_page: Served, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "WRITE_S", 0.1)
    lines = [step("x" * 250)] * (MOST_BYTES // 300)
    for number in range(12):
        write_log(state / "events", BEGAN, *lines, name=f"20200101T000000{number:06}-1-tune.jsonl")
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", served_page.port))
        connection.sendall(served_page.head(f"/{TOKEN}/events"))
        assert connection.recv(4) == b"HTTP", "the stream has begun"
        until(lambda: served_page.server._streams == 0, what="the stream's end")


def test_closed_stream_frees_its_place(served_page: Served) -> None:
    for _ in range(3):
        with served_page.stream() as stream:
            take(stream, "ready")
        until(lambda: served_page.server._streams == 0 and not served_page.server._connections)


def test_connections_and_streams_have_a_limit(served_page: Served) -> None:
    opened = [served_page.connect() for _ in range(server.MOST_CONNECTIONS + 10)]
    try:
        until(lambda: len(served_page.server._connections) >= server.MOST_CONNECTIONS)
        assert len(served_page.server._connections) <= server.MOST_CONNECTIONS + 1
    finally:
        for connection in opened:
            connection.close()
    until(lambda: not served_page.server._connections)
    streams = [served_page.connect() for _ in range(server.MOST_STREAMS)]
    try:
        for connection in streams:
            connection.sendall(served_page.head(f"/{TOKEN}/events"))
            assert b" 200 " in connection.recv(20)
        refused = served_page.get(f"/{TOKEN}/events")
        assert refused.status == 503 and b"open 5 times already" in refused.body
        assert served_page.get().status == 200
    finally:
        for connection in streams:
            connection.close()


@pytest.mark.usefixtures("state")
def test_server_leaves_nothing_at_its_end() -> None:
    before = threading.active_count()
    with served() as served_page, served_page.connect() as silent, served_page.stream() as stream:
        take(stream, "ready")
        port = served_page.port
        silent.sendall(b"GET")
    assert threading.active_count() <= before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
