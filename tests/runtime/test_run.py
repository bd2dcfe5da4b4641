"""`edge-rt run`, `bench` and `info`."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.runtime import networks
from tests.runtime.conftest import Case, Edge
from tests.waiting import PATIENCE_S, until
from toolchain.runtime import expected_fingerprint

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

FAILED, USAGE, REQUIRES, BUSY = 1, 2, 5, 75
FEATURES = {"x86_64": {"sse2"}, "aarch64": {"asimd"}, "armv7": {"neon", "vfpv3", "vfpd32"}}
DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]


def test_run_matches_numpy(edge: Edge, dense_there: Case, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    code, answer = edge("run", *dense_there.arguments, "--output", out, "--output-names", "hidden,sum")
    assert code == 0, answer
    assert [(o["name"], o["shape"], o["dtype"]) for o in answer["outputs"]] == [
        ("hidden", [4, 16], "float32"),
        ("sum", [4, 16], "float32"),
    ]
    outputs = np.load(out)
    assert list(outputs) == ["hidden", "sum"]
    for output, expected in zip(
        outputs.values(), networks.dense(dense_there.x, dense_there.bias), strict=True
    ):
        np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)
    assert {path.name for path in tmp_path.iterdir()} == {"x.npy", "bias.npy", "dense.so", "state", "out.npz"}


def test_info_says_where_it_runs(edge: Edge) -> None:
    code, facts = edge("info")
    assert code == 0
    assert facts["fingerprint"] == expected_fingerprint()
    assert facts["machine"].startswith(edge.arch)
    assert FEATURES[edge.arch] <= set(facts["cpu_features"])
    assert len(facts["cpus"]) == facts["logical_cpus"] == len(os.sched_getaffinity(0))
    assert 1 <= facts["threads"] == facts["physical_cores"] <= facts["logical_cpus"]
    assert facts["memory_mib"] > 0 and facts["disk_free_mib"] > 0


def test_bench_measures_and_profiles(edge: Edge, dense_there: Case) -> None:
    arguments = ("--repeat", "3", "--number", "2", "--threads", "1", "--profile")
    code, answer = edge("bench", *dense_there.arguments, *arguments)
    assert code == 0, answer
    assert len(answer["times_ms"]) == answer["runs"] == 3
    assert all(ms > 0 for ms in answer["times_ms"])
    assert (answer["number"], answer["threads"], answer["cluster"]) == (2, 1, None)
    assert answer["peak_rss_mib"] > 1
    calls = {entry["name"]: entry["calls"] for entry in answer["operators"]}
    assert calls["matmul"] == 1 and len(calls) == 5
    assert [entry["ms"] for entry in answer["operators"]] == sorted(
        (entry["ms"] for entry in answer["operators"]), reverse=True
    )


def test_bench_time_limit_and_number_of_calls(native: Edge, dense: Case) -> None:
    arguments = ("--repeat", "1000000", "--time", "0.3", "--min-repeat-ms", "50")
    begin = time.monotonic()
    code, answer = native("bench", *dense.arguments, *arguments)
    assert code == 0, answer
    assert time.monotonic() - begin < 60
    assert 1 <= answer["runs"] < 100
    assert answer["number"] > 50
    assert answer["number"] * answer["times_ms"][0] >= 50 * 0.99


def test_threads_respect_the_cpu_affinity(native: Edge, dense: Case) -> None:
    allowed = sorted(os.sched_getaffinity(0))[-1]
    bound = Edge(native.arch, ("taskset", "-c", str(allowed), *native.command))
    code, answer = bound("bench", *dense.arguments, "--repeat", "1")
    assert (code, answer["threads"], answer["cpus"]) == (0, 1, [allowed])
    code, answer = bound("bench", *dense.arguments, "--repeat", "1", "--threads", "3")
    assert (code, answer["threads"], answer["cpus"]) == (0, 3, [allowed])


def test_an_absent_cluster_leaves_threads_unbound(native: Edge, dense: Case, tmp_path: Path) -> None:
    options = ("--cluster", "cortex-a72", "--threads", "3", "--output", tmp_path / "o.npz")
    code, answer = native("run", *dense.arguments, *options)
    assert (code, answer["threads"], answer["cpus"]) == (0, 3, None)


@pytest.mark.parametrize(
    ("options", "code", "kind", "words"),
    [
        (["--output", "{}/no/such/o.npz"], FAILED, "io", "no/such"),
        (["--output", "{}/o.npz", "--output-names", "a"], USAGE, "usage", "1 name for 2 outputs"),
        (["--output", "{}/o.npz", "--output-names", "a,a"], USAGE, "usage", "twice"),
        ([], USAGE, "usage", "--output"),
        (["--output", "{}/o.npz", "--input", "{}/x.npy"], USAGE, "usage", "takes 2 inputs"),
        (["--output", "{}/o.npz", "--threads", "0"], USAGE, "usage", "--threads 0"),
        (["--output", "{}/o.npz", "--bogus", "0"], USAGE, "usage", "--bogus"),
        (["--output", "{}/o.npz", "--requires", "sse2,warp9"], REQUIRES, "requires", "warp9"),
    ],
)
def test_refusals(
    native: Edge, dense: Case, tmp_path: Path, options: list[str], code: int, kind: str, words: str
) -> None:
    exit_code, answer = native("run", *dense.arguments, *(option.format(tmp_path) for option in options))
    assert (exit_code, answer["error"]["kind"]) == (code, kind)
    assert words in answer["error"]["message"]
    assert not (tmp_path / "o.npz").exists()


def test_wrong_input_shape_or_type_is_named(native: Edge, dense: Case, tmp_path: Path) -> None:
    for wrong in (np.zeros((4, 9), "float32"), np.zeros((4, 8), "int8"), np.zeros(4, "float32")):
        np.save(tmp_path / "x.npy", wrong)
        code, answer = native("run", *dense.arguments, "--output", tmp_path / "o.npz")
        assert (code, answer["error"]["kind"]) == (USAGE, "input")
        assert "param=x" in answer["error"]["message"]


def test_a_library_is_checked_before_it_is_loaded(native: Edge, dense: Case, tmp_path: Path) -> None:
    def refused(content: bytes, *options: str) -> tuple[int, dict[str, Any]]:
        dense.library.write_bytes(content)
        code, answer = native("run", *dense.arguments, "--output", tmp_path / "o.npz", *options)
        return code, answer["error"]

    code, error = refused(networks.library("dense", "aarch64"))
    assert (code, error["kind"]) == (FAILED, "machine")
    assert "aarch64" in error["message"] and "x86_64" in error["message"]
    code, error = refused(b"not a library at all" * 10)
    assert (code, error["kind"]) == (FAILED, "load")
    code, error = refused(networks.library("dense", "x86_64")[:200])
    assert (code, error["kind"]) == (FAILED, "load")
    complete = networks.library("dense", "x86_64")
    code, error = refused(complete[: len(complete) // 2])  # mapped as it is, it would kill the process
    assert (code, error["kind"]) == (FAILED, "load") and "cut off" in error["message"]
    code, error = refused(b"", "--requires", "warp9")  # nothing of the file is looked at
    assert (code, error["missing"]) == (REQUIRES, ["warp9"])


def test_one_measurement_at_a_time(native: Edge, dense: Case, tmp_path: Path) -> None:
    lock = tmp_path / "state" / "measure.lock"
    lock.parent.mkdir()
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps({"pid": 1, "what": "bench other.so"}) + "\n")
        file.flush()
        for verb in (["run", "--output", str(tmp_path / "o.npz")], ["bench"]):
            code, answer = native(verb[0], *dense.arguments, *verb[1:])
            assert (code, answer["error"]["kind"]) == (BUSY, "busy")
            assert answer["error"]["holder"] == {"pid": 1, "what": "bench other.so"}
        code, answer = native("bench", *dense.arguments, "--wait", "0.1")
        assert code == BUSY
        threading.Timer(0.3, lambda: fcntl.flock(file, fcntl.LOCK_UN)).start()
        code, answer = native("bench", *dense.arguments, "--wait", "20")
        assert code == 0, answer


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("identity")
    (folder / "identity.so").write_bytes(networks.library("identity", "x86_64"))
    np.save(folder / "y.npy", np.float32([1, 2]))
    return folder


def _through(native: Edge, folder: Path) -> tuple[int, dict[str, object]]:
    inputs = ("--input", folder / "x.npy", "--input", folder / "y.npy")
    return native("run", folder / "identity.so", *inputs, "--output", folder / "o.npz", "--state", folder)


@settings(max_examples=60)
@given(st.data(), st.sampled_from(DTYPES), st.sampled_from([(1, 0), (2, 0), (3, 0)]))
def test_arrays_of_every_type_survive(
    native: Edge, identity: Path, data: st.DataObject, dtype: str, version: tuple[int, int]
) -> None:
    shape = data.draw(arrays.array_shapes(min_dims=0, max_dims=5, max_side=5, min_side=0))
    array = data.draw(arrays.arrays(dtype, shape))
    with (identity / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, array, version=version)
    code, answer = _through(native, identity)
    assert code == 0, answer
    with np.load(identity / "o.npz") as outputs:
        same = outputs["output_0"]
    assert (same.dtype, same.shape) == (array.dtype, array.shape)
    assert same.tobytes() == array.tobytes()


def _npy(header: bytes, data: bytes, version: int = 1) -> bytes:
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(header)) + header + data


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00\xff\xff{",
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
        _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", b"\0" * 7),
        _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", b"\0" * 9),
        _npy(b"{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", b"\0" * 8),
        _npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"\0" * 8),
        _npy(b"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }", b"\0" * 8),
        _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", b"\0" * 8),
        _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", b""),
        _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", b""),
        _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"1," * 40 + b"), }", b"\0" * 4),
        _npy(b"{'descr': '<f4', 'fortran_order': False, }", b"\0" * 8),
        _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x", b"\0" * 8),
        _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", b"\0" * 8, version=9),
    ],
)
def test_malformed_arrays_are_refused(native: Edge, identity: Path, content: bytes) -> None:
    (identity / "x.npy").write_bytes(content)
    code, answer = _through(native, identity)
    assert (code, answer["error"]["kind"]) == (USAGE, "input")
    assert "x.npy" in answer["error"]["message"]


@settings(max_examples=60)
@given(st.binary(max_size=80), st.sampled_from([1, 2, 3]), st.integers(0, 2**32 - 1))
def test_hostile_headers_never_crash_it(
    native: Edge, identity: Path, header: bytes, version: int, length: int
) -> None:
    field = struct.pack("<H", length % 2**16) if version == 1 else struct.pack("<I", length)
    (identity / "x.npy").write_bytes(b"\x93NUMPY" + bytes([version, 0]) + field + header)
    code, _ = _through(native, identity)
    assert code == USAGE


def test_unknown_command_lists_the_known_ones(native: Edge) -> None:
    done = subprocess.run([*native.command, "rnu"], capture_output=True, text=True)
    assert done.returncode == USAGE
    assert "info, run, bench, measure, probe, serve" in done.stderr


def test_names_of_any_bytes_are_answered_in_json(native: Edge, tmp_path: Path) -> None:
    # Overlong, a surrogate, above the last code point, cut off; then what may stand as it is.
    name = b'\xe0\x80\x80\xed\xa0\x80\xf4\x90\x80\x80\xc3-\xf0\x9f\x98\x80"\\\n'
    library = os.fsencode(tmp_path) + b"/" + name
    arguments = [*native.command, "run", library, "--output", str(tmp_path / "o.npz")]
    done = subprocess.run(arguments, capture_output=True, timeout=60)
    message = json.loads(done.stdout.decode())["error"]["message"]
    assert '-\N{GRINNING FACE}"\\\n' in message and "\ufffd" in message


def test_pipes_are_refused_at_once(native: Edge, dense: Case, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    code, answer = native("run", dense.library, "--output", tmp_path / "o.npz", "--input", tmp_path / "pipe")
    assert (code, answer["error"]["kind"]) == (USAGE, "input")
    code, answer = native("run", tmp_path / "pipe", "--output", tmp_path / "o.npz")
    assert (code, answer["error"]["kind"]) == (FAILED, "load")


def test_unwritable_answer_is_a_failure(native: Edge) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*native.command, "info"], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == FAILED
    assert b"standard output" in done.stderr


@pytest.mark.parametrize("verb", ["run", "bench", "probe"])
def test_broken_pipe_ends_the_program(native: Edge, dense: Case, tmp_path: Path, verb: str) -> None:
    """Whoever asked was killed: nobody else would end it, and it would keep the board's lock."""
    state = tmp_path / "state"
    arguments: dict[str, list[str | Path]] = {
        "run": [*dense.arguments, "--output", tmp_path / "o.npz", "--warmup", str(10**9)],
        "bench": [*dense.arguments, "--repeat", "600", "--min-repeat-ms", "1000"],
        "probe": ["--state", state, "--time", "3000", "--timeout", "4000"],
    }
    command = [*native.command, verb, *map(str, arguments[verb])]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lock = state / "measure.lock"
        until(lambda: lock.exists() and str(process.pid).encode() in lock.read_bytes())
        process.stdout.close()
        try:
            assert process.wait(PATIENCE_S) == FAILED
        finally:
            process.kill()
    code, answer = native("bench", *dense.arguments, "--number", "1", "--repeat", "1")
    assert code == 0, answer


