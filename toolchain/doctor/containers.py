"""Looks for what container boards and images need: Docker, mmdebstrap, a kernel that runs arm programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from toolchain.architectures.table import LINUX
from toolchain.doctor.probes import Check, check_tool, own_architectures
from toolchain.errors import ToolchainError
from toolchain.images.engine import Engine, connect
from toolchain.images.listing import states

_BOARDS = "board emulate start --kind container"
_CONTAINERS = f"image build, --engine docker, {_BOARDS}"


def check_containers() -> Iterator[Check]:
    hint = "for emulated boards in containers: `make deps` in a checkout, or see docs/howto/install.md"
    try:
        with connect() as engine:
            yield Check("docker", "ok", f"{engine.version} at {engine.where}", "", _CONTAINERS)
            yield from _check_images(engine)
    except ToolchainError as error:
        yield Check("docker", "optional", error.message, error.hint, _CONTAINERS)
    yield check_tool("mmdebstrap", ["mmdebstrap", "--version"], "optional", hint, _CONTAINERS)
    for name in (row.qemu.name for row in LINUX.values() if row.qemu and row.name not in own_architectures()):
        flags = _registered_flags(name)
        # F: the emulator also works inside containers. C: so does sudo.
        good = flags is not None and {"F", "C"} <= set(flags)
        found = "no emulator is registered with binfmt_misc" if flags is None else f"flags {flags}"
        yield Check(f"{name} programs", "ok" if good else "optional", found, hint, f"{_BOARDS} ({name})")


def _check_images(engine: Engine) -> Iterator[Check]:
    """Yield one check for each state, with the images in that state."""
    found: dict[str, list[str]] = {}
    try:
        for state in states(engine):
            found.setdefault(state.word, []).append(state.name)
    except ToolchainError as error:
        yield Check("images", "note", error.message, error.hint)
    hints = {
        "current": "",
        "out of date": "--engine auto ignores them; rebuild them: toolchain image build",
        "absent": "to build and tune in them: toolchain image build NAME",
    }
    for word, hint in hints.items():
        if word in found:
            yield Check(f"images {word}", "note" if hint else "ok", ", ".join(found[word]), hint)


def _registered_flags(name: str) -> str | None:
    """Return the binfmt_misc flags for an architecture; our own emulator goes before another one's."""
    for entry in (f"edge-{name}", f"qemu-{name}"):
        file = Path("/proc/sys/fs/binfmt_misc") / entry
        if file.exists():
            found = re.search(r"^flags: (\w*)$", file.read_text(), re.MULTILINE)
            return found.group(1) if found else ""
    return None
