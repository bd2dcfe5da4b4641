"""Cache of compiler results, by source, work group and compiler version."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from toolchain.configuration.settings import cache_dir
from toolchain.devices.kernel import Kernel
from toolchain.errors import MissingError, ToolchainError, UsageError
from toolchain.files import atomic
from toolchain.foreign import last_line, printable_lines
from toolchain.images.catalogue import Image, image_named
from toolchain.images.engine import connect
from toolchain.images.running.conversation import Conversation
from toolchain.images.running.step import Step
from toolchain.testbeds.mali.statistics import KernelStatistics, read_statistics

# Prepares a kernel's source for Mesa: adds the work-group size, and vector accesses as Arm compiles them.

# Mesa's front end splits vloadN and vstoreN into single elements, but Arm's compiler does not: the kernel
# `vectorize` of 2018 was measured at 28.4 GFLOPS; modelled with whole vectors it gets 29.2, with elements
# 11.5. So these macros access whole, aligned vectors; TVM's are aligned if its tiles are whole vectors.
# Private arrays of a work item are accessed by element: Mesa keeps those in registers, but would put an array
# with a cast pointer into memory.
_WHOLE = """\
#define LOAD(T, N, S) \\
  static inline T##N __attribute__((overloadable, always_inline)) load##N(size_t i, const S T *p) { \\
    return *((const S T##N *)p + i); }
#define STORE(T, N, S) \\
  static inline void __attribute__((overloadable, always_inline)) store##N(T##N v, size_t i, S T *p) { \\
    *((S T##N *)p + i) = v; }
#define SPACES(T, N) LOAD(T, N, __global) LOAD(T, N, __local) LOAD(T, N, __constant) \\
  STORE(T, N, __global) STORE(T, N, __local)
"""
_WIDTHS = (2, 4, 8, 16)
_TYPES = ("float", "int", "uint", "short", "ushort", "char", "uchar")
_HALF = """\
#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
{}#endif
"""


def _accesses(kind: str) -> str:
    return "".join(f"SPACES({kind}, {width})\n{_private(kind, width)}" for width in _WIDTHS)


def _private(kind: str, width: int) -> str:
    """Return functions that load and store vectors of private arrays element by element."""
    places = [f"p[{width} * i + {place}]" for place in range(width)]
    stores = " ".join(f"{place} = v.s{number:x};" for number, place in enumerate(places))
    vector, attributes = f"{kind}{width}", "__attribute__((overloadable, always_inline))"
    return (
        f"static inline {vector} {attributes} load{width}(size_t i, const __private {kind} *p) "
        f"{{ return ({vector})({', '.join(places)}); }}\n"
        f"static inline void {attributes} store{width}({vector} v, size_t i, __private {kind} *p) "
        f"{{ {stores} }}\n"
    )


_ALIGNED = "".join(
    (
        _WHOLE,
        *map(_accesses, _TYPES),
        _HALF.format(_accesses("half")),
        *(f"#define v{what}{width} {what}{width}\n" for what in ("load", "store") for width in _WIDTHS),
    )
)


def prepared(kernel: Kernel) -> str:
    """Return the source text for the compiler.

    It declares the size of the work group: the compiler gives 16 registers to groups of up to 64 items and 8
    to larger ones, and assumes 128 items without a declaration.

    Raises
    ------
    UsageError
        The source has no such kernel.
    """
    size = ", ".join(map(str, kernel.group))
    attribute = f"__kernel __attribute__((reqd_work_group_size({size}))) void {kernel.name}("
    text, replaced = re.subn(rf"__kernel\s+void\s+{re.escape(kernel.name)}\s*\(", attribute, kernel.source)
    if not replaced:
        raise UsageError(f"the source of kernel {kernel.name} has no such kernel")
    return _ALIGNED + text


# Mesa's compiler for Mali in a container, which serves many kernels since its start costs most.

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
            complaint = printable_lines("\n".join(printed.strip().splitlines()[-12:]))
            raise KernelError(f"kernel {kernel.name} does not compile: {complaint}")
        try:
            return read_statistics(printed)
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


KIND = "mali"  # its folder in the cache
READ = "1"
"""Version of our parser of the compiler's output; increase it when the parser's results change."""


def fingerprint() -> str:
    """Return the name of the cache folder for this version of compiler and parser."""
    return f"{version()}-{READ}"


class CompiledStore:
    """Cache of compiler results, errors included. Unreadable entries count as misses."""

    def __init__(self) -> None:
        self.folder = cache_dir() / KIND / fingerprint()

    def get(self, kernel: Kernel) -> KernelStatistics | None:
        """Return the statistics of a kernel; None on a cache miss.

        Raises
        ------
        KernelError
            The cached result is an error of the compiler.
        """
        try:
            document = json.loads(self._file(kernel).read_text())
            if "refused" in document:
                refused, hint = str(document["refused"]), str(document["hint"])
            else:
                return KernelStatistics.from_json(document)
        except (OSError, ValueError, TypeError, KeyError):
            return None
        raise KernelError(refused, hint)

    def put(self, kernel: Kernel, compiled: KernelStatistics | KernelError) -> None:
        """Store a result of the compiler; do nothing if the file system refuses."""
        document = (
            {"refused": compiled.message, "hint": compiled.hint}
            if isinstance(compiled, KernelError)
            else asdict(compiled)
        )
        with suppress(OSError, ToolchainError):
            file = self._file(kernel)
            file.parent.mkdir(parents=True, exist_ok=True)
            atomic.write_bytes(file, json.dumps(document).encode())

    def _file(self, kernel: Kernel) -> Path:
        return self.folder / f"{hashlib.sha256(prepared(kernel).encode()).hexdigest()}.json"
