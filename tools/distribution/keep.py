"""Writes the files of this version, which every later one must read: tests/data/VERSION.

    python -m tools.distribution.keep [--lists | --stream]

Typed once for a version, when it is released; tests/distribution/test_promises.py reads the files ever after.
The folder's toolchain.toml is written by hand. No private key is kept.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import numpy as np

import toolchain
from toolchain.cli.root import root
from toolchain.runtime import ensure_runtime
from toolchain.runtime.fingerprint import NATIVE
from tools.distribution.checking import write_network
from tools.distribution.documents import TYPED, key_paths
from tools.distribution.sent import ARCH, sent_today
from tools.distribution.stream import Conversation
from tools.distribution.tree import ROOT

KEPT = ROOT / "tests" / "data" / toolchain.__version__
FOREVER = "2126-01-01"
_COMMAND_S = 600


def main() -> None:
    """Make everything in a temporary folder, and copy what is kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument(
        "--lists", action="store_true", help="only what needs no run: commands, names, edge_rt.h"
    )
    only.add_argument("--stream", action="store_true", help="only the stream, with releases of its own")
    arguments = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_network(folder / "tiny.onnx")
        if not (arguments.lists or arguments.stream):
            _make_records(folder)
        if not arguments.lists:
            _make_releases(folder)
            _write("stream.json", _stream(folder))
        if not (arguments.lists or arguments.stream):
            _keep_files(folder)
    if not arguments.stream:
        _keep_lists()


def _keep_files(folder: Path) -> None:
    for file in ("records.jsonl", "small.bundle", "small.bundle.release", "trust.json", "release-key.pub"):
        shutil.copyfile(folder / file, KEPT / file)
    _write("documents.json", _documents(folder))


def _keep_lists() -> None:
    _write("commands.json", commands())
    _write("api.json", interface(toolchain))
    shutil.copyfile(NATIVE / "edge_rt.h", KEPT / "edge_rt.h")


def commands() -> dict[str, list[str]]:
    """Return the options of every command, by its words."""
    return dict(_options(root, click.Context(root, info_name="toolchain")))


def interface(module: ModuleType) -> dict[str, list[str]]:
    """Return the names in a module's `__all__`, each with its parameters' if it is called."""
    names = sorted(getattr(module, "__all__", []))
    return {name: [each.name for each in parameters(getattr(module, name))] for name in names}


def parameters(found: object) -> list[inspect.Parameter]:
    """Return the parameters of a function or class; none of anything else."""
    try:
        return list(inspect.signature(found).parameters.values()) if callable(found) else []
    except ValueError:  # it is built in, and does not say
        return []


def prototypes(header: str) -> set[str]:
    """Return what a C header declares, in one form: functions, values of enums, fields of structs."""
    return {" ".join(each.split()) for each in re.split(r"[;{},](?![^(]*\))", _code(header)) if each.strip()}


def structs(header: str) -> dict[str, list[str]]:
    """Return the fields of each struct of a C header, in their order."""
    found = re.findall(r"typedef struct (\w+) \{(.*?)\}", _code(header), re.DOTALL)
    return {
        name: [" ".join(each.split()) for each in text.split(";") if each.strip()] for name, text in found
    }


def _code(header: str) -> str:
    return re.sub(r"/\*.*?\*/|^#.*?$", " ", header, flags=re.DOTALL | re.MULTILINE)


def _options(command: click.Command, context: click.Context) -> Any:
    if not isinstance(command, click.Group):
        yield context.command_path, sorted(name for each in command.params for name in _names(each))
        return
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        if child is not None:
            yield from _options(child, click.Context(child, context, info_name=name))


def _names(parameter: click.Parameter) -> list[str]:
    return [*parameter.opts, *parameter.secondary_opts] if isinstance(parameter, click.Option) else []


def _make_records(folder: Path) -> None:
    np.save(folder / "x.npy", np.ones((1, 3, 16, 16), np.float32))
    _run(folder, "tune", "tiny.onnx", "--board", "local", "--trials", "4", "--engine", "host")
    _run(folder, "records", "export", "records.jsonl")


def _make_releases(folder: Path) -> None:
    """Make the release that is kept, and a newer one for the stream."""
    for key in ("root-key", "release-key"):
        _run(folder, "release", "keygen", "-o", key, "--no-passphrase")
    roles = ("--key", "root-key", "--release-key", "release-key.pub")
    _run(folder, "release", "init", *roles, "--expires", FOREVER)
    for bundle, version, *more in (("small.bundle", "1.0.0"), ("newer.bundle", "1.1.0", "--layout", "NCHW")):
        build = ("build", "tiny.onnx", "--board", ARCH, *more, "-o", f"out-{version}", "--engine", "host")
        shutil.copyfile(json.loads(_run(folder, *build))["bundle"], folder / bundle)
        terms = ("--key", "release-key", "--version", version, "--expires", FOREVER, "--unverified")
        _run(folder, "release", "sign", bundle, *terms)


def _stream(folder: Path) -> dict[str, Any]:
    """Return what a host of this version sends of both releases, and the keys of what edge-rt answers."""
    sent = sent_today(folder / "small.bundle", folder / "newer.bundle", folder / "trust.json")
    board = folder / "board"
    board.mkdir()
    return {"sent": sent.to_json(), "answers": Conversation(ensure_runtime(ARCH).program, board, sent).hold()}


def _documents(folder: Path) -> dict[str, list[str]]:
    for file in folder.glob("toolchain.toml"):
        file.unlink()
    return {" ".join(typed): sorted(set(key_paths(json.loads(_run(folder, *typed))))) for typed in TYPED}


def _run(folder: Path, *arguments: str) -> str:
    """Run a command with a home of the folder's; an error is a document, too."""
    own = {f"TOOLCHAIN_{kind}_DIR": str(folder / kind.lower()) for kind in ("DATA", "STATE")}
    done = subprocess.run(
        [sys.executable, "-m", "toolchain", *arguments, "--json"],
        cwd=folder,
        env={**os.environ, **own, "TOOLCHAIN_RATES": "class"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=_COMMAND_S,
        check=False,
    )
    return done.stdout


def _write(name: str, document: Any) -> None:
    (KEPT / name).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
