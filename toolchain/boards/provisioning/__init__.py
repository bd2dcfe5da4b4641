"""Making a board ready: facts are read, steps computed from them, and only what is needed is done."""

from __future__ import annotations

from toolchain.boards.provisioning.run import How, Provisioned, provision, unprovision
from toolchain.boards.provisioning.steps import Wish

__all__ = ["How", "Provisioned", "Wish", "provision", "unprovision"]
