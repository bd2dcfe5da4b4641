"""Writes the files of this version, which every later one must read: tests/data/VERSION.

    python -m tools.distribution.keep [--lists]

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
from toolchain.runtime.fingerprint import NATIVE
from tools.distribution.checking import write_network
from tools.distribution.documents import TYPED, key_paths
from tools.distribution.tree import ROOT

KEPT = ROOT / "tests" / "data" / toolchain.__version__
FOREVER = "2126-01-01"
_COMMAND_S = 600


def main() -> None:
    """Make everything in a temporary folder, and copy what is kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--lists", action="store_true", help="only what needs no run: commands, names, edge_rt.h"
    )
    KEPT.mkdir(parents=True, exist_ok=True)
    if not parser.parse_args().lists:
        _keep_files()
    _write("commands.json", commands())
    _write("api.json", interface(toolchain))
    shutil.copyfile(NATIVE / "edge_rt.h", KEPT / "edge_rt.h")


def _keep_files() -> None:
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
    roles = ("--key", "root-key", "--release-key", "release-key.pub")
    _run(folder, "release", "init", *roles, "--expires", FOREVER)
    terms = ("--key", "release-key", "--version", "1.0.0", "--expires", FOREVER, "--unverified")
    _run(folder, "release", "sign", "small.bundle", *terms)


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
