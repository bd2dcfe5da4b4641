"""The files for other fleets' engines: what they call is there, and a shell can read them."""

from __future__ import annotations

import configparser
import subprocess
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tests.howto.page import ROOT

FLEETS = ROOT / "docs" / "examples" / "fleets"


def hook(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    text = (FLEETS / "rauc" / "hook.sh").read_text()
    (folder / "hook.sh").write_text(text.replace("/opt/edge-toolchain", str(folder)))
    return subprocess.run(
        ["sh", folder / "hook.sh", *words],
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("code", [0, 4])
def test_the_hook_of_rauc_ends_as_edge_rt_does(tmp_path: Path, code: int) -> None:
    """With a STAND-IN of edge-rt, which says how it was called."""
    (tmp_path / "edge-rt").write_text(f'#!/bin/sh\necho "$@"\nexit {code}\n')
    (tmp_path / "edge-rt").chmod(0o755)
    done = hook(tmp_path, "slot-install", RAUC_SLOT_CLASS="app", RAUC_IMAGE_NAME="/tmp/counter.img")
    assert (done.returncode, done.stderr) == (code, f"install /tmp/counter.img --field {tmp_path}/field\n")
    assert hook(tmp_path, "install-check").returncode == 0
    assert hook(tmp_path, "slot-install", RAUC_SLOT_CLASS="rootfs").returncode == 1


def test_manifest_and_configuration_of_rauc_agree() -> None:
    manifest, system = configparser.ConfigParser(), configparser.ConfigParser()
    manifest.read(FLEETS / "rauc" / "manifest.raucm")
    system.read(FLEETS / "rauc" / "system.conf")
    assert manifest["update"]["compatible"] == system["system"]["compatible"]
    assert {"app"} == {s.split(".")[1] for each in (manifest, system) for s in each.sections() if "." in s}
    assert (FLEETS / "rauc" / manifest["hooks"]["filename"]).stat().st_mode & 0o111


def test_the_role_installs_what_it_has_sent_and_removes_it() -> None:
    send, install, remove = yaml.safe_load((FLEETS / "ansible" / "tasks" / "main.yml").read_text())
    sent = send["ansible.builtin.copy"]["dest"]
    assert install["ansible.builtin.command"]["argv"][1:3] == ["install", sent]
    assert remove["ansible.builtin.file"] == {"path": sent, "state": "absent"}
