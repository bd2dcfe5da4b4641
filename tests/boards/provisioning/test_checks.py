"""What is refused before anything is written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.boards.provisioning.test_steps import EMPTY, GPU, OLD, PARCEL, READY
from toolchain.boards.provisioning.checks import (
    OVERHEAD_MIB,
    ROOMY_MIB,
    check_clock,
    check_folder,
    check_login,
    check_machine,
    check_options,
    check_root_options,
)
from toolchain.boards.provisioning.facts import Facts
from toolchain.boards.provisioning.steps import SetupOptions
from toolchain.boards.transport import RemoteFile
from toolchain.errors import CheckError, ToolchainError, UsageError
from toolchain.profiles import load_profile

RK3399 = load_profile("rk3399")
YEAR_S = 365.25 * 86400


@pytest.mark.parametrize(
    ("facts", "glibc", "says"),
    [
        (replace(EMPTY, machine="x86_64"), "2.27", "is a x86_64 machine, its class rk3399 is aarch64"),
        (replace(EMPTY, machine="armv7l"), "2.27", "is a armv7l machine"),
        (replace(EMPTY, glibc="2.24"), "2.27", r"has glibc 2\.24, its class rk3399 needs 2\.27"),
        (replace(EMPTY, glibc="2.9"), "2.27", r"has glibc 2\.9, .* needs 2\.27"),  # not a decimal number
        (replace(EMPTY, glibc="2.31"), "2.34", r"has glibc 2\.31, .* needs 2\.34"),
        (replace(EMPTY, glibc="2.24"), "2.17", r"needs 2\.27"),  # edge-rt itself needs that much
        (replace(EMPTY, glibc=None), "2.27", r"has no glibc .* needs 2\.27"),
    ],
)
def test_a_board_of_another_class_is_refused(facts: Facts, glibc: str, says: str) -> None:
    with pytest.raises(ToolchainError, match=says) as raised:
        check_machine("b", RK3399.model_copy(update={"glibc": glibc}), facts)
    assert "nothing was written" in raised.value.message
    assert raised.value.hint


def test_accepts_board_of_its_class() -> None:
    check_machine("b", RK3399, EMPTY)
    check_machine("b", RK3399, replace(EMPTY, glibc="2.27"))
    check_folder("b", EMPTY, (PARCEL,), rootable=False)


def test_room_is_asked_for_only_what_has_to_be_sent() -> None:
    needed_kib = (3 + OVERHEAD_MIB) * 1024  # PARCEL has 3 MiB
    (warning,) = check_folder("b", replace(EMPTY, free_kib=needed_kib), (PARCEL,), rootable=False)
    assert "has 1 MiB in /home/pi/.edge-toolchain left for networks" in warning
    with pytest.raises(ToolchainError, match=r"3 MiB free in .*, 4 MiB are needed; nothing"):
        check_folder("b", replace(EMPTY, free_kib=needed_kib - 1024), (PARCEL,), rootable=False)
    roomy = replace(EMPTY, free_kib=(3 + ROOMY_MIB) * 1024)
    assert check_folder("b", roomy, (PARCEL,), rootable=False) == []
    assert check_folder("b", replace(READY, free_kib=0, writable=False), (PARCEL,), rootable=False) == []


def test_versions_that_are_removed_first_make_room() -> None:
    facts = replace(READY, files=OLD | {"bin/edge-rt-b": RemoteFile(3 * 2**20, 0.0)}, free_kib=1024, links={})
    assert check_folder("b", facts, (PARCEL,), rootable=False)  # with a warning: little is left
    with pytest.raises(ToolchainError, match="1 MiB free"):  # the one in use stays until the new one is there
        linked = replace(facts, links={"edge-rt": "bin/edge-rt-b"})
        check_folder("b", linked, (PARCEL,), rootable=False)


def test_room_for_networks_is_wanted_if_asked_for() -> None:
    facts = replace(EMPTY, free_kib=63 * 1024)
    assert check_folder("b", facts, (PARCEL,), rootable=False, spare_mib=59)
    with pytest.raises(ToolchainError, match=r"64 MiB are needed \(60 of them for networks: --spare-mib\)"):
        check_folder("b", facts, (PARCEL,), rootable=False, spare_mib=60)


def test_a_board_that_does_not_say_its_free_space_is_used_with_a_warning() -> None:
    (warning,) = check_folder("b", replace(EMPTY, free_kib=None), (PARCEL,), rootable=False)
    assert "does not say how much is free" in warning


def test_no_folder_is_proposed_where_the_old_one_lies() -> None:
    facts = replace(EMPTY, root="/data/edge", free_kib=0, places=("/", "/data", "/srv"))
    for places, root in ((("/", "/data", "/srv"), "/srv/edge"), (("/", "/data"), "/FOLDER")):
        with pytest.raises(ToolchainError, match="MiB are needed") as raised:
            check_folder("b", replace(facts, places=places), (PARCEL,), rootable=False)
        assert f'root = "{root}"' in raised.value.hint


def test_no_program_is_sent_where_none_may_run() -> None:
    for facts in (EMPTY, READY):  # also when nothing would have to be sent
        with pytest.raises(ToolchainError, match="its file system, /home, is mounted noexec") as raised:
            check_folder("b", replace(facts, noexec="/home", places=("/", "/data")), (PARCEL,), rootable=True)
        assert 'root = "/data/edge"` in [boards.b]' in raised.value.hint


def test_unwritable_folder_names_login() -> None:
    check_folder("b", replace(EMPTY, mode="", writable=False), (PARCEL,), rootable=True)
    with pytest.raises(ToolchainError, match=r"pi cannot write in /home/pi/\.edge-toolchain"):
        check_folder("b", replace(EMPTY, writable=False), (PARCEL,), rootable=False)
    read_only = replace(EMPTY, mode="", writable=False, readonly="/")
    with pytest.raises(ToolchainError, match=r"is mounted read-only"):  # root cannot write there either
        check_folder("b", read_only, (PARCEL,), rootable=True)


@pytest.mark.parametrize(
    ("offset", "says"),
    [(0, None), (299, None), (-600, "10 minutes behind"), (3 * 3600, "3 hours ahead of")],
)
def test_a_clock_off_by_minutes_is_a_warning(offset: float, says: str | None) -> None:
    warnings = check_clock("b", replace(EMPTY, clock_offset_s=offset), ignore=False)
    assert len(warnings) == (says is not None)
    assert says is None or says in warnings[0]


@pytest.mark.parametrize(
    ("offset", "says"),
    [(-5 * YEAR_S, "5 years behind"), (30 * YEAR_S, "30 years ahead of"), (-3 * 86400, "3 days behind")],
)
def test_a_clock_off_by_years_is_refused_unless_ignored(offset: float, says: str) -> None:
    facts = replace(EMPTY, clock_offset_s=offset)
    with pytest.raises(ToolchainError, match=f"clock of board b is {says}") as raised:
        check_clock("b", facts, ignore=False)
    assert "date -u -s" in raised.value.hint
    assert "--ignore-clock" in raised.value.hint
    assert says in check_clock("b", facts, ignore=True)[0]


OURS = "edge:x:1001:1001:edge-toolchain:/home/edge:/bin/sh"


@pytest.mark.parametrize(
    ("facts", "options", "says"),
    [
        (
            EMPTY,
            SetupOptions(governor="turbo"),
            r"--governor turbo: .*\(it has: ondemand, performance\)",
        ),
        (
            replace(EMPTY, clocks=()),
            SetupOptions(governor="performance"),
            "has no CPU frequency control",
        ),
        (
            EMPTY,
            SetupOptions(gpu_governor="performance"),
            r"--gpu-governor .* no GPU frequency control \(devfreq\)",
        ),
        (
            replace(EMPTY, clocks=(GPU,)),
            SetupOptions(gpu_governor="turbo"),
            r"no such GPU governor \(it has: powersave, performance\)",
        ),
        (
            replace(EMPTY, account="edge:x:1001:1001:Edgar:/home/edge:/bin/sh"),
            SetupOptions(account="edge"),
            "made by someone else",
        ),
    ],
)
def test_refuses_options_that_board_lacks(facts: Facts, options: SetupOptions, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_root_options("b", facts, options)


def test_accepts_options_that_board_has() -> None:
    check_root_options(
        "b", replace(EMPTY, account=OURS), SetupOptions(governor="performance", account="edge")
    )
    check_root_options("b", replace(EMPTY, account=OURS + " unfinished"), SetupOptions(account="edge"))
    check_root_options(
        "b", replace(EMPTY, account="pi:x:1:1:Pi:/home/pi:/bin/sh"), SetupOptions(account="pi")
    )


def test_a_login_that_is_called_by_another_name_is_refused() -> None:
    check_login("b", "pi", EMPTY)
    with pytest.raises(CheckError, match=r"board b: .* user is 'pi', and the login was as tooling"):
        check_login("b", "tooling", EMPTY)


@pytest.mark.parametrize(
    "options",
    [
        *(
            SetupOptions(account=name)
            for name in ("", "root", "Pi", "-x", "a b", "x" * 33, "a;reboot", "../x")
        ),
        *(SetupOptions(governor=name) for name in ("", "per formance", "x;y", "$(x)", "../x")),
        *(SetupOptions(gpu_governor=name) for name in ("", "per formance", "x;y", "$(x)", "../x")),
    ],
)
def test_names_that_no_board_could_have_are_refused(options: SetupOptions) -> None:
    with pytest.raises(UsageError):
        check_options(options)
