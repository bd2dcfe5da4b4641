"""The options shared by all commands with a MODEL. Imports neither tvm nor onnx."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from shlex import quote
from typing import Any

from toolchain.errors import UsageError

# Lists of shapes on a command line: `--shape 'x=1,3,48,{160,320}'` and `--batch '{1,8}'`.

MOST_PARTS = 64
"""Largest number of parts of an output: a manifest and a release list their ends."""

MOST_SHAPES = 16
"""Most shapes of one bundle: each adds its code, and a sample with its expected outputs."""

_LIST = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class ShapeChoice:
    """The values of `--batch` and `--shape` for one of several shapes."""

    batch: int | None
    shapes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class ShapeLists:
    """The shapes that a command line lists.

    Attributes
    ----------
    typed
        The options as typed: `--batch`, its value, `--shape`, its value.
    choices
        All shapes, in the order of the lists.
    """

    typed: tuple[str, ...]
    choices: tuple[ShapeChoice, ...]

    def __str__(self) -> str:
        return " ".join(word if word.startswith("--") else quote(word) for word in self.typed)


def list_values(option: str, typed: str, text: str) -> list[str]:
    """Expand lists in braces to every combination; return the text itself if it has none.

    Several lists in one text give every combination: `{1,2},{3,4}` stands for four.

    Parameters
    ----------
    option, typed
        The option and its whole value, for messages.
    text
        The part of the value that may have lists.

    Raises
    ------
    UsageError
        A brace has no partner, or a list is empty or has an entry twice.
    """
    parts = _LIST.split(text)
    if any(brace in part for part in parts for brace in "{}"):
        raise UsageError(f"{option} {typed}: a brace without its partner", _example(option))
    lists = [[word.strip() for word in part.split(",")] for part in parts[1::2]]
    for words in lists:
        if "" in words:
            raise UsageError(f"{option} {typed}: a list with an empty entry", _example(option))
        numbers = [word.lstrip("0") for word in words]
        if twice := next((word for word in numbers if numbers.count(word) > 1), None):
            raise UsageError(f"{option} {typed}: {twice} occurs twice in a list", "give each number once")
    return [_joined(parts[::2], chosen) for chosen in product(*lists)]


def _joined(between: Sequence[str], chosen: Sequence[str]) -> str:
    return "".join(f"{text}{word}" for text, word in zip(between, (*chosen, ""), strict=True))


def _example(option: str) -> str:
    return (
        f"for example {option} '{{1,8}}'"
        if option == "--batch"
        else f"for example {option} 'x=1,3,{{32,64}}'"
    )


def choices_of(
    batches: Sequence[int | None], shapes: Mapping[str, Sequence[tuple[int, ...]]], typed: Sequence[str]
) -> ShapeLists | None:
    """Return the shapes of a command line; None if it lists only one.

    Lists of several inputs go in step: the first shape of one with the first of the others. Every batch
    goes with every shape.

    Parameters
    ----------
    batches
        Values of `--batch`; [None] without the option.
    shapes
        Input -> its listed shapes.
    typed
        The options as typed, for messages.

    Raises
    ------
    UsageError
        The lists of two inputs differ in length, or there are more than `MOST_SHAPES` shapes.
    """
    counts = {name: len(listed) for name, listed in shapes.items() if len(listed) > 1}
    if len(set(counts.values())) > 1:
        numbers = ", ".join(f"{count} of {name!r}" for name, count in counts.items())
        raise UsageError(
            f"--shape lists shapes of different number: {numbers}",
            "they go in step, the first of one input with the first of another: list equally many",
        )
    steps = max(counts.values(), default=1)
    if len(batches) * steps == 1:
        return None
    if len(batches) * steps > MOST_SHAPES:
        raise UsageError(
            f"{len(batches) * steps} shapes: a bundle has at most {MOST_SHAPES}, since each adds its code, "
            "a sample and the outputs expected for it",
            "list fewer, or build several bundles",
        )
    rows = [{name: listed[step % len(listed)] for name, listed in shapes.items()} for step in range(steps)]
    return ShapeLists(tuple(typed), tuple(ShapeChoice(batch, row) for row in rows for batch in batches))


ARRAY_FILE = ".npy"
"""Ending that marks a value of `--input-value` or `--calibrate` as a file to read."""


AFFINE = ("mse", "minmax", "percentile")
"""Quantizers with scales of any size and zero points."""

POWERS_OF_TWO = ("power-of-two", "global-scale")
"""Quantizers whose scales are powers of two, which accelerators compute by shifts."""

QUANTIZERS = (*AFFINE, *POWERS_OF_TWO)
"""Methods of choosing the scales of integers; the default follows from the kind of device."""


@dataclass(frozen=True)
class ModelOptions:
    """The user's options for loading a model: shapes, constants, outputs, quantising.

    Attributes
    ----------
    batch
        First dimension of the inputs if the file leaves it open; None leaves it to `shapes`.
    shapes
        Input name -> its whole static shape.
    input_values
        Name of an input that becomes a constant -> its value as typed: numbers between commas, or a `.npy`
        file.
    outputs
        Tensors at which to cut the graph, as typed: one name or several between commas each; empty: no cut.
    weights_seed
        Seed of a zoo network's weights; ignored for files.
    quantizer
        Method of quantising, one of `QUANTIZERS`; empty: the network is not quantised.
    calibration
        Input -> `.npy` file with images for calibration; empty: seeded images.
    several
        The shapes of `--batch` and `--shape` if they list several; `batch` and `shapes` are not set then.
    """

    batch: int | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    weights_seed: int = 0
    input_values: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    quantizer: str = ""
    calibration: Mapping[str, Path] = field(default_factory=dict)
    several: ShapeLists | None = None

    def each(self) -> list[ModelOptions]:
        """Return the options of each shape, in the order of the lists."""
        if self.several is None:
            return [self]
        return [
            replace(self, batch=one.batch, shapes=one.shapes, several=None) for one in self.several.choices
        ]

    @property
    def value_files(self) -> list[Path]:
        """The files that `input_values` and `calibration` may name; any `=` may be the separator."""
        texts = [f"{name}={value}" for name, value in {**self.input_values, **self.calibration}.items()]
        return [
            Path(file) for text in texts for file in files_after_equals(text) if file.endswith(ARRAY_FILE)
        ]

    def typed(self) -> str:
        """Return these options as typed on a command line, each preceded by a space."""
        words = [] if self.batch is None else ["--batch", str(self.batch)]
        words += self.several.typed if self.several else ()
        for name, shape in self.shapes.items():
            words += ["--shape", format_shape(name, shape)]
        for name, value in self.input_values.items():
            words += ["--input-value", f"{name}={value}"]
        for names in self.outputs:
            words += ["--outputs", names]
        if self.quantizer:
            words += ["--quantizer", self.quantizer]
        for name, file in self.calibration.items():
            words += ["--calibrate", f"{name}={file}"]
        return "".join(f" {quote(word)}" for word in words)

    def __post_init__(self) -> None:
        if self.batch is not None and self.batch < 1:
            raise UsageError(f"--batch {self.batch}: must be 1 or more")
        if self.weights_seed < 0:
            raise UsageError(f"--weights-seed {self.weights_seed}: must be 0 or more")


def split_named(text: str, names: Iterable[str]) -> tuple[str, str] | None:
    """Split `NAME=VALUE` at the longest known name that it begins with; None if there is none.

    Names may hold `=`, and so may values: files do.
    """
    name = max((name for name in names if text.startswith(f"{name}=")), key=len, default=None)
    return None if name is None else (name, text[len(name) + 1 :])


def files_after_equals(text: str) -> Iterator[str]:
    """Yield all possible values of `NAME=VALUE`, the longest first."""
    while text:
        _, _, text = text.partition("=")
        if text:
            yield text


def parse_shape(text: str, option: str = "--shape") -> tuple[str, tuple[int, ...]]:
    """Read `NAME=D,D,…`; the last `=` separates, because names may hold `:`, `/` and `=`.

    Parameters
    ----------
    option
        The option with the text, for messages.

    Raises
    ------
    UsageError
        No name, no dimensions, or a dimension that is no positive whole number.
    """
    name, separator, dimensions = text.rpartition("=")
    parts = dimensions.split(",")
    if separator and name and any(part.strip().isdecimal() and not int(part) for part in parts):
        raise no_values(f"{option} {text}")
    if not separator or not name or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"{option} {text}: not NAME=D,D,…", f"for example {option} data=1,3,224,224")
    return name, tuple(int(part) for part in parts)


def no_values(what: str) -> UsageError:
    """Return the error for a shape with an extent of 0; `what` repeats the option or names the tensor."""
    return UsageError(
        f"{what}: an extent of 0 makes a tensor without values, and no code is made for one",
        "give extents of 1 or more; of a network whose cache is empty at first, export the first step by "
        "itself (optimum writes decoder_model.onnx)",
    )


def parse_shapes(texts: Iterable[str]) -> dict[str, list[tuple[int, ...]]]:
    """Read all `--shape` options of a command line; return the shapes that are listed for each input.

    Raises
    ------
    UsageError
        One is malformed, or an input is given two shapes by two options.
    """
    shapes: dict[str, list[tuple[int, ...]]] = {}
    for text in texts:
        name, separator, extents = text.rpartition("=")
        read = [parse_shape(f"{name}{separator}{extent}") for extent in list_values("--shape", text, extents)]
        listed = [shape for _name, shape in read]
        if shapes.setdefault(name, listed) != listed:
            raise UsageError(f"--shape {text}: {name!r} was given another shape before")
    return shapes


def parse_batch(text: str | None) -> list[int | None]:
    """Read `--batch N` or `--batch {N,N,…}`; [None] without the option.

    Raises
    ------
    UsageError
        It is no positive whole number, nor a list of them.
    """
    if text is None:
        return [None]
    listed = list_values("--batch", text, text)
    if not all(number.strip().isdecimal() and int(number) > 0 for number in listed):
        raise UsageError(
            f"--batch {text}: must be 1 or more, or a list of such numbers", "for example --batch '{1,8}'"
        )
    return [int(number) for number in listed]


def shape_options(batch: str | None, shapes: Sequence[str]) -> dict[str, Any]:
    """Return the fields `batch`, `shapes` and `several` of `ModelOptions` for what was typed.

    Raises
    ------
    UsageError
        An option is malformed, a shape is listed twice, or there are too many shapes.
    """
    batches, listed = parse_batch(batch), parse_shapes(shapes)
    typed = [*(["--batch", batch] if batch is not None else []), *(w for s in shapes for w in ("--shape", s))]
    several = choices_of(batches, listed, typed)
    if several is None:
        return {"batch": batches[0], "shapes": {name: choices[0] for name, choices in listed.items()}}
    return {"several": several}


def parse_input_values(texts: Iterable[str]) -> dict[str, str]:
    """Read all `--input-value NAME=V` options; the last `=` separates, until the inputs' names are known.

    Raises
    ------
    UsageError
        One has no name or no value, or an input is given two.
    """
    values: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.rpartition("=")
        if not (separator and name and value.strip()):
            raise UsageError(
                f"--input-value {text}: not NAME=V",
                "for example --input-value sr=16000, or --input-value mask=mask.npy",
            )
        if values.setdefault(name, value) != value:
            raise UsageError(f"--input-value {text}: {name!r} was given another value before")
    return values


def parse_calibration(texts: Iterable[str]) -> dict[str, Path]:
    """Read all `--calibrate NAME=FILE.npy` options; the last `=` separates, until the names are known.

    Raises
    ------
    UsageError
        One has no name or no file, or an input is given two.
    """
    files: dict[str, Path] = {}
    for text in texts:
        name, separator, file = text.rpartition("=")
        if not (separator and name and file.endswith(ARRAY_FILE)):
            raise UsageError(
                f"--calibrate {text}: not NAME=FILE.npy", "for example --calibrate data=images.npy"
            )
        if files.setdefault(name, Path(file)) != Path(file):
            raise UsageError(f"--calibrate {text}: {name!r} was given another file before")
    return files


def format_shape(name: str, shape: Iterable[int | str]) -> str:
    """Format a shape for `parse_shape`; open dimensions keep their names."""
    return f"{name}={','.join(str(dimension) for dimension in shape)}"
