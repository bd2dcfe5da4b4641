"""Every state that a power cut could leave of a recorded run.

The model is weaker than what ext4 promises, and so on the safe side: of each file's writes since its last
fsync any tail may be lost, or be zeros; of each folder's changes since its last fsync any tail may be lost,
or any one, since a disk may write them in another order; files and folders are independent of each other. A
rename between folders is an addition in one and a removal in the other. At each moment one file or folder
loses something, or all but one do, or all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

Subject = tuple[str, int]
"""("file" or "folder", its number)."""
ROOT = 0


class Node(NamedTuple):
    """What a name stands for: a file, a folder (by numbers of the replay), or a link's target."""

    kind: str
    number: int = 0
    target: str = ""


@dataclass(frozen=True)
class Write:
    """Bytes written to a file, or its new size."""

    file: int
    at: int
    data: bytes | None


@dataclass(frozen=True)
class Entry:
    """One change of a folder: names with what they stand for from now on; None: nothing."""

    folder: int
    names: tuple[tuple[str, Node | None], ...]


@dataclass(frozen=True)
class Step:
    """A call of the program: its changes, or the fsync that it is; `said` is its line in the log."""

    said: dict[str, Any]
    changes: tuple[Write | Entry, ...] = ()
    synced: Subject | None = None


@dataclass
class Tree:
    """Folders and files by number."""

    folders: dict[int, dict[str, Node]] = field(default_factory=lambda: {ROOT: {}})
    files: dict[int, bytes] = field(default_factory=dict)

    def apply(self, change: Write | Entry, zeroed: bool = False) -> None:
        """Change it as the program did; `zeroed`: the bytes did not come, but the size did."""
        if isinstance(change, Entry):
            names = self.folders.setdefault(change.folder, {})
            for name, node in change.names:
                if node is None:
                    names.pop(name, None)
                else:
                    names[name] = node
            return
        content = self.files.get(change.file, b"")
        if change.data is None:
            self.files[change.file] = content[: change.at].ljust(change.at, b"\0")
            return
        data = bytes(len(change.data)) if zeroed else change.data
        content = content.ljust(change.at, b"\0")
        self.files[change.file] = content[: change.at] + data + content[change.at + len(data) :]

    def copy(self) -> Tree:
        """Return a tree that changes apart from this one."""
        return Tree({number: dict(names) for number, names in self.folders.items()}, dict(self.files))

    def picture(self, folder: int = ROOT) -> tuple[Any, ...]:
        """Return everything in it, to compare trees by."""
        return tuple(
            (name, node.target, self._content(node))
            for name, node in sorted(self.folders.get(folder, {}).items())
        )

    def _content(self, node: Node) -> Any:
        if node.kind == "folder":
            return self.picture(node.number)
        return self.files.get(node.number, b"") if node.kind == "file" else None

    def build(self, at: Path, folder: int = ROOT) -> None:
        """Write it to the disk, below a folder that is there; names of one file are links again."""
        self._build(at, folder, {})

    def _build(self, at: Path, folder: int, built: dict[int, Path]) -> None:
        for name, node in self.folders.get(folder, {}).items():
            path = at / name
            if node.kind == "folder":
                path.mkdir()
                self._build(path, node.number, built)
            elif node.kind == "link":
                path.symlink_to(node.target)
            elif node.number in built:
                path.hardlink_to(built[node.number])
            else:
                path.write_bytes(self.files.get(node.number, b""))
                built[node.number] = path


