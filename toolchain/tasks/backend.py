"""A way of making code for a device: from a model to objects, with tasks and their spaces on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from toolchain.bundles.manifest import RuntimeNeeds
from toolchain.tasks.bench import Bench
from toolchain.tasks.reference import Probe, Reference
from toolchain.tasks.space import P, Space
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import Tuner

if TYPE_CHECKING:
    from toolchain.models.load import Model
    from toolchain.targets.target import BoardTarget

Progress = Callable[[str], None]
MakeTuner = Callable[[Task, Space[P], int], Tuner[P]]
"""From a task, its space and a seed to who searches it."""
MakeBench = Callable[["BoardTarget"], AbstractContextManager[Bench]]
"""From what code is made for to who builds and measures it."""


@dataclass(frozen=True)
class OffBoards:
    """A way to measure, or to model, that asks no board.

    Attributes
    ----------
    trial_s
        Seconds that it takes for a candidate, about: a run is expected to last by it until one was timed.
        None: as long as a board would be given.
    """

    bench: MakeBench
    trial_s: float | None = None


@dataclass(frozen=True)
class Objects:
    """A network, compiled.

    Attributes
    ----------
    files
        Object files, in the order to link them.
    rules
        Task's name -> what its code was made by.
    workloads
        What a profile on the board calls a function -> workload of the task that it computes.
    needs
        What the runtime on the board must offer.
    transformed
        Bytes of weights that `--winograd off` would save.
    """

    files: tuple[Path, ...]
    rules: Mapping[str, str]
    workloads: Mapping[str, str] = field(default_factory=dict)
    needs: RuntimeNeeds = field(default_factory=RuntimeNeeds)
    transformed: int = 0


class Network(Protocol[P]):
    """A model, lowered for a target: what there is to compute, and the ways to compute it.

    A context: processes that it may start to compile in end with the block.

    Attributes
    ----------
    tuners
        Searches of the backend's own, by name; the tuners that know any space come on top.
    tuner
        Name of the one that is taken where none is asked for.
    target
        What it is lowered for.
    one_piece
        Why a profile of the network tells nothing of single tasks, and so cannot judge them; empty: it does.
    """

    tuners: Mapping[str, MakeTuner[P]]
    tuner: str
    target: BoardTarget
    one_piece: str

    @property
    def beside(self) -> Network[Any] | None:
        """What the CPU computes beside the device, with tasks of its own; None: the tasks are all there is.

        They are the same as those of the network on the CPU alone, as far as that has them: records of it
        serve here. It ends with this network.
        """

    @property
    def tasks(self) -> Sequence[Task]:
        """What there is to compute, the heaviest (weight x flops) first."""

    def space(self, task: Task) -> Space[P]:
        """Return the ways to compute one of the tasks."""

    def reference(self, task: Task) -> Reference:
        """Return what computes a task by its definition alone, on this host."""

    def probe(self) -> Probe | None:
        """Return a kernel that is known to be good; None: there is none. It is tried where boards measure."""

    def compile(self, points: Mapping[str, P], folder: Path, progress: Progress) -> Objects:
        """Write the objects of the whole network into `folder`.

        Parameters
        ----------
        points
            Workload -> how its task is computed, those beside included; where there is none: by default.
        progress
            Told how far the work is.

        Raises
        ------
        ToolchainError
            The compiler fails, or the disk is full.
        """

    def listing(self, task: Task) -> str:
        """Return a task's definition as people read it."""

    def code(self, task: Task, point: P, form: str) -> str:
        """Return the code of a point of a task, for people.

        Parameters
        ----------
        form
            `tir`: what was chosen, the layouts and the generated code; a kind of device: the source of its
            kernels; `llvm`, `assembly`: what the CPU runs, alone or as the device's host.

        Raises
        ------
        UsageError
            There is no such form of code for this device.
        """

    def __enter__(self) -> Network[P]: ...

    def __exit__(self, *_ended: object) -> None: ...


class Backend(Protocol[P]):
    """A way of making code, with its options resolved for one board class and device.

    Attributes
    ----------
    name
        Such as `packed`.
    layout, dtype
        Of the values between the parts of a network.
    runners
        Ways to measure that are not boards over RPC, by name: a simulator in the process, say.
    runner
        Name of the way that is taken where none is asked for; `boards`: boards over RPC.
    """

    name: str
    layout: str
    dtype: str
    runners: Mapping[str, OffBoards]
    runner: str

    def target(self, cluster: str | None = None, threads: int | None = None) -> BoardTarget:
        """Return what code is made for.

        Parameters
        ----------
        cluster
            A cpu of the class's clusters; None: the first.
        threads
            None: the cores of the cluster.

        Raises
        ------
        UsageError
            The class has no such cores, or they do not compute in the dtype.
        """

    def lower(self, model: Model, target: BoardTarget, *, compiles: bool = False) -> Network[P]:
        """Return the tasks of a model.

        Parameters
        ----------
        compiles
            The network will be compiled: processes to compile in may be started now.

        Raises
        ------
        ToolchainError
            The model cannot be lowered.
        """
