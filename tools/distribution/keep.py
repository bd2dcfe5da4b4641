"""Writes the files of this version, which every later one must read: tests/data/VERSION.

    python -m tools.distribution.keep

Typed once for a version, when it is released; tests/distribution/test_promises.py reads the files ever after.
The folder's toolchain.toml is written by hand. No private key is kept.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import numpy as np

import toolchain
from toolchain.cli.root import root
from toolchain.runtime.fingerprint import NATIVE
from tools.distribution.checking import write_network
from tools.distribution.documents import TYPED, key_paths
from tools.distribution.tree import ROOT

KEPT = ROOT / "tests" / "data" / toolchain.__version__
FOREVER = "2126-01-01"
_COMMAND_S = 600


def main() -> None:
    """Make everything in a temporary folder, and copy what is kept."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _make_files(folder)
        for file in (
            "records.jsonl",
            "small.bundle",
            "small.bundle.release",
            "trust.json",
            "release-key.pub",
        ):
            shutil.copyfile(folder / file, KEPT / file)
        _write("documents.json", _documents(folder))
    _write("commands.json", commands())
    _write("api.json", sorted(getattr(toolchain, "__all__", [])))
    shutil.copyfile(NATIVE / "edge_rt.h", KEPT / "edge_rt.h")


def commands() -> dict[str, list[str]]:
    """Return the options of every command, by its words."""
    return dict(_options(root, click.Context(root, info_name="toolchain")))


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


def _make_files(folder: Path) -> None:
    write_network(folder / "tiny.onnx")
    np.save(folder / "x.npy", np.ones((1, 3, 16, 16), np.float32))
    _run(folder, "tune", "tiny.onnx", "--board", "local", "--trials", "4", "--engine", "host")
    _run(folder, "records", "export", "records.jsonl")
    built = json.loads(
        _run(folder, "build", "tiny.onnx", "--board", "x86_64", "-o", "out", "--engine", "host")
    )
    shutil.copyfile(built["bundle"], folder / "small.bundle")
    for key in ("root-key", "release-key"):
        _run(folder, "release", "keygen", "-o", key, "--no-passphrase")
    given = ("--key", "root-key", "--release-key", "release-key.pub", "--expires", FOREVER)
    _run(folder, "release", "init", *given)
    given = ("--key", "release-key", "--version", "1.0.0", "--expires", FOREVER, "--unverified")
    _run(folder, "release", "sign", "small.bundle", *given)


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
