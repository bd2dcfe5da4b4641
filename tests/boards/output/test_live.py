"""What a command on a board prints is there while it runs."""

from __future__ import annotations

import io
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.waiting import until
from toolchain.boards.local.transport import LocalTransport
from toolchain.boards.output.live import run_live
from toolchain.boards.ssh.transport import SshTransport
from toolchain.boards.transport import DeadlineError, Transport
from toolchain.errors import UsageError


@pytest.fixture(params=["local", "ssh"])
def transport(request: pytest.FixtureRequest, tmp_path: Path) -> Transport:
    """Return each way to a board."""
    if request.param == "local":
        return LocalTransport(tmp_path)
    ssh: SshTransport = request.getfixturevalue("ssh")
    return ssh


class Noticed(io.BytesIO):
    """Makes a file when it is written to."""

    def __init__(self, sign: Path) -> None:
        super().__init__()
        self.sign = sign

    def write(self, data: object) -> int:
        self.sign.touch()
        return super().write(data)


def live(transport: Transport, script: str, timeout: float = 60) -> tuple[int, io.BytesIO, io.BytesIO]:
    out, errors = io.BytesIO(), io.BytesIO()
    return run_live(transport, ["sh", "-c", script], out, errors, timeout), out, errors


def test_output_comes_while_it_runs_and_the_code_at_its_end(transport: Transport, tmp_path: Path) -> None:
    out, errors = Noticed(tmp_path / "out"), Noticed(tmp_path / "errors")
    until_seen = f"until [ -e {out.sign} ] && [ -e {errors.sign} ]; do sleep 0.02; done"
    script = f"echo o; echo e >&2; {until_seen}; echo more; echo last >&2; exit 3"
    assert run_live(transport, ["sh", "-c", script], out, errors, 60) == 3
    assert (out.getvalue(), errors.getvalue()) == (b"o\nmore\n", b"e\nlast\n")


def test_large_outputs_arrive_whole(transport: Transport) -> None:
    code, out, errors = live(transport, "head -c 3000000 /dev/zero; head -c 1000000 /dev/zero >&2")
    assert (code, len(out.getvalue()), len(errors.getvalue())) == (0, 3_000_000, 1_000_000)


def test_command_has_empty_input_and_reports_signals(transport: Transport) -> None:
    code, out, _ = live(transport, "cat; echo done; kill -9 $$")
    assert (code, out.getvalue()) == (-9, b"done\n")


@pytest.mark.slow  # it is asked kindly first
@pytest.mark.parametrize("script", ["{sleep}", "{sleep} & exec >/dev/null; {sleep}"])
def test_it_ends_with_its_time_and_so_do_its_children(transport: Transport, script: str) -> None:
    sleep = f"sleep 321.{os.getpid()}"  # others may run this test at the same time
    begun = time.monotonic()
    with pytest.raises(DeadlineError, match=r"sh did not end within 0\.5 s and was killed"):
        live(transport, script.format(sleep=sleep), timeout=0.5)
    assert time.monotonic() - begun < 50

    def there() -> list[str]:
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
        return listed.stdout.splitlines()

    until(lambda: sleep not in there())


@pytest.mark.slow  # likewise
def test_a_reader_that_goes_ends_it(transport: Transport) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    begun = time.monotonic()
    with os.fdopen(writing, "wb", buffering=0) as closed, pytest.raises(BrokenPipeError):
        run_live(transport, ["yes"], closed, io.BytesIO(), 60)
    assert time.monotonic() - begun < 50


def test_runs_on_board_without_shell(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "hello"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    out = io.BytesIO()
    assert run_live(LocalTransport(tmp_path, ("env",)), ["bin/hello"], out, io.BytesIO(), 20) == 0
    assert out.getvalue() == b"hello\n"


def test_reports_program_that_cannot_start(transport: Transport) -> None:
    out, errors = io.BytesIO(), io.BytesIO()
    assert run_live(transport, ["no-such-program"], out, errors, 20) == 127
    assert b"no-such-program" in errors.getvalue()
    with pytest.raises(UsageError, match="'/bin/ls' is not a path inside the board's folder"):
        run_live(transport, ["/bin/ls"], out, errors, 20)
