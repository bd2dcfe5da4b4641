"""Passphrases and PINs: from the environment, or asked for at the terminal; never from the command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from toolchain.errors import UsageError

PASSPHRASE = "TOOLCHAIN_KEY_PASSPHRASE"  # noqa: S105 - a variable's name
PIN = "TOOLCHAIN_PKCS11_PIN"


class Prompts:
    """Asks for secrets at the terminal, if the environment has none."""

    def passphrase(self, path: Path) -> str:
        """Return the passphrase of a key file."""
        return _secret(
            PASSPHRASE, f"Passphrase of {path}", f"add the key to an agent: ssh-add {path}; or set"
        )

    def pin(self, token: str) -> str:
        """Return the PIN of a token."""
        return _secret(PIN, f"PIN of {token}", "set")


def new_passphrase(path: Path) -> str:
    """Return the passphrase for a new key, asked for twice.

    Raises
    ------
    UsageError
        It is empty, or there is neither a terminal nor the variable.
    """
    if (given := os.environ.get(PASSPHRASE)) is not None:
        found = given
    else:
        _need_terminal(PASSPHRASE, f"a passphrase for {path} is needed", "give --no-passphrase, or set")
        found = click.prompt(
            f"Passphrase for {path}", hide_input=True, confirmation_prompt=True, err=True, default=""
        )
    if not found:
        raise UsageError("the passphrase is empty", "type one, or give --no-passphrase")
    return str(found)


def _secret(variable: str, what: str, hint: str) -> str:
    if (given := os.environ.get(variable)) is not None:
        return given
    _need_terminal(variable, f"{what} is needed, and there is no terminal to ask", hint)
    return str(click.prompt(what, hide_input=True, err=True))


def _need_terminal(variable: str, problem: str, hint: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError(problem, f"{hint} {variable}")
