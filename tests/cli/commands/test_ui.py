"""`toolchain ui` as a process: it shows what other processes do, keeps its token to itself, and ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cli.running import Toolchain
from tests.measuring.small_network import network
from tests.ui.pages import events
from tests.waiting import until

PATIENCE_S = 120.0


@contextmanager
def ui(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command until the block ends; yield its process and the first line that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "toolchain", "ui", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@contextmanager
def got(url: str) -> Iterator[HTTPResponse]:
    """Yield the answer to a request, which must be 200."""
    place = urlsplit(url)
    with closing(HTTPConnection(place.netloc, timeout=PATIENCE_S)) as connection:
        connection.request("GET", place.path)
        answer = connection.getresponse()
        assert answer.status == 200
        yield answer


@pytest.mark.slow
@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_it_is_asked_to_and_never_logs_its_token(folder: Path, number: signal.Signals) -> None:
    with ui(folder, "-vv") as (process, url):
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([\w-]{32})/", url)
        assert found
        with got(url) as page:
            assert b"<title>edge-toolchain</title>" in page.read()
        with got(f"{url}events") as stream:
            assert stream.readline() == b"retry: 2000\n"
            process.send_signal(number)
            assert process.wait(PATIENCE_S) == 0, "it ends though somebody looks"
        out, err = process.communicate()
        assert found[2] not in out + err and "Traceback" not in err
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(found[1])), timeout=5)


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_each_start_has_a_token_of_its_own_and_json_names_the_port(folder: Path) -> None:
    tokens = set()
    for _ in range(2):
        with ui(folder, "--json") as (process, _), document_of(process) as document:
            assert document["url"].startswith(f"http://127.0.0.1:{document['port']}/")
            tokens.add(document["url"])
    assert len({url.split("/")[3] for url in tokens}) == 2


@contextmanager
def document_of(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield the document that a process prints over several lines, the first of which was read."""
    assert process.stdout is not None
    text = "{"
    while not text.rstrip().endswith("}"):
        text += process.stdout.readline()
    yield json.loads(text)


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_the_browser_is_given_the_address(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opener = folder / "bin" / "xdg-open"
    opener.parent.mkdir()
    opener.write_text(
        f'#!/bin/sh\necho "$1" >"{folder}/opened.new" && mv "{folder}/opened.new" "{folder}/opened"\n'
    )
    opener.chmod(0o755)
    monkeypatch.setenv("PATH", f"{opener.parent}:{os.environ['PATH']}")
    with ui(folder, "--open") as (process, url):
        until((folder / "opened").exists)
        given = (folder / "opened").read_text().strip()
        file = Path(given)
        assert url.split("/")[3] not in given
        assert f"url={url}" in file.read_text() and file.stat().st_mode & 0o777 == 0o600
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0 and not file.exists()


@pytest.mark.usefixtures("state")
def test_a_port_that_browsers_refuse_is_refused(invoke: Toolchain) -> None:
    ran = invoke("ui", "--port", 6000)
    assert ran.code == 2 and ran.says("--port 6000: web browsers do not open this port", "leave --port out")


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_broken_settings_are_reported_first(
    invoke: Toolchain, folder: Path, options: tuple[str, ...]
) -> None:
    (folder / "toolchain.toml").write_text("[boards")
    ran = invoke("ui", *options)
    assert ran.code == 2 and "toolchain.toml" in (ran.out if options else ran.err)
    assert "http://" not in ran.out and (not options or "error" in json.loads(ran.out))


@pytest.mark.usefixtures("state")
def test_a_port_that_is_taken_is_refused(invoke: Toolchain) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = invoke("ui", "--port", taken.getsockname()[1])
    assert ran.code == 1 and ran.says(
        "cannot listen on 127.0.0.1: Address already in use", "leave --port out"
    )
    assert ran.out == ""


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_page_shows_other_processes(
    folder: Path, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build and a tuning run of a tiny network, each in a process of its own."""
    monkeypatch.setenv("TOOLCHAIN_DATA_DIR", str(folder / "data"))
    network(folder / "small.onnx")
    told: list[tuple[str, Any]] = []
    with ui(folder) as (process, url):

        def follow() -> None:
            with got(f"{url}events") as stream:
                told.extend(events(stream))

        follower = threading.Thread(target=follow)
        follower.start()
        built = toolchain("build", "small.onnx", "--board", "local", "-o", "out")
        assert built.code == 0, built.err
        quick = ("--trials", "4", "--repeat", "1", "--min-repeat-ms", "1")
        tuned = toolchain("tune", "small.onnx", "--board", "local", *quick, timeout=PATIENCE_S * 3)
        assert tuned.code == 0, tuned.err
        verified = toolchain("verify", "out/small-local.bundle", "--board", "local")
        assert verified.code == 0, verified.err
        long = ("--repeat", "1", "--min-repeat-ms", "10000")  # one sample of ten seconds
        killed = subprocess.Popen(
            [sys.executable, "-m", "toolchain", "bench", "out/small-local.bundle", *long],
            cwd=folder,
            env={**os.environ, "TOOLCHAIN_BOARD": "local"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            seen(told, "bench")
        finally:
            killed.kill()
            killed.wait()
        seen(told, "killed")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
        follower.join(PATIENCE_S)
    logs = by_kind(told)
    assert [line["how"] for kind in ("build", "tune", "verify", "bench") for line in logs[kind][-1:]] == [
        *("done", "done", "done"),
        "killed",
    ]
    assert logs["build"][0]["title"] == "small.onnx for local"
    assert any(line.get("text", "").startswith("compiling ") for line in logs["build"])
    trials = [line for line in logs["tune"] if line["event"] == "trial" and line["stage"] == "search"]
    assert [line["number"] for line in trials] == [1, 2, 3, 4]
    assert all(line["board"] == "local" and line["ms"] > 0 for line in trials if line["failure"] is None)
    assert "4 trials" in tuned.out
    boards = next(data for name, data in told if name == "boards")
    assert [row["name"] for row in boards["boards"]] == ["local"]
    leased = [data for name, data in told if name == "boards" and data["boards"][0].get("leases")]
    assert leased or any(data["lab"] for name, data in told if name == "boards"), "the run's lab was seen"


def by_kind(told: list[tuple[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the lines of each log by the kind of its command."""
    logs: dict[str, list[dict[str, Any]]] = {}
    for name, data in told:
        if name == "lines":
            logs.setdefault(data["log"].split("-")[2].removesuffix(".jsonl"), []).extend(data["lines"])
    return logs


def seen(told: list[tuple[str, Any]], word: str) -> None:
    """Wait until a log of that kind, or an end of that kind, was told."""
    until(
        lambda: any(
            word in (line.get("kind"), line.get("how"))
            for name, data in list(told)
            if name == "lines"
            for line in data["lines"]
        ),
        what=word,
    )
