"""The manifest of a bundle: the schema of `manifest.json`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator

from toolchain.answers import Several
from toolchain.architectures.rates import ClusterRates, Name
from toolchain.devices.device import CPU
from toolchain.models.options import MOST_PARTS, MOST_SHAPES

MOST_WORDS = 1000
"""Length of a text in words."""

SCHEMA_VERSION: Literal[7] = 7
"""The newest version, whose outputs are compared by their parts."""

SEVERAL_SHAPES: Literal[6] = 6
"""Version of a bundle with several shapes, whose outputs are compared as wholes."""

ONE_SHAPE: Literal[5] = 5
"""Version of a bundle with one shape, whose outputs are compared as wholes."""

_Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# fmt: off
_Dtype = Literal[
    "bool", "float16", "float32", "float64",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
]
# fmt: on


def _file_name(name: str) -> str:
    # A folder in the name would make the bundle's bytes depend on where it was built.
    if "/" in name or "\\" in name:
        raise ValueError("it must be a name without a folder")
    return name


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ModelFacts(_Strict):
    """The network that the library was compiled from."""

    name: str
    source_name: Annotated[str, AfterValidator(_file_name)] = Field(
        description="zoo:NAME, or the name of its file without the folder"
    )
    sha256: _Sha256 = Field(description="of the network's source")
    softmax_outputs: Several[str] = Field((), description="outputs compared as log-probabilities")
    flops: int = Field(
        0, ge=0, le=2**63 - 1, description="floating-point operations of one inference; 0: not known"
    )


class TargetFacts(_Strict):
    """The target that the code was generated for."""

    triple: str
    mcpu: str
    mattr: Several[str] = ()
    definition: dict[str, JsonValue] = Field(description="TVM's target, as its dictionary")


class RuntimeNeeds(_Strict):
    """Requirements of the library on the runtime beyond those that every edge-rt meets."""

    devices: Several[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]] = Field(
        (),
        max_length=16,
        description="kinds that `edge-rt info --devices` must list; the network runs on the first",
    )
    functions: Several[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]{0,199}$")]] = Field(
        (), max_length=256, description="packed functions that the library calls"
    )

    @property
    def device(self) -> str:
        """Kind of device on which edge-rt must run the network."""
        return self.devices[0] if self.devices else CPU


class Tensor(_Strict):
    """One input or output of the network; its position gives the name of its `.npy` member."""

    name: str = Field(min_length=1)
    shape: Several[Annotated[int, Field(ge=0, le=2**40)]] = Field(max_length=32)
    dtype: _Dtype

    @property
    def nbytes(self) -> int:
        """Size of its elements in bytes."""
        bits = "".join(filter(str.isdigit, self.dtype)) or "8"
        return math.prod(self.shape) * int(bits) // 8


class TaskFacts(_Strict):
    """A task of the network and the record or rule that determined its code."""

    id: str
    name: str
    weight: int = Field(ge=0, le=2**31)
    tuned: bool
    improved: bool
    source: str = Field("", description="which records decided it; empty when untuned")
    rule: str = Field("", description="what its code was made by, such as `direct` or `winograd`")
    flops: int = Field(
        0, ge=0, le=2**63 - 1, description="floating-point operations of one call, by its definition"
    )
    functions: Several[str] = Field((), max_length=4096, description="names in profiles of its calls")
    products: Name | None = Field(
        None,
        description="what its code multiplies by: a type of floats, or the instruction for bytes, named by "
        "the CPU feature it needs; null: not known",
    )


class LayerCost(_Strict):
    """Accuracy lost in one quantised layer."""

    name: str
    sqnr_db: float = Field(description="its signal over what rounding added, in dB")
    clipped: float = Field(ge=0, le=1, description="share of its values beyond 8 bits")


class QuantisingFacts(_Strict):
    """How a network was quantised, and its accuracy loss compared with the float network."""

    quantizer: str
    images: int = Field(ge=1, description="how many it was judged by")
    layers: Several[LayerCost] = Field(min_length=1)
    sqnr_db: float = Field(description="of the part of the outputs that lost most")
    top1: float | None = Field(ge=0, le=1, description="share of rows with the same largest value")
    top5: float | None = Field(ge=0, le=1, description="share of rows with it among the five largest")
    part: str | None = Field(
        None, description="the part that `sqnr_db` is of; empty: the only output; null: all outputs together"
    )


class OutputTolerance(_Strict):
    """Tolerance of one output, in place of the manifest's common `tolerance`."""

    output: str
    step: float | None = Field(gt=0, description="of its numbers; null: `number` is relative to the largest")
    number: float = Field(gt=0, le=2**16, description="of steps, or the largest max|y-r| / max|r|")
    values: int | None = Field(None, ge=1, le=2**48, description="how many may be off by steps at all")
    reason: str = Field(description="what the number follows from")

    @property
    def text(self) -> str:
        """The tolerance as text for messages."""
        if self.step is None:
            return f"{self.number:g}"
        return f"{self.number:g} step{'s' if self.number != 1 else ''} of {self.step:g}"

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if (self.step is None) != (self.values is None):
            raise ValueError("step and values are both null, or neither is")
        return self


