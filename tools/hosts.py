"""Tries the README's commands on other systems, in containers made from Debian's packages.

    python -m tools.hosts                     # every system of the table: clone, wheel and day
    python -m tools.hosts trixie --ways day   # one of each
    python -m tools.hosts --ways test         # the whole suite, for most of an hour a system
    python -m tools.hosts --check             # fails if a system was not tried for 90 days

Results go to docs/hosts.json and docs/hosts.md. Needs Docker, mmdebstrap and root, and for the ways `wheel`
and `day` what `make release` leaves in dist/. The output of each try is kept in build/hosts. The containers
have Docker engines of their own, and for that nearly all rights of this machine's root.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.latency.document import write
from toolchain.configuration.settings import configuration
from toolchain.files.atomic import write_text
from toolchain.images.debian.unpacking import debian_mirror, unpack

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "hosts.json"
PAGE = TABLE.with_suffix(".md")
LOGS = ROOT / "build" / "hosts"
SUITES = ("bookworm", "trixie", "testing")
VARIANT = "important"  # what Debian's installer leaves without any of its choices
PACKAGES = ("ca-certificates", "git", "make", "python3", "python3-venv")  # what the README supposes
DAYS = 90
_WAYS = "clone,wheel,day"  # those that take minutes
_LIMIT_S = 7200.0
_IMPORT_S = 600.0
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_PYTHON = 'python3 -c "import platform; print(platform.python_version())"'
_SYSTEM = f'. /etc/os-release; echo "$PRETTY_NAME|$({_PYTHON})"'
_NESTED = (  # an engine can run in it: `--privileged`, where this root may lack a right itself
    *("--cap-add=ALL", "--cap-drop=SYS_RESOURCE", "--device-cgroup-rule=a *:* rwm"),
    *(f"--security-opt={each}=unconfined" for each in ("seccomp", "apparmor", "systempaths")),
    *("--volume=/var/lib/docker", "--volume=/sys/fs/cgroup:/sys/fs/cgroup"),
    # What every machine has: ::1, and memory as files, from which programs may run.
    *("--sysctl=net.ipv6.conf.all.disable_ipv6=0", "--tmpfs=/dev/shm:rw,nosuid,nodev,exec,size=2g"),
)
_TYPED = {
    "clone": "`make demo` in a clone",
    "wheel": "`pip install` of the wheel, `toolchain demo`",
    "day": "[the first day](tutorials/first-day.md), with the wheel",
    "test": "`make test` in a clone",
}
WAYS = {
    "clone": "git clone -q /source clone && cd clone && make demo",
    "wheel": "python3 -m venv v && v/bin/pip install -q /source/dist/*.whl && v/bin/toolchain demo",
    "day": "tar xf /source/dist/edge_toolchain-*.tar.gz && cd edge_toolchain-* && tools/deps.sh"
    " && python3 -m venv v && v/bin/pip install -q /source/dist/*.whl"
    " && v/bin/python docs/walk.py docs/tutorials/first-day.md",
    "test": "git clone -q /source clone && cd clone && make test",
}
"""What is typed in each way, in an empty home folder."""


@dataclass(frozen=True)
class Tried:
    """One try.

    Attributes
    ----------
    system
        What the system calls itself, such as `Debian GNU/Linux 13 (trixie)`.
    way
        A key of `WAYS`.
    last
        The last line that was printed, if it failed.
    """

    suite: str
    architecture: str
    way: str
    system: str
    python: str
    date: str
    commit: str
    seconds: int
    passed: bool
    last: str = ""


def image_of(suite: str, architecture: str, *, expired: bool) -> str:
    """Make an image of a system from packages, unless the engine has it from today; return its name.

    Parameters
    ----------
    expired
        Whether the mirror's lists may be older than they say, as those of a copy are that is not renewed.
    """
    name = f"edge-toolchain-host:{suite}-{architecture}-{datetime.date.today():%Y%m%d}"
    if not subprocess.run(["docker", "image", "inspect", name], capture_output=True).returncode:
        return name
    options = ['Acquire::Check-Valid-Until "false"'] if expired else []
    load = ["docker", "import", "-", name]
    with unpack(suite, architecture, PACKAGES, LOGS / f"{suite}.log", VARIANT, options) as system:
        subprocess.run(load, stdin=system, stdout=subprocess.DEVNULL, check=True, timeout=_IMPORT_S)
    return name


def attempt(suite: str, architecture: str, way: str, *, expired: bool) -> Tried:
    """Type a way's commands in a new container, and remove it."""
    LOGS.mkdir(parents=True, exist_ok=True)  # also where the image is of an earlier checkout
    image = image_of(suite, architecture, expired=expired)
    name = f"edge-host-{suite}-{way}-{os.getpid()}"
    run = ["docker", "run", "--rm", "--init", "--name", name, *_NESTED, f"--volume={ROOT}:/source:ro"]
    run += [f"--volume={_CERTIFICATES}:{_CERTIFICATES}:ro", f"--env=PIP_CERT={_CERTIFICATES}"]
    run += ["--env=HOME=/home/user", "--workdir=/home/user", image]
    own = "git config --global --add safe.directory '*'"
    system, python = _printed([*run, "sh", "-c", _SYSTEM]).split("|")
    commit = _printed(["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"])
    log = LOGS / f"{suite}-{architecture}-{way}.log"
    begun = time.monotonic()
    with log.open("wb") as said:
        try:
            done = subprocess.run(
                [*run, "bash", "-c", f"{own} && {WAYS[way]}"], stdout=said, stderr=said, timeout=_LIMIT_S
            )
            passed = done.returncode == 0
        except subprocess.TimeoutExpired:
            passed = False
        finally:
            subprocess.run(["docker", "rm", "--force", "--volumes", name], capture_output=True, check=False)
    lines = log.read_text(errors="replace").strip().splitlines()
    seconds, today = round(time.monotonic() - begun), datetime.date.today().isoformat()
    last = "" if passed or not lines else lines[-1][-200:]
    return Tried(suite, architecture, way, system, python, today, commit, seconds, passed, last)


