"""Writes docs/reference from the code: the command line, Python, the configuration keys and the images.

`python docs/generate.py` writes, `tests/test_docs.py` compares.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click
from onnx import defs
from pydantic import BaseModel

from toolchain.cli.root import EPILOG, root
from toolchain.configuration.file import FILE_NAME, FILE_VARIABLE
from toolchain.configuration.keys import ENVIRONMENT_PREFIX, BoardEntry, Settings
from toolchain.configuration.labgrid import LabgridPlace
from toolchain.configuration.power import PowerCommands
from toolchain.images.catalogue import catalogue
from toolchain.images.making.build import declared_arguments
from toolchain.models.folding.fold import SPECIAL
from toolchain.models.rewrites import RULES
from toolchain.models.rewrites.quantised.integer_operators import OWN
from toolchain.profiles import class_names, load_profile

NODE_TESTS = Path(__file__).parent / "onnx-nodes.json"
REFERENCE = Path(__file__).parent / "reference"
HEADER = "<!-- Made by docs/generate.py: change the code, then `make docs`. -->"

# Defaults that differ between machines, in words.
DEFAULTS = {
    "cache_dir": "`~/.cache/edge-toolchain`",
    "data_dir": "`~/.local/share/edge-toolchain`",
    "state_dir": "`~/.local/state/edge-toolchain`",
    "jobs": "the CPUs this process may use",
}
EVERYWHERE = {"json", "verbose", "help"}


def commands(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Yield every command below `command` that does something, in the order of the help."""
    if not isinstance(command, click.Group):
        yield command, context
        return
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        if child is not None:
            yield from commands(child, click.Context(child, context, info_name=name))


