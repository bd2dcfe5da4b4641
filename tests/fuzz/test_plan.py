"""The plan of a folder of candidates, which `edge-rt measure` reads: refused in a sentence, or taken.

What is tried: plans of any candidates in which words, lines and bytes are changed, most with the digest that
belongs to them. Whether one is taken is compared with the grammar of native/src/offline/plan.h, written down
here a second time. No candidate is measured: no time is left for one. It runs the sanitized edge-rt where
EDGE_RT names it, as `make fuzz` does.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from math import prod
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import rpc_frames as rpc
from tests.fuzz.loop import Attempt, run
from tests.fuzz.sanitized import OPTIONS
from tests.waiting import PATIENCE_S
from toolchain.host import host_profile
from toolchain.runtime import arch_of, ensure_runtime
from toolchain.runtime.fingerprint import expected_fingerprint

pytestmark = pytest.mark.slow  # edge-rt may have to be compiled

USAGE, REQUIRES = 2, 5
FILES = (b"a library", b"", bytes(1000))
MEMBERS = {sha256(data).hexdigest(): data for data in FILES}
CHANGED, MISSING = (sha256(name).hexdigest() for name in (b"changed", b"missing"))
WORDS = (
    "-",
    "",
    "x",
    "0",
    "-1",
    "1e9",
    "nan",
    "0.5",
    "main_0",
    "a b",
    "é",
    "\0",
    "9" * 30,
    "w" * 100,
    "w" * 101,
)
SHAPES = (
    "-",
    "4",
    "1x3x8x8",
    "x4",
    "4x",
    "4xx4",
    "-1",
    "9223372036854775808",
    "x".join("1" * 17),
    "0",
    "4x+4",
)
STEPS = (
    "-",
    "r192",
    "t0x2x1",
    "p0x0x1x0x0x4",
    "r1x3x8x8,t1x0x3x2",
    "r24x8,t1x0,p0x0x0x8,r8x32",
    "m1x2" + "x-1x3" * 8 + "x1x1" * 16 + ",t2x0x1",
    "r",
    "t0x1",
    "t0x0x1",
    "p0x-1",
    "r192,",
    ",r192",
    "q1",
    "r0x9",
    "p0x0x0x0x0x9223372036854775807",
    "p268435456x0x0x0x0x0,r192",
    "m1x1",
    "m0x1" + "x1" * 16,
    "m1x1" + "x1x0" * 16,
    "m1x1" + "x1x1" * 16 + "x1",
    "m-1x2" + "x1x1" * 8,
    "r192,m1x1x1x1x1x1",
    "m9223372036854775807x1" + "x1x1" * 8,
    "r192x1x1,p0x67108864x0x0x0x0,m1x8" + "x1x1" * 9,
    "w" * 2001,
    "r" + "x".join("1" * 17),
)
MOST_MEMBER, MOST_TOTAL, MOST_OPERAND = 1 << 30, 4 << 30, 1 << 30


def any_plan(random: Random) -> list[list[str]]:
    """Return the words of a plan that is right, but for what `some` leaves out."""
    lines = [["edge-toolchain-plan", "3"], ["runtime", expected_fingerprint()]]
    lines += [["compute", "cpu", "2", random.choice(("-", "little")), "-"], ["samples", "1", "2", "20"]]
    lines += [["member", digest, str(len(data))] for digest, data in MEMBERS.items()]
    count = random.choice((1, 1, 2, 3))
    for place in range(count):
        word = "probe" if place == 0 and random.random() < 0.2 else "candidate"
        own = sha256(b"%d" % place).hexdigest()
        lines.append([word, own, f"c:{place}", "20.000", any_member(random), "main_0", "cpu"])
        for _ in range(some(random)):
            lines.append(["case"])
            lines += [any_operand(random) for _ in range(random.randrange(3))]
            for _ in range(some(random)):
                shape = random.choice(SHAPES[:3])
                expected = "-" if random.random() < 0.1 else any_member(random)
                lines.append(["output", "float32", shape, expected, "0.001", "0"])
    return [*lines, ["end", str(count)]]


def some(random: Random) -> int:
    """Return how many cases or outputs there are: now and then none, which is wrong."""
    return 0 if random.random() < 0.05 else random.choice((1, 1, 2))


def any_member(random: Random) -> str:
    return random.choice(list(MEMBERS))


def any_operand(random: Random) -> list[str]:
    """Return an input that is stored or drawn."""
    if random.random() < 0.3:
        return ["stored", any_member(random), random.choice(STEPS)]
    steps = random.choice(STEPS if random.random() < 0.1 else STEPS[:7])
    dtype, seed = random.choice(("float32", "float16")), str(random.choice((0, 7, 1 << 48)))
    return ["drawn", dtype, "3x8x8", seed, str(random.randrange(-16, 9)), random.choice("01"), steps]


def change(random: Random, lines: list[list[str]]) -> None:
    """Make something of a plan other than it should be, or than it was."""
    place = random.randrange(len(lines))
    line = lines[place]
    if not line:  # all of its words are gone
        return
    at = random.randrange(len(line))
    match random.randrange(9):
        case 0:
            line[at] = random.choice(WORDS)
        case 8:
            line[-1] = random.choice(STEPS)
        case 1:
            line[at] = str(random.choice((*rpc.LIMITS, -1, 1001, 1025)))
        case 2:
            line[at] = random.choice(SHAPES)
        case 3:
            line[at] = random.choice((CHANGED, MISSING, *MEMBERS, "0" * 63, "G" * 64))
        case 4:
            line.insert(at, random.choice(WORDS))
        case 5:
            del line[at]
        case 6:
            del lines[place]
        case _:
            lines.insert(random.randrange(len(lines) + 1), list(random.choice(lines)))


def sealed(content: bytes) -> bytes:
    return content + b"digest " + sha256(content).hexdigest().encode() + b"\n"


def any_text(random: Random) -> bytes:
    """Return a plan that is right, or wrong in one or more ways."""
    lines = any_plan(random)
    for _ in range(random.choice((0, 1, 1, 1, 2, 5))):
        if lines:
            change(random, lines)
    content = "".join(" ".join(line) + "\n" for line in lines).encode()
    match random.randrange(20):
        case 0:
            return content + random.choice((b"", b"digest ", b"digest 0\n"))
        case 1:
            return rpc.mutated(random, sealed(content))
        case 2:
            return sealed(rpc.mutated(random, content))
        case 3:
            return sealed(content) + random.choice((b"\n", b"more\n", b"digest x\n"))
        case _:
            return sealed(content)


class WrongPlanError(Exception):
    """The grammar has no such plan."""


def whole_number(word: str, least: int, most: int) -> int:
    if not re.fullmatch(r"-?\d{1,100}", word) or not least <= int(word) <= most:
        raise WrongPlanError(word)
    return int(word)


def real(word: str, most: float) -> None:
    if len(word) > 100 or not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", word):
        raise WrongPlanError(word)
    if not 0 <= float(word) <= most:
        raise WrongPlanError(word)


def shape(text: str) -> None:
    if text != "-":
        for extent in text.split("x"):
            whole_number(extent, 0, 2**63 - 1)
        if text.count("x") > 15 or len(text) > 400:
            raise WrongPlanError(text)


def packed(extents: list[int], steps: str, width: int) -> int:
    """Return how many numbers an array has once it is packed by steps."""
    count(extents, width)
    for step in [] if steps == "-" else steps.split(","):
        if not re.fullmatch(r"[mprt]-?\d+(x-?\d+)*", step):
            raise WrongPlanError(step)
        least = -(2**63) if step[0] == "m" else 0
        numbers = [whole_number(number, least, 2**63 - 1) for number in step[1:].split("x")]
        match step[0]:
            case "m" if width == 4 and len(extents) > 1 and transforms(numbers, *extents[-2:]):
                extents = [*extents[:-2], *numbers[:2]]
            case "r" if count(numbers, width) == count(extents, width):
                extents = numbers
            case "t" if sorted(numbers) == list(range(len(extents))):
                extents = [extents[axis] for axis in numbers]
            case "p" if len(numbers) == 2 * len(extents):
                extents = [extents[at] + numbers[2 * at] + numbers[2 * at + 1] for at in range(len(extents))]
            case _:
                raise WrongPlanError(step)
        count(extents, width)
    return count(extents, width)


def transforms(numbers: list[int], high: int, wide: int) -> bool:
    """Return whether these are the numbers of a transform of matrices of this size."""
    if len(numbers) < 2 or min(numbers[:2]) < 1:
        return False
    entries = numbers[0] * high + numbers[1] * wide
    return len(numbers) == 2 + 2 * entries and min(numbers[3::2]) > 0


def count(extents: list[int], width: int) -> int:
    """Return how many numbers an array has, which is never empty."""
    if len(extents) > 16 or not 0 < prod(extents) <= MOST_OPERAND // width:
        raise WrongPlanError("an operand")
    return prod(extents)


class Grammar:
    """Takes a plan line by line, as the comment of plan.h has them."""

    def __init__(self, data: bytes) -> None:
        content, _, digest = data.rpartition(b"\ndigest ")
        if not content or digest != sha256(content + b"\n").hexdigest().encode() + b"\n":
            raise WrongPlanError("digest")
        try:
            self._lines = content.decode("ascii").split("\n")
        except UnicodeDecodeError:
            raise WrongPlanError("no ASCII") from None
        self._members, self._candidates, self._total = set[str](), list[str](), 0

    def check(self) -> None:
        if self._lines.pop(0) != "edge-toolchain-plan 3":
            raise WrongPlanError("version")
        if self.words("runtime", 1) != [expected_fingerprint()]:
            raise WrongPlanError("runtime")
        device, threads, cluster, _requirements = self.words("compute", 4, last=4000)
        self.short(device, cluster)
        whole_number(threads, 1, 1024)
        number, repeat, least_ms = self.words("samples", 3)
        for word, least, most in ((number, 1, 1 << 20), (repeat, 1, 1000), (least_ms, 0, 1 << 20)):
            whole_number(word, least, most)
        while self.is_next("member"):
            self.member(*self.words("member", 2))
        while self.is_next("candidate") or self.is_next("probe"):
            self.candidate()
        (count,) = self.words("end", 1)
        if whole_number(count, 1, 1 << 20) != len(self._candidates) or self._lines:
            raise WrongPlanError("end")

    def is_next(self, word: str) -> bool:
        return bool(self._lines) and self._lines[0].split(" ")[0] == word

    def words(self, word: str, count: int, last: int = 100) -> list[str]:
        line = self._lines.pop(0) if self._lines else ""
        first, *rest = line.split(" ")
        if not re.fullmatch(r"[!-~]+( [!-~]+)*", line) or first != word or len(rest) != count:
            raise WrongPlanError(line)
        self.short(*rest[:-1])
        if rest and len(rest[-1]) > last:
            raise WrongPlanError(line)
        return rest

    def short(self, *words: str) -> None:
        if any(len(word) > 400 for word in words):  # shapes; what a word is taken for says the rest
            raise WrongPlanError("a long word")

    def member(self, digest: str, size: str) -> None:
        length = whole_number(size, 0, MOST_MEMBER)
        self._total += length
        if digest in self._members or digest not in MEMBERS or length < len(MEMBERS[digest]):
            raise WrongPlanError(digest)
        if self._total > MOST_TOTAL:
            raise WrongPlanError(size)
        self._members.add(digest)

    def drawn(self, dtype: str, extents: str, seed: str, exponent: str, edges: str, steps: str) -> int:
        """Return how many bytes a drawn operand has."""
        width = {"float32": 4, "float16": 2}.get(dtype, 0)
        if not width:
            raise WrongPlanError(dtype)
        shape(extents)
        whole_number(seed, 0, 1 << 48)
        whole_number(exponent, -16, 8)
        whole_number(edges, 0, 1)
        return width * packed(
            [] if extents == "-" else [int(each) for each in extents.split("x")], steps, width
        )

    def known(self, digest: str) -> None:
        if digest not in self._members:
            raise WrongPlanError(digest)

    def candidate(self) -> None:
        probe = self.is_next("probe")
        digest, name, seconds, library, function, memory = self.words("probe" if probe else "candidate", 6)
        if not re.fullmatch("[0-9a-f]{64}", digest) or digest in self._candidates:
            raise WrongPlanError(digest)
        if (probe and self._candidates) or max(map(len, (name, function, memory))) > 100:
            raise WrongPlanError("probe")
        real(seconds, 86400)
        self.known(library)
        self._candidates.append(digest)
        cases = 0
        while self.is_next("case"):
            self.words("case", 0)
            cases += 1
            self.case()
        if not cases:
            raise WrongPlanError("no case")

    def case(self) -> None:
        drawn = 0
        while self.is_next("stored") or self.is_next("drawn"):
            if self.is_next("stored"):
                self.known(self.words("stored", 2, last=2000)[0])
            else:
                drawn += self.drawn(*self.words("drawn", 6, last=2000))
        if drawn > MOST_TOTAL:
            raise WrongPlanError("large operands")
        outputs = 0
        while self.is_next("output"):
            dtype, extents, expected, tolerance, halves = self.words("output", 5)
            if len(dtype) > 100:
                raise WrongPlanError(dtype)
            shape(extents)
            if expected != "-":
                self.known(expected)
            real(tolerance, 1)
            real(halves, 1)
            outputs += 1
        if not outputs:
            raise WrongPlanError("no output")


def is_right(data: bytes) -> bool:
    try:
        Grammar(data).check()
    except WrongPlanError:
        return False
    return True


@contextmanager
def harness() -> Iterator[Attempt]:
    """Yield what gives edge-rt one plan."""
    program = os.environ.get("EDGE_RT") or str(ensure_runtime(arch_of(host_profile())).program)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "candidates"
        (folder / "members").mkdir(parents=True)
        for digest, data in MEMBERS.items():
            (folder / "members" / digest).write_bytes(data)
        (folder / "members" / CHANGED).write_bytes(b"other")
        argv = [program, "measure", folder, "--time", "0", "--state", Path(name) / "state"]

        def attempt(random: Random) -> None:
            data = any_text(random)
            (folder / "plan").write_bytes(data)
            (folder / "results").unlink(missing_ok=True)
            done = subprocess.run(
                argv, capture_output=True, timeout=PATIENCE_S, env={**os.environ, **OPTIONS}, check=False
            )
            said = done.stderr.decode(errors="replace")
            assert done.returncode >= 0, f"it ended with {done.returncode}: {said}"
            assert "runtime error" not in said and "Sanitizer" not in said, said
            answer = json.loads(done.stdout)
            error = answer.get("error", {"kind": "", "message": ""})
            assert error["message"].isprintable() and len(error["message"]) < 600, f"not for people: {error}"
            taken = done.returncode in (0, REQUIRES) or error["kind"] == "probe"
            assert taken or (done.returncode, error["kind"]) == (USAGE, "folder"), answer
            assert taken == is_right(data), (answer, data)

        yield attempt


def test_hundreds_of_plans_are_refused_or_taken() -> None:
    run("plan", harness, seed=20281, cases=300)
