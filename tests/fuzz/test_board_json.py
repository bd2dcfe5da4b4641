"""What a board answers: documents and lines with lies in them are believed, or refused in a sentence.

What is tried: the answers of `edge-rt`, of the scripts that ask a board how it is and what it is, and
listings of folders, with values of other kinds and sizes, broken texts, and any exit code.
"""

from __future__ import annotations

import json
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Literal

import numpy as np
import pytest

from tests.boards.provisioning.test_facts import SAID
from tests.cli.lying.liar import BENCH, OUTPUTS, RUN, info, outputs_file, tiny_bundle
from tests.fuzz import rpc_frames as rpc
from tests.fuzz.json_values import NUMBERS, WORDS, any_json, mutated_json
from tests.fuzz.loop import Attempt, run
from toolchain.answers import understood
from toolchain.boards.board import Board
from toolchain.boards.edge_rt.answers import ServerSaid
from toolchain.boards.edge_rt.install import program_path
from toolchain.boards.edge_rt.status import status
from toolchain.boards.inventory.lookup import find_board
from toolchain.boards.provisioning.facts import parse_facts
from toolchain.boards.ssh.transport import parse_listing
from toolchain.boards.transport import Completed, Home, Process, RemoteFile, Transport
from toolchain.bundles import read_bundle
from toolchain.errors import ToolchainError
from toolchain.measuring.bench import bench_bundle
from toolchain.measuring.execution import Execution, OnBoard, Sampling
from toolchain.measuring.run import run_bundle
from toolchain.runtime import Runtime, arch_of, ensure_runtime

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

HELD = 64 << 20  # bytes of memory for an answer of at most some hundred kilobytes
FAILED = {"error": {"message": "no", "missing": ["a-feature"], "holder": {"pid": 7, "what": "edge-rt bench"}}}
SERVER = {"port": 9000, "secret": "x", "error": {"message": "no"}}
CODES = (0, 1, 2, 3, 4, 5, 6, 75, 126, 255, -9, -11, -64)
STATE = """load_1min=0.5
uptime_s=1000
millidegrees=45000
governor=performance
memory_free_kib=1000
node=/dev/mali0
info={"version": "1.0.0"}
disk_free_kib=1000
"""


class LyingBoard:
    """A way to a board that answers what a case wants, and keeps the names of the files it is given."""

    kind: Literal["local", "ssh"] = "local"
    has_system = True
    is_remote = False

    def __init__(self, runtime: Runtime) -> None:
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.outputs = b""
        program = Path(program_path(runtime))
        self._files = {str(program): RemoteFile(runtime.program.stat().st_size, 0.0)}

    def run(self, argv: Sequence[str], input: bytes | None = None, timeout: float = 60.0) -> Completed:  # noqa: ARG002
        verb = argv[1] if "edge-rt" in argv[0] else "script"
        code, said = self.answers.get(verb, (0, b""))
        return Completed(tuple(argv), code, said, said[:1000])

    def reached(self) -> None:
        return None

    def spawn(self, argv: Sequence[str], log: Path | None = None) -> Process:
        raise NotImplementedError

    def put(self, local: Path | bytes, remote: str, *, executable: bool = False) -> None:  # noqa: ARG002
        self._files[remote] = RemoteFile(len(local) if isinstance(local, bytes) else 1, 0.0)

    def get(self, remote: str, local: Path, most: int = 0) -> None:  # noqa: ARG002
        local.write_bytes(self.outputs)

    def listing(self, remote: str) -> dict[str, RemoteFile]:
        below = {
            name[len(remote) + 1 :]: file
            for name, file in self._files.items()
            if name.startswith(f"{remote}/")
        }
        return {name.partition("/")[0]: file for name, file in below.items()}

    def touch(self, remote: str) -> None:
        pass

    def remove(self, *remotes: str) -> None:
        self._files = {name: file for name, file in self._files.items() if not name.startswith(remotes)}

    @contextmanager
    def at_home(self) -> Iterator[Home]:
        yield Home(self, ".")

    def as_user(self, user: str) -> Transport:
        raise NotImplementedError

    def ssh_command(self, options: Sequence[str] = (), *, asks: bool = False) -> list[str]:
        raise NotImplementedError

    def close(self) -> None:
        pass


def document(random: Random, honest: object) -> bytes:
    """Return an answer that is JSON, or was until something happened to it."""
    values = honest
    for _ in range(random.choice((0, 1, 1, 1, 2, 4))):
        values = mutated_json(random, values)
    text = json.dumps(values, ensure_ascii=random.random() < 0.5).encode(errors="surrogatepass")
    match random.randrange(12):
        case 0:
            return rpc.mutated(random, text)
        case 1:
            return text[: random.randrange(len(text) + 1)]
        case 2:
            return random.choice(
                (b"[" * 100_000, b"\xef\xbb\xbf" + text, text + text, b"", b"\xff\xfe" + text, b'"\xc3')
            )
        case 3:
            return (
                text[:-1]
                + b', "version": '
                + random.choice((b"1e999", b"9" * 5000, b'"\\ud800"', b"-"))
                + b"}"
            )
        case 4:
            return b'{"x": ' + text + b', "times_ms": [' + b"0," * random.choice((1, 50_000)) + b"1]}"
        case _:
            return text


