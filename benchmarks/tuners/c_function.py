"""Functions in C as candidates: what a board is to do, word by word."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from toolchain.linking.zig import run_zig, zig_cache_environment
from toolchain.tasks.candidate import Candidate, Entry, Parameter

_COMPILE_S = 120.0
_NUMBER = Parameter((1,), "int32")  # 0 before it is written, too


@dataclass(frozen=True)
class CFunction:
    """A function by its body and what stands before it; see `tasks.candidate.CandidateCode`.

    Attributes
    ----------
    target
        Whose code zig makes.
    """

    body: str
    before: str = ""
    target: str = "x86_64-linux-gnu"

    def objects(self, symbol: str) -> tuple[bytes, ...]:
        """Return the object that zig makes of it."""
        with tempfile.TemporaryDirectory() as folder:
            source, made = Path(folder) / "function.c", Path(folder) / "function.o"
            function = f"int __tvm_ffi_{symbol}(void *a, void *b, int c, void *d) {{ {self.body} }}"
            source.write_text(f"{self.before}\n{function}")
            arguments = ["cc", "-target", self.target, "-O1", "-fPIC"]
            arguments += ["-fno-sanitize=all", "-fno-stack-protector"]
            ended = run_zig(
                [*arguments, "-c", str(source), "-o", str(made)], _COMPILE_S, zig_cache_environment()
            )
            if ended.returncode:
                raise AssertionError(ended.last_lines())
            return (made.read_bytes(),)


def asleep(seconds: float) -> Candidate:
    """Return a candidate that sleeps, and leaves its one number, 0, as it is.

    It asks Linux itself (`nanosleep` is call 35): libraries for boards call nothing of the C library.
    """
    body = (
        f"long time[2] = {{{int(seconds)}, {round(seconds % 1 * 1e9)}}}; long answer;"
        ' __asm__ volatile("syscall" : "=a"(answer) : "a"(35L), "D"(time), "S"(0L) : "rcx", "r11", "memory");'
        " return (int)answer;"
    )
    return Candidate(Entry("", "", ""), CFunction(body), (_NUMBER,), 1)