def test_link_at_the_outputs_path_is_not_followed(native: Edge, dense: Case, tmp_path: Path) -> None:
    victim, out = tmp_path / "victim", tmp_path / "o.npz"
    victim.write_text("precious")
    command = [*native.command, "run", *map(str, dense.arguments), "--output", str(out)]
    script = f'ln -s {victim} {out}.tmp$$; exec "$0" "$@"'
    subprocess.run(["sh", "-c", script, *command], stdout=subprocess.DEVNULL, timeout=60, check=True)
    assert victim.read_text() == "precious"
    assert len(np.load(out)) == 2


def test_leftovers_of_killed_writers_are_removed(native: Edge, dense: Case, tmp_path: Path) -> None:
    out = tmp_path / "o.npz"
    with subprocess.Popen(["sleep", "60"]) as lives:
        kept = [f"o.npz.tmp{lives.pid}", "o.npz.tmp", "o.npz.tmp1x", "other.npz.tmp4194304", "mine"]
        swept = ["o.npz.tmp4194304", "o.npz.tmp4194305"]  # beyond the kernel's largest number
        for name in (*kept, *swept):
            (tmp_path / name).touch()
        assert native("run", *dense.arguments, "--output", out)[0] == 0
        lives.kill()
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {*kept, "o.npz"} and not names & set(swept)
