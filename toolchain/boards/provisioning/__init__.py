"""Provisioning: reads facts of a board, plans steps from them, and does only what is needed."""

from __future__ import annotations

from toolchain.boards.provisioning.how import How
from toolchain.boards.provisioning.passwords import PasswordChange, set_passwords
from toolchain.boards.provisioning.run import Provisioned, give_class, provision, unprovision
from toolchain.boards.provisioning.steps import SetupOptions

__all__ = [
    "How",
    "PasswordChange",
    "Provisioned",
    "SetupOptions",
    "give_class",
    "provision",
    "set_passwords",
    "unprovision",
]
