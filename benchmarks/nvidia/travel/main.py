"""Measures a pack's networks on this machine: ours by edge-rt, peers by PyTorch and TensorRT where they are.

The results are in one file, complete after each row. The run ends by its deadline; the same command again
goes on with the rows that are left.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.nvidia.travel.launches import MOST_S, measure_launches
from benchmarks.nvidia.travel.machine import machine
from benchmarks.nvidia.travel.members import Pack
from benchmarks.nvidia.travel.ours import Failure, Sampling, measure_ours
from benchmarks.nvidia.travel.pace import Pace, most_s
from benchmarks.nvidia.travel.peer import measure_peer, versions
from benchmarks.nvidia.travel.plan import OURS, Row, rows_of
from benchmarks.nvidia.travel.results import Results
from benchmarks.nvidia.travel.stop import Stop

ROOT = Path(__file__).resolve().parents[3]
_LEAST_S = 5.0


def main(arguments: list[str] | None = None) -> None:
    """Measure until all rows are there or the time is over; exit with 2 if nothing can be measured."""
    given = _options(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # by nohup, a broken connection ends nothing
        signal.signal(signal.SIGHUP, _interrupt)
    try:
        left = measure(given)
    except Stop as stop:
        print(f"run.py: {stop}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print(f"run.py: interrupted; what was measured is in {given.out}", file=sys.stderr)
        sys.exit(130)
    print(f"{given.out}: " + (f"{left} rows are left: run it again" if left else "complete"), file=sys.stderr)


def measure(given: argparse.Namespace) -> int:
    """Measure the rows that are not in the file of results; return how many are left.

    Raises
    ------
    Stop
        The pack was changed, no GPU is there, or the results cannot be read or written.
    """
    deadline = time.monotonic() + given.minutes * 60
    pack = Pack(ROOT)
    pack.check()
    results = Results(given.out.resolve(), pack.id)
    sampling = Sampling(given.samples, given.sample_ms)
    with tempfile.TemporaryDirectory(prefix="bench-cuda-", dir=given.scratch) as name:
        scratch = Path(name)
        program = scratch / "edge-rt"
        shutil.copyfile(ROOT / "edge-rt", program)
        program.chmod(0o755)
        found = versions(given.python, ROOT)
        here = {who for who, each in found.items() if each["version"]}
        for who, each in found.items():
            if not each["version"]:
                _say(f"{who} is not measured: {each['reason']}")
        facts = machine(program, scratch)
        if given.device == "cuda" and facts["cuda"].get("problem"):
            raise Stop(f"edge-rt finds no GPU: {facts['cuda']['problem']}")
        results.begin({**facts, "peers": found, "sampling": vars(sampling)})
        if not facts["cuda"].get("problem"):
            _launches(pack, results, given, deadline, scratch)
        rows = rows_of(pack.manifest, here)
        left = [row for row in rows if not results.has(row.key, measured=given.retry)]
        pace = Pace(results.document["rows"].values())
        _say(pace.forecast(left, deadline - time.monotonic()))
        first = True
        while left:
            begun = time.monotonic()
            left_s = deadline - begun
            row = pace.next_of(left, left_s, first=first) if left_s >= _LEAST_S else None
            if row is None:
                break
            first, own = False, given.row_seconds or most_s(row)
            seconds = min(own, left_s)
            told = _row(pack, program, row, sampling, given, seconds, scratch, facts["gpu"])
            if told.get("status") == "late" and seconds < own:
                _say(f"{row.key}: the run's time was over first; it gets another turn")
                break
            result = {**row.document(), **told, "took_s": round(time.monotonic() - begun, 2)}
            results.add(row.key, result)
            pace.learn(result)
            _note(row, told)
            left.remove(row)
    return len(left)


def _launches(
    pack: Pack, results: Results, given: argparse.Namespace, deadline: float, scratch: Path
) -> None:
    """Measure what a launch and a barrier cost, unless that is known or the run's time is over."""
    left_s, own = deadline - time.monotonic(), given.row_seconds or MOST_S
    known = results.launches
    if left_s < _LEAST_S or (known and not (given.retry and known["status"] != "measured")):
        return
    told = measure_launches(pack, given.samples, min(own, left_s), scratch)
    if told["status"] == "late" and left_s < own:
        return  # the next run has more time for it
    results.add_launches(told)
    if told["status"] == "measured":
        costs = {name: each["each_us"] for name, each in told["chains"].items()}
        said = ", ".join(f"{name} {cost:.2f} µs" for name, cost in costs.items())
    else:
        said = f"{told['status']}: {told['reason']}"
    _say(f"launches and barriers: {said}")


def _row(
    pack: Pack,
    program: Path,
    row: Row,
    sampling: Sampling,
    given: argparse.Namespace,
    seconds: float,
    scratch: Path,
    gpu: str | None,
) -> dict[str, Any]:
    """Return what was measured, or the status and the reason of a failure."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        wanted = {"input": row.entry["input"], "expected": row.entry["expected"]}
        if row.who == OURS:
            wanted["library"] = row.contender["library"]
        else:
            wanted.update(graph=row.entry["graph"], weights=row.entry["weights"])
        files = unpacked(pack, wanted, scratch / "unpacked")
        tolerance = pack.manifest["tolerances"][row.contender["arithmetic"]]
        try:
            if row.who == OURS:
                told = measure_ours(program, files, row, tolerance, sampling, seconds, folder, gpu)
            else:
                told = measure_peer(
                    given.python, ROOT, files, row, tolerance, sampling, given.device, seconds, folder, gpu
                )
        except Failure as failure:
            return {"status": failure.status, "reason": str(failure), "log": failure.log}
        except Exception as error:  # of whatever kind: it costs this row, and the next one begins
            return {"status": "failed", "reason": f"{type(error).__name__}: {error}"}
        return {"status": "measured", **told}


def unpacked(pack: Pack, wanted: dict[str, Any], folder: Path) -> dict[str, Path]:
    """Unpack members into a folder that keeps those of the last call; return their files.

    Raises
    ------
    Stop
        One does not unpack to what was packed.
    """
    folder.mkdir(exist_ok=True)
    kept = {entry["sha256"] for entry in wanted.values()}
    for file in folder.iterdir():
        if file.name not in kept:
            file.unlink()
    files = {key: folder / entry["sha256"] for key, entry in wanted.items()}
    for key, file in files.items():
        if not file.exists():
            pack.unpack(wanted[key], file)
    return files


def _note(row: Row, told: dict[str, Any]) -> None:
    if told["status"] != "measured":
        said = f"{told['status']}: {told['reason']}"
    else:
        said = f"{min(told['times_ms']):.4f} ms, error {told['error']:.1e}"
        said += f"; no profile: {told['profile_problem']}" if "profile_problem" in told else ""
    _say(f"{row.key}: {said}")


def _say(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="run.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=8.0, help="the run's deadline (default 8)")
    parser.add_argument("--out", type=Path, default=Path("results.json"), help="default results.json")
    parser.add_argument(
        "--python", default=sys.executable, help="a Python with the peers (default: this one)"
    )
    parser.add_argument("--samples", type=int, default=20, help="of each row (default 20)")
    parser.add_argument("--sample-ms", type=int, default=50, help="least time of a sample (default 50)")
    parser.add_argument("--row-seconds", type=float, help="deadline of each row (default 60 to 240)")
    parser.add_argument("--retry", action="store_true", help="measure rows again that failed")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="of PyTorch (default cuda)")
    parser.add_argument("--scratch", type=Path, help="folder for unpacked libraries (default: the system's)")
    return parser.parse_args(arguments)


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt
