"""Plans the steps a board still needs from its facts and the options; does none of them."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from toolchain.boards.edge_rt.install import KEEP_PROGRAMS, surplus
from toolchain.boards.provisioning.facts import RECORD, Clock, Facts
from toolchain.boards.provisioning.units import Service
from toolchain.boards.transport import RemoteFile

# Every script gets its values as arguments: no value is pasted into shell text.
# The new link is moved into the folder of the old one: busybox before 1.32 has no `mv -T`, and without it a
# link to a folder would be moved into that folder.
_LINK = """case $2 in */*) in=${2%/*};; *) in=.;; esac
name=${2##*/} new=$in/.${2##*/}.$$
trap 'rm -rf -- "$new"' EXIT
trap 'exit 1' HUP INT TERM PIPE
mkdir -- "$new" && ln -s -- "$1" "$new/$name" && mv -f -- "$new/$name" "$in/"
"""
# $1: who owns it; $2: the folder. busybox may have no `install`.
_OWN_FOLDER = 'mkdir -p -m 700 -- "$2" && chown -- "$1" "$2"'
_GOVERNOR = 'g=$1; shift; for f; do echo "$g" > "$f" || exit; done'
_RMDIR = 'cd / && rmdir -- "$1" 2>/dev/null || true'
# The installer of releases reads this file (NotedClass in native/src/field/policy.cc), and takes none that
# others may write to.
_NOTE_CLASS = """umask 077
printf '%s' "$1" >field/.board.json.new && mv -f field/.board.json.new field/.board.json
"""
# The comment in /etc/passwd marks an account of ours, and says whether its creation was interrupted.
ACCOUNT_COMMENT = "edge-toolchain"
_ACCOUNT = f"""set -e
PATH=$PATH:/usr/sbin:/sbin
grep -q "^$1:" /etc/passwd || useradd -m -s /bin/sh -p '*' -c '{ACCOUNT_COMMENT} unfinished' "$1"
home=$(grep "^$1:" /etc/passwd | cut -d: -f6)
install -d -m 0700 -o "$1" "$home/.ssh"
install -m 0600 -o "$1" "$2" "$home/.ssh/authorized_keys"
usermod -c '{ACCOUNT_COMMENT}' "$1"
"""
_NO_ACCOUNT = """PATH=$PATH:/usr/sbin:/sbin
if command -v pkill >/dev/null; then pkill -KILL -u "$1"; fi
userdel -r "$1" 2>/dev/null
! grep -q "^$1:" /etc/passwd
"""
# Finds edge-rt and its children: by the executable's path, or by working folder and command line where a
# user-mode emulator hides the path. A user's own shell in the folder is left alone.
_STOP = """root=$1
ours() {
  for p in /proc/[0-9]*; do
    case $(readlink "$p/exe" 2>/dev/null) in "$root"/*) echo "${p#/proc/}"; continue;; esac
    [ "$(readlink "$p/cwd" 2>/dev/null)" = "$root" ] || continue
    if tr '\\0' '\\n' 2>/dev/null < "$p/cmdline" | grep -q '^[^ ]*bin/edge-rt-[0-9a-f]*$'; then
      echo "${p#/proc/}"
    fi
  done
}
for n in 1 2 3 4 5 6; do
  pids=$(ours)
  [ -n "$pids" ] || exit 0
  if [ $n -lt 4 ]; then kill $pids; else kill -9 $pids; fi 2>/dev/null
  sleep 0.5 2>/dev/null || sleep 1
done
echo "still running: $pids" >&2
exit 1
"""


@dataclass(frozen=True)
class SetupOptions:
    """Options of provisioning: what a board gets beyond `edge-rt`.

    Attributes
    ----------
    governor, gpu_governor
        Governors to set for the clocks of the CPU and of the GPU; None leaves them alone.
    account
        Account to create for the toolchain alone, with the login's keys; None uses the login itself.
    sdk
        Also install the library and the header for a user's own programs.
    ignore_clock
        Accept a board whose clock is wrong by more than a day.
    spare_mib
        Room for networks that has to be left in the folder, in MiB.
    service
        The user's program to run by systemd; None leaves services alone.
    """

    governor: str | None = None
    account: str | None = None
    sdk: bool = False
    ignore_clock: bool = False
    gpu_governor: str | None = None
    service: Service | None = None
    spare_mib: int = 0

    def governor_of(self, clock: Clock) -> str | None:
        """Return the requested governor of a clock."""
        return self.governor if clock.unit == "CPU" else self.gpu_governor


@dataclass(frozen=True)
class Cargo:
    """A file to upload, to a path that names its content; `size` in bytes, None before it is compiled."""

    remote: str
    content: Path
    size: int | None
    executable: bool = False


@dataclass(frozen=True)
class Parcel:
    """Files that belong together, and the link `link` that points to the version in use, `target`.

    `fingerprint` is that of the first file, if it is a program that reports it.
    """

    title: str
    files: tuple[Cargo, ...]
    link: str
    target: str
    fingerprint: str | None = None

    def missing(self, facts: Facts) -> list[Cargo]:
        """Return the files to send; a file with the right name and size is complete."""
        files = facts.files
        return [c for c in self.files if c.remote not in files or c.size not in (None, files[c.remote].size)]


@dataclass(frozen=True)
class RunCommand:
    """Run a command on the board, given as its words."""

    argv: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.argv)


@dataclass(frozen=True)
class Put:
    """Write a file on the board."""

    content: Path | bytes
    remote: str
    executable: bool = False

    def __str__(self) -> str:
        return f"put {self.remote}"


@dataclass(frozen=True)
class Remove:
    """Remove a file or a folder on the board."""

    remote: str

    def __str__(self) -> str:
        return f"rm -r {self.remote}"


@dataclass(frozen=True)
class BoardStep:
    """An action on a board, with a title to show."""

    title: str
    action: RunCommand | Put | Remove
    needs_root: bool = False
    outside: bool = False  # run at the login's home: the installation's folder may not exist yet


def folder_steps(facts: Facts) -> list[BoardStep]:
    """Return the steps that create the installation's folder or make it private, if needed."""
    if facts.mode == "700":
        return []
    if facts.mode:
        return [BoardStep(f"make {facts.root} private", RunCommand(("chmod", "700", ".")))]
    if facts.writable:
        make = RunCommand(("mkdir", "-p", "-m", "700", "--", facts.root))
        return [BoardStep(f"make the folder {facts.root}", make, outside=True)]
    make = RunCommand(("sh", "-c", _OWN_FOLDER, "sh", facts.user, facts.root))
    return [BoardStep(f"make the folder {facts.root} for {facts.user}", make, needs_root=True, outside=True)]


def install_steps(facts: Facts, parcels: tuple[Parcel, ...]) -> list[BoardStep]:
    """Return the missing steps of the installation.

    Old versions are removed first, so that the new one needs no more room than they had; a version that a
    link still points to is removed after the switch.
    """
    unused = unused_versions(facts, parcels)
    steps = [BoardStep(f"remove the old {path}", Remove(path)) for path in unused]
    for parcel in parcels:
        for cargo in parcel.missing(facts):
            size = "compiled first" if cargo.size is None else f"{cargo.size / 2**20:.1f} MiB"
            title = f"send {parcel.title}: {cargo.remote} ({size})"
            steps.append(BoardStep(title, Put(cargo.content, cargo.remote, cargo.executable)))
        if facts.links.get(parcel.link) != parcel.target:
            # A rename is atomic: a program started through the link is the old version or the new one.
            link = RunCommand(("sh", "-c", _LINK, "sh", parcel.target, parcel.link))
            steps.append(BoardStep(f"switch {parcel.link} to {parcel.target}", link))
    linked = [path for path in _surplus(facts, parcels) if path not in unused]
    steps += [BoardStep(f"remove the old {path}", Remove(path)) for path in linked]
    return steps


def unused_versions(facts: Facts, parcels: tuple[Parcel, ...]) -> list[str]:
    """Return the paths of old versions that no link points to and that need not be kept."""
    targets = {str(PurePosixPath(link).parent / target) for link, target in facts.links.items()}
    return [path for path in _surplus(facts, parcels) if path not in targets]


def unused_bytes(facts: Facts, parcels: tuple[Parcel, ...]) -> int:
    """Return how many bytes are free once the unused versions are removed."""
    folders = [PurePosixPath(path) for path in unused_versions(facts, parcels)]
    return sum(
        file.size
        for path, file in facts.files.items()
        if any(folder in (PurePosixPath(path), *PurePosixPath(path).parents) for folder in folders)
    )


def class_steps(facts: Facts, board_class: str) -> list[BoardStep]:
    """Return the step that notes the class of a board with releases, if it is not noted."""
    if facts.noted_class in (None, _class_note(board_class)):
        return []
    return [note_class(board_class)]


def note_class(board_class: str) -> BoardStep:
    """Return the step that notes the board's class in the folder of its releases."""
    note = RunCommand(("sh", "-c", _NOTE_CLASS, "sh", _class_note(board_class)))
    return BoardStep(f"note its class, {board_class}, for releases that come as a file", note)


def _class_note(board_class: str) -> str:
    return json.dumps({"class": board_class})


def removal_steps(facts: Facts, account: str | None) -> list[BoardStep]:
    """Return the steps that undo provisioning.

    The note of settings to restore is removed last, so that an interrupted removal can continue.
    """
    steps = []
    if facts.entries:
        steps.append(
            BoardStep("stop the programs that run there", RunCommand(("sh", "-c", _STOP, "sh", facts.root)))
        )
    for governor in sorted(set(facts.record.governors.values())):
        before = {folder for folder, name in facts.record.governors.items() if name == governor}
        changed = [c for c in facts.clocks if c.folder in before and c.governor != governor]
        steps += _set_governor("restore", governor, changed)
    if account is not None and facts.account is not None:
        remove = RunCommand(("sh", "-c", _NO_ACCOUNT, "sh", account))
        title = f"remove the account {account} and its home folder"
        steps.append(BoardStep(title, remove, needs_root=True, outside=True))
    last = [RECORD] if RECORD in facts.entries else []
    names = [name for name in facts.entries if name != RECORD] + last
    steps += [BoardStep(f"remove {name}", Remove(name)) for name in names]
    if facts.mode:
        rmdir = RunCommand(("sh", "-c", _RMDIR, "sh", facts.root))
        steps.append(BoardStep(f"remove {facts.root} if nothing else is in it", rmdir, outside=True))
    return steps


def account_steps(facts: Facts, options: SetupOptions) -> list[BoardStep]:
    """Return the step that creates the requested account, if it is missing."""
    if options.account is None or options.account == facts.user or account_is_finished(facts):
        return []
    keys = f"{facts.home}/.ssh/authorized_keys"
    action = RunCommand(("sh", "-c", _ACCOUNT, "sh", options.account, keys))
    # Outside: the installation will be in the account's own home; this login may have no such folder.
    title = f"make the account {options.account}, with the login keys of {facts.user}"
    return [BoardStep(title, action, needs_root=True, outside=True)]


def account_comment(facts: Facts) -> str | None:
    """Return the comment in /etc/passwd of the account that was asked about; None if there is no account."""
    fields = (facts.account or "").split(":")
    return fields[4] if len(fields) == 7 else None  # passwd(5): seven fields, the fifth is the comment


def account_is_finished(facts: Facts) -> bool:
    """Return whether an earlier run created the account completely."""
    return account_comment(facts) == ACCOUNT_COMMENT


def governor_steps(facts: Facts, options: SetupOptions) -> list[BoardStep]:
    """Return the steps that set the requested governors where others are in force."""
    changing = [c for c in facts.clocks if options.governor_of(c) not in (None, c.governor)]
    if not changing:
        return []
    steps = []
    # --remove restores the governors that were in force before our first change.
    before = {c.folder: c.governor for c in changing} | facts.record.governors
    if before != facts.record.governors:
        record = facts.record.model_copy(update={"governors": before})
        content = json.dumps(record.model_dump(), sort_keys=True).encode() + b"\n"
        steps.append(BoardStep("note the governor in force, to restore it", Put(content, RECORD)))
    for governor in sorted({options.governor_of(c) or "" for c in changing}):
        steps += _set_governor("set", governor, [c for c in changing if options.governor_of(c) == governor])
    return steps


def _set_governor(verb: str, governor: str, clocks: list[Clock]) -> list[BoardStep]:
    steps = []
    for unit in ("CPU", "GPU"):
        files = [c.file for c in clocks if c.unit == unit]
        names = ", ".join(PurePosixPath(file).parent.name for file in files)
        title = f"{verb} the {unit} governor {governor} ({names})"
        if files:
            run = RunCommand(("sh", "-c", _GOVERNOR, "sh", governor, *files))
            steps.append(BoardStep(title, run, needs_root=True))
    return steps


def _surplus(facts: Facts, parcels: tuple[Parcel, ...]) -> list[str]:
    """Return the paths of versions that were not used recently enough to be kept."""
    old = []
    for parcel in parcels:
        version = PurePosixPath(parcel.link).parent / parcel.target
        folder = version.parent
        files: dict[str, RemoteFile] = {}
        for path, file in facts.files.items():
            if folder in PurePosixPath(path).parents:
                name = PurePosixPath(path).relative_to(folder).parts[0]
                files[name] = max(file, files.get(name, file), key=lambda f: f.changed)
        old += [str(folder / name) for name in surplus(files, version.name, KEEP_PROGRAMS)]
    return old