def _printed(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return done.stdout.strip()


def tried() -> list[Tried]:
    """Return what the table has."""
    return [Tried(**row) for row in json.loads(TABLE.read_text())] if TABLE.exists() else []


def keep(new: Tried) -> None:
    """Put a try into the table, in place of an earlier one of the same kind."""
    rows = {(row.suite, row.architecture, row.way): row for row in [*tried(), new]}
    order = sorted(rows, key=lambda key: (SUITES.index(key[0]), key[1:]))
    write_text(TABLE, json.dumps([asdict(rows[key]) for key in order], indent=1) + "\n")
    write(PAGE, {"tries": as_table(rows[key] for key in order)}, "tools/hosts.py")


def as_table(rows: Iterable[Tried]) -> str:
    """Return tries as a table of the page."""
    lines = [
        f"| {row.system} | {row.architecture} | {row.python} | {_TYPED[row.way]} "
        f"| {'passed' if row.passed else 'failed'} | {row.date}, {row.commit} "
        f"| {row.seconds // 60} min {row.seconds % 60} s |"
        for row in rows
    ]
    head = "| system | architecture | Python | typed | | on, at commit | took |"
    return "\n".join([head, "|---|---|---|---|---|---|---|", *lines])


def stale(today: datetime.date) -> list[str]:
    """Return what was not tried for too long, or failed."""
    found = {(row.suite, row.way): row for row in tried() if row.architecture == "amd64"}
    said = []
    for suite in SUITES:
        for way in WAYS:
            row = found.get((suite, way))
            if row is None:
                said.append(f"{suite}, {way}: not tried")
            elif not row.passed:
                said.append(f"{suite}, {way}: failed on {row.date}")
            elif (today - datetime.date.fromisoformat(row.date)).days > DAYS:
                said.append(f"{suite}, {way}: tried on {row.date}, more than {DAYS} days ago")
    return said


def main() -> None:
    """Try what the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], metavar="SUITE")
    parser.add_argument("--ways", default=_WAYS, help=f"of {','.join(WAYS)} (default {_WAYS})")
    parser.add_argument("--architecture", default="amd64", help="Debian's name, such as arm64, under qemu")
    parser.add_argument("--expired", action="store_true", help="take a mirror whose lists are out of date")
    parser.add_argument("--check", action="store_true", help="try nothing: fail if the table is out of date")
    given = parser.parse_args()
    if given.check:
        if said := stale(datetime.date.today()):
            sys.exit("hosts: " + "; ".join(said) + "; type: python -m tools.hosts")
        return
    os.environ["TOOLCHAIN_DEBIAN_MIRROR"] = debian_mirror()  # it has the other suites, too
    configuration.cache_clear()
    failed = []
    for suite in given.suites or SUITES:
        for way in given.ways.split(","):
            row = attempt(suite, given.architecture, way, expired=given.expired)
            keep(row)
            outcome = "passed" if row.passed else f"failed: {row.last}"
            print(f"{row.system}, Python {row.python}, {way}: {outcome}, {row.seconds} s", flush=True)
            failed += [] if row.passed else [f"{suite} {way}"]
    if failed:
        sys.exit(f"hosts: failed: {', '.join(failed)}; see {LOGS}")


if __name__ == "__main__":
    main()
