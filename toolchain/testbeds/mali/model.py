"""The model of the Mali-T860: it compiles kernels and estimates their times."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from toolchain.devices.device import device_key
from toolchain.devices.kernel import Kernel, KernelModel, OpenModel
from toolchain.quantities import shown_ms
from toolchain.testbeds.mali.estimate import T860_MP4, Estimate, Gpu, estimate
from toolchain.testbeds.mali.statistics import KernelStatistics
from toolchain.testbeds.mali.store import CompiledStore, KernelError, LateError, MaliCompiler


@dataclass(frozen=True)
class Modelled:
    """Modelled result for a kernel; nothing was measured.

    Attributes
    ----------
    compiled
        None if the kernel does not compile; `problem` says why.
    estimate
        None if the kernel does not compile or the trip count of a loop is unknown.
    """

    kernel: Kernel
    compiled: KernelStatistics | None
    estimate: Estimate | None
    problem: str = ""

    @property
    def ms(self) -> float | None:
        """Estimated time of the launch in milliseconds, None without an estimate."""
        return self.estimate.ms if self.estimate else None

    def cells(self) -> tuple[str, ...]:
        """Return the cells of a table row: registers, spills, words per pipe, time."""
        compiled, time = self.compiled, self.estimate
        registers = ["-", "-"]
        if compiled is not None:
            registers = [str(compiled.registers), f"{compiled.spills}:{compiled.fills}"]
        if time is None:
            return (*registers, *["-"] * 4)
        words = (f"{cycles:.0f}" for cycles in (time.arithmetic, time.load_store, time.texture))
        return (*registers, *words, shown_ms(time.ms))

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        compiled, time = self.compiled, self.estimate
        return {
            "model": T860_MP4.name,
            "registers": compiled and compiled.registers,
            "spills": compiled and compiled.spills,
            "fills": compiled and compiled.fills,
            "bundles": compiled and compiled.bundles,
            "words": time
            and {"arithmetic": time.arithmetic, "load_store": time.load_store, "texture": time.texture},
            "cycles": time and time.cycles,
            "modelled_ms": time and time.ms,
            "problem": self.problem,
        }


class MaliModel:
    """The model, to be used as a context manager.

    It looks kernels up in the cache first. The compiler's container starts at the first cache miss and ends
    with the block.
    """

    def __init__(self, gpu: Gpu = T860_MP4) -> None:
        self.gpu = gpu
        self._store = CompiledStore()
        self._stack = ExitStack()
        self._compiler: MaliCompiler | None = None
        self._turn = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_ended: object) -> None:
        self._compiler = None
        self._stack.close()

    def ask(self, kernels: Iterable[Kernel]) -> list[Modelled]:
        """Model kernels and return the results in the same order.

        Raises
        ------
        MissingError
            Docker or the compiler's image is missing.
        ToolchainError
            The compiler's container no longer runs.
        """
        return [self._ask(kernel) for kernel in kernels]

    def _ask(self, kernel: Kernel) -> Modelled:
        try:
            compiled = self._compiled(kernel)
        except KernelError as error:
            return Modelled(kernel, None, None, str(error))
        time = estimate(kernel, compiled, self.gpu)
        problem = (
            "" if time else f"kernel {kernel.name}: no estimate, since the trip count of a loop is unknown"
        )
        return Modelled(kernel, compiled, time, problem)

    def _compiled(self, kernel: Kernel) -> KernelStatistics:
        known = self._store.get(kernel)
        if known is not None:
            return known
        try:
            with self._turn:  # tuning calls this from several threads
                if self._compiler is None:
                    self._compiler = self._stack.enter_context(MaliCompiler())
                compiled = self._compiler.compile(kernel)
        except KernelError as error:
            if not isinstance(error, LateError):
                self._store.put(kernel, error)
            raise
        self._store.put(kernel, compiled)
        return compiled


def _open() -> AbstractContextManager[OpenModel]:
    return MaliModel()


def _cache_folder() -> Path:
    return CompiledStore().folder.absolute()


MALI_T860 = KernelModel(
    name="mali-model",
    device=device_key("opencl", T860_MP4.name),
    open=_open,
    trial_s=0.7,  # 51 candidates of SqueezeNet took 38 s on a busy machine
    columns=("REGISTERS", "SPILLS:FILLS", "ARITHMETIC", "LOAD/STORE", "TEXTURE", "MODEL TIME"),
    note=(
        "times are modelled, not measured: from the instruction words that Mesa's compiler for the Mali-T860 "
        "makes for each pipe"
    ),
    unjudged={"float16": "Mesa uses half of the GPU's lanes for it"},
    cache_folder=_cache_folder,
    half_note="the model's times for float16 are too long: Mesa uses half of the GPU's lanes for it",
)

MODELS = (MALI_T860,)
"""Models of OpenCL devices, which the row of OpenCL in `toolchain.devices` names."""
