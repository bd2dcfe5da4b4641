"""Two releases of a small network, signed for real, and a machine that has the first of them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.machines.machine import Machine
from tests.models.graphs import graph_of, tensor_info
from toolchain.bundles.read import read_bundle
from toolchain.releases.signed_release import SignedRelease, open_release

APP = "toy"
PLACE = f"field/{APP}"  # on the board, below the installation's folder
_SIDE = 256  # of the network's two matrices: a library of half a megabyte, which takes a while to receive
_SECONDS = 900


@dataclass(frozen=True)
class Version:
    """A release of the network, and its outputs by onnxruntime."""

    name: str
    bundle: Path
    stream: Path
    signed: SignedRelease
    expected: np.ndarray

    @property
    def digest(self) -> str:
        """The release's name on a board."""
        return self.signed.digest


def toolchain(*words: str | Path) -> str:
    """Run a command as a user does; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "toolchain", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def make_releases(folder: Path, board: str) -> tuple[Version, Version]:
    """Build two versions of a network for a board, sign them, and export each into a file."""
    toolchain("release", "keygen", "--no-passphrase", "-o", folder / "key")
    toolchain("release", "init", "--key", folder / "key", "-o", folder / "trust.json")
    return _release(folder, board, "1.0.0"), _release(folder, board, "2.0.0")


def _release(folder: Path, board: str, name: str) -> Version:
    random = np.random.default_rng(int(name[0]))
    weights = {each: random.standard_normal((_SIDE, _SIDE)).astype(np.float32) / 16 for each in "ab"}
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["y"]),
    ]
    ends = [[tensor_info(each, (1, _SIDE))] for each in "xy"]
    model = folder / name / "small.onnx"
    model.parent.mkdir()
    onnx.save(graph_of(nodes, ends[0], ends[1], weights), model)
    toolchain("build", model, "--board", board, "-o", folder / name)
    (bundle,) = (folder / name).glob("*.bundle")
    words = ("--app", APP, "--classes", "rk3399+emulated", "--unverified", "--expires", "2040-01-01")
    toolchain("release", "sign", bundle, "--key", folder / "key", "--version", name, *words)
    stream = folder / f"{name}.stream"
    toolchain("release", "export", bundle, "--trust", folder / "trust.json", "-o", stream)
    (expected,) = read_bundle(bundle).expected.values()
    return Version(name, bundle, stream, open_release(bundle), expected)


@dataclass
class Field:
    """The folder of the app on a machine, asked over SSH."""

    machine: Machine
    versions: tuple[Version, Version]

    def prepare(self, folder: Path) -> None:
        """Install the first release and a service; put the second one's file onto the board."""
        old, new = self.versions
        board = self.machine.board.name
        toolchain("deploy", old.bundle, "--board", board, "--trust", folder / "trust.json")
        toolchain("board", "provision", board, "--service", APP, "--command", "/usr/bin/sleep infinity")
        transport = self.machine.board.transport
        transport.put(new.stream.read_bytes(), "new.stream")
        transport.put(json.dumps({"class": "rk3399+emulated"}).encode(), f"{PLACE}/policy.json")

    def install(self) -> dict[str, Any]:
        """Install the second release from its file; return the last line."""
        return _line(self.machine.say("./edge-rt install new.stream --field field --state state"))

    def recovered(self) -> str:
        """Return the step in which the unit that runs at the start found an installation cut; empty: none."""
        unit = f"edge-{APP}-recover.service"
        facts = self.machine.say(f"sudo -n systemctl show -p Result -p ActiveState {unit}").split()
        assert facts == ["Result=success", "ActiveState=active"] or set(facts) == {
            "Result=success",
            "ActiveState=active",
        }, facts
        lines = self.machine.say(f"sudo -n journalctl -b -o cat -u {unit}").splitlines()
        (said,) = [json.loads(line)["recovered"] for line in lines if line.startswith('{"recovered"')]
        again = _line(self.machine.say("./edge-rt recover --field field"))
        assert again == {"recovered": []}, "a second recovery has nothing to do"
        return said[0]["step"] if said else ""

    def check(self) -> str:
        """Check that the old or the new release works and nothing else is there; return its version."""
        status = _line(self.machine.say("./edge-rt status --field field"))
        (app,) = status["apps"]
        assert app["state"] == "active" and status["at_work"] is None, status
        link = self.machine.say(f"readlink {PLACE}/current").strip().removeprefix("releases/")
        (runs,) = [version for version in self.versions if version.digest == link]
        assert (app["digest"], app["version"]) == (link, runs.name)
        self._check_places()
        self._check_outputs(runs)
        assert self.machine.say(f"sudo -n systemctl is-active edge-{APP}.service").strip() == "active"
        return runs.name

    def files(self) -> Mapping[str, str]:
        """Return every path of the field's folder, with the digest of a file and the target of a link."""
        found = self.machine.say(
            "cd field && find . -type d -printf '%P/\\t\\n' -o -type l -printf '%P\\t%l\\n' && "
            "find . -type f -exec sha256sum {} +"
        )
        files = {}
        for line in found.splitlines():
            path, tab, target = line.partition("\t")
            if tab:
                files[path] = target
            else:
                digest, path = line.split(maxsplit=1)
                files[path.removeprefix("./")] = digest
        return files

    def _check_places(self) -> None:
        """Check that each release is whole, by digests of our own, and that no unknown file is there."""
        files = dict(self.files())
        for name in ("/", f"{APP}/", f"{APP}/releases/", "trust.json", f"{APP}/policy.json", f"{APP}/state"):
            files.pop(name)
        for name in ("lock", f"{APP}/journal", f"{APP}/journal.1", f"{APP}/incoming/"):
            files.pop(name, None)
        current, previous = files.pop(f"{APP}/current"), files.pop(f"{APP}/previous", None)
        assert previous != current
        for version in self.versions:
            prefix = f"{APP}/releases/{version.digest}/"
            whole = {part.name: part.sha256 for part in version.signed.parts}
            there = {
                path.removeprefix(prefix): files.pop(path) for path in list(files) if path.startswith(prefix)
            }
            named = f"releases/{version.digest}" in (current, previous)
            if not there:
                assert not named, f"the link to {version.name} leads nowhere"
                continue
            parts = {path: digest for path, digest in there.items() if not path.endswith("/") and path}
            assert parts.pop("release.json"), "a release has its envelope"
            assert parts == whole, f"release {version.name} is not whole"
        new = {part.sha256 for part in self.versions[1].signed.parts}
        waiting = {
            path.removeprefix(f"{APP}/incoming/") for path in files if path.startswith(f"{APP}/incoming/")
        }
        assert waiting <= new, "parts that no release has"
        assert not [path for path in files if not path.startswith(f"{APP}/incoming/")], files

    def _check_outputs(self, runs: Version) -> None:
        """Run the network as a program would, and compare its outputs with onnxruntime's."""
        lib = f"{PLACE}/current"
        self.machine.say(
            f"./edge-rt run {lib}/library.so --input {lib}/sample/0.npy --output out.npz --output-names 0 "
            "--threads 1 --state state"
        )
        file = Path(self.machine.folder) / "out.npz"
        self.machine.board.transport.get("out.npz", file, 1 << 20)
        self.machine.say("rm out.npz")
        (output,) = np.load(file).values()
        assert np.allclose(output, runs.expected, rtol=1e-4, atol=1e-4), "the outputs are not the reference's"


def _line(text: str) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(text.splitlines()[-1])
    return line
