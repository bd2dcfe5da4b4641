"""Runs one `edge-rt` command on a board and returns its checked answer."""

from __future__ import annotations

import contextlib
import secrets
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic

import numpy as np

from toolchain.answers import LARGEST, Kind, lie, shown, understood
from toolchain.boards.board import Board, named
from toolchain.boards.edge_rt.answers import check_output
from toolchain.boards.transport import MOST_REMOVED, Completed, DeadlineError, LostError
from toolchain.bundles.kernel_names import with_functions
from toolchain.bundles.manifest import Tensor
from toolchain.bundles.write import encode, form, framed, stored_dtype
from toolchain.errors import ToolchainError, UsageError
from toolchain.files.scratch import scratch_folder
from toolchain.foreign import last_line
from toolchain.measuring.answers import Failed, FailureReason, Ran
from toolchain.measuring.deadlines import Deadline
from toolchain.measuring.device import simulates, simulation
from toolchain.measuring.fit import lacks_device, lacks_features, lacks_functions
from toolchain.measuring.place import PlacedBundle
from toolchain.quantities import counted

# Reads the file to which `edge-rt run` writes its outputs.
#
# A valid file has exactly one form: the zip file that edge-rt's `npy.cc` writes for the manifest's outputs.
# The expected bytes are generated here and compared, rather than parsed, as in `bundles.tensors`: so no
# size, count, name or header in a board's file is ever used, and nothing is read unless the file has the
# right size.

_FIELDS = struct.Struct("<HHHHHIIIHH")  # the fields that are in both zip headers of a member
_VERSION, _UTF8_NAMES, _STORED, _TIME, _DATE, _NO_EXTRA = 20, 0x800, 0, 0, 0x21, 0
_LOCAL, _CENTRAL, _END = b"PK\3\4", b"PK\1\2", b"PK\5\6"
_CENTRAL_ENDS = bytes(10)  # comment, disk, attributes


def npz_size(specs: Sequence[Tensor]) -> int:
    """Return the size in bytes of the file with these outputs."""
    end = len(_directory([0] * len(specs), specs))
    return sum(len(_head(0, place, spec)) + spec.nbytes for place, spec in enumerate(specs)) + end


