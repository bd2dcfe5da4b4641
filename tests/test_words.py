"""How the package speaks: a class name has one meaning, and the first line of a docstring is plain.

docs/words.md has the nouns. A name in `SAME_CONCEPT` that is unique now fails the test.
"""

from __future__ import annotations

import ast
import gc
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolchain

PACKAGE = Path(toolchain.__file__).parent

SAME_CONCEPT = {
    "LayerCost": "the manifest stores the loss of a layer that models/quantising measures",
    "Modelled": "an answer of edge-rt and the model of the Mali: times without a clock",
    "Place": "an index, of a pixel and of a value in a dump",
    "Simulated": "an answer of edge-rt and the simulator: a run of VTA's model",
}
"""Class names that occur more than once for one concept, with the reason."""

RIDDLE = re.compile(
    r"^(Of|By|Whatever|Under)\b"  # a phrase that lacks its noun
    r"|^What\b"  # a clause in place of a noun
    r"|\bwhat there is\b|(?<!there )\b(is|are) none\b|\b(is|are) told\b|\bdone without\b"
    r"|\b(stands?|lies?)\b(?! for)|\bholds for\b|\blet go\b|\bso (many|much|long)\b"
    r"|\bwhere (it|that|this|there|none|nothing|nobody|they)\b",
    re.IGNORECASE,
)
BEGINS = re.compile(r"[A-Z0-9`]|(edge-rt|lld|zig|onnxruntime)\b")


def public_nodes(
    node: ast.Module | ast.ClassDef | ast.FunctionDef,
) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef]:
    yield node
    if not isinstance(node, ast.FunctionDef):
        for inner in node.body:
            if isinstance(inner, ast.ClassDef | ast.FunctionDef) and not inner.name.startswith("_"):
                yield from public_nodes(inner)


def problem_of(line: str) -> str | None:
    if found := RIDDLE.search(line):
        return f"{found[0]!r}: say who does what"
    if not BEGINS.match(line):
        return "it does not begin like a sentence"
    return None


def members(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> set[str]:
    """Return the names that a class and its bases of the package define or are given."""
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef | ast.arg):
            found.add(inner.name if isinstance(inner, ast.FunctionDef) else inner.arg)
        elif isinstance(inner, ast.Name | ast.Attribute) and isinstance(inner.ctx, ast.Store):
            found.add(inner.id if isinstance(inner, ast.Name) else inner.attr)
    bases = (ast.unparse(base).partition("[")[0] for base in node.bases)
    return found.union(*(members(classes[name], classes) for name in bases if name in classes))


def described(docstring: str) -> Iterator[str]:
    """Yield the names that sections Attributes and Parameters of a docstring describe."""
    for section in re.split(r"\n(?=\w+\n-+\n)", docstring):
        title, _, text = section.partition("\n")
        if title in ("Attributes", "Parameters"):
            for line in text.splitlines()[1:]:
                if line and not line.startswith(" "):
                    yield from line.split(", ")


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    gc.disable()  # nothing of a tree is garbage, and to look for some takes twice as long as parsing
    try:
        return {file: ast.parse(file.read_text()) for file in sorted(PACKAGE.rglob("*.py"))}
    finally:
        gc.enable()


def test_a_class_name_has_one_meaning(trees: dict[Path, ast.Module]) -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for file, tree in trees.items():
        for node in public_nodes(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(file.relative_to(PACKAGE)))
    twice = {name for name, files in places.items() if len(files) > 1}
    known = SAME_CONCEPT.keys()
    assert not {name: places[name] for name in twice - known}, "rename one of each, or give the reason"
    assert not known - twice, "these names are unique now: remove them from the list"


def test_a_module_is_read_at_one_sitting() -> None:
    lines = {file: len(file.read_text().splitlines()) for file in PACKAGE.rglob("*.py")}
    assert not {str(file.relative_to(PACKAGE)): length for file, length in lines.items() if length > 450}


def test_docstrings_begin_with_a_plain_sentence(trees: dict[Path, ast.Module]) -> None:
    riddles = []
    for file, tree in trees.items():
        for node in public_nodes(tree):
            line = (ast.get_docstring(node) or "").split("\n")[0]
            if line and (problem := problem_of(line)):
                riddles.append(f"{file.relative_to(PACKAGE)}: {line} ({problem})")
    assert not riddles


@pytest.mark.slow
def test_sections_of_docstrings_describe_what_there_is(trees: dict[Path, ast.Module]) -> None:
    defined = [
        (file, node)
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    ]
    classes = {node.name: node for _, node in defined if isinstance(node, ast.ClassDef)}
    for file, node in defined:
        if named := set(described(ast.get_docstring(node) or "")):
            if isinstance(node, ast.ClassDef):
                known = members(node, classes)
            else:
                known = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
            unknown = named - known
            assert not unknown, f"{file.relative_to(PACKAGE)}, {node.name}: there is no {unknown}"


@pytest.mark.parametrize(
    "line",
    [
        "Of the records that the backend can read.",
        "What the compiler said of kernels.",
        "the other way round",
        "Return the choice; None where there is none.",
        "Let go of it.",
        "Return what edge-rt is told of the sources.",
    ],
)
def test_a_riddle_is_found(line: str) -> None:
    assert problem_of(line)


@pytest.mark.parametrize(
    "line",
    ["Return the row of an architecture, None if it is unknown.", "edge-rt, the one program on a board."],
)
def test_a_plain_sentence_passes(line: str) -> None:
    assert problem_of(line) is None
