"""Tables: what a board is, what is wished for, what is therefore done."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from toolchain.boards.provisioning.facts import Clock, Facts, OriginalSettings
from toolchain.boards.provisioning.steps import (
    BoardStep,
    Cargo,
    Parcel,
    Put,
    RunCommand,
    SetupOptions,
    account_steps,
    class_steps,
    folder_steps,
    governor_steps,
    install_steps,
    removal_steps,
)
from toolchain.boards.transport import RemoteFile

CPUFREQ = "/sys/devices/system/cpu/cpufreq"
EMPTY = Facts(
    machine="aarch64",
    glibc="2.31",
    user="pi",
    home="/home/pi",
    root="/home/pi/.edge-toolchain",
    mode="755",
    writable=True,
    free_kib=1_000_000,
    sudo="free",
    clock_offset_s=0.0,
    clocks=(
        Clock(f"{CPUFREQ}/policy0", "ondemand", ("ondemand", "performance")),
        Clock(f"{CPUFREQ}/policy4", "schedutil", ("schedutil", "performance")),
    ),
)
GPU = Clock("/sys/class/devfreq/ff9a0000.gpu", "simple_ondemand", ("powersave", "performance"), "GPU")
PROGRAM = Cargo("bin/edge-rt-aaaa", Path("edge-rt"), 3 * 2**20, executable=True)
PARCEL = Parcel("edge-rt", (PROGRAM,), "edge-rt", PROGRAM.remote)
READY = replace(
    EMPTY,
    mode="700",
    files={PROGRAM.remote: RemoteFile(3 * 2**20, 100.0)},
    links={"edge-rt": PROGRAM.remote},
    entries=("bin", "edge-rt"),
)
OLD = {f"bin/edge-rt-{name}": RemoteFile(5, changed) for changed, name in enumerate(["b", "c", "d"])}
BOTH = {f"{CPUFREQ}/policy0": "ondemand", f"{CPUFREQ}/policy4": "schedutil"}


def titles(steps: list[BoardStep]) -> list[str]:
    return [step.title for step in steps]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (READY, []),
        (
            EMPTY,
            [
                "send edge-rt: bin/edge-rt-aaaa (3.0 MiB)",
                "switch edge-rt to bin/edge-rt-aaaa",
            ],
        ),
        (
            replace(READY, files={PROGRAM.remote: RemoteFile(7, 0.0)}),  # cut short by who knows what
            ["send edge-rt: bin/edge-rt-aaaa (3.0 MiB)"],
        ),
        (replace(READY, links={}), ["switch edge-rt to bin/edge-rt-aaaa"]),
        (
            replace(READY, links={"edge-rt": "bin/edge-rt-b"}),
            ["switch edge-rt to bin/edge-rt-aaaa"],
        ),
        # Two older versions stay, the least recently used one goes, and after the switch.
        (
            replace(READY, files=READY.files | OLD, links={"edge-rt": "bin/edge-rt-b"}),
            ["switch edge-rt to bin/edge-rt-aaaa", "remove the old bin/edge-rt-b"],
        ),
        (replace(READY, files=READY.files | {k: OLD[k] for k in list(OLD)[:2]}), []),
    ],
)
def test_installs_missing_parts(facts: Facts, expected: list[str]) -> None:
    steps = install_steps(facts, (PARCEL,))
    assert titles(steps) == expected
    assert not any(step.needs_root for step in steps)


def test_the_c_library_has_a_folder_for_each_version() -> None:
    library = Cargo("sdk/aaaa/libedge.so", Path("libedge.so"), 10)
    parcel = Parcel("the C library", (library,), "sdk/current", "aaaa")
    old = {f"sdk/{name}/libedge.so": RemoteFile(9, at) for at, name in enumerate(["b", "c", "d"])}
    assert titles(install_steps(replace(READY, files=READY.files | old), (PARCEL, parcel))) == [
        "remove the old sdk/b",
        "send the C library: sdk/aaaa/libedge.so (0.0 MiB)",
        "switch sdk/current to aaaa",
    ]


@pytest.mark.parametrize(
    ("mode", "writable", "expected", "rooted"),
    [
        ("700", True, [], False),
        ("755", True, ["make /home/pi/.edge-toolchain private"], False),
        ("", True, ["make the folder /home/pi/.edge-toolchain"], False),
        ("", False, ["make the folder /home/pi/.edge-toolchain for pi"], True),  # such as /opt/edge
    ],
)
def test_the_folder_is_there_and_private(
    mode: str, writable: bool, expected: list[str], rooted: bool
) -> None:
    steps = folder_steps(replace(EMPTY, mode=mode, writable=writable))
    assert titles(steps) == expected
    assert [step.needs_root for step in steps] == [rooted] * len(steps)


def test_the_gpu_has_a_governor_of_its_own() -> None:
    facts = replace(READY, clocks=(*EMPTY.clocks, GPU))
    note, run = governor_steps(facts, SetupOptions(gpu_governor="performance"))
    assert isinstance(note.action, Put) and isinstance(note.action.content, bytes)
    assert json.loads(note.action.content)["governors"] == {GPU.folder: "simple_ondemand"}
    assert isinstance(run.action, RunCommand) and run.needs_root
    assert run.title == "set the GPU governor performance (ff9a0000.gpu)"
    assert run.action.argv[4:] == ("performance", f"{GPU.folder}/governor")
    both = governor_steps(facts, SetupOptions(governor="performance", gpu_governor="performance"))
    titles = [step.title for step in both[1:]]
    assert titles == ["set the CPU governor performance (policy0, policy4)", run.title]
    assert governor_steps(replace(facts, clocks=(replace(GPU, governor="performance"),)),
                          SetupOptions(gpu_governor="performance")) == []  # fmt: skip


@pytest.mark.parametrize(
    ("governors", "record", "options", "noted", "written"),
    [
        (("ondemand", "schedutil"), {}, None, None, None),
        (("ondemand", "schedutil"), {}, "performance", BOTH, ["policy0", "policy4"]),
        (("performance", "schedutil"), {}, "performance", {f"{CPUFREQ}/policy4": "schedutil"}, ["policy4"]),
        (("performance", "performance"), BOTH, "performance", None, None),
        # Rebooted since: set again; what to go back to is known already.
        (("ondemand", "schedutil"), BOTH, "performance", None, ["policy0", "policy4"]),
        # Another governor than last time: what to go back to is still the first.
        (("performance", "performance"), BOTH, "powersave", None, ["policy0", "policy4"]),
    ],
)
def test_the_governor_before_ours_is_noted_first(
    governors: tuple[str, str],
    record: dict[str, str],
    options: str | None,
    noted: dict[str, str] | None,
    written: list[str] | None,
) -> None:
    policies = tuple(
        replace(policy, governor=name) for policy, name in zip(EMPTY.clocks, governors, strict=True)
    )
    facts = replace(READY, clocks=policies, record=OriginalSettings(governors=record))
    steps = governor_steps(facts, SetupOptions(governor=options))
    notes = [step for step in steps if isinstance(step.action, Put)]
    runs = [step for step in steps if isinstance(step.action, RunCommand)]
    assert steps == notes + runs
    if noted is None:
        assert notes == []
    else:
        assert isinstance(notes[0].action, Put)
        assert isinstance(notes[0].action.content, bytes)
        assert json.loads(notes[0].action.content)["governors"] == noted
        assert not notes[0].needs_root
    if written is None:
        assert runs == []
    else:
        assert isinstance(runs[0].action, RunCommand)
        files = (f"{CPUFREQ}/{name}/scaling_governor" for name in written)
        assert list(runs[0].action.argv[4:]) == [options, *files]
        assert runs[0].needs_root


@pytest.mark.parametrize(
    ("account", "line", "expected"),
    [
        (None, None, []),
        ("pi", "pi:x:1000:1000:,,,:/home/pi:/bin/bash", []),  # the login itself
        ("edge", None, ["make the account edge, with the login keys of pi"]),
        ("edge", "edge:x:1001:1001:edge-toolchain:/home/edge:/bin/sh", []),
        (
            "edge",
            "edge:x:1001:1001:edge-toolchain unfinished:/home/edge:/bin/sh",
            ["make the account edge, with the login keys of pi"],
        ),
    ],
)
def test_an_account_is_made_once_and_to_the_end(
    account: str | None, line: str | None, expected: list[str]
) -> None:
    steps = account_steps(replace(READY, account=line), SetupOptions(account=account))
    assert titles(steps) == expected
    assert all(step.needs_root and step.outside for step in steps)


@pytest.mark.parametrize(
    ("facts", "account", "expected"),
    [
        (replace(EMPTY, mode=""), None, []),
        (
            READY,
            None,
            [
                "stop the programs that run there",
                "remove bin",
                "remove edge-rt",
                "remove /home/pi/.edge-toolchain if nothing else is in it",
            ],
        ),
        (
            replace(
                READY,
                entries=("bin", "provisioned.json", "lib"),
                record=OriginalSettings(governors=BOTH),
                clocks=tuple(replace(p, governor="performance") for p in EMPTY.clocks),
            ),
            None,
            [
                "stop the programs that run there",
                "restore the CPU governor ondemand (policy0)",
                "restore the CPU governor schedutil (policy4)",
                "remove bin",
                "remove lib",
                "remove provisioned.json",  # last: until then an interrupted removal can go on
                "remove /home/pi/.edge-toolchain if nothing else is in it",
            ],
        ),
        (
            # Rebooted since: nothing to restore, so nothing needs root.
            replace(READY, entries=("provisioned.json",), record=OriginalSettings(governors=BOTH)),
            None,
            [
                "stop the programs that run there",
                "remove provisioned.json",
                "remove /home/pi/.edge-toolchain if nothing else is in it",
            ],
        ),
        (
            replace(EMPTY, mode="", account="edge:x:1001:1001:edge-toolchain:/home/edge:/bin/sh"),
            "edge",
            ["remove the account edge and its home folder"],
        ),
        (replace(EMPTY, mode=""), "edge", []),
    ],
)
def test_removal_undoes_provisioning(facts: Facts, account: str | None, expected: list[str]) -> None:
    steps = removal_steps(facts, account)
    assert titles(steps) == expected
    rooted = {step.title for step in steps if step.needs_root}
    assert rooted == {t for t in expected if t.startswith(("restore", "remove the account"))}


def test_the_class_is_noted_where_there_are_releases_and_it_is_not() -> None:
    assert class_steps(READY, "rk3399") == []  # no releases
    (step,) = class_steps(replace(READY, noted_class=""), "rk3399")
    assert isinstance(step.action, RunCommand) and not step.needs_root
    note = step.action.argv[-1]
    assert json.loads(note) == {"class": "rk3399"}
    assert class_steps(replace(READY, noted_class=note), "rk3399") == []
    assert titles(class_steps(replace(READY, noted_class=note), "pynq")) == [
        "note its class, pynq, for releases that come as a file"
    ]
