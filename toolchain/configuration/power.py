"""The table `power` of a board: the programs that switch it on and off, and when that happens by itself."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from toolchain.configuration.table import Table

PowerAction = Literal["on", "off", "cycle"]
ACTIONS: tuple[PowerAction, ...] = ("on", "off", "cycle")
_MOST_S = 86400.0


def _split(value: Any) -> Any:
    """Split a text into words as a shell does, but without a shell: nothing in it is expanded."""
    return tuple(shlex.split(value)) if isinstance(value, str) else value


def _check_words(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words or not words[0]:
        raise ValueError("it names no program: give a list of words, such as ['relay', 'on', '3']")
    return words


Words = Annotated[tuple[str, ...], BeforeValidator(_split), AfterValidator(_check_words)]


class PowerCommands(Table):
    """Every key of `power`. The words may hold passwords: nothing prints more of them than the program."""

    model_config = ConfigDict(frozen=True)

    on: Words | None = Field(
        None,
        repr=False,
        description="The program of this host that switches the board on, and its arguments, as a list of "
        "words; a text is split into words, and no shell sees it. Goes with `off`.",
    )
    off: Words | None = Field(None, repr=False, description="The same, to switch it off.")
    cycle: Words | None = Field(
        None, repr=False, description="The same, to switch it off and on again; default: `off`, then `on`."
    )
    timeout_s: float = Field(30.0, gt=0, le=_MOST_S, description="Seconds that one such program may take.")
    pause_s: float = Field(
        5.0, ge=0, le=_MOST_S, description="Seconds between `off` and `on`, where there is no `cycle`."
    )
    boot_s: float = Field(
        180.0, gt=0, le=_MOST_S, description="Seconds until the board must answer after it was switched on."
    )
    silent_s: float = Field(
        120.0,
        ge=0,
        le=_MOST_S,
        description="`tune` and `deploy` power-cycle the board when it has been silent for this many "
        "seconds: more than it takes to restart by itself.",
    )
    most_cycles: int = Field(
        2, ge=0, le=1000, description="How often one `tune` or `deploy` power-cycles it at most; 0: never."
    )
    between_s: float = Field(
        600.0,
        ge=0,
        le=_MOST_S,
        description="Least seconds between two power cycles that commands of this host do by themselves.",
    )

    @model_validator(mode="after")
    def _check_pair(self) -> PowerCommands:
        if (self.on is None) != (self.off is None):
            have, lack = ("on", "off") if self.off is None else ("off", "on")
            raise ValueError(f"`{have}` is there without `{lack}`: give both, or `cycle` alone")
        if self.on is None and self.cycle is None:
            raise ValueError("there is no command: give `on` and `off`, or `cycle`")
        return self

    def command(self, action: PowerAction) -> tuple[str, ...] | None:
        """Return the words of an action's command; None if it has none of its own."""
        return {"on": self.on, "off": self.off, "cycle": self.cycle}[action]

    def program(self, action: PowerAction) -> str | None:
        """Return the name of an action's program, without its folder and its arguments."""
        words = self.command(action)
        return Path(words[0]).name if words else None

    def resolved(self, absolute: Callable[[Path], Path]) -> PowerCommands:
        """Return the commands with each program that is named by a path replaced by its absolute path."""
        paths: dict[str, tuple[str, ...]] = {
            action: (str(absolute(Path(words[0]))), *words[1:])
            for action in ACTIONS
            if (words := self.command(action)) and "/" in words[0]
        }
        return self.model_copy(update=paths)