def lines(random: Random, honest: str) -> str:
    """Return lines of KEY=VALUE, some of them wrong, missing or twice."""
    out = honest.splitlines(keepends=True)
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        at = random.randrange(len(out))
        key, equals, value = out[at].partition("=")
        word = random.choice(
            (*WORDS, "1" * 400, "inf", "1e999", json.dumps(any_json(random)), value[:30] * 3000)
        )
        match random.randrange(6):
            case 0:
                del out[at : at + 1]
                out = out or [""]
            case 1:
                out.insert(random.randrange(len(out)), out[at])
            case 2:
                out[at] = f"{word}{equals}{value}"
            case _:
                out[at] = f"{key}{equals}{word}\n"
    return "".join(out)


def plain(value: object, where: str) -> None:
    """Check that every text in a result can be shown, and every number is finite."""
    json.dumps(value, allow_nan=False)
    if isinstance(value, str):
        assert value.isprintable(), f"{where} is {value!r}"
    elif isinstance(value, dict):
        for key, item in value.items():
            plain(item, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for item in value:
            plain(item, where)


@contextmanager
def harness() -> Iterator[Attempt]:
    """Make a board that lies and a bundle for it; yield what asks it something."""
    local = find_board("local")
    runtime = ensure_runtime(arch_of(local.profile))
    liar = LyingBoard(runtime)
    board = Board("b", local.profile, False, False, liar, local.tracker_key, local.record_class)
    facts = info(runtime)

    def answer(random: Random, verb: str, honest: object) -> None:
        code = random.choice(CODES) if random.random() < 0.3 else 0
        liar.answers[verb] = (code, document(random, FAILED if code and random.random() < 0.9 else honest))

    def asked_info(random: Random) -> None:
        answer(random, "info", facts)
        run_bundle(bundle, OnBoard(board), bundle.sample, Execution(threads=1))

    def asked_run(random: Random) -> None:
        answer(random, "run", RUN)
        if random.random() < 0.1:
            liar.outputs = rpc.mutated(random, liar.outputs)
        for name, array in run_bundle(bundle, OnBoard(board), bundle.sample, Execution(threads=1)).items():
            assert (array.dtype, array.shape) == (OUTPUTS[name].dtype, OUTPUTS[name].shape), f"{array!r}"

    def asked_bench(random: Random) -> None:
        answer(random, "bench", BENCH)
        result = bench_bundle(
            bundle, OnBoard(board), Sampling(repeat=3, profile=random.random() < 0.5), Execution(threads=1)
        )
        plain(result.to_json(), "bench")
        assert 0 < result.min_ms <= result.p50_ms <= result.p95_ms, f"{result}"

    def asked_status(random: Random) -> None:
        liar.answers["script"] = (0, lines(random, STATE).encode(errors="surrogatepass"))
        said = status(board).to_json()
        plain(said, "status")

    def asked_facts(random: Random) -> None:
        found = parse_facts(
            "b", lines(random, SAID).encode(errors="surrogatepass").decode(errors="replace"), 0.0, 1.0
        )
        plain([found.machine, found.glibc, found.home, found.root, *found.entries, *found.links], "facts")

    def asked_server(random: Random) -> None:
        said = understood(ServerSaid, document(random, SERVER), "b", "its server")
        plain(said.model_dump(), "server")

    def asked_listing(random: Random) -> None:
        entries = [
            f"{random.choice(NUMBERS)} {random.choice(NUMBERS)} {random.choice(WORDS)}" for _ in range(3)
        ]
        text = "\n".join(entries).encode(errors="surrogatepass")
        for name in parse_listing(text if random.random() < 0.5 else rpc.mutated(random, text), "b", "runs"):
            assert name not in (".", "..") and "/" not in name, f"an entry {name!r}"

    def asked_for_a_failure(random: Random) -> None:
        liar.answers["run"] = (random.choice(CODES[1:]), document(random, FAILED))
        run_bundle(bundle, OnBoard(board), bundle.sample, Execution(threads=1))

    ways: tuple[Callable[[Random], Any], ...]
    ways = (asked_info, asked_run, asked_for_a_failure, asked_bench, asked_status, asked_facts)
    ways = (*ways, asked_server, asked_listing)

    def attempt(random: Random) -> None:
        liar.answers = {
            "info": (0, json.dumps(facts).encode()),
            "run": (0, json.dumps(RUN).encode()),
            "bench": (0, json.dumps(BENCH).encode()),
        }
        liar.outputs = outputs_file(OUTPUTS)
        way = random.choice(ways)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        try:
            way(random)
        except ToolchainError as error:
            plain([error.message, error.hint], f"the message of {way.__name__}")
            assert len(error.message) < 5000, f"a message of {len(error.message)} characters"
        held = tracemalloc.get_traced_memory()[1] - before
        assert held < HELD, f"{held} bytes"

    with tempfile.TemporaryDirectory() as folder:
        bundle = read_bundle(tiny_bundle(Path(folder) / "tiny.bundle"))
        assert np.array_equal(bundle.expected["y"], OUTPUTS["y"]), "the bundle that was made"
        tracemalloc.start()
        try:
            yield attempt
        finally:
            tracemalloc.stop()


def test_some_hundred_answers_are_believed_or_refused() -> None:
    run("board_json", harness, seed=20260, cases=500)
