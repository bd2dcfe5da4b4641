"""Finds a configuration by its name or reads it from a file, and checks that it is consistent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolchain.errors import UsageError
from toolchain.files.plain import open_plain
from toolchain.foreign import printable, shortened
from toolchain.vta.design import FABRICS, ISA_REVISIONS, KEYS, SAMPLES, Sram, VtaConfig
from toolchain.vta.isa.fields import problem_of_words

_LARGEST = 64 * 2**10  # largest file in bytes; a normal one has some 300
_MOST_LOG = 24

_RANGES = {
    "LOG_INP_WIDTH": (3, 3),  # int8 times int8, summed in int32: this code supports no other types
    "LOG_WGT_WIDTH": (3, 3),
    "LOG_ACC_WIDTH": (5, 5),
    "LOG_BATCH": (0, 8),
    "LOG_BLOCK": (1, 8),
}


def find_config(text: str) -> VtaConfig:
    """Return the configuration with this name, or read it from the file with this name.

    Raises
    ------
    UsageError
        There is no such configuration, or its file is wrong; see `read_config`.
    """
    if text in SAMPLES:
        return SAMPLES[text]
    if text.endswith(".json") or "/" in text or Path(text).is_file():
        return read_config(Path(text))
    raise UsageError(
        f"no VTA configuration {shortened(text)!r}",
        f"the names are: {', '.join(SAMPLES)}; or give a file, such as ./vta_config.json",
    )


def read_config(file: Path) -> VtaConfig:
    """Read and check a configuration's file, in the form of upstream's `vta_config.json`.

    Raises
    ------
    UsageError
        The file cannot be read; or a key is unknown, missing, wrong, or contradicts another one.
    """
    try:
        with open_plain(file) as opened:
            data = opened.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST} bytes")
        values = json.loads(data.decode(), object_pairs_hook=_once)
        if not isinstance(values, dict):
            raise ValueError("it is not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"{printable(str(file))} cannot be read as a VTA configuration: {shortened(reason or '')}",
            f"`toolchain vta config {next(iter(SAMPLES))} --json` shows one, under `parameters`",
        ) from error
    return config_from(values, file)


def config_from(values: dict[str, Any], file: Path) -> VtaConfig:
    """Make a configuration from the keys and values of a file.

    Raises
    ------
    UsageError
        A key is unknown, missing, wrong, or contradicts another one.
    """
    if problems := _problems(values):
        named = printable(str(file))
        raise UsageError(f"{named}: " + "; ".join(problems), f"edit {named}")
    return VtaConfig(**{key.lower(): values[key] for key in KEYS})


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"{key} is given twice")
        values[key] = value
    return values


def _problems(values: dict[str, Any]) -> list[str]:
    """Return what is wrong with single keys; if nothing is, with their combination."""
    if isinstance(values.get("parameters"), dict):
        return ["it is the whole output of `toolchain vta config --json`; keep only what is in `parameters`"]
    problems = []
    if unknown := [shortened(key) for key in values if key not in KEYS and key not in _DERIVED]:
        word = "unknown key" if len(unknown) == 1 else "unknown keys"
        problems.append(f"{shortened(', '.join(unknown))}: {word}; the keys are: {', '.join(KEYS)}")
    for key in KEYS:
        if key not in values:
            problems.append(f"{key}: is missing; a Pynq's is {json.dumps(SAMPLES['pynq'].parameters()[key])}")
        elif reason := _problem_of(key, values[key]):
            problems.append(f"{key}: {shortened(json.dumps(values[key]))}: {reason}")
    if problems:
        return problems
    config = VtaConfig(**{key.lower(): values[key] for key in KEYS})
    for key, (formula, value) in _derived(config).items():
        if key in values and values[key] != value:
            stated = shortened(json.dumps(values[key]))
            problems.append(f"{key}: {stated} contradicts {formula}, which makes it {value}; leave {key} out")
    return problems or _contradictions(config)


def _problem_of(key: str, value: Any) -> str:
    if key in _WORDS:
        if not isinstance(value, str) or value not in _WORDS[key]:
            return "it must be one of: " + ", ".join(f'"{word}"' for word in _WORDS[key])
        return ""
    low, high = _RANGES.get(key, (0, _MOST_LOG))
    if type(value) is not int or not low <= value <= high:
        return f"it must be {low}" if low == high else f"it must be a whole number from {low} to {high}"
    return ""


def _contradictions(config: VtaConfig) -> list[str]:
    for memory in (Sram.UOP, Sram.WGT, Sram.INP, Sram.ACC):
        buffer = config.buffers[memory]
        if buffer.depth < 2:
            key = f"LOG_{memory.name}_BUFF_SIZE"
            return [
                f"{key}: {config.parameters()[key]} is less than two elements of {buffer.element_bytes} "
                f"bytes, which LOG_BATCH and LOG_BLOCK make; make it larger"
            ]
    inp, acc = config.buffers[Sram.INP].depth, config.buffers[Sram.ACC].depth
    if inp != acc:
        # In a micro-op, upstream's header gives the source index ACC's width, its hardware gives it INP's.
        fitting = config.log_inp_buff_size + config.log_acc_width - config.log_inp_width
        return [
            f"LOG_INP_BUFF_SIZE: {config.log_inp_buff_size} makes {inp} elements, "
            f"LOG_ACC_BUFF_SIZE: {config.log_acc_buff_size} makes {acc}; "
            f"implementations agree on micro-ops only where both are the same: LOG_ACC_BUFF_SIZE: {fitting}"
        ]
    problem = problem_of_words(config)
    return [problem] if problem else []


def _derived(config: VtaConfig) -> dict[str, tuple[str, int]]:
    """Return the keys that upstream's tools add to a file, with the key each follows from and its value."""
    out = config.log_acc_buff_size + config.log_inp_width - config.log_acc_width
    return {
        "LOG_BLOCK_IN": ("LOG_BLOCK", config.log_block),
        "LOG_BLOCK_OUT": ("LOG_BLOCK", config.log_block),
        "LOG_OUT_WIDTH": ("LOG_INP_WIDTH", config.log_inp_width),
        "LOG_OUT_BUFF_SIZE": ("LOG_ACC_BUFF_SIZE", out),
    }


_DERIVED = tuple(_derived(SAMPLES["pynq"]))
_WORDS = {"TARGET": tuple(FABRICS), "HW_VER": tuple(ISA_REVISIONS)}
