"""Walks through a tutorial: types its commands, one after the other, in a folder of its own.

`python docs/walk.py docs/tutorials/mali.md` prints them with what they say, and stops at one that fails.
With `--image NAME` a container of that image does. The tests walk the same way, with small networks.
A page's own files, such as those of docs/examples/first-day for first-day.md, are copied into that folder.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

Arguments = list[str]
_MODEL_IMAGE = "mali-model"
_DEVICE = re.compile(r"builds use them with --device '?(opencl:[^'\s]+)")
_ID = re.compile(r"^([0-9a-f]{8})  ", re.MULTILINE)
_SPENDS = ("tune", "bench")
_TOOLCHAIN = (sys.executable, "-m", "toolchain")
_STOP_S = 60.0  # for the lab, and for what stays open
_STAYS = "ui"  # the command that serves until Ctrl-C
_ANSWER_S = 30.0
_INTERRUPTED = 128 + signal.SIGINT  # as a shell says it


@dataclass(frozen=True)
class Said:
    """What a command left behind; `text` is all that it printed."""

    code: int
    text: str


def commands(page: Path) -> list[Arguments]:
    """Return what a reader types, as arguments of `toolchain`; a line that ends in a backslash goes on."""
    typed = re.findall(r"^    \$ (.*)$", page.read_text().replace("\\\n", " "), re.MULTILINE)
    if not typed or not all(line.startswith("toolchain ") for line in typed):
        raise ValueError(f"{page}: every command begins with `toolchain`, and there is one")
    return [shlex.split(line)[1:] for line in typed]


def needs_model(arguments: Arguments) -> bool:
    """Return whether a command asks the model of a Mali, whose optional image takes minutes to make."""
    return "--model" in arguments or _MODEL_IMAGE in arguments


@dataclass
class Walk:
    """Commands with what is this host's own in place of what the page shows.

    Attributes
    ----------
    run
        Types a command.
    networks
        What the page calls a network -> what is taken for it; others stay.
    budget
        Option of `tune` -> its value for the page's own; options that a command has not stay away.
    """

    run: Callable[[Arguments], Said]
    networks: Mapping[str, str] = field(default_factory=dict)
    budget: Mapping[str, str] = field(default_factory=dict)
    _device: str = ""
    _tasks: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    def type(self, arguments: Arguments) -> tuple[Arguments, Said]:
        """Type a command of the page; return what was typed."""
        typed = self._adapted(arguments)
        said = self.run(typed)
        if found := _DEVICE.search(said.text):
            self._device = found[1]
        if typed[0] == "tasks" and (listed := _ID.findall(said.text)):  # other outputs list none
            self._tasks[_listing(typed)] = listed
        return typed, said

    def _adapted(self, arguments: Arguments) -> Arguments:
        typed = [self.networks.get(each, each) for each in arguments]
        if self._device:
            typed = [self._device if each.startswith("opencl:") else each for each in typed]
        if typed[0] in _SPENDS:
            for option in self.budget.keys() & set(typed):
                typed[typed.index(option) + 1] = self.budget[option]
        for option in {"--tasks", "--explain", "--show"} & set(typed):
            at = typed.index(option) + 1
            there, asked = self._tasks[_listing(typed)], typed[at].split(",")
            if there and not set(asked) <= set(there):
                typed[at] = ",".join(there[: len(asked)])
        return typed


def _listing(typed: Arguments) -> tuple[str, str]:
    """Return what decides which tasks a network has."""
    return typed[1], typed[typed.index("--layout") + 1] if "--layout" in typed else ""


def main() -> int:
    """Walk through the page that is given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", type=_file)
    parser.add_argument(
        "--budget", metavar="S", help="seconds for each `tune` and `bench`; default: the page's"
    )
    parser.add_argument(
        "--network",
        metavar="NAME=FILE",
        type=_network,
        action="append",
        default=[],
        help="a file for what the page calls a network, such as zoo:resnet-18=small.onnx",
    )
    parser.add_argument("--image", metavar="NAME", help="walk in a container of it; default: this host")
    options = parser.parse_args()
    # In order, where the output is a file.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    page, networks = options.page, dict(options.network)
    try:
        if options.image:
            return _in_image(options.image, page, networks, options.budget)
        return _here(page, networks, options.budget)
    except KeyboardInterrupt:
        print("stopped: interrupted")
        return _INTERRUPTED


