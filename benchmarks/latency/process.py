"""The parent's side of a contender: start it, command blocks, end it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

_LOAD_S = 180.0
_BLOCK_S = 300.0
_END_S = 10.0
_CONTENDER = Path(__file__).with_name("contender.py")


class ContenderError(Exception):
    """A contender cannot run the network; the words are the reason."""


class Contender:
    """A process that runs one engine with one network.

    Attributes
    ----------
    load_s
        Seconds from the engine's import to the end of the first inference.
    idle_mib, peak_mib
        Most memory resident: of the interpreter with numpy, and until now.
    cpu_ms
        CPU milliseconds of each inference until now.
    """

    def __init__(
        self, python: Path, engine: str, model: Path, folder: Path, threads: int, cpus: list[int], **env: str
    ) -> None:
        self._output = folder / f"{engine}.npy"
        self._errors = folder / f"{engine}.stderr"
        files = [str(model), str(folder / "input.npy"), str(self._output)]
        argv = [str(python), str(_CONTENDER), engine, *files, str(threads), ",".join(map(str, cpus))]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=os.environ | env,
                bufsize=0,
            )
        self._pending = b""
        self.cpu_ms: list[float] = []
        try:
            first = self._answer(_LOAD_S)
        except BaseException:
            self.close()
            raise
        self.load_s, self.idle_mib, self.peak_mib = (
            float(first[key]) for key in ("load_s", "idle_mib", "peak_mib")
        )

    @property
    def output(self) -> Path:
        """The file with the network's output."""
        return self._output

    def cpu_s(self) -> float:
        """Return the seconds that all its threads computed until now; 0 when it has ended."""
        try:
            stat = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            return 0.0
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")  # utime, stime: proc(5)

    def block(self, runs: int, seconds: float) -> list[float]:
        """Return the milliseconds of up to `runs` inferences within about `seconds`.

        Raises
        ------
        ContenderError
            It failed, ended or did not answer.
        """
        assert self._process.stdin  # noqa: S101 - it has a pipe
        try:
            self._process.stdin.write(json.dumps({"runs": runs, "seconds": seconds}).encode() + b"\n")
        except BrokenPipeError as error:
            raise ContenderError(self._ended()) from error
        answer = self._answer(_BLOCK_S)
        self.peak_mib = answer["peak_mib"]
        self.cpu_ms += answer["cpu_ms"]
        return [float(ms) for ms in answer["times_ms"]]

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout  # noqa: S101 - it has a pipe
        descriptor = self._process.stdout.fileno()
        until = time.monotonic() + seconds
        while b"\n" not in self._pending:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise ContenderError(f"no answer within {seconds:.0f} s")
            read = os.read(descriptor, 1 << 16)
            if not read:
                raise ContenderError(self._ended())
            self._pending += read
        line, _, self._pending = self._pending.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ContenderError(answer["error"])
        return answer

    def _ended(self) -> str:
        code = self._process.wait(_END_S)
        said = self._errors.read_text(errors="replace").strip().splitlines()
        return f"the process ended with {code}" + (f": {said[-1][-200:]}" if said else "")

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin and self._process.stdout  # noqa: S101 - it has pipes
        self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
