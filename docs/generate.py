"""Writes docs/reference from the code: the command line, the configuration keys and the images.

`python docs/generate.py` writes, `tests/test_docs.py` compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click

from toolchain.cli.root import EPILOG, root
from toolchain.config import ENVIRONMENT_PREFIX, FILE_NAME, BoardEntry, Settings
from toolchain.images.arguments import declared
from toolchain.images.catalogue import catalogue
from toolchain.profiles import class_names, load_profile

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


def configuration() -> str:
    """Return the reference of the configuration keys."""
    rows = []
    for key, field in Settings.model_fields.items():
        default = DEFAULTS.get(key, f"`{field.default}`")
        rows.append(f"| `{key}` | `{ENVIRONMENT_PREFIX}{key.upper()}` | {default} | {field.description} |")
    board_rows = []
    for key, field in BoardEntry.model_fields.items():
        default = "" if field.is_required() or not field.default else f"`{field.default}`"
        needed = "needed" if field.is_required() else default
        board_rows.append(f"| `{field.alias or key}` | {needed} | {field.description} |")
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
            *board_rows,
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
            f"| {', '.join(f'`{key}`' for key in sorted(declared(image)))} |"
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


PAGES = {"cli.md": command_line, "configuration.md": configuration, "images.md": images}


def main() -> None:
    """Write every page."""
    REFERENCE.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page())


if __name__ == "__main__":
    main()