def _file(text: str) -> Path:
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text!r}")
    return Path(text).resolve()


def _network(text: str) -> tuple[str, Path]:
    name, equals, file = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FILE")
    return name, _file(file)


def _in_image(image: str, page: Path, networks: Mapping[str, Path], budget: str | None) -> int:
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from docs.walk_in_image import walk_in_image
    from toolchain.errors import ToolchainError

    try:
        return walk_in_image(image, page, networks, budget)
    except ToolchainError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def _here(page: Path, networks: Mapping[str, Path], budget: str | None) -> int:
    with _elsewhere(page), ExitStack() as stays:
        begun = time.monotonic()
        taken = {name: str(file) for name, file in networks.items()}

        def run(arguments: Arguments) -> Said:
            return look_at(stays, arguments) if arguments[0] == _STAYS else _typed(arguments)

        walk = Walk(run, taken, {"--time": budget} if budget else {})
        model = any(map(needs_model, commands(page))) and _has_model()
        skipped = 0
        for arguments in commands(page):
            if needs_model(arguments) and not model:
                skipped += 1
                print(
                    f"$ toolchain {shlex.join(arguments)}\nskipped: it needs the image {_MODEL_IMAGE} "
                    f"(`toolchain image build {_MODEL_IMAGE}`)\n"
                )
                continue
            typed, said = walk.type(arguments)
            if said.code:
                print(f"stopped: `toolchain {shlex.join(typed)}` exited with {said.code}")
                return 1
        left = f"; {skipped} skipped" if skipped else ""
        print(f"done: {page.name}, every command succeeded{left}, in {time.monotonic() - begun:.0f} s")
    return 0


@contextmanager
def _elsewhere(page: Path) -> Iterator[None]:
    """Give the walk a folder with the page's examples, records and a lab of its own; gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="tutorial-") as folder:
        place = Path(folder)
        examples = page.parent.parent / "examples" / page.stem
        (place / "cwd").mkdir()
        if examples.is_dir():
            shutil.copytree(examples, place / "cwd", dirs_exist_ok=True)
        (place / "cwd" / "toolchain.toml").touch()  # no settings of a folder above
        os.environ["TOOLCHAIN_DATA_DIR"] = str(place / "data")
        os.environ["TOOLCHAIN_STATE_DIR"] = str(place / "state")
        os.chdir(place / "cwd")
        try:
            yield
        finally:
            subprocess.run([*_TOOLCHAIN, "lab", "stop"], capture_output=True, check=False, timeout=_STOP_S)
            os.chdir("/")


def _typed(arguments: Arguments) -> Said:
    """Type a command, and print it with what it says while it says it."""
    print(f"$ toolchain {shlex.join(arguments)}")
    lines = []
    with subprocess.Popen(
        [*_TOOLCHAIN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            print(line, end="")
            lines.append(line)
    print()
    return Said(process.returncode, "".join(lines))


def look_at(stays: ExitStack, arguments: Arguments) -> Said:
    """Start `toolchain ui` until `stays` is closed, and fetch its page once, as a browser would."""
    print(f"$ toolchain {shlex.join(arguments)}")
    serving = stays.enter_context(_interrupted_at_the_end(arguments))
    address = (serving.stdout.readline() if serving.stdout else "").strip()
    print(f"{address}\n")
    try:
        with urllib.request.urlopen(address, timeout=_ANSWER_S) as answer:  # noqa: S310 - loopback
            return Said(0 if b"<title>" in answer.read() else 1, address)
    except (OSError, ValueError) as error:  # no answer; no address
        print(f"the page does not answer: {error}")
        return Said(1, address)


@contextmanager
def _interrupted_at_the_end(arguments: Arguments) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([*_TOOLCHAIN, *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _has_model() -> bool:
    done = subprocess.run(
        [*_TOOLCHAIN, "image", "list", "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:  # no engine: no image
        return False
    return any(
        image["name"] == _MODEL_IMAGE and image["state"] != "absent" for image in json.loads(done.stdout)
    )


if __name__ == "__main__":
    sys.exit(main())
