"""The root command, and the entry point `main`."""

from __future__ import annotations

import errno
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from types import FrameType

import click

from toolchain import __version__
from toolchain.cli import output, terminal
from toolchain.cli.lazy import LazyGroup
from toolchain.cli.terminal import StdoutError
from toolchain.errors import ToolchainError
from toolchain.imports.module_search import leave_out_current_folder

# The end of a command: its exit code, and an error message instead of a traceback.

INTERRUPTED = 128 + signal.SIGINT

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_BY_SIGNAL = frozenset(128 + number for number in _ENDING)
_MOST_SHOWN = 10_000
"""Characters of another library's error that -v shows; TVM's hold whole programs."""

_OF_NETWORKS = frozenset({"google", "onnx", "onnxruntime", "tvm", "tvm_ffi"})
"""Libraries whose errors -v shows whole."""

_SPACE = "free some space"
_RIGHTS = "change its owner or mode, or use another folder"
_THIS_MACHINE = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: _RIGHTS,
    errno.EIO: "look at the disk: dmesg",
    errno.EMFILE: "raise the limit: ulimit -n",
    errno.ENFILE: "close other programs",
    errno.ENAMETOOLONG: "use a shorter name",
}
"""Hints for errors of the operating system that no code of ours has explained."""


def run(command: click.Command, arguments: Sequence[str]) -> int:
    """Run `command` and return the exit code of the process."""
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` sets SIG_IGN, which must stay
            signal.signal(number, _leave)
    as_json = "--json" in _own(arguments)
    with terminal.escape_streams():
        with output.keep_stdout_for_the_document() if as_json else nullcontext():
            try:
                code = _run(command, arguments, as_json)
            except SystemExit as leaving:  # raised by a signal, or by click if the reader is gone
                code = leaving.code if isinstance(leaving.code, int) else 1
                if code in _BY_SIGNAL:
                    _report(as_json, code, "interrupted", "")
        _warn_of_settings()
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            pass  # the reader is gone
        except StdoutError as error:
            return _report(False, code or error.exit_code, error.message, error.hint)
    return code


def _warn_of_settings() -> None:
    """Print the skipped settings files, if the command has read the settings."""
    module = sys.modules.get("toolchain.configuration.settings")  # not for `--help`: it is slow to import
    if module is not None and module.configuration.cache_info().currsize:
        for warning in module.configuration().skipped:
            output.note(f"warning: {warning}")


def _leave(number: int, _: FrameType | None) -> None:
    # An exception runs every `finally`, which ends children and removes temporary files.
    raise SystemExit(128 + number)


def _run(command: click.Command, arguments: Sequence[str], as_json: bool) -> int:
    try:
        # color: else click drops escape sequences without a terminal; here they are shown escaped.
        code = command.main(list(arguments), prog_name="toolchain", standalone_mode=False, color=True)
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        if not as_json:
            error.show()
            return error.exit_code
        return _report(as_json, error.exit_code, "no command was given", "add --help to see the commands")
    except click.ClickException as error:
        hint = ""
        if isinstance(error, click.UsageError):
            hint = f"see `{_path(error.ctx, command, arguments)} --help`"
        return _report(as_json, error.exit_code, error.format_message(), hint)
    except (click.Abort, KeyboardInterrupt):
        return _report(as_json, INTERRUPTED, "interrupted", "")
    except StdoutError as error:
        return _report(False, error.exit_code, error.message, error.hint)
    except ToolchainError as error:
        if _is_of_networks(error.__cause__) and _verbose(_own(arguments)):
            output.note(f"{type(error.__cause__).__name__}: {_indented(str(error.__cause__)[:_MOST_SHOWN])}")
        return _report(as_json, error.exit_code, error.message, error.hint)
    except BrokenPipeError:
        return 1
    except MemoryError as error:
        what = f"this machine has too little memory: {error}".removesuffix(": ")
        return _report(as_json, 1, what, "use a smaller --batch or --shape, or a smaller network")
    except OSError as error:
        if error.errno not in _THIS_MACHINE:
            return _report_bug(as_json, arguments, error)
        where = f"{error.filename}: " if error.filename is not None else ""
        return _report(as_json, 1, f"{where}{error.strerror}", _THIS_MACHINE[error.errno])
    except Exception as error:
        return _report_bug(as_json, arguments, error)


def _is_of_networks(cause: BaseException | None) -> bool:
    """Whether an error comes from a library that reads or compiles networks.

    Errors of other libraries may repeat passwords from toolchain.toml or from an address.
    """
    return cause is not None and type(cause).__module__.partition(".")[0] in _OF_NETWORKS


def _path(context: click.Context | None, command: click.Command, arguments: Sequence[str]) -> str:
    """Return the command's name with its groups; click's parser raises some errors without a context."""
    if context:
        return context.command_path
    words = ["toolchain"]
    for word in arguments:
        if not isinstance(command, click.Group):
            break
        inner = command.get_command(click.Context(command), word)
        if inner is None:
            break
        words.append(word)
        command = inner
    return " ".join(words)


def _report_bug(as_json: bool, arguments: Sequence[str], error: Exception) -> int:
    if _verbose(_own(arguments)):
        traceback.print_exc()
    what = f"{type(error).__name__}: {error}".partition("\n")[0]
    hint = "run the same command with -v for the traceback, and report it"
    return _report(as_json, 1, f"this is a bug in the toolchain: {what}", hint)


def _own(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments before `--`; those behind it are a board's command."""
    return arguments[: list(arguments).index("--")] if "--" in arguments else arguments


def _verbose(arguments: Sequence[str]) -> bool:
    return any(a == "--verbose" or (a[:1] == "-" and a[1:] and set(a[1:]) == {"v"}) for a in arguments)


def _report(as_json: bool, code: int, message: str, hint: str) -> int:
    try:
        if as_json:
            output.print_json({"error": {"code": code, "message": message, "hint": hint}})
        else:
            output.note(f"error: {_indented(message)}")
            if hint:
                output.note(f"hint: {_indented(hint)}")
    except (BrokenPipeError, StdoutError):
        pass  # the exit code reports it
    return code


def _indented(text: str) -> str:
    """Return `text` with its later lines indented, so that none looks like a line of ours."""
    first, *more = text.split("\n")
    return "\n".join([first, *(line if line.startswith("  ") else f"  {line}" for line in more)])


# In the order of use: set up, inspect, tune, build, measure, clean up.
COMMANDS = {
    "demo": "Tune, build, upload, verify and time one network, and write a report.",
    "init": "Write a first toolchain.toml.",
    "doctor": "Check what is installed, what is missing and how to get it.",
    "model": "List, inspect and export networks.",
    "board": "Add and maintain boards; start and stop emulated ones.",
    "lab": "Start, show and stop the tracker and the servers on boards.",
    "tasks": "List the tunable tasks of a network, the heaviest first.",
    "tune": "Search for faster code by measuring candidates on a board.",
    "records": "List, export, import and thin out records of tuning.",
    "report": "Write the plots of a tuning run or of a rollout as an HTML page.",
    "build": "Compile a network into a bundle for a board.",
    "run": "Run a bundle once on a board, with your own data.",
    "verify": "Compare a bundle's outputs on a board with the reference.",
    "bench": "Measure a bundle's latency on a board.",
    "release": "Sign bundles for boards in the field, and say whose signatures boards accept.",
    "deploy": "Install a signed release on boards, phase by phase.",
    "rollback": "Take boards back to the release they ran before.",
    "fleet": "Show what the boards of a fleet run.",
    "ui": "Show boards, tuning, builds and rollouts on a page while they work.",
    "runtime": "edge-rt: its C library for your own program, and a check of its bytes.",
    "vta": "Inspect and test the accelerator VTA: configurations, programs, portability.",
    "image": "Manage the images with cross-compilers, in which build and tune can run.",
    "cache": "List and prune files that can be made again.",
    "completion": "Print the completion script of a shell.",
}

_MODULES = {
    "init": "host",
    "doctor": "host",
    "cache": "host",
    "completion": "host",
    "tasks": "model",
    "run": "execute",
    "verify": "execute",
    "bench": "execute",
    "report": "pages",
    "ui": "pages",
}
"""Modules of the commands that share one; the others have one of their own name."""

EPILOG = (
    "Exit codes: 0 done; 1 the work began and failed; 2 what was typed or handed over can't be used; "
    "3 this machine lacks something (see `toolchain doctor`); 4 a bundle fails its check, or a board answers "
    "what cannot be right."
)


@click.group(
    cls=LazyGroup,
    package="toolchain.cli.commands",
    table=COMMANDS,
    modules=_MODULES,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="toolchain", message="%(prog)s %(version)s")
@output.output_options
def root() -> None:
    """Compile a network to a tuned, verified, timed library on an edge board."""


def main() -> None:
    """Run the command line of this process and exit with its code."""
    leave_out_current_folder()
    sys.exit(run(root, sys.argv[1:]))
