"""Holds the things that all steps of one acceptance share: board, time, and networks that are built once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.acceptance.choices import NetworkChoice
from toolchain.acceptance.document import StepReport
from toolchain.acceptance.found import DeviceFound
from toolchain.acceptance.public import hardware_name
from toolchain.acceptance.timing import TimeLeft
from toolchain.boards.board import Board
from toolchain.boards.edge_rt.answers import DevicesThere
from toolchain.boards.edge_rt.install import Installed, install
from toolchain.bundles.read import Bundle, read_bundle
from toolchain.devices.device import CPU
from toolchain.devices.table import kind_of
from toolchain.errors import ToolchainError, UsageError
from toolchain.measuring.execution import Execution, OnBoard
from toolchain.records.store import RecordStore
from toolchain.tuning.events import Listener
from toolchain.vta.compiling.blob import ArenaError

if TYPE_CHECKING:
    from toolchain.models.load import Model

Note = Callable[[str], None]
_WAIT_S = 120.0  # for a board that another process measures on


class UnbuildableError(ToolchainError):
    """The toolchain cannot build a network for a device; that says nothing about the board."""


@dataclass(frozen=True)
class NetworkBuilt:
    """A network that was loaded and built for a device of the board."""

    choice: NetworkChoice
    model: Model
    bundle: Bundle


@dataclass
class AcceptContext:
    """Things that all steps share.

    Attributes
    ----------
    folder
        Scratch folder of this call.
    store
        An empty store of records: builds use the shipped records alone, as everybody's first build does.
    telling
        Words that must not be published.
    done
        Steps that passed or missed, by name, those of earlier calls too.
    """

    board: Board
    folder: Path
    store: RecordStore
    left: TimeLeft
    note: Note
    listener: Listener
    telling: frozenset[str]
    done: dict[str, StepReport]
    _installed: Installed | None = None
    _built: dict[tuple[NetworkChoice, str, str | None], NetworkBuilt] = field(default_factory=dict)

    @property
    def on_board(self) -> OnBoard:
        """The board, with the time to wait for another process that measures there."""
        return OnBoard(self.board, wait=_WAIT_S)

    def installed(self) -> Installed:
        """Install edge-rt on the board once, and return it with the answers of the drivers."""
        if self._installed is None:
            self._installed = install(self.board, self.note, drivers=True)
        return self._installed

    def device(self, kind: str) -> DeviceFound:
        """Return what the board has for a kind of device that its class promises."""
        answer = next((each for each in self.installed().facts.devices if each.kind == kind), None)
        simulation = kind_of(kind).simulation
        names = [name for name in (answer.names if answer else ()) if name != simulation]
        name = hardware_name(names[0], self.telling) if names and kind != CPU else None
        real = bool(names) and not self.board.emulated and _is_as_described(kind, answer)
        simulated = bool(answer and simulation in answer.names)
        return DeviceFound(kind=kind, there=bool(names) or simulated, real=real, name=name)

    def place(self, kind: str) -> str | None:
        """Return the simulation to run networks on if it is the board's only device of a kind; else None."""
        answer = next((each for each in self.installed().facts.devices if each.kind == kind), None)
        simulation = kind_of(kind).simulation
        only_simulated = answer is not None and simulation != "" and set(answer.names) == {simulation}
        return f"{kind}:{simulation}" if only_simulated else None

    def execution(self, kind: str) -> Execution:
        """Return how networks for a kind of device are executed."""
        return Execution(device=self.place(kind))

    def built(
        self, choice: NetworkChoice, kind: str, cluster: str | None = None, *, keep: bool = False
    ) -> NetworkBuilt:
        """Build a network for a device, or return the one that was kept.

        Parameters
        ----------
        cluster
            CPU of the cluster of cores to build for; None: the class's first.
        keep
            Whether later steps need it, too.

        Raises
        ------
        UnbuildableError
            The network cannot be built for the device, whatever the board is.
        ToolchainError
            The build failed.
        """
        from toolchain.building.build import build  # imports TVM, which the plan does without
        from toolchain.building.options import BuildOptions
        from toolchain.models.load import load_model

        key = (choice, kind, cluster)
        if found := self._built.get(key):
            return found
        self.note(f"building {choice.name} for {cluster or kind}")
        model = load_model(choice.source, choice.model_options(kind))
        options = BuildOptions(code=choice.code_options(kind), cluster=cluster)
        out = self.folder / f"{choice.name}-{cluster or kind}"
        try:
            made = build(model, self.board.build_for, self.store, out, options)
        except (UsageError, ArenaError) as error:
            raise UnbuildableError(error.message, error.hint) from error
        built = NetworkBuilt(choice, model, read_bundle(made.bundle))
        if keep:
            self._built[key] = built
        return built


def _is_as_described(kind: str, answer: DevicesThere | None) -> bool:
    """Whether a driver's device has the type that its kind describes: a GPU, not PoCL on a CPU."""
    described = kind_of(kind).described
    return not described or answer is None or not answer.details or answer.details[0].type == described
