"""How a command ends: its exit code, and one clear sentence instead of a traceback."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from types import FrameType

import click

from toolchain.cli import output
from toolchain.errors import ToolchainError

INTERRUPTED = 128 + signal.SIGINT


def run(command: click.Command, arguments: Sequence[str]) -> int:
    """Run `command` and return the exit code of the process."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    as_json = "--json" in arguments
    with output.stdout_for_the_document() if as_json else nullcontext():
        code = _run(command, arguments, as_json)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
    return code


def _leave(number: int, _: FrameType | None) -> None:
    # As an exception it passes every `finally`: children are ended, temporary files removed.
    raise SystemExit(128 + number)


def _forget_stdout() -> None:
    # Nobody reads any more; without this the interpreter complains about it on its way out.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _run(command: click.Command, arguments: Sequence[str], as_json: bool) -> int:
    try:
        code = command.main(list(arguments), prog_name="toolchain", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        if not as_json:
            error.show()
            return error.exit_code
        return _report(as_json, error.exit_code, "no command was given", "add --help to see the commands")
    except click.ClickException as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        hint = f"see `{context.command_path} --help`" if context else ""
        return _report(as_json, error.exit_code, error.format_message(), hint)
    except (click.Abort, KeyboardInterrupt):
        return _report(as_json, INTERRUPTED, "interrupted", "")
    except ToolchainError as error:
        return _report(as_json, error.exit_code, error.message, error.hint)
    except BrokenPipeError:
        _forget_stdout()
        return 1
    except MemoryError as error:
        what = f"this machine has too little memory: {error}".removesuffix(": ")
        return _report(as_json, 1, what, "use a smaller --batch or --shape, or a smaller network")
    except Exception as error:
        if _verbose(arguments):
            traceback.print_exc()
        what = f"{type(error).__name__}: {error}".partition("\n")[0]
        hint = "run the same command with -v for the traceback, and report it"
        return _report(as_json, 1, f"this is a bug in the toolchain: {what}", hint)


def _verbose(arguments: Sequence[str]) -> bool:
    return any(a == "--verbose" or (a[:1] == "-" and a[1:] and set(a[1:]) == {"v"}) for a in arguments)


def _report(as_json: bool, code: int, message: str, hint: str) -> int:
    if as_json:
        output.print_json({"error": {"code": code, "message": message, "hint": hint}})
    else:
        output.note(f"error: {message}")
        if hint:
            output.note(f"hint: {hint}")
    return code