def read_npz(file: Path, specs: Sequence[Tensor]) -> dict[str, np.ndarray]:
    """Read the file and return the outputs by name, in the manifest's order.

    Raises
    ------
    ValueError
        The file has another form than these outputs; the message says where.
    """
    size, expected = file.stat().st_size, npz_size(specs)
    if size != expected:
        raise ValueError(f"it has {counted(size, 'byte')}, but the manifest's outputs need {expected}")
    content = bytearray(size)
    with file.open("rb") as opened:
        opened.readinto(content)
    view = memoryview(content)
    outputs, sums, at = {}, [], 0
    for place, spec in enumerate(specs):
        start = at + len(_head(0, place, spec))
        end = start + spec.nbytes
        header = _npy_header(spec)
        sums.append(zlib.crc32(view[start - len(header) : end]))
        if view[at:start] != _head(sums[-1], place, spec):
            raise ValueError(
                f"output {spec.name!r} is not an intact {form(spec.dtype, spec.shape)} as in the manifest"
            )
        dtype = stored_dtype(spec)
        elements = np.frombuffer(content, dtype, spec.nbytes // dtype.itemsize, start)
        outputs[spec.name] = elements.reshape(spec.shape)
        if spec.dtype == "bool" and outputs[spec.name].view(np.uint8).max(initial=0) > 1:
            raise ValueError(f"output {spec.name!r} contains a bool that is neither true nor false")
        at = end
    if view[at:] != _directory(sums, specs):
        raise ValueError("its directory is not that of the manifest's outputs")
    return outputs


def _head(crc: int, place: int, spec: Tensor) -> bytes:
    """Return the bytes before an output's elements."""
    header = _npy_header(spec)
    return _LOCAL + _fields(crc, place, spec) + _name(place) + header


def _directory(sums: Sequence[int], specs: Sequence[Tensor]) -> bytes:
    """Return the bytes after the last output."""
    entries, at = b"", 0
    for place, (crc, spec) in enumerate(zip(sums, specs, strict=True)):
        offset = struct.pack("<I", at % 2**32)
        entries += _CENTRAL + struct.pack("<H", _VERSION) + _fields(crc, place, spec)
        entries += _CENTRAL_ENDS + offset + _name(place)
        at += len(_head(0, place, spec)) + spec.nbytes
    count = len(specs)
    return entries + _END + struct.pack("<IHHIIH", 0, count, count, len(entries), at % 2**32, 0)


def _fields(crc: int, place: int, spec: Tensor) -> bytes:
    size = (len(_npy_header(spec)) + spec.nbytes) % 2**32  # edge-rt refuses to write outputs above 4 GiB
    name = len(_name(place))
    return _FIELDS.pack(_VERSION, _UTF8_NAMES, _STORED, _TIME, _DATE, crc, size, size, name, _NO_EXTRA)


def _name(place: int) -> bytes:
    return f"{place}.npy".encode()


def _npy_header(spec: Tensor) -> bytes:
    shape = "".join(f"{extent}," for extent in spec.shape)
    return framed(f"{{'descr': {stored_dtype(spec).str!r}, 'fortran_order': False, 'shape': ({shape}), }}")


_RUNS = "run"  # on the board: contains a folder for each running command
_STALE_S = 24 * 3600.0  # no measurement lasts this long, so the owner of an older folder was killed
_EXIT_USAGE, _EXIT_REQUIRES, _EXIT_BUSY = 2, 5, 75  # edge_rt.h


class BusyError(ToolchainError):
    """Another process measures on the board, or waits there and came earlier."""


@dataclass(frozen=True)
class VerbRequest(Generic[Kind]):
    """One verb of `edge-rt`, and what its answer must be.

    Attributes
    ----------
    verb
        Command of edge-rt, such as `run`.
    answer
        Schema of the verb's answer.
    check
        Raises if the answer does not fit the request; called before the outputs are fetched.
    options
        Options of this verb alone.
    most
        Largest size of the answer, in bytes.
    """

    verb: str
    answer: type[Kind]
    check: Callable[[Kind], None]
    options: Sequence[str] = ()
    most: int = LARGEST


def invoke(
    placed: PlacedBundle,
    request: VerbRequest[Kind],
    inputs: Mapping[str, np.ndarray],
    limit: Deadline,
    output: Path | None = None,
) -> Kind:
    """Run one verb of `edge-rt` on the library and return its answer.

    Parameters
    ----------
    inputs
        All inputs of the bundle, by name.
    limit
        Time after which the command is killed.
    output
        Local `.npz` file for the outputs, whose keys are their positions; None if the verb has no outputs.

    Raises
    ------
    UsageError
        The board's CPU lacks features, or its edge-rt lacks a device or functions.
    CheckError
        The board's answer cannot be true.
    ToolchainError
        The board is busy, too slow or unreachable, the library crashed, or edge-rt failed otherwise; the
        message says which.
    """
    transport, verb = placed.board.transport, request.verb
    with named(placed.board), _scratch(placed.board) as folder:
        arguments = [placed.library]
        for position, tensor in enumerate(placed.manifest.inputs):
            remote = f"{folder}/{position}.npy"
            given = inputs[tensor.name]  # in any of the shapes that the library has
            spec = tensor.model_copy(update={"shape": tuple(given.shape)})
            transport.put(encode(given, spec), remote)
            arguments += ["--input", remote]
        if output:
            positions = ",".join(str(i) for i in range(len(placed.manifest.outputs)))
            arguments += ["--output", f"{folder}/out.npz", "--output-names", positions]
        argv = placed.runtime.command(verb, *arguments, *placed.options(), *request.options)
        try:
            completed = transport.run(argv, timeout=limit.seconds)
        except DeadlineError as error:
            raise ToolchainError(
                f"{verb} of {placed.manifest.model.name} on board {placed.board.name} did not end within "
                f"{limit.seconds:g} s ({limit.reason}) and was killed",
                "give it longer: --timeout S",
            ) from error
        if completed.returncode != 0:
            raise _failure(placed, verb, completed)
        what = answer_of(verb)
        text = check_output(completed, placed.board.name, what)
        answer = understood(request.answer, text, placed.board.name, what, request.most)
        request.check(answer)
        if output:
            transport.get(f"{folder}/out.npz", output, npz_size(placed.manifest.outputs))
        return answer


def answer_of(verb: str) -> str:
    """Return the name of a verb's answer for messages."""
    return f"the answer of `edge-rt {verb}`"


def fetched_outputs(
    placed: PlacedBundle,
    inputs: Mapping[str, np.ndarray],
    limit: Deadline,
    options: Sequence[str] = (),
) -> dict[str, np.ndarray]:
    """Run one inference; return the outputs by name, in the network's order.

    Raises
    ------
    CheckError
        The board's outputs are not those of the bundle. The other errors are those of `invoke`.
    """
    with scratch_folder() as folder:
        file = folder / "out.npz"
        request = VerbRequest("run", Ran, partial(_check, placed), options)
        invoke(placed, request, inputs, limit, file)
        try:
            return read_npz(file, placed.manifest.outputs)
        except ValueError as error:
            raise lie(placed.board.name, "the file out.npz of `edge-rt run`", str(error)) from error


def _check(placed: PlacedBundle, answer: Ran) -> None:
    """Raise a CheckError if the outputs are not those of the bundle."""
    board, specs = placed.board.name, placed.manifest.outputs
    if len(answer.outputs) != len(specs):
        problem = f"outputs has {len(answer.outputs)} where the bundle has {len(specs)}"
        raise lie(board, answer_of("run"), problem)
    for place, (spec, output) in enumerate(zip(specs, answer.outputs, strict=True)):
        if (output.dtype, output.shape) != (spec.dtype, spec.shape):
            says, wanted = form(output.dtype, output.shape), form(spec.dtype, spec.shape)
            problem = f"outputs.{place} is {says} where {spec.name!r} is {wanted} in the bundle"
            raise lie(board, answer_of("run"), problem)
    check_threads(placed, "run", answer.threads)


def check_threads(placed: PlacedBundle, verb: str, threads: int) -> None:
    """Raise a CheckError if an answer names another number of threads than requested."""
    if threads != placed.threads:
        raise lie(
            placed.board.name, answer_of(verb), f"threads is {threads} where {placed.threads} were asked for"
        )


@contextlib.contextmanager
def _scratch(board: Board) -> Iterator[str]:
    """Create a folder on the board, yield its name, and remove it afterwards."""
    transport = board.transport
    folder = f"{_RUNS}/{secrets.token_hex(8)}"
    try:
        transport.put(b"", f"{folder}/begun")
        _sweep(board, folder)
        yield folder
    except LostError:
        raise  # nothing can be removed now; `_sweep` removes it when the board is back
    except BaseException:
        with contextlib.suppress(ToolchainError):  # the first error matters more
            transport.remove(folder)
        raise
    transport.remove(folder)


def _sweep(board: Board, mine: str) -> None:
    """Remove folders of killed owners, by their age on the board's own clock, which may be years off."""
    folders = board.transport.listing(_RUNS)
    name = mine.partition("/")[2]
    if name not in folders:
        what, problem = f"the listing of its folder {_RUNS}", f"{name} is missing, just made there"
        raise lie(board.name, what, problem, of_system=True)
    stale = [other for other, entry in folders.items() if folders[name].changed - entry.changed > _STALE_S]
    board.transport.remove(*(f"{_RUNS}/{other}" for other in stale[:MOST_REMOVED]))


def _failure(placed: PlacedBundle, verb: str, completed: Completed) -> ToolchainError:
    """Return the error to raise for a failure of edge-rt."""
    name, code = placed.board.name, completed.returncode
    what = f"{verb} of {placed.manifest.model.name} on board {name}"
    if completed.signal_name:
        return ToolchainError(
            f"{what}: the library crashed with {completed.signal_name}",
            "build the bundle again; if it still crashes, build it without tuning records",
        )
    if not completed.stdout.strip():
        return ToolchainError(
            f"{what}: edge-rt gave no answer (exit code {code}): {last_line(completed.stderr)}"
        )
    source = f"{answer_of(verb)} (exit code {code})"
    problem = understood(Failed, check_output(completed, name, source), name, source).error
    if code == _EXIT_REQUIRES:
        return _lacks(placed, problem, source)
    if code == _EXIT_BUSY:
        holder = problem.holder
        who = f"{holder.what} (process {holder.pid} there) holds it" if holder else problem.message
        others = f"; {problem.ahead} more wait for it" if holder and problem.ahead else ""
        return BusyError(f"board {name} is busy: {who}{others}", "wait for it: --wait 60")
    message = f"{what}: {with_functions(problem.message, placed.code)}"
    if code == _EXIT_USAGE and problem.kind == "value":
        return UsageError(message, "give inputs for which the network is defined")
    return UsageError(message) if code == _EXIT_USAGE else ToolchainError(message)


def _lacks(placed: PlacedBundle, problem: FailureReason, source: str) -> ToolchainError:
    """Return the error for what a board lacks; a CheckError if the bundle does not need that."""
    manifest, board, missing = placed.manifest, placed.board, list(problem.missing)
    if missing and set(missing) <= set(manifest.requires):
        return lacks_features(manifest, board, missing)
    if missing and set(missing) <= set(manifest.runtime.functions):
        return lacks_functions(manifest, board, missing)
    if manifest.runtime.devices and missing == [placed.device]:
        kind = manifest.runtime.device
        simulated = simulates(placed.runtime.facts, kind)
        instead = f"--device {simulation(kind)} simulates it" if simulated else None
        return lacks_device(manifest, board, missing[0], problem.message, instead)
    return lie(board.name, source, f"error.missing is {shown(', '.join(missing))}, none of which it needs")
