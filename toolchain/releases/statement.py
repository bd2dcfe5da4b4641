"""The statement of a release: an in-toto statement about a bundle and its parts."""

from __future__ import annotations

import re
from math import prod
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StrictStr,
    ValidationError,
    model_serializer,
    model_validator,
)

from toolchain.answers import Several, problem
from toolchain.boards.edge_rt.apps import is_app_name
from toolchain.bundles import layout
from toolchain.errors import CheckError
from toolchain.models.options import MOST_PARTS
from toolchain.quantities import counted
from toolchain.releases.envelope import dump, parse
from toolchain.releases.trust import Count, Hex, Moment, Strict, Word

# Semantic versions (https://semver.org) without build metadata, which has no order.

MOST = 64
"""Longest version in characters."""

_NUMBER = r"(?:0|[1-9][0-9]*)"
_WORD = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_FORM = re.compile(rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_WORD}(?:\.{_WORD})*))?", re.ASCII)


class Version:
    """A version as it is written, with the order of semver's paragraph 11."""

    def __init__(self, text: str) -> None:
        """Read a version.

        Raises
        ------
        ValueError
            `text` is no semantic version, has build metadata, or is longer than 64 characters.
        """
        if len(text) > MOST:
            raise ValueError(f"a version has at most {MOST} characters")
        if "+" in text:
            raise ValueError(f"{text!r} has build metadata, which has no order")
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a semantic version, such as 2.0.0 or 2.1.0-rc.1")
        self.text = text
        *numbers, pre = match.groups()
        words = [] if pre is None else pre.split(".")
        # Numbers sort before words; a version sorts behind its pre-releases.
        self._order = (
            tuple(map(int, numbers)),
            pre is None,
            tuple((not word.isdigit(), int(word) if word.isdigit() else 0, word) for word in words),
        )

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Version({self.text!r})"

    def __lt__(self, other: Self) -> bool:
        return self._order < other._order

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


RELEASE_TYPE = "application/vnd.in-toto+json"
LONGEST_S = 86400
"""Longest self-test in seconds."""
_LARGEST_STEP = 3.4e38

BUNDLE = "bundle"
"""Name of the first subject, the whole bundle."""


def _app(name: str) -> str:
    if not is_app_name(name):
        raise ValueError("it does not name an application, or names a file of the board")
    return name


def _version(text: str) -> str:
    return Version(text).text


Compare = Literal["values", "log-probabilities", "equal", "steps"]
ClassName = Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}(\+emulated)?$")]
"""A board class; boards that are emulated have `+emulated` behind it."""
AppName = Annotated[StrictStr, AfterValidator(_app)]
ReleaseVersion = Annotated[StrictStr, AfterValidator(_version)]


class Digest(Strict):
    """Digests of a subject."""

    sha256: Hex


class NamedDigest(Strict):
    """The bundle, or one of its parts."""

    name: Word
    digest: Digest


class Requires(Strict):
    """Requirements on the board, as the bundle's manifest has them."""

    arch: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_]{1,32}$")]
    glibc: Annotated[StrictStr, Field(pattern=r"^[0-9][0-9.]{0,15}$")] | None
    tvm: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}$")]
    tvm_ffi: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}$")]
    features: Several[Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$")]] = Field(
        max_length=256
    )
    devices: Several[Annotated[StrictStr, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]] = Field(max_length=16)
    functions: Several[Annotated[StrictStr, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]{0,199}$")]] = Field(
        max_length=256
    )


class RunOptions(Strict):
    """Options of `edge-rt run` in the self-test."""

    device: Annotated[StrictStr, Field(pattern=r"^[a-z][!-~]{0,232}$")]
    threads: Annotated[Count, Field(ge=1, le=4096)]
    cluster: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}$")]


OF_WHOLES: Literal["urn:edge-toolchain:release:1"] = "urn:edge-toolchain:release:1"
"""Type of a release whose self-test compares each output as a whole."""

BY_PARTS: Literal["urn:edge-toolchain:release:2"] = "urn:edge-toolchain:release:2"
"""Type of a release whose self-test compares outputs by their parts."""

_Axis = Annotated[StrictStr, Field(pattern=r"^([0-9]|[12][0-9]|3[01])$")]


