"""What is said of a board's GPU: its clock, who else uses it, its device file, its driver."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from toolchain.boards.edge_rt.answers import State
from toolchain.boards.edge_rt.status import SCRIPT, gpu_hints

MALI = State(
    node=("/dev/mali0",),
    gpu=("ff9a0000.gpu|performance|800000000|200000000 800000000",),
    icd=("/etc/OpenCL/vendors/mali.icd",),
    library=("/usr/lib/aarch64-linux-gnu/libOpenCL.so.1", "/usr/lib/aarch64-linux-gnu/libmali.so.1"),
)
THERE = [{"kind": "opencl", "names": ["Mali-T860"]}]
NONE: list[dict[str, Any]] = [{"kind": "opencl", "names": []}]


def hints(drivers: list[dict[str, Any]] = NONE, **changes: tuple[str, ...]) -> list[str]:
    return gpu_hints("bench", MALI.model_copy(update=changes), drivers)


def test_no_hints_for_working_gpu() -> None:
    assert hints(THERE) == hints(NONE) == []


@pytest.mark.parametrize(
    ("changes", "drivers", "says"),
    [
        (
            {"gpu": ("ff9a0000.gpu|simple_ondemand|200000000|800000000",)},
            THERE,
            "`toolchain board provision bench --gpu-governor performance`",
        ),
        (
            {"gpu": ("ff9a0000.gpu|performance|400000000|200000000 800000000",)},
            THERE,
            "ff9a0000.gpu runs at 400 of 800 MHz",
        ),
        ({"display": ("Xorg", "weston")}, THERE, "Xorg also uses the GPU"),
        ({"closed": ("/dev/mali0|video",)}, NONE, "usermod -aG video"),
        ({"closed": ("/dev/mali0|root",)}, NONE, "this login may not open /dev/mali0"),
        ({"icd": ()}, NONE, "`echo libmali.so.1 | sudo tee /etc/OpenCL/vendors/mali.icd`"),
        ({"icd": (), "library": ()}, NONE, "install libmali of the board's vendor"),
        ({"icd": (), "library": (), "node": ()}, [], "or pocl-opencl-icd for the CPU"),
    ],
)
def test_hints_state_problem_and_remedy(
    changes: dict[str, tuple[str, ...]], drivers: list[dict[str, Any]], says: str
) -> None:
    (hint,) = hints(drivers, **changes)
    assert says in hint


def test_where_a_driver_computes_its_files_do_not_matter() -> None:
    assert hints(THERE, icd=(), library=()) == []


def test_no_hint_about_unknown_clock() -> None:
    assert hints(THERE, gpu=("ff9a0000.gpu|performance||",)) == []
    assert hints(THERE, gpu=("ff9a0000.gpu|performance|x|y",)) == []


def test_the_script_reads_what_the_hints_are_made_of(tmp_path: Path) -> None:
    def write(path: str, words: str = "") -> None:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(words)

    for name in ("ff9a0000.gpu", "dmc"):
        write(f"sys/class/devfreq/{name}/governor", "simple_ondemand\n")
        write(f"sys/class/devfreq/{name}/cur_freq", "200000000\n")
        write(f"sys/class/devfreq/{name}/available_frequencies", "200000000 800000000\n")
    write("etc/OpenCL/vendors/mali.icd")
    write("usr/lib/aarch64-linux-gnu/libmali.so.1")
    write("proc/1/comm", "systemd\n")
    write("proc/77/comm", "Xorg\n")
    script = SCRIPT
    for root in ("/sys/", "/etc/", "/usr/", "/opt/", "/dev/", "/proc/"):
        script = script.replace(f" {root}", f" {tmp_path}{root}")
    say = 'say() { printf \'%s=%s\\n\' "$1" "$2"; }\n'
    ran = subprocess.run(
        ["sh", "-c", say + script + "gpus"], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.splitlines() == [
        "gpu=ff9a0000.gpu|simple_ondemand|200000000|200000000 800000000",
        f"icd={tmp_path}/etc/OpenCL/vendors/mali.icd",
        f"library={tmp_path}/usr/lib/aarch64-linux-gnu/libmali.so.1",
        "display=Xorg",
    ]
    assert ran.stderr == ""
