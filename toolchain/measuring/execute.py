"""`edge-rt` at work on a board: one command, its answer."""

from __future__ import annotations

import contextlib
import io
import json
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from toolchain.boards.transport import Completed, DeadlineError, LostError, Transport
from toolchain.errors import ToolchainError, UsageError
from toolchain.measuring.deadlines import Deadline
from toolchain.measuring.fit import lacks_features
from toolchain.measuring.place import Placed

_RUNS = "run"  # on the board: one folder for each command, gone when it ends
_STALE_S = 24 * 3600.0  # no measurement lasts that long: such a folder's owner was killed
_EXIT_USAGE, _EXIT_REQUIRES, _EXIT_BUSY = 2, 5, 75  # edge_rt.h


def invoke(
    placed: Placed,
    verb: str,
    inputs: Mapping[str, np.ndarray],
    options: Sequence[str],
    limit: Deadline,
    *,
    wait: float | None = None,
    output: Path | None = None,
) -> dict[str, Any]:
    """Run one verb of `edge-rt` on the library and return its answer.

    Parameters
    ----------
    inputs
        By name; all inputs of the bundle.
    options
        More options of the verb.
    limit
        When to give the board up.
    wait
        Seconds to wait for a board that is busy.
    output
        Where to fetch the outputs to, an `.npz` whose keys are the positions; None if the verb has none.

    Raises
    ------
    UsageError
        The board's CPU lacks features.
    ToolchainError
        Busy, crashed, too slow, unreachable, or failed otherwise; says which.
    """
    transport = placed.board.transport
    with _scratch(transport) as folder:
        arguments = [placed.library]
        for position, tensor in enumerate(placed.manifest.inputs):
            remote = f"{folder}/{position}.npy"
            transport.put(_npy(inputs[tensor.name]), remote)
            arguments += ["--input", remote]
        if output:
            positions = ",".join(str(i) for i in range(len(placed.manifest.outputs)))
            arguments += ["--output", f"{folder}/out.npz", "--output-names", positions]
        arguments += ["--threads", str(placed.threads), "--cluster", placed.cluster]
        if placed.spin_us is not None:
            arguments += ["--spin-us", str(placed.spin_us)]
        if placed.manifest.requires:
            arguments += ["--requires", ",".join(placed.manifest.requires)]
        if wait is not None:
            arguments += ["--wait", f"{wait:g}"]
        argv = placed.runtime.command(verb, *arguments, *options)
        try:
            completed = transport.run(argv, timeout=limit.seconds)
        except DeadlineError as error:
            raise ToolchainError(
                f"{verb} of {placed.manifest.model.name} on board {placed.board.name} did not end within "
                f"{limit.seconds:g} s ({limit.reason}) and was killed",
                "give it longer: --timeout S",
            ) from error
        answer = _answer(placed, verb, completed)
        if output:
            transport.get(f"{folder}/out.npz", output)
        return answer


def fetched_outputs(
    placed: Placed, inputs: Mapping[str, np.ndarray], limit: Deadline, wait: float | None
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Run one inference; return the outputs by name, in the network's order, and edge-rt's answer."""
    with tempfile.TemporaryDirectory(prefix="edge-toolchain-") as folder:
        file = Path(folder) / "out.npz"
        answer = invoke(placed, "run", inputs, [], limit, wait=wait, output=file)
        with np.load(file, allow_pickle=False) as found:
            outputs = {
                tensor.name: found[str(position)] for position, tensor in enumerate(placed.manifest.outputs)
            }
    return outputs, answer


@contextlib.contextmanager
def _scratch(transport: Transport) -> Iterator[str]:
    """Yield a new folder's name on the board; the folder is removed in the end."""
    folder = f"{_RUNS}/{secrets.token_hex(8)}"
    try:
        transport.put(b"", f"{folder}/begun")
        _sweep(transport, folder)
        yield folder
    except LostError:
        raise  # nothing can be removed there; it is swept when the board is back
    except BaseException:
        with contextlib.suppress(ToolchainError):  # the first error says more
            transport.remove(folder)
        raise
    transport.remove(folder)


def _sweep(transport: Transport, mine: str) -> None:
    """Remove what killed owners left. Ages are by the board's own clock, which may be years off."""
    there = transport.listing(_RUNS)
    now = there[mine.partition("/")[2]].changed
    for name, entry in there.items():
        if now - entry.changed > _STALE_S:
            transport.remove(f"{_RUNS}/{name}")


def _holder(problem: Mapping[str, Any]) -> str:
    holder = problem.get("holder")
    if isinstance(holder, dict):
        return f"{holder.get('what')} (process {holder.get('pid')} there) holds it"
    return str(problem.get("message", "another measurement is running"))


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
    return buffer.getvalue()


def _answer(placed: Placed, verb: str, completed: Completed) -> dict[str, Any]:
    """Return edge-rt's document; turn its failures into ours."""
    name = placed.board.name
    what = f"{verb} of {placed.manifest.model.name} on board {name}"
    if completed.signal_name:
        raise ToolchainError(
            f"{what}: the library crashed with {completed.signal_name}",
            "build the bundle anew; if it crashes again, without tuning records",
        )
    try:
        document = json.loads(completed.stdout)
        if not isinstance(document, dict):
            raise ValueError("not an object")
    except ValueError as error:
        last = completed.stderr.decode(errors="replace").strip()[-300:]
        raise ToolchainError(
            f"{what}: edge-rt gave no answer (exit code {completed.returncode}): {last or 'it said nothing'}"
        ) from error
    if completed.returncode == 0:
        return document
    problem = document.get("error", {})
    message = f"{what}: {problem.get('message', f'exit code {completed.returncode}')}"
    if completed.returncode == _EXIT_REQUIRES:
        raise lacks_features(placed.manifest, placed.board, list(problem.get("missing", [])))
    if completed.returncode == _EXIT_BUSY:
        raise ToolchainError(
            f"board {name} is busy: {_holder(problem)}",
            "wait for it: --wait 60",
        )
    if completed.returncode == _EXIT_USAGE:
        raise UsageError(message)
    raise ToolchainError(message)
