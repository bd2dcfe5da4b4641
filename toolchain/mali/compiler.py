"""Mesa's compiler for Mali in a container, which serves many kernels since its start costs most."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from toolchain.devices.kernel import Kernel
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.foreign import last_line, printable_lines
from toolchain.images.catalogue import Image, image_named
from toolchain.images.engine import connect
from toolchain.images.running.conversation import Conversation
from toolchain.images.running.step import Step
from toolchain.mali.compiled import KernelStatistics, read_compiled
from toolchain.mali.prepared import prepared

IMAGE = "mali-model"
KERNEL_SECONDS = 120.0
"""Timeout for one kernel: 1,300 instructions take a second or two, 512 unrolled loads take minutes."""
_START_SECONDS = 120.0  # takes 1.5 s of CPU time on an idle machine
_ANSWER_SECONDS = 60.0  # to transfer a source or an answer, in addition to the kernel's timeout
_MEMORY_MIB = 4096
_COMMAND = "/usr/local/bin/mali-compiler"
_BUILD = f"toolchain image build {IMAGE}"


def version() -> str:
    """Return the version of the compiler that this package's image recipe builds."""
    return (image_named(IMAGE).path / "version").read_text().strip()


class KernelError(ToolchainError):
    """The compiler cannot compile a kernel; the cause is the kernel itself."""


class LateError(KernelError):
    """The compiler took too long; a faster or less busy machine may succeed."""


class MaliCompiler:
    """The compiler as a context manager: its container runs for the duration of the block.

    Raises
    ------
    MissingError
        No Docker daemon answers, or the image is missing or out of date.
    UsageError
        The daemon runs on another machine.
    ToolchainError
        The container cannot be started.
    """

    def __init__(self, seconds: float = KERNEL_SECONDS) -> None:
        self.seconds = seconds
        self._stack = ExitStack()
        self._conversation: Conversation | None = None

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def compile(self, kernel: Kernel) -> KernelStatistics:
        """Compile a kernel and return its statistics.

        Raises
        ------
        KernelError
            It does not compile, or not in time; the message has the kernel and the compiler's error.
        ToolchainError
            The container no longer runs.
        """
        word, printed = self._ask(prepared(kernel).encode())
        if word == "late":
            raise LateError(f"kernel {kernel.name}: Mesa's compiler is not done after {self.seconds:.0f} s")
        if word == "died":
            raise KernelError(f"kernel {kernel.name} crashes Mesa's compiler: {last_line(printed.encode())}")
        if word != "ok":
            said = printable_lines("\n".join(printed.strip().splitlines()[-12:]))
            raise KernelError(f"kernel {kernel.name} does not compile: {said}")
        try:
            return read_compiled(printed)
        except ToolchainError as error:
            raise KernelError(f"kernel {kernel.name}: {error.message}", error.hint) from error

    def _ask(self, source: bytes) -> tuple[str, str]:
        conversation = self._conversation or self._start()  # an interrupted answer has ended the conversation
        done = False
        try:
            conversation.write(f"{len(source)} {self.seconds:.1f}\n".encode() + source, _ANSWER_SECONDS)
            word, _, size = conversation.read_line(self.seconds + _ANSWER_SECONDS).partition(" ")
            printed = conversation.read(int(size), _ANSWER_SECONDS).decode(errors="replace")
            done = True
        finally:
            if not done:  # else the next read would get the rest of this answer
                self._stop()
        return word, printed

    def _start(self) -> Conversation:
        image = image_named(IMAGE)
        with ExitStack() as stack:
            engine = stack.enter_context(connect())
            if not engine.is_local:
                raise UsageError(
                    f"DOCKER_HOST={engine.where}: the Docker daemon is on another machine",
                    "unset DOCKER_HOST",
                )
            if engine.image_labels(image.tag) is None:
                raise MissingError(f"the image {IMAGE} is not here", f"`{_BUILD}` makes it, in some minutes")
            step = Step(
                image=image.tag,
                argv=[_COMMAND],
                folder=Path("/tmp"),  # noqa: S108
                mounts=[],
                memory_mib=_MEMORY_MIB,
                name=IMAGE,
            )
            conversation = stack.enter_context(Conversation(engine, step))
            _check(image, conversation.read_line(_START_SECONDS))
            self._stack, self._conversation = stack.pop_all(), conversation
        return conversation

    def _stop(self) -> None:
        self._conversation = None
        self._stack.close()


def _check(image: Image, greeting: str) -> None:
    if greeting != f"{IMAGE} {version()}":
        raise MissingError(
            f"the image {image.name} is out of date: it has {greeting!r}, expected version {version()}",
            f"`{_BUILD}`",
        )
