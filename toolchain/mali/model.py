"""The model: kernels in, what they become and how long they take out."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

from toolchain.devices.kernel import Kernel
from toolchain.mali.compiled import Compiled
from toolchain.mali.compiler import KernelError, LateError, MaliCompiler
from toolchain.mali.estimate import Estimate, estimate
from toolchain.mali.gpu import T860_MP4, Gpu
from toolchain.mali.store import CompiledStore


@dataclass(frozen=True)
class Modelled:
    """A kernel, by the model; nothing of it was measured.

    Attributes
    ----------
    compiled
        None: the compiler refuses it; `problem` says why.
    estimate
        None: it does not compile, or a loop turns nobody knows how often.
    """

    kernel: Kernel
    compiled: Compiled | None
    estimate: Estimate | None
    problem: str = ""

    @property
    def ms(self) -> float | None:
        """Milliseconds of the launch; None: there is no estimate."""
        return self.estimate.ms if self.estimate else None

    def cells(self) -> tuple[str, ...]:
        """Return it for a table: registers, spills, words by pipe, milliseconds."""
        compiled, time = self.compiled, self.estimate
        registers = ["-", "-"]
        if compiled is not None:
            registers = [str(compiled.registers), f"{compiled.spills}:{compiled.fills}"]
        if time is None:
            return (*registers, *["-"] * 4)
        words = (f"{each:.0f}" for each in (time.arithmetic, time.load_store, time.texture))
        return (*registers, *words, f"{time.ms:.3f}")

    def to_json(self) -> dict[str, Any]:
        """Return it for JSON."""
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
    """Asks the cache, then the compiler; its container starts when it is wanted, and ends with the block."""

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
        """Return what the model says of kernels, in their order.

        Raises
        ------
        MissingError
            The compiler's image, or Docker, is not here.
        ToolchainError
            The compiler's container is gone.
        """
        return [self._ask(kernel) for kernel in kernels]

    def _ask(self, kernel: Kernel) -> Modelled:
        try:
            compiled = self._compiled(kernel)
        except KernelError as error:
            return Modelled(kernel, None, None, str(error))
        time = estimate(kernel, compiled, self.gpu)
        problem = (
            ""
            if time
            else f"kernel {kernel.name}: a loop turns nobody knows how often, so there is no estimate"
        )
        return Modelled(kernel, compiled, time, problem)

    def _compiled(self, kernel: Kernel) -> Compiled:
        known = self._store.get(kernel)
        if known is not None:
            return known
        try:
            with self._turn:  # tuning asks from several threads
                if self._compiler is None:
                    self._compiler = self._stack.enter_context(MaliCompiler())
                compiled = self._compiler.compile(kernel)
        except KernelError as error:
            if not isinstance(error, LateError):
                self._store.put(kernel, error)
            raise
        self._store.put(kernel, compiled)
        return compiled
