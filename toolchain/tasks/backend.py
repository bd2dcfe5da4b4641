"""The interface of a backend, which makes tasks, spaces and object files from a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from toolchain.bundles.manifest import RuntimeNeeds
from toolchain.tasks.candidate import Probe, TaskReference
from toolchain.tasks.evaluator import Evaluator
from toolchain.tasks.task import Task
from toolchain.tasks.tuner import P, Space, Tuner

if TYPE_CHECKING:
    from toolchain.models.load import Model
    from toolchain.targets.target import BoardTarget

Progress = Callable[[str], None]
MakeTuner = Callable[[Task, Space[P], int], Tuner[P]]
"""Makes the tuner of a task from the task, its space and a seed."""
MakeEvaluator = Callable[["BoardTarget"], AbstractContextManager[Evaluator]]
"""Yields what builds and measures candidates for a target."""


@dataclass(frozen=True)
class OffBoards:
    """A way to measure or model candidates without a board.

    Attributes
    ----------
    trial_s
        Rough number of seconds for one candidate, used to predict how long a first run takes. None: the
        deadline that a board would get is used.
    """

    evaluator: MakeEvaluator
    trial_s: float | None = None


@dataclass(frozen=True)
class Objects:
    """A compiled network.

    Attributes
    ----------
    files
        Object files, in the order to link them.
    rules
        Name of a task -> name of the algorithm or schedule that made its code.
    workloads
        Name of a function in a profile from the board -> workload of the task that it computes.
    needs
        Features that the runtime on the board must have.
    transformed
        Number of bytes of weights that `--winograd off` would save.
    copied
        Of a network in several shapes: function -> bytes of its constants that come on top of those of the
        largest shape.
    products
        Name of a task -> what its code multiplies by, as `TaskFacts.products` says; other tasks: not known.
    """

    files: tuple[Path, ...]
    rules: Mapping[str, str]
    workloads: Mapping[str, str] = field(default_factory=dict)
    needs: RuntimeNeeds = field(default_factory=RuntimeNeeds)
    transformed: int = 0
    copied: Mapping[str, int] = field(default_factory=dict)
    products: Mapping[str, str] = field(default_factory=dict)


class Network(Protocol[P]):
    """A model lowered for a target, with its tasks and their spaces.

    It is a context manager: on exit it ends the processes that it started to compile in.

    Attributes
    ----------
    tuners
        The backend's own tuners, by name. The tuners for any space are available, too.
    tuner
        Name of the default tuner.
    target
        The target that the model is lowered for.
    unjudgeable_reason
        Why a profile of the network has no times of single tasks, so that tuning cannot judge them in the
        network; empty if it has them.
    """

    tuners: Mapping[str, MakeTuner[P]]
    tuner: str
    target: BoardTarget
    unjudgeable_reason: str

    @property
    def beside(self) -> Network[Any] | None:
        """The part of the model that the CPU computes when a device computes the rest; None: no such part.

        A task that the network lowered for the CPU alone has, too, is the same task: its records apply here.
        This part is closed together with the network.
        """

    @property
    def tasks(self) -> Sequence[Task]:
        """The tasks of the network, the heaviest (weight x flops) first."""

    def space(self, task: Task) -> Space[P]:
        """Return the space of one of the tasks."""

    def reference(self, task: Task) -> TaskReference:
        """Return a reference that computes a task on this host from its definition, without a schedule."""

    def probe(self) -> Probe | None:
        """Return a known-good function that checks boards before tuning; None if the backend has none."""

    def compile(self, points: Mapping[str, P], folder: Path, progress: Progress) -> Objects:
        """Write the objects of the whole network into `folder`.

        Parameters
        ----------
        points
            Workload -> point of its task, tasks of `beside` included. Other tasks get their default.
        progress
            Called with a sentence about each step of the work.

        Raises
        ------
        ToolchainError
            The compiler fails, or the disk is full.
        """

    def listing(self, task: Task) -> str:
        """Return a task's definition as readable text."""

    def code(self, task: Task, point: P, form: str) -> str:
        """Return the code of a point of a task as readable text.

        Parameters
        ----------
        form
            `tir`: the choice, the layouts and the generated TensorIR; a kind of device: the source of its
            kernels; `llvm`, `assembly`: the code of the CPU, which computes itself or launches kernels.

        Raises
        ------
        UsageError
            This device has no such form of code.
        """

    def __enter__(self) -> Network[P]: ...

    def __exit__(self, *_ended: object) -> None: ...


class Backend(Protocol[P]):
    """A code generator with its options resolved for one board class and device.

    Attributes
    ----------
    name
        Name for users, such as `packed`.
    layout, dtype
        Layout and type of the values between the functions of a network.
    runners
        Ways to measure without boards, by name, such as a simulator in this process.
    runner
        Name of the default way to measure; `boards`: boards through RPC.
    """

    name: str
    layout: str
    dtype: str
    runners: Mapping[str, OffBoards]
    runner: str

    def target(
        self, cluster: str | None = None, threads: int | None = None, *, integers: bool = False
    ) -> BoardTarget:
        """Return the target of the code.

        Parameters
        ----------
        cluster
            CPU of one of the class's clusters; None: the first cluster.
        threads
            Number of threads; None: as many as the cluster has cores.
        integers
            Whether the network multiplies 8-bit integers: then the class's instructions for them are used.

        Raises
        ------
        UsageError
            The class has no such cluster, or its cores cannot compute in the dtype.
        """

    def lower(self, model: Model, target: BoardTarget, *, compiles: bool = False) -> Network[P]:
        """Lower a model and return it with its tasks.

        Parameters
        ----------
        compiles
            Whether the network will be compiled: then processes to compile in may be started now.

        Raises
        ------
        ToolchainError
            The model cannot be lowered.
        """
