"""Traffic between the wheel's RPC client and `edge-rt serve`."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tvm
from tvm import relax, rpc

from tests.runtime import networks
from tests.runtime.conftest import Case, Edge
from tests.runtime.sessions import HOST, request
from tests.waiting import until
from toolchain.linking.zig import run_zig
from toolchain.profiles import load_profile
from toolchain.rpc.client import TrackerClient
from toolchain.runtime import expected_fingerprint

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

# Kernels as TVM calls them: one dies, one never ends.
BAD_KERNELS = """
int __tvm_ffi_crash(void* self, const void* args, int count, void* result) {
  *(volatile int*)8 = 1;
  return 0;
}
int __tvm_ffi_spin(void* self, const void* args, int count, void* result) {
  for (volatile int i = 0;; ++i) {}
}
"""


LEAVES = """
import sys
from tvm import rpc
session = rpc.connect_tracker("127.0.0.1", int(sys.argv[1])).request("board")
session.upload(sys.argv[2])
module = session.load_module("bad.so")
print("spinning", flush=True)
module["spin"]()
"""


@lru_cache
def bad_kernels(arch: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "bad.c", Path(folder) / "bad.so"
        source.write_text(BAD_KERNELS)
        zig_target = load_profile(networks.CLASSES[arch]).architecture.zig_target
        target = ("-target", f"{zig_target}.2.27")
        ended = run_zig(["cc", *target, "-O1", "-nostdlib", "-shared", str(source), "-o", str(out)], 60)
        assert ended.returncode == 0, ended.output
        return out.read_bytes()


def bad_module(session: rpc.RPCSession, arch: str, folder: Path) -> Any:
    (folder / "bad.so").write_bytes(bad_kernels(arch))
    session.upload(str(folder / "bad.so"))
    return session.load_module("bad.so")


def test_a_network_runs_and_is_timed(edge: Edge, dense_there: Case, state: Path, tracker: int) -> None:
    with edge.serving(state, tracker, "--threads", "2"):
        session = request(tracker)
        assert session.get_function("edge.fingerprint")() == expected_fingerprint()
        assert json.loads(session.get_function("edge.info")())["machine"].startswith(edge.arch)
        session.get_function("edge.configure")(1, "")
        assert session.get_function("runtime.NumThreads")() == 1
        session.upload(str(dense_there.library))
        device = session.cpu()
        machine = relax.VirtualMachine(session.load_module("dense.so"), device)
        arguments = [tvm.runtime.tensor(a, device) for a in (dense_there.x, dense_there.bias)]
        machine.set_input("main", *arguments)
        machine.invoke_stateful("main")
        for output, expected in zip(
            machine.get_outputs("main"), networks.dense(dense_there.x, dense_there.bias), strict=True
        ):
            np.testing.assert_allclose(output.numpy(), expected, rtol=1e-5, atol=1e-6)
        timer = machine.time_evaluator("invoke_stateful", device, number=2, repeat=3)
        assert len(timer("main").results) == 3
        large = np.arange(3_000_000, dtype="float64")
        assert (tvm.runtime.tensor(large, device).numpy() == large).all()
        fill = session.get_function("tvm.contrib.random.random_fill_for_measure")
        fill(filled := tvm.runtime.empty((64,), "float32", device))
        assert np.ptp(filled.numpy()) > 0


def test_segfault_ends_only_its_session(edge: Edge, state: Path, tracker: int, tmp_path: Path) -> None:
    with edge.serving(state, tracker) as process:
        module = bad_module(request(tracker), edge.arch, tmp_path)
        with pytest.raises(Exception, match=r"(?i)shutdown|close|reset|code=1"):
            module["crash"]()
        begin = time.monotonic()
        assert request(tracker).get_function("edge.fingerprint")() == expected_fingerprint()
        assert time.monotonic() - begin < 30
        assert process.poll() is None


def test_timeout_is_reported(edge: Edge, state: Path, tracker: int, tmp_path: Path) -> None:
    bad_kernels(edge.arch)  # compiled now, not in the session's time
    with edge.serving(state, tracker) as process:
        module = bad_module(request(tracker, timeout=1.5), edge.arch, tmp_path)
        with pytest.raises(Exception, match=r"session's 1\.5") as caught:
            module["spin"]()
        assert type(caught.value).__name__ == "RPCSessionTimeoutError"
        assert not psutil.Process(process.pid).children()
        until(lambda: not list((state / "sessions").iterdir()))
        assert request(tracker).get_function("edge.fingerprint")() == expected_fingerprint()


PTRACE_SEIZE = 0x4206
HOLDS = """
import ctypes, sys
assert ctypes.CDLL(None).ptrace({seize}, int(sys.argv[1]), None, None) == 0
print("held", flush=True)
sys.stdin.read()
"""


def test_unkillable_session_is_reported_and_blocks_nobody(
    native: Edge, state: Path, tracker: int, tmp_path: Path
) -> None:
    """A tracer that does not look keeps a killed process as a driver does that hangs in the kernel."""
    arguments = ["serve", "--tracker", f"{HOST}:{tracker}", "--key", "board", "--state", str(state)]
    pipe = subprocess.PIPE
    with subprocess.Popen([*native.command, *arguments], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        module = bad_module(request(tracker, timeout=8), "x86_64", tmp_path)
        (child,) = psutil.Process(process.pid).children()
        holder = [sys.executable, "-c", HOLDS.format(seize=PTRACE_SEIZE), str(child.pid)]
        with subprocess.Popen(holder, stdin=pipe, stdout=pipe) as held:
            assert held.stdout and held.stdout.readline() == b"held\n"
            with pytest.raises(Exception, match=r"session's 8"):
                module["spin"]()
            assert process.wait(timeout=60) == 1
            held.communicate(timeout=60)
        assert process.stderr
        log = process.stderr.read().decode()
    assert f"the session's process {child.pid} was killed and does not end" in log
    assert "restart the board" in log


def test_crash_is_seen_even_if_sigchld_is_ignored(
    native: Edge, state: Path, tracker: int, tmp_path: Path
) -> None:
    deaf = Edge(native.arch, ("sh", "-c", 'trap "" CHLD; exec "$0" "$@"', *native.command))
    with deaf.serving(state, tracker):
        module = bad_module(request(tracker), native.arch, tmp_path)
        begin = time.monotonic()
        with pytest.raises(Exception, match=r"(?i)shutdown|close|reset|code=1"):
            module["crash"]()
        assert time.monotonic() - begin < 30, "not after the session's timeout of 60 s"
        assert request(tracker).get_function("edge.fingerprint")() == expected_fingerprint()


@pytest.mark.usefixtures("server")
def test_refuses_to_send_huge_files(tracker: int, state: Path) -> None:
    session = request(tracker)
    session.upload(bytearray(b"begun"), "large")
    (folder,) = (state / "sessions").iterdir()
    os.truncate(folder / "large", 2**30)
    with pytest.raises(Exception, match=r'"large" has 1073741824 bytes; a session sends at most'):
        session.download("large")
    os.truncate(folder / "large", 5)
    assert bytes(session.download("large")) == b"begun"


def test_silent_client_gets_keepalive_probes(server: subprocess.Popen[bytes], tracker: int) -> None:
    session = request(tracker)
    (child,) = psutil.Process(server.pid).children()
    (address,) = [
        connection.laddr for connection in child.net_connections("tcp") if connection.status == "ESTABLISHED"
    ]

    def timers() -> set[str]:
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        local_port = f":{address.port:04X}"
        return {row[5][:2] for row in rows if row[1].endswith(local_port) and row[3] == "01"}

    until(lambda: timers() == {"02"})  # a keepalive timer, once nothing waits to be acknowledged (proc(5))
    assert session.get_function("edge.fingerprint")() == expected_fingerprint()


@pytest.mark.parametrize("end", ["stdin", "SIGTERM", "SIGINT", "SIGKILL"])
def test_sessions_end_with_the_server(
    server: subprocess.Popen[bytes], state: Path, tracker: int, tmp_path: Path, end: str
) -> None:
    module = bad_module(request(tracker), "x86_64", tmp_path)

    def spin() -> None:
        with pytest.raises(Exception, match=r"(?i)shutdown|close|reset|code=1"):
            module["spin"]()

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    (child,) = psutil.Process(server.pid).children()
    if end == "stdin":
        assert server.stdin
        server.stdin.close()
    else:
        server.send_signal(getattr(signal, end))
    assert server.wait(timeout=60) == (-9 if end == "SIGKILL" else 0)
    thread.join(60)
    assert not thread.is_alive()
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    if end == "SIGKILL":  # nobody was left to tidy up: the next server does
        assert list((state / "sessions").iterdir())
        until(lambda: not child.is_running())
        with Edge("x86_64", tuple(server.args[:1])).serving(state, tracker):
            assert not list((state / "sessions").iterdir())


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/../../evil", "..", "a/b", ""])
def test_uploads_stay_in_the_session(tracker: int, state: Path, name: str) -> None:
    session = request(tracker)
    for function, arguments in (
        ("tvm.rpc.server.upload", (name, bytearray(b"evil"))),
        ("tvm.rpc.server.download", (name,)),
        ("tvm.rpc.server.remove", (name,)),
        ("tvm.rpc.server.load_module", (name,)),
    ):
        with pytest.raises(Exception, match="is refused"):
            session.get_function(function)(*arguments)
    (folder,) = (state / "sessions").iterdir()
    assert not list(folder.iterdir())


@pytest.mark.usefixtures("server")
def test_upload_and_download(tracker: int, state: Path) -> None:
    session = request(tracker)
    session.upload(bytearray(os.urandom(1 << 20)), "blob.bin")
    (folder,) = (state / "sessions").iterdir()
    assert session.download("blob.bin") == (folder / "blob.bin").read_bytes()
    session.remove("blob.bin")
    assert not list(folder.iterdir())


@pytest.mark.usefixtures("server")
def test_load_errors_are_explained(tracker: int) -> None:
    session = request(tracker)
    session.upload(bytearray(b"objects"), "net.tar")
    with pytest.raises(Exception, match=r"link it to \.so on the host"):
        session.load_module("net.tar")
    session.upload(bytearray(networks.library("dense", "aarch64")), "net.so")
    with pytest.raises(Exception, match="built for aarch64"):
        session.load_module("net.so")


@pytest.mark.usefixtures("server")
def test_threads_are_configured_before_the_first_library(tracker: int, dense: Case) -> None:
    session = request(tracker)
    session.upload(str(dense.library))
    session.load_module("dense.so")
    with pytest.raises(Exception, match="before the first library"):
        session.get_function("edge.configure")(1, "")


@pytest.mark.usefixtures("server")
def test_a_timed_call_waits_for_the_lock(tracker: int, state: Path, dense: Case) -> None:
    session = request(tracker)
    session.upload(str(dense.library))
    machine = relax.VirtualMachine(session.load_module("dense.so"), session.cpu())
    machine.set_input("main", *(tvm.runtime.tensor(a, session.cpu()) for a in (dense.x, dense.bias)))
    timer = machine.time_evaluator("invoke_stateful", session.cpu(), number=1)
    done = threading.Event()
    with (state / "measure.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        machine.invoke_stateful("main")  # what is not timed does not wait
        threading.Thread(target=lambda: (timer("main"), done.set()), daemon=True).start()
        assert not done.wait(0.3)
    assert done.wait(60)


def relay(source: socket.socket, sink: socket.socket, held: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while not held.is_set() and (data := source.recv(1 << 16)):
            sink.sendall(data)


@pytest.mark.usefixtures("server")
def test_client_that_stops_reading_blocks_nobody(tracker: int) -> None:
    with TrackerClient(HOST, tracker) as client:
        grant = client.request("board", 10)
    assert grant
    deaf = threading.Event()
    with (
        socket.create_server((HOST, 0)) as between,
        ThreadPoolExecutor(3) as pool,
        socket.create_connection((HOST, grant.port)) as server,
    ):
        connecting = pool.submit(
            rpc.connect, HOST, between.getsockname()[1], grant.match_key, session_timeout=15
        )
        here, _ = between.accept()
        with here:
            pool.submit(relay, here, server, threading.Event())
            threading.Thread(target=relay, args=(server, here, deaf), daemon=True).start()
            session = connecting.result(60)
            session.upload(bytearray(32 << 20), "large.bin")
            deaf.set()
            download = pool.submit(session.download, "large.bin")
            try:
                again = request(tracker)  # the timeout of 15 seconds has passed
                assert again.get_function("edge.fingerprint")() == expected_fingerprint()
            finally:
                here.shutdown(socket.SHUT_RDWR)
                server.shutdown(socket.SHUT_RDWR)
            # code=1 is RPCCode::kShutdown: so TVM says it where the cut falls between two messages.
            with pytest.raises(Exception, match=r"(?i)shutdown|close|reset|EOF|Recv|code=1$"):
                download.result(60)


@pytest.mark.usefixtures("server")
def test_disconnect_frees_the_server(tracker: int, tmp_path: Path) -> None:
    user = [sys.executable, "-c", LEAVES, str(tracker), str(tmp_path / "bad.so")]
    (tmp_path / "bad.so").write_bytes(bad_kernels("x86_64"))
    with subprocess.Popen(user, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"spinning\n"
        time.sleep(0.1)
        process.kill()
    assert request(tracker).get_function("edge.fingerprint")() == expected_fingerprint()


def test_server_ends_without_standard_input(native: Edge, state: Path, tracker: int) -> None:
    arguments = ["serve", "--tracker", f"{HOST}:{tracker}", "--key", "board", "--state", str(state)]
    command = ["sh", "-c", 'exec "$0" "$@" <&-', *native.command, *arguments]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, timeout=60).returncode == 0