class OutputParts(_Strict):
    """Parts of an output along one axis, each compared in its own scale; see `models.deviation`."""

    output: str
    axis: int = Field(ge=0, lt=32)
    ends: Several[Annotated[int, Field(ge=1, le=2**40)]] = Field(
        min_length=2, max_length=MOST_PARTS, description="where each ends, the last one at the axis's extent"
    )


class ShapeFacts(_Strict):
    """The network in another shape than that of the manifest's `inputs` and `outputs`."""

    inputs: Several[Tensor] = Field(min_length=1)
    outputs: Several[Tensor] = Field(min_length=1)
    flops: int = Field(
        0, ge=0, le=2**63 - 1, description="floating-point operations of one inference; 0: not known"
    )
    tolerances: Several[OutputTolerance] = ()
    parts: Several[OutputParts] = ()


class RatesFacts(_Strict):
    """The speeds by which the code was chosen: other ones may give other code."""

    of: Literal["class", "board"] = Field(
        "class", description="whose they are: the board class's, or measured on `board`"
    )
    cores: ClusterRates | None = Field(
        None, description="as measured; null: those of the table in this version of the toolchain"
    )

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.of == "board" and self.cores is None:
            raise ValueError("rates of a board are measured ones: cores is null")
        return self


class EngineFacts(_Strict):
    """Where the bundle was built: on a host, or in a container of an image."""

    kind: Literal["host", "docker"] = "host"
    image: str | None = Field(None, min_length=1, description="id of the image")
    lock: str | None = Field(None, min_length=1, description="sha256 of the lock file it was made from")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if (self.kind == "docker") != (self.image is not None) or (self.lock is not None and not self.image):
            raise ValueError("image and lock are those of a container; a host has neither")
        return self


class File(_Strict):
    """Digest and size of a member."""

    sha256: _Sha256
    size: int = Field(ge=0)


def sample_folder(place: int) -> str:
    """Return the folder with the sample for a shape; 0 is the largest, 1 the first of the others."""
    return f"shapes/{place}/sample" if place else "sample"


def expected_folder(place: int) -> str:
    """Return the folder with the outputs that are expected for the sample of a shape."""
    return f"shapes/{place}/expected" if place else "expected"


def _members(folder: str, tensors: Sequence[Tensor]) -> Iterator[tuple[str, Tensor]]:
    for position, tensor in enumerate(tensors):
        yield f"{folder}/{position}.npy", tensor


