"""The design of an accelerator: a bitstream that is loaded into a board's programmable logic.

The logic cannot report which design it holds. A JSON file beside the bitstream says which instruction
set it has. A note on the board says which design is loaded; a restart removes both. edge-rt reads the note.
"""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolchain.answers import problem
from toolchain.boards.provisioning.facts import Facts
from toolchain.boards.provisioning.steps import BoardStep, Put, RunCommand
from toolchain.errors import UsageError

FOLDER = "fpga"  # in the installation; exists while a design is loaded or in /lib/firmware
_FIRMWARE = "edge-vta.bin"
_LARGEST = 64 * 2**20
_SYNC = bytes.fromhex("aa995566")  # the sync word, after which a bitstream's commands begin
# $1 is a prefix of all paths, empty on a board. The note is removed first, so that it never names a design
# that is no longer loaded.
LOAD = """set -e
rm -f "$1/run/edge-rt/vta-design"
fpga=$1/sys/class/fpga_manager/fpga0
if [ -e "$fpga/firmware" ]; then
  mkdir -p "$1/lib/firmware"
  cp -- "$2" "$1/lib/firmware/$3"
  if [ -e "$fpga/flags" ]; then echo 0 > "$fpga/flags"; fi
  echo "$3" > "$fpga/firmware"
  state=$(cat "$fpga/state")
  if [ "$state" != operating ]; then echo "the logic is not operating: $state" >&2; exit 1; fi
else
  cat -- "$2" > "$1/dev/xdevcfg"
fi
mkdir -p "$1/run/edge-rt"
printf '%s' "$4" > "$1/run/edge-rt/vta-design"
chmod a+rX "$1/run/edge-rt" "$1/run/edge-rt/vta-design"
"""
UNLOAD = """rm -f -- "$1/run/edge-rt/vta-design" "$1/lib/firmware/$2"
rmdir -- "$1/run/edge-rt" 2>/dev/null || true
"""


class _Beside(BaseModel):
    """The JSON file that describes a bitstream."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hw_ver: str = Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


@dataclass(frozen=True)
class Design:
    """A bitstream, checked against the configuration of a board class.

    Attributes
    ----------
    name
        Name of the configuration, such as `1x16_i8w8a32_15_15_18_17`.
    whole, data
        The whole file, and its configuration words without the header.
    """

    name: str
    isa_rev: int
    sha256: str
    whole: bytes
    data: bytes

    @property
    def note(self) -> str:
        """Content of the note that the board keeps while the design is loaded."""
        return f"bitstream={self.name}\nisa_rev={self.isa_rev}\nsha256={self.sha256}\n"

    def content(self, way: str) -> bytes:
        """Return the bytes to write: the whole file for xdevcfg, byte-swapped words for fpga_manager."""
        if way == "xdevcfg":
            return self.whole
        words = array("I", self.data)
        words.byteswap()
        return words.tobytes()


def read_design(file: Path, name: str, hw_ver: str, isa_rev: int) -> Design:
    """Read a bitstream and check that it implements the configuration of a board class.

    Parameters
    ----------
    name, hw_ver, isa_rev
        Name, HW_VER and ISA revision of the class's configuration.

    Raises
    ------
    UsageError
        The file is no bitstream, or one for another configuration.
    """
    if file.stem != name:
        raise UsageError(
            f"--bitstream {file}: it is called {file.stem}, and the board's class has a VTA {name}",
            f"give {name}.bit, or the class another `config`: `toolchain vta config` lists them",
        )
    try:
        if file.stat().st_size > _LARGEST:
            raise UsageError(
                f"--bitstream {file}: larger than any bitstream", "give a .bit file made by Vivado"
            )
        whole = file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"--bitstream {file}: {error.strerror}", "give a .bit file made by Vivado"
        ) from error
    sha256 = hashlib.sha256(whole).hexdigest()
    beside = _beside(file, sha256, hw_ver)
    if beside.sha256 != sha256:
        raise UsageError(
            f"--bitstream {file}: its sha256 is {sha256}, {file.with_suffix('.json')} says {beside.sha256}",
            "download it again: its content was changed",
        )
    if beside.hw_ver != hw_ver:
        raise UsageError(
            f"--bitstream {file}: its HW_VER is {beside.hw_ver}, the class's configuration has {hw_ver}: "
            "it would decode every instruction wrongly",
            "give the class a `config` with that HW_VER, or a bitstream of this one",
        )
    return Design(name, isa_rev, sha256, whole, _words(file, whole))


def _beside(file: Path, sha256: str, hw_ver: str) -> _Beside:
    path = file.with_suffix(".json")
    wanted = f'{{"hw_ver": "{hw_ver}", "sha256": "{sha256}"}}'
    try:
        return _Beside.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(
            f"--bitstream {file}: no file {path} says which HW_VER it implements",
            f"if its HW_VER is {hw_ver}, write that file: {wanted}",
        ) from error
    except ValidationError as error:
        raise UsageError(f"{path}: {problem(error)}", f"for example: {wanted}") from error


def _words(file: Path, whole: bytes) -> bytes:
    """Return what follows the header of a .bit: fields with a letter and a length; the last is `e`."""
    at = 13
    try:
        while (letter := whole[at : at + 1]) in (b"a", b"b", b"c", b"d"):
            at += 3 + int.from_bytes(whole[at + 1 : at + 3], "big")
        size = int.from_bytes(whole[at + 1 : at + 5], "big")
        data = whole[at + 5 :]
        if letter != b"e" or size != len(data) or size % 4 or _SYNC not in data[:4096]:
            raise ValueError
    except ValueError:
        raise UsageError(
            f"--bitstream {file}: not a bitstream, or incomplete", "give a complete .bit file made by Vivado"
        ) from None
    return data


def design_steps(facts: Facts, design: Design | None) -> list[BoardStep]:
    """Return the steps that load a design; none if it is loaded already."""
    if design is None or facts.fpga is None:
        return []
    way, _, loaded = facts.fpga.partition("|")
    if loaded == design.note.replace("\n", ";"):
        return []
    remote = f"{FOLDER}/{design.name}.bin"
    script = ("sh", "-c", LOAD, "sh", "", remote, _FIRMWARE, design.note)
    return [
        BoardStep(f"send the design {design.name}", Put(design.content(way), remote)),
        BoardStep(
            f"load the design {design.name} into the logic, by {_WAYS[way]}",
            RunCommand(script),
            needs_root=True,
        ),
    ]


_WAYS = {"manager": "fpga_manager", "xdevcfg": "/dev/xdevcfg"}


def design_removal(facts: Facts) -> list[BoardStep]:
    """Return the steps that remove note and file; the logic keeps the design until the board restarts."""
    if FOLDER not in facts.entries:
        return []
    title = "remove the note about the design, which stays in the logic until a restart"
    return [BoardStep(title, RunCommand(("sh", "-c", UNLOAD, "sh", "", _FIRMWARE)), needs_root=True)]


def check_design(board: str, facts: Facts, design: Design | None) -> None:
    """Refuse a design for a board that has no logic Linux could load.

    Raises
    ------
    UsageError
        The board has neither fpga_manager nor /dev/xdevcfg.
    """
    if design is not None and facts.fpga is None:
        raise UsageError(
            f"--bitstream: board {board} has no programmable logic that Linux can load: neither "
            "/sys/class/fpga_manager/fpga0/firmware nor /dev/xdevcfg",
            "leave the option out; on a Pynq start a kernel with fpga_manager",
        )