class Recording:
    """A run of a program on a folder, as the recorder wrote it."""

    def __init__(self, before: Path) -> None:
        """Look at the folder before the run."""
        self._fresh = 0
        self._files: dict[int, int] = {}  # inodes: the kernel gives them to new files again
        self.before = Tree()
        self._scan(before, ROOT)
        self.steps: list[Step] = []

    def read(self, log: Path) -> None:
        """Read what the program did."""
        now = self.before.copy()
        for line in log.read_text().splitlines():
            step = self._step(json.loads(line), now)
            for change in step.changes:
                now.apply(change)
            self.steps.append(step)

    def states(self) -> Iterator[tuple[int, str, Tree]]:
        """Yield how many calls there were before the cut, what was lost of them, and the folder after it."""
        for count in range(len(self.steps) + 1):
            pending = self._pending(count)
            everything = {subject: set(places) for subject, places in pending.items()}
            yield count, "nothing", self._tree(count, set())
            if not pending:
                continue
            yield count, "all", self._tree(count, set().union(*everything.values()))
            for subject, places in pending.items():
                for kept in range(len(places)):
                    yield count, f"{subject} after {kept}", self._tree(count, set(places[kept:]))
                    if subject[0] == "folder" and kept + 1 < len(places):
                        yield count, f"{subject} but {kept}", self._tree(count, {places[kept]})
                if subject[0] == "file":
                    yield count, f"zeros in {subject}", self._tree(count, set(), subject[1])
                if len(pending) > 1:
                    others = [lost for other, lost in everything.items() if other != subject]
                    yield count, f"all but {subject}", self._tree(count, set().union(*others))

    def _pending(self, count: int) -> dict[Subject, list[tuple[int, int]]]:
        """Return the places of the changes that no fsync has forced yet."""
        pending: dict[Subject, list[tuple[int, int]]] = {}
        for number, step in enumerate(self.steps[:count]):
            if step.synced is not None:
                pending.pop(step.synced, None)
            for place, change in enumerate(step.changes):
                subject = ("file", change.file) if isinstance(change, Write) else ("folder", change.folder)
                pending.setdefault(subject, []).append((number, place))
        return pending

    def _tree(self, count: int, lost: set[tuple[int, int]], zeroed: int | None = None) -> Tree:
        tree = self.before.copy()
        unsynced = set(self._pending(count).get(("file", zeroed), ())) if zeroed is not None else set()
        for number, step in enumerate(self.steps[:count]):
            for place, change in enumerate(step.changes):
                if (number, place) not in lost:
                    tree.apply(change, zeroed=(number, place) in unsynced)
        return tree

    def _scan(self, at: Path, folder: int) -> None:
        for path in sorted(at.iterdir()):
            if path.is_symlink():
                node = Node("link", target=str(path.readlink()))
            elif path.is_dir():
                node = Node("folder", self._number())
                self.before.folders[node.number] = {}
                self._scan(path, node.number)
            else:
                inode = path.stat().st_ino
                node = Node("file", self._files.setdefault(inode, self._number()))
                self.before.files[node.number] = path.read_bytes()
            self.before.folders[folder][path.name] = node

    def _number(self) -> int:
        self._fresh += 1
        return self._fresh

    def _step(self, said: dict[str, Any], now: Tree) -> Step:
        match said["op"]:
            case "write":
                data = bytes.fromhex(said["hex"])
                return Step(said, (Write(self._files[said["file"]], said["at"], data),))
            case "truncate":
                return Step(said, (Write(self._files[said["file"]], said["size"], None),))
            case "sync file":
                return Step(said, synced=("file", self._files[said["file"]]))
            case "sync folder":
                return Step(said, synced=("folder", _folder(now, said["path"])))
            case "rename":
                source, target = _place(now, said["path"]), _place(now, said["to"])
                node = now.folders[source[0]][source[1]]
                if now.folders[target[0]].get(target[1]) == node:
                    return Step(said)  # two names of one file: rename leaves both
                if source[0] == target[0]:
                    return Step(said, (Entry(source[0], ((source[1], None), (target[1], node))),))
                return Step(
                    said,
                    (Entry(target[0], ((target[1], node),)), Entry(source[0], ((source[1], None),))),
                )
            case "link":
                source, target = _place(now, said["path"]), _place(now, said["to"])
                return Step(said, (Entry(target[0], ((target[1], now.folders[source[0]][source[1]]),)),))
            case "remove":
                folder, name = _place(now, said["path"])
                return Step(said, (Entry(folder, ((name, None),)),))
            case "symlink":
                node = Node("link", target=said["to"])
            case "folder":
                node = Node("folder", self._number())
            case "create":
                self._files[said["file"]] = self._number()
                node = Node("file", self._files[said["file"]])
            case other:
                raise AssertionError(other)
        folder, name = _place(now, said["path"])
        return Step(said, (Entry(folder, ((name, node),)),))


def _folder(tree: Tree, path: str) -> int:
    number = ROOT
    for name in Path(path).parts:
        number = tree.folders[number][name].number
    return number


def _place(tree: Tree, path: str) -> tuple[int, str]:
    return _folder(tree, str(Path(path).parent)), Path(path).name