class OutputTest(Strict):
    """How one output is compared with the expected one.

    Attributes
    ----------
    tolerance_ppb
        Largest max|y-r| / max|r| in parts per billion; of `steps`: number of steps in billionths.
    step, values
        Size of a quantisation step, and how many values may be off by half a step or more; None: all.
    parts
        Axis, in rising order -> where the parts along it end; each is compared in its own scale. Empty: the
        output is one part. None in releases of the type `OF_WHOLES`, which have no such key.
    """

    compare: Compare
    tolerance_ppb: Count
    step: Annotated[StrictStr, Field(pattern=r"^[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?$", max_length=24)] | None
    values: Annotated[Count, Field(ge=1)] | None
    parts: dict[_Axis, Several[Annotated[Count, Field(ge=1)]]] | None = None

    @model_serializer(mode="wrap")
    def _without_absent_parts(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = serialise(self)
        if self.parts is None:
            del values["parts"]
        return values

    @model_validator(mode="after")
    def _has_parts_of_values_alone(self) -> Self:
        parts = self.parts or {}
        if parts and self.compare != "values":
            raise ValueError("parts belong to the comparison of values, and to no other")
        if list(parts) != sorted(parts, key=int):
            raise ValueError("parts: its axes are not in rising order")
        if any(len(ends) < 2 or list(ends) != sorted({*ends}) for ends in parts.values()):
            raise ValueError("parts: ends are not two or more in rising order")
        if prod(map(len, parts.values())) > MOST_PARTS:
            raise ValueError(f"parts: there are more than {MOST_PARTS}")
        return self

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if (self.step is not None) != (self.compare == "steps"):
            raise ValueError("step belongs to the comparison by steps, and to no other")
        if self.step is not None and not 0 < float(self.step) <= _LARGEST_STEP:
            raise ValueError("step is not a number above 0 that a float32 can hold")
        if self.values is not None and self.step is None:
            raise ValueError("values belongs to the comparison by steps, and to no other")
        return self


class SelfTest(Strict):
    """The self-test on the board: runs, its deadline in seconds, and the comparison of each output."""

    runs: Annotated[Count, Field(ge=1, le=10_000)]
    timeout_s: Annotated[Count, Field(ge=1, le=LONGEST_S)]
    outputs: Several[OutputTest] = Field(min_length=1, max_length=layout.MAX_TENSORS)


class Budget(Strict):
    """Largest median latency and peak memory of the self-test; None: no limit."""

    latency_us: Annotated[Count, Field(ge=1)] | None
    memory_kib: Annotated[Count, Field(ge=1)] | None


class Verified(Strict):
    """A verification of the bundle on a board of the class, at `at` seconds since 1970."""

    board_class: ClassName
    at: Moment
    error_ppb: Count
    latency_us: Annotated[Count, Field(ge=1)] | None


class Release(Strict):
    """The predicate of a release; docs/release-format.md describes each field."""

    app: AppName
    version: ReleaseVersion
    issued: Moment
    expires: Moment
    classes: Several[ClassName] = Field(min_length=1, max_length=64)
    sizes: Several[Count] = Field(min_length=1)
    requires: Requires
    run: RunOptions
    test: SelfTest
    budget: Budget
    verified: Verified | None
    provenance: dict[Word, Word] = Field(max_length=64)

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.expires <= self.issued:
            raise ValueError("it expires before it is issued")
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("classes: one occurs twice")
        return self


class Statement(BaseModel):
    """An in-toto statement whose predicate is a release."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    type: Literal["https://in-toto.io/Statement/v1"] = Field("https://in-toto.io/Statement/v1", alias="_type")
    subject: Several[NamedDigest] = Field(min_length=5, max_length=layout.MAX_TENSORS + 3)
    predicate_type: Literal["urn:edge-toolchain:release:1", "urn:edge-toolchain:release:2"] = Field(
        alias="predicateType"
    )
    predicate: Release

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        first, *parts = [each.name for each in self.subject]
        if first != BUNDLE:
            raise ValueError(f"the first subject is {first!r}, not {BUNDLE!r}")
        if parts != part_names(parts):
            raise ValueError(
                "the parts are not manifest.json, library.so, sample/0.npy, …, expected/0.npy, …"
            )
        if len(self.predicate.sizes) != len(parts):
            raise ValueError(
                f"it has {counted(len(self.predicate.sizes), 'size')} for {counted(len(parts), 'part')}"
            )
        if any((each.parts is None) == self.by_parts for each in self.predicate.test.outputs):
            raise ValueError(f"test: parts belong to the type {BY_PARTS}, and to no other")
        if len(self.predicate.test.outputs) != sum(name.startswith("expected/") for name in parts):
            raise ValueError("test: there is not one entry for each expected output")
        if exceeded := layout.limit_problem(dict(zip(parts, self.predicate.sizes, strict=True))):
            raise ValueError(exceeded)
        return self

    @property
    def by_parts(self) -> bool:
        """Whether the self-test compares outputs by their parts."""
        return self.predicate_type == BY_PARTS

    @property
    def bundle_sha256(self) -> str:
        """Digest of the whole bundle, by which boards name the release."""
        return self.subject[0].digest.sha256

    def to_bytes(self) -> bytes:
        """Return the payload of an envelope."""
        return dump(self.model_dump(mode="json", by_alias=True))


def part_names(names: list[str]) -> list[str]:
    """Return the names of parts of a bundle with as many samples and expected outputs as `names` has."""
    numbered = (
        [f"{folder}/{position}.npy" for position in range(sum(n.startswith(f"{folder}/") for n in names))]
        for folder in ("sample", "expected")
    )
    return [layout.MANIFEST, "library.so", *(name for folder in numbered for name in folder)]


def parse_statement(payload: bytes, what: str) -> Statement:
    """Read the payload of an envelope whose signatures were checked.

    Raises
    ------
    CheckError
        It is no statement about a release.
    """
    try:
        return Statement.model_validate(parse(payload))
    except ValidationError as error:
        raise CheckError(f"{what} is not a release: {problem(error)}", "sign the bundle again") from error
    except ValueError as error:
        raise CheckError(f"{what} is not a release: {error}", "sign the bundle again") from error
