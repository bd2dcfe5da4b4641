"""How commands end: exit codes, one sentence and a hint, one JSON document."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tvm.error import InternalError

from tests.cli.running import Toolchain
from tests.waiting import until
from toolchain.cli import output, root
from toolchain.errors import CheckError, MissingError, ToolchainError, UsageError


def command_that(error: BaseException | None) -> click.Command:
    @click.command()
    @output.output_options
    def command() -> None:
        os.write(1, b"a library's chatter\n")
        if error is not None:
            raise error
        output.emit({"done": True}, lambda: click.echo("done"))

    return command


@pytest.mark.parametrize("kind", [ToolchainError, UsageError, MissingError, CheckError])
def test_an_error_is_a_sentence_a_hint_and_an_exit_code(
    kind: type[ToolchainError], capfd: pytest.CaptureFixture[str]
) -> None:
    error = kind("board b: it is gone", "start it anew")
    assert root.run(command_that(error), []) == kind.exit_code
    assert capfd.readouterr().err == "error: board b: it is gone\nhint: start it anew\n"
    assert root.run(command_that(error), ["--json"]) == kind.exit_code
    expected = {"code": kind.exit_code, "message": "board b: it is gone", "hint": "start it anew"}
    captured = capfd.readouterr()
    assert json.loads(captured.out) == {"error": expected}
    assert captured.err == "a library's chatter\n"


def test_v_shows_the_whole_error_of_another_library(capfd: pytest.CaptureFixture[str]) -> None:
    error = ToolchainError("LLVM refused it: errors follow: no compare")
    error.__cause__ = InternalError("errors follow:\n no compare\n  %6 = fcmp oeq i1 %5")
    assert root.run(command_that(error), []) == 1
    assert "fcmp" not in capfd.readouterr().err
    assert root.run(command_that(error), ["-v"]) == 1
    assert "%6 = fcmp oeq i1 %5" in capfd.readouterr().err


def test_verbose_hides_errors_that_may_have_passwords(capfd: pytest.CaptureFixture[str]) -> None:
    error = ToolchainError("records_url is no address")
    error.__cause__ = ValueError("Port could not be cast to integer value as 's3cret'")
    assert root.run(command_that(error), ["-v"]) == 1
    assert "s3cret" not in capfd.readouterr().err


def test_with_json_stdout_holds_the_document_alone(capfd: pytest.CaptureFixture[str]) -> None:
    assert root.run(command_that(None), ["--json"]) == 0
    captured = capfd.readouterr()
    assert json.loads(captured.out) == {"done": True}
    assert captured.err == "a library's chatter\n"


def test_out_of_memory_is_not_reported_as_bug(capfd: pytest.CaptureFixture[str]) -> None:
    assert root.run(command_that(MemoryError("Unable to allocate 3.64 TiB")), []) == 1
    err = capfd.readouterr().err
    assert "too little memory: Unable to allocate 3.64 TiB" in err and "--batch" in err


def test_bug_is_reported_as_bug_with_traceback_on_verbose(capfd: pytest.CaptureFixture[str]) -> None:
    assert root.run(command_that(KeyError("x")), []) == 1
    err = capfd.readouterr().err
    assert "this is a bug in the toolchain: KeyError: 'x'" in err
    assert "Traceback" not in err and "-v" in err
    assert root.run(command_that(KeyError("x")), ["-v"]) == 1
    assert "Traceback" in capfd.readouterr().err


def test_ctrl_c_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert root.run(command_that(KeyboardInterrupt()), []) == 130
    assert capfd.readouterr().err.split("\n") == ["", "error: interrupted", ""]


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch"],
        ["model", "nosuch"],
        ["model", "list", "--nosuch"],
        ["model", "inspect"],
        ["model", "inspect", "mobilenet", "--batch", "0"],
        ["model", "inspect", "mobilenet", "--layout", "sideways"],
        ["board", "emulate", "start", "rk3399", "--kind", "magic"],
        ["lab", "start", "--port", "99999"],
        ["bench", "x.bundle", "--time", "nan"],
        ["verify", "x.bundle", "--timeout", "1e300"],
        ["run", "x.bundle", "--wait", "inf"],
        ["release", "sign", "x.bundle", "--latency-ms", "nan"],
        ["deploy", "x.bundle", "--max-slowdown", "inf"],
    ],
    ids=" ".join,
)
def test_usage_errors_come_in_both_forms(invoke: Toolchain, arguments: list[str]) -> None:
    ran = invoke(*arguments)
    assert ran.code == 2 and ran.out == ""
    assert ran.err.startswith("error: ") and "--help`" in ran.err
    ran = invoke(*arguments, "--json")
    assert ran.code == 2 and ran.err == ""
    assert ran.document["error"]["code"] == 2 and "--help`" in ran.document["error"]["hint"]


def test_an_unread_pipe_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "toolchain", "model", "list"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_a_command_and_what_it_started(number: int, code: int, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "toolchain", "doctor"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    try:
        assert process.stderr
        process.stderr.readline()  # it has begun to look around, in processes of its own
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until(lambda: bool(children.read_text().split()))
        started = children.read_text().split()
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code
    assert out == "" and err.endswith("error: interrupted\n") and "Traceback" not in err
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))  # killed, and dying


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_in_the_background_an_ignored_signal_stays_ignored(number: int) -> None:
    """As `nohup toolchain …` or `toolchain … &` in a script has it: the work outlives the terminal."""
    code = (
        "import click, os\n"
        "from toolchain.cli import root\n"
        f"command = click.Command('it', callback=lambda: os.kill(os.getpid(), {int(number)}))\n"
        "raise SystemExit(root.run(command, []))\n"
    )
    command = [sys.executable, "-c", code]
    ignoring = ["sh", "-c", f"trap '' {int(number)}; exec \"$@\"", "sh", *command]
    assert subprocess.run(ignoring, check=False, timeout=60).returncode == 0
    assert subprocess.run(command, check=False, timeout=60).returncode == 128 + number
