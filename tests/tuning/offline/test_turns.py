"""Which candidates are taken first where not all fit."""

from __future__ import annotations

from dataclasses import dataclass, field

from toolchain.tuning.offline.packing import in_turns


@dataclass
class Folder:
    """Takes candidates, which are named by their task; their operands are files of given sizes."""

    room: int
    there: set[str] = field(default_factory=set)

    def filled(self, tasks: list[list[tuple[str, dict[str, int]]]]) -> list[str]:
        taken = []
        for name, files in in_turns(
            tasks, lambda each: self.needs(each[1]), lambda each: not self.needs(each[1])
        ):
            if (needs := self.needs(files)) <= self.room:
                self.room -= needs
                self.there |= set(files)
                taken.append(name)
        return taken

    def needs(self, files: dict[str, int]) -> int:
        return sum(size for name, size in files.items() if name not in self.there)


def test_a_task_with_large_operands_keeps_out_none_with_small_ones() -> None:
    large = [(f"large {n}", {f"a{n}": 9}) for n in range(3)]
    small = [(f"small {n}", {f"b{n}": 1}) for n in range(3)]
    assert Folder(12).filled([large, small]) == ["small 0", "large 0", "small 1", "small 2"]


def test_what_shares_operands_comes_before_what_brings_new_ones() -> None:
    first = [("a", {"x": 4}), ("b", {"y": 4}), ("c", {"x": 4}), ("d", {"x": 4})]
    second = [("e", {"z": 3}), ("f", {"z": 3})]
    assert Folder(7).filled([first, second]) == ["e", "a", "c", "f", "d"]


def test_all_fit_where_there_is_room() -> None:
    tasks = [[("a", {"x": 1}), ("b", {"y": 1})], [], [("c", {"z": 1})]]
    assert sorted(Folder(3).filled(tasks)) == ["a", "b", "c"]
    assert list(in_turns([], lambda _: 0, lambda _: True)) == []