def _check_parts(outputs: Sequence[Tensor], parts: Sequence[OutputParts]) -> None:
    """Raise a ValueError if parts are not those of the outputs."""
    shapes = {output.name: output.shape for output in outputs}
    counts = dict.fromkeys(shapes, 1)
    for part in parts:
        shape, ends = shapes.get(part.output, ()), list(part.ends)
        if part.axis >= len(shape) or ends[-1] != shape[part.axis] or ends != sorted({*ends}):
            raise ValueError(f"parts: {ends} are no ends on axis {part.axis} of output {part.output!r}")
        counts[part.output] *= len(part.ends)
    if len({(part.output, part.axis) for part in parts}) != len(parts):
        raise ValueError("parts: an axis of an output occurs twice")
    if crowded := [name for name, count in counts.items() if count > MOST_PARTS]:
        raise ValueError(f"parts: {crowded} have more than {MOST_PARTS}")


class Manifest(_Strict):
    """The manifest of a bundle. It has no date, folder or host, so that equal inputs give equal bytes."""

    schema_version: Literal[5, 6, 7] = SCHEMA_VERSION
    tool_version: str
    model: ModelFacts
    target: TargetFacts
    device: str = Field(
        pattern=r"^[a-z][a-z0-9_]{0,31}(:[!-~]{1,200})?$",
        description="what it was compiled for: `cpu`, or such as `opencl:NAME`",
    )
    runtime: RuntimeNeeds = RuntimeNeeds()
    requires: Several[str] = Field((), description="CPU features, in Linux's words, that the code uses")
    arch: str
    board_class: str
    emulated: bool = Field(description="built with the records of emulated boards")
    board: str
    cluster: str = Field(description="cpu of the cores that it was built for")
    threads: int = Field(ge=1, le=4096)
    glibc: str | None = Field(
        pattern=r"^[0-9]{1,4}\.[0-9]{1,4}$",
        description="the oldest C library that loads the library; none on Android",
    )
    inputs: Several[Tensor] = Field(min_length=1)
    outputs: Several[Tensor] = Field(min_length=1)
    tolerance: float = Field(gt=0, le=1, description="largest max|y-r| / max|r| of any output")
    tolerances: Several[OutputTolerance] = Field(
        (), description="of outputs that another tolerance is right for, such as those of integers"
    )
    parts: Several[OutputParts] = Field(
        (), description="of outputs that are compared by their parts; those of several axes make a grid"
    )
    sample: str = Field("", description="how the values of the sample were chosen, in words")
    reference: str = Field(
        "", max_length=MOST_WORDS, description="what onnxruntime computed the expected outputs from, in words"
    )
    tvm: str
    tvm_ffi: str
    compilers: str = Field(
        "",
        description="of a device's machine code, with versions and options; empty where its driver compiles",
    )
    engine: EngineFacts = EngineFacts()
    layout: str
    dtype: str
    quantising: QuantisingFacts | None = Field(
        None, description="of a network with 8-bit integers; none of another"
    )
    shapes: Several[ShapeFacts] = Field(
        (), max_length=MOST_SHAPES - 1, description="the other shapes, the larger ones first"
    )
    pad: bool = Field(
        False, description="whether zeros behind the inputs change nothing but what stands behind the outputs"
    )
    rates: RatesFacts = RatesFacts()
    format: Literal["so", "tar"] = Field("so", description="library.so, or library.tar with its objects")
    tasks: Several[TaskFacts] = ()
    files: dict[str, File] = Field({}, description="every other member; filled in when it is written")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        for kind, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
            names = [tensor.name for tensor in tensors]
            if len(set(names)) != len(names):
                raise ValueError(f"{kind}: a name occurs twice in {names}")
        for tolerances in (self.tolerances, *(shape.tolerances for shape in self.shapes)):
            allowed = [tolerance.output for tolerance in tolerances]
            if len(set(allowed)) != len(allowed) or set(allowed) - {tensor.name for tensor in self.outputs}:
                raise ValueError(f"tolerances: not all of {allowed} are outputs, or one occurs twice")
        self._check_shapes()
        for outputs, parts in (
            (self.outputs, self.parts),
            *((facts.outputs, facts.parts) for facts in self.shapes),
        ):
            _check_parts(outputs, parts)
        if strangers := set(self.model.softmax_outputs) - {tensor.name for tensor in self.outputs}:
            raise ValueError(f"model.softmax_outputs: {sorted(strangers)} are not outputs")
        if self.target.triple.split("-")[0] != self.arch:
            raise ValueError(f"arch is {self.arch}, but target.triple is {self.target.triple}")
        if (self.glibc is None) != self.android:
            raise ValueError(f"glibc is {self.glibc}, but target.triple is {self.target.triple}")
        if self.device == CPU and self.runtime.devices:
            raise ValueError(f"device is {CPU}, but runtime.devices is {list(self.runtime.devices)}")
        return self

    def _check_shapes(self) -> None:
        """Raise a ValueError if the shapes are not those of one network, or the version is another's."""
        if self.schema_version < SCHEMA_VERSION:
            if (self.schema_version == SEVERAL_SHAPES) != bool(self.shapes):
                raise ValueError(
                    f"schema_version {SEVERAL_SHAPES} is that of several shapes, {ONE_SHAPE} of one"
                )
            if self.parts or any(shape.parts for shape in self.shapes):
                raise ValueError(f"parts: no key of version {self.schema_version}, but of {SCHEMA_VERSION}")
        if self.pad and not self.shapes:
            raise ValueError("pad is for several shapes")
        seen = [tuple(tensor.shape for tensor in self.inputs)]
        for place, shape in enumerate(self.shapes):
            for kind in ("inputs", "outputs"):
                mine, theirs = (
                    [(tensor.name, tensor.dtype, len(tensor.shape)) for tensor in getattr(facts, kind)]
                    for facts in (self, shape)
                )
                if mine != theirs:
                    raise ValueError(f"shapes.{place}.{kind} differ from {kind} by more than their extents")
            seen.append(tuple(tensor.shape for tensor in shape.inputs))
        if len(set(seen)) != len(seen):
            raise ValueError("shapes: two are the same")

    @property
    def signatures(self) -> list[tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]:
        """Inputs and outputs of each shape, the largest first."""
        return [(self.inputs, self.outputs), *((shape.inputs, shape.outputs) for shape in self.shapes)]

    @property
    def by_parts(self) -> bool:
        """Whether outputs are compared by their parts; earlier versions compared each as a whole."""
        return self.schema_version >= SCHEMA_VERSION

    @property
    def android(self) -> bool:
        """Whether it was built for Android, whose C library has no symbol versions."""
        return self.target.triple.endswith("-android")

    @property
    def library_member(self) -> str:
        """Name of the member that holds the library."""
        return f"library.{self.format}"

    def tensor_members(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the members that hold tensors, in their order."""
        for place, (inputs, outputs) in enumerate(self.signatures):
            yield from _members(sample_folder(place), inputs)
            yield from _members(expected_folder(place), outputs)

    def members(self) -> list[str]:
        """Return the members that `files` must list, in their order."""
        return [self.library_member, *(name for name, _ in self.tensor_members())]

    def members_of_largest(self) -> list[str]:
        """Return the members without samples and expected outputs of other shapes, which come last."""
        inputs, outputs = self.signatures[0]
        return self.members()[: 1 + len(inputs) + len(outputs)]

    def to_json(self) -> bytes:
        """Return the canonical text: sorted keys, indented by two spaces, ASCII, with a final newline."""
        values: dict[str, Any] = self.model_dump(mode="json")
        if not self.by_parts:  # the keys are those of toolchains that knew no parts
            del values["sample"], values["reference"]
            for facts in (values, *values["shapes"]):
                del facts["parts"]
        if self.schema_version == ONE_SHAPE:
            del values["shapes"], values["pad"]
        return (json.dumps(values, sort_keys=True, indent=2, allow_nan=False) + "\n").encode("ascii")
