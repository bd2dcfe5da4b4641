"""Labels that tie a step's container to its process, so that containers of dead processes are removed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from toolchain.configuration.settings import state_dir
from toolchain.errors import ToolchainError
from toolchain.images.engine import LABEL, Engine
from toolchain.processes.life import Life

PURPOSE = "step"  # value of the label `LABEL`: what such a container is for
_OWNER_LABEL = f"{LABEL}.owner"
STATE_LABEL = f"{LABEL}.state"  # the state folder that owns it; containers of other folders are left alone


def owner_labels() -> dict[str, str]:
    """Return the labels for containers that this process creates."""
    return {LABEL: PURPOSE, STATE_LABEL: own_state(), _OWNER_LABEL: _owner()}


def sweep(engine: Engine) -> None:
    """Remove containers left by killed processes."""
    for container in engine.containers(PURPOSE):
        labels = container.labels
        if labels.get(STATE_LABEL) == own_state() and not _lives(labels.get(_OWNER_LABEL, "")):
            with suppress(ToolchainError):  # another step does it
                engine.remove(container.id)


def own_state() -> str:
    """Return the value of `STATE_LABEL` for containers of this process."""
    return str(state_dir().absolute())


def _owner() -> str:
    """Return a text that identifies this process, even if its id is reused later."""
    life = Life.own()
    return f"{_space()} {life.pid} {life.began}"


def _space() -> str:
    return str(Path("/proc/self/ns/pid").readlink())  # numbers mean nothing in another one


def _lives(owner: str) -> bool:
    """Whether the process in a label still runs; True if that cannot be determined here."""
    space, _, rest = owner.partition(" ")
    number, _, began = rest.partition(" ")
    if space != _space() or not number.isdecimal():
        return True
    return Life(int(number), began).lasts()
