"""Provisioning: reads facts of a board, plans steps from them, and does only what is needed."""

from __future__ import annotations

from toolchain.boards.provisioning.run import How, Provisioned, provision, unprovision
from toolchain.boards.provisioning.steps import SetupOptions

__all__ = ["How", "Provisioned", "SetupOptions", "provision", "unprovision"]