def describe(command: click.Command, context: click.Context) -> str:
    """Return the section of one command: usage, help, options."""
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"## {context.command_path}", "", f"    {context.command_path} {usage}", ""]
    for paragraph in cleandoc(command.help or "").split("\n\n"):
        preformatted = paragraph.startswith("\b\n")
        text = paragraph.removeprefix("\b\n")
        lines += [*(f"    {line}" for line in text.splitlines()), ""] if preformatted else [text, ""]
    options = [p for p in command.params if isinstance(p, click.Option) and p.name not in EVERYWHERE]
    rows = [record for p in options if (record := p.get_help_record(context))]
    if rows:
        lines += ["| option | |", "|---|---|"]
        lines += [f"| `{_cell(flags)}` | {_cell(text)} |" for flags, text in rows] + [""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def command_line() -> str:
    """Return the reference of the command line."""
    context = click.Context(root, info_name="toolchain")
    return "\n".join(
        [
            HEADER,
            "# The command line",
            "",
            "Every command takes `--json` (one JSON document on stdout and nothing else there; an error is",
            '`{"error": {"code", "message", "hint"}}`), `-v` (logs on stderr) and `-h`.',
            "",
            EPILOG,
            "",
            *(describe(*found) for found in commands(root, context)),
        ]
    ).rstrip("\n") + "\n"  # fmt: skip


def _table_rows(model: type[BaseModel]) -> list[str]:
    """Return a row for each key of a table of toolchain.toml."""
    rows = []
    for key, field in model.model_fields.items():
        default = "" if field.is_required() or field.default in (None, (), "") else f"`{field.default}`"
        needed = "needed" if field.is_required() else default
        rows.append(f"| `{field.alias or key}` | {needed} | {field.description} |")
    return rows


def configuration() -> str:
    """Return the reference of the configuration keys."""
    rows = []
    for key, field in Settings.model_fields.items():
        unset = field.default is None  # an empty text, as `toolchain init` writes it
        default = DEFAULTS.get(key, '`""`' if unset else f"`{field.default}`")
        rows.append(f"| `{key}` | `{ENVIRONMENT_PREFIX}{key.upper()}` | {default} | {field.description} |")
    return "\n".join(
        [
            HEADER,
            "# Configuration",
            "",
            f"`{FILE_NAME}` is looked for in the current folder and those above it; `toolchain init` writes",
            "a first one. An option goes before the environment, the environment before the file, the file",
            "before the default; `toolchain doctor` shows where each value came from. Relative folders in",
            "the file are relative to it.",
            "",
            "A file can name programs to run, so it is obeyed only if it is yours or root's, and if no other",
            f"user can write it or its folder. `{FILE_VARIABLE}=FILE` obeys another, for one command or",
            f"always (`export`); `{FILE_VARIABLE}=/dev/null` goes without.",
            "",
            "| key | environment | default | |",
            "|---|---|---|---|",
            *rows,
            "",
            "## Boards over SSH",
            "",
            "A table `[boards.NAME]` for each; `toolchain board add` writes it, `toolchain board remove`",
            "takes it out again. The rest of the file, comments included, stays as it is.",
            "",
            "| key | default | |",
            "|---|---|---|",
            *_table_rows(BoardEntry),
            "",
            "### The power of a board",
            "",
            "The table `power` of a board, also written as `power = {…}`; [how to use it](../howto/rack.md).",
            "",
            "| key | default | |",
            "|---|---|---|",
            *_table_rows(PowerCommands),
            "",
            "### A board's place at labgrid",
            "",
            'The table `labgrid` of a board: `labgrid = {coordinator = "HOST:PORT", place = "NAME"}`.',
            "",
            "| key | default | |",
            "|---|---|---|",
            *_table_rows(LabgridPlace),
            "",
        ]
    )


def images() -> str:
    """Return the reference of the images."""
    profiles = [load_profile(name) for name in class_names()]
    rows = []
    for image in catalogue().values():
        classes = [f"`{profile.name}`" for profile in profiles if profile.image == image.name]
        used = ", ".join([*classes, *(["`local`"] if image.name == "base" else [])])
        rows.append(
            f"| `{image.name}` | {image.description} | {image.stands_on or 'Debian'} | {used} "
            f"| {', '.join(f'`{key}`' for key in sorted(declared_arguments(image)))} |"
        )
    return "\n".join(
        [
            HEADER,
            "# Images",
            "",
            "From `docker/images.toml`; [how they are made and used](../howto/images.md). `build` and `tune`",
            "take the image that the board class names (`image` of its `board.toml`).",
            "",
            "| image | holds | stands on | board classes | `--build-arg` |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def operators() -> str:
    """Return the table of ONNX's operators, by what the code does with them and what onnx's tests say."""
    counts = json.loads(NODE_TESTS.read_text())
    cases, rows = counts["cases"], counts["operators"]
    passed, refused = cases.get("passed", 0), cases.get("refused", 0)
    wrong = sum(cases.values()) - passed - refused - cases.get("outside", 0)
    lines = [
        HEADER,
        "# Operators",
        "",
        f"Every operator of ONNX's standard domain up to set {defs.onnx_opset_version()}, and the known ones",
        "of other domains. The numbers are onnx's own tests of the",
        "operator, with those of its definition written out, that `build` accepts (which onnxruntime has to",
        "compute, too) and that went the whole way to `edge-rt`:",
        f"{passed} passed, {refused} refused, {wrong} wrong.",
        f"Outside are {cases.get('outside', 0)} more: training, strings, sequences, optionals, random",
        "numbers, types of 4 bits and floats of 8.",
        "",
        "**fast**: code of our own, packed or general. **rows**: TVM's loops, shared out by rows.",
        "**folded**: nothing of it is left to compute on a board. **imported**: known, but none of onnx's",
        "tests of it is inside.",
        "",
        "| operator | since set | | passed | refused | outside | why |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in sorted({*known_operators(), *RULES, *OTHERS} - OWN, key=str.lower):
        row = rows.get(name, {"passed": 0, "refused": {}, "outside": {}, "rules": []})
        refused, outside = sum(row["refused"].values()), sum(row["outside"].values())
        reasons = [_cell(reason) for reason in (*row["refused"], *row["outside"]) if reason]
        how = treatment(name, row)
        why = "; ".join(reasons[:3]) or ("no code for it" if how == "refused" else "")
        counted = " | ".join(str(count or "") for count in (row["passed"], refused, outside))
        lines.append(f"| {name} | {known_operators().get(name, '')} | {how} | {counted} | {why} |")
    row = rows.get("networks")
    if row:
        refused, outside = sum(row["refused"].values()), sum(row["outside"].values())
        told = f"{row['passed']} pass, {refused} are refused and {outside} are outside."
        lines += ["", f"Of the small networks in onnx's wheel {told}"]
    return "\n".join(lines) + "\n"


OTHERS = ("com.microsoft.DynamicQuantizeLSTM",)
"""Known operators of other domains that no rule replaces: the importer has them."""


@cache
def known_operators() -> dict[str, int]:
    """Return the standard operators, and the first set that has each."""
    found: dict[str, int] = {}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain == "" and not schema.deprecated:
            found[schema.name] = min(schema.since_version, found.get(schema.name, schema.since_version))
    return found


def treatment(name: str, row: dict[str, Any]) -> str:
    """Return in a word or two what becomes of an operator."""
    from toolchain import tvm_compat
    from toolchain.models.importing.converters import CONVERTERS

    newest = defs.onnx_opset_version()
    standard = "." not in name
    known = name in RULES or name in CONVERTERS or name in SPECIAL or name in OTHERS
    if row["rules"]:
        return "rows" if set(row["rules"]) == {"rows"} else "fast, rows" if "rows" in row["rules"] else "fast"
    if row["passed"]:
        return "folded"
    imported = known or (standard and tvm_compat.onnx_converts(name, newest))
    return "refused" if row["refused"] or not imported else "imported"


def python_names() -> str:
    """Return the reference of the Python package."""
    from docs.python_reference import python

    intro = [
        HEADER,
        "# Python",
        "",
        "What `import toolchain` offers; [a way through](../howto/python.md). Names stay, as",
        "the commands do; parameters may be added. `__init__.pyi` has the types; the package is typed.",
    ]
    return "\n".join([*intro, "", *python()])


PAGES = {
    "cli.md": command_line,
    "python.md": python_names,
    "configuration.md": configuration,
    "images.md": images,
    "operators.md": operators,
}


def main() -> None:
    """Write every page."""
    REFERENCE.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page())


if __name__ == "__main__":
    main()
