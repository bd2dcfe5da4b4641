"""Board classes: the shipped ones, one's own, and wrong ones."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from toolchain import host
from toolchain.configuration.file import FILE_NAME
from toolchain.devices.device import device_key
from toolchain.errors import UsageError
from toolchain.host import host_cpu_flags, host_profile, physical_cores
from toolchain.profiles import class_names, load_profile, read_profile

LAST = "the last line"
GOOD = """
description = "mine"
triple = "aarch64-unknown-linux-gnu"
glibc = "2.28"
memory_mib = 512
[[clusters]]
cpu = "cortex-a35"
cores = 4
"""
OPENCL = """
[[devices]]
kind = "opencl"
compute_units = 4
local_bytes = 32768
private_bytes = 512
vector_bytes = 16
half = true
"""


def test_the_shipped_classes_are_what_they_are() -> None:
    assert {"rk3399", "raspberrypi4", "x86_64"} <= set(class_names())
    rk3399 = load_profile("rk3399")
    assert [(c.cpu, c.cores) for c in rk3399.clusters] == [("cortex-a72", 2), ("cortex-a53", 4)]
    assert rk3399.arch == "aarch64"
    for name in class_names():
        profile = load_profile(name)
        assert profile.name == name
        if profile.android:
            assert profile.glibc is None and profile.triple.endswith("-android")
        else:
            major, minor = map(int, (profile.glibc or "").split("."))
            assert (major, minor) <= (2, 27), "vendor images are as old as Ubuntu 18.04"


def test_the_first_cluster_is_the_default_and_unknown_ones_are_refused() -> None:
    rk3399 = load_profile("rk3399")
    assert rk3399.cluster(None).cpu == "cortex-a72"
    assert rk3399.cluster("cortex-a53").cores == 4
    with pytest.raises(UsageError, match=r"--cluster cortex-a99.*cortex-a72, cortex-a53"):
        rk3399.cluster("cortex-a99")


def write(folder: Path, text: str) -> Path:
    file = folder / "mine" / "board.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


def test_a_class_of_ones_own_stands_in_boards_beside_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "boards", GOOD)
    (tmp_path / FILE_NAME).write_text("")
    monkeypatch.chdir(tmp_path)
    assert "mine" in class_names()
    assert load_profile("mine").memory_mib == 512


def test_a_class_may_have_what_was_measured_on_one_of_its_boards(tmp_path: Path) -> None:
    speeds = "gops = { neon = 14.1 }, gb_s = { l1 = 20.0, l2 = 9.0, memory = 4.5 }"
    rates = "\n".join(
        f"{each} = {{ threads = {threads}, {speeds} }}" for each, threads in (("one", 1), ("all", 4))
    )
    text = GOOD.replace("cores = 4", f'cores = 4\n[clusters.rates]\ncore = "cortex-a72"\n{rates}\n')
    found = read_profile(write(tmp_path, text)).clusters[0].rates
    assert found is not None and found.read_of("memory", 1) == 4.5
    with pytest.raises(UsageError, match=r"clusters\.0\.rates\.one\.gops"):
        read_profile(write(tmp_path / "wrong", text.replace("14.1", "-1")))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("glibc =", "glib =", "glib: unknown key; the keys are: clusters, description"),
        ("memory_mib = 512", "", "memory_mib: is missing"),
        ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu", "a triple has four parts"),
        ("aarch64-unknown-linux-gnu", "armv7a-linux-gnueabihf", "a triple has four parts"),
        ("aarch64-unknown-linux-gnu", "armv7a-unknown-linux-gnueabi", "only those with hard float"),
        ('"2.28"', '"new"', "glibc: 'new'"),
        ('glibc = "2.28"', "", "glibc: is missing"),
        ("unknown-linux-gnu", "unknown-linux-android", "glibc: '2.28': Android has another C"),
        ("unknown-linux-gnu", "unknown-linux-android21", "of Android's systems one is known: aarch64-unk"),
        ("cores = 4", "cores = 0", "clusters.0.cores: 0"),
        ("[[clusters]]", "devices = []\n[[clusters]]", "devices: []: Tuple should have at least 1 item"),
        (
            "cores = 4",
            "cores = 4\nclock = 2",
            "clusters.0.clock: unknown key; the keys of [[clusters]] are: cores, cpu",
        ),
        (
            "cores = 4",
            'cores = 4\nimage = "base"',
            "clusters.0.image: unknown key; the keys of [[clusters]] are: cores",
        ),
        ("cores = 4", 'cores = 4\nimage = "base"', "image of the class belongs above the first [[...]]"),
        (LAST, '[[devices]]\nkind = "gpu"', "devices.0.kind: 'gpu': no such kind of device"),
        (LAST, '[[devices]]\nkind = "gpu"', "; the kinds are: cpu, opencl"),
        (LAST, "[[devices]]\nkind = 3", "devices.0.kind: 3: Input should be a valid string"),
        (
            LAST,
            "[[devices]]\nmemory = 3",
            "devices.0.memory: unknown key; the keys of [[devices]] are: compute",
        ),
        (
            LAST,
            '[[devices]]\nkind = "opencl"',
            "devices.0: a device of kind opencl needs: compute",
        ),
        (LAST, "[[devices]]\nhalf = true", "devices.0: a CPU has clusters, and does not have: half"),
        (LAST, f'{OPENCL}name = " "', "devices.0.name: ' ': String should match pattern"),
        (LAST, '[[devices]]\nkind = "vta"', "devices.0: a device of kind vta needs: config"),
        (
            LAST,
            '[[devices]]\nkind = "vta"\nconfig = "pynq"\nhalf = true',
            "devices.0: a device of kind vta does not have: half",
        ),
        (
            LAST,
            f'{OPENCL}config = "pynq"',
            "devices.0: a device of kind opencl does not have: config",
        ),
        (LAST, '[[devices]]\nkind = "vta"\nconfig = "../a"', "devices.0.config: '../a': String should match"),
        (LAST, '[[devices]]\nkind = "vta"\nconfig = "a.json"', "'a.json': no such file beside it"),
        (LAST, f"{OPENCL}max_work_group = 0", "devices.0.max_work_group: 0: Input should be greater than"),
        (
            LAST,
            OPENCL.replace("bytes = 16", "bytes = 24"),
            "devices.0.vector_bytes: 24: Input should be 4, 8",
        ),
        ("[[clusters]]", "[[clusters", "cannot be read"),
    ],
)
def test_a_wrong_file_is_named_with_key_and_what_is_allowed(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    file = write(tmp_path, GOOD.replace(old, new) if old != LAST else f"{GOOD}{new}\n")
    with pytest.raises(UsageError) as raised:
        read_profile(file)
    assert str(file) in raised.value.message
    assert says in raised.value.message


@pytest.mark.parametrize("name", ["rk3390", "../boards/rk3399", "", "rk3399/"])
def test_an_unknown_class_lists_the_classes(name: str) -> None:
    with pytest.raises(UsageError, match=r"rk3399, x86_64"):
        load_profile(name)


def test_a_device_has_the_limits_that_code_for_it_keeps_to(tmp_path: Path) -> None:
    mali = load_profile("rk3399").device("opencl")
    assert (mali.name, mali.max_work_group, mali.vector_bytes, mali.half) == ("Mali-T860", 256, 16, True)
    mine = read_profile(write(tmp_path, f"{GOOD}{OPENCL}max_work_group = 128\n")).device("opencl")
    assert (mine.name, mine.max_work_group) == (None, 128)


def test_a_vta_has_a_configuration_by_name_or_from_a_file_beside_the_class(tmp_path: Path) -> None:
    assert load_profile("pynq").device("vta").config == "pynq"
    file = write(tmp_path, f'{GOOD}[[devices]]\nkind = "vta"\nconfig = "my.json"\n')
    beside = file.with_name("my.json")
    beside.write_text("{}")
    assert read_profile(file).device("vta").config == str(beside)


def test_a_device_is_one_word_in_records() -> None:
    assert device_key("opencl", "Mali-T860") == "opencl:mali-t860"
    assert device_key("opencl", " Intel(R) UHD\t620 é") == "opencl:intel(r)-uhd-620-"
    assert len(device_key("opencl", "x" * 5000)) == len("opencl:") + 200


def test_an_arm64_host_is_a_board(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(host, "host_cpu_flags", lambda: frozenset({"asimd", "asimddp", "asimdhp"}))
    board = host_profile()
    assert (board.name, board.arch, board.clusters[0].cpu) == ("aarch64", "aarch64", "generic")
    assert set(board.optional) == {"+dotprod", "+fullfp16"}
    assert board.clusters[0].cores == physical_cores()


def test_features_are_read_from_an_arm_kernels_cpuinfo(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nFeatures\t: fp asimd evtstrm crc32 cpuid\nCPU part\t: 0xd08\n")
    assert host_cpu_flags(cpuinfo) == {"fp", "asimd", "evtstrm", "crc32", "cpuid"}


def test_a_host_of_another_architecture_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(UsageError, match="'local' does not exist on a riscv64 host") as raised:
        host_profile()
    assert raised.value.hint == "use a host of: x86_64, aarch64"


def test_the_class_of_this_host_has_its_cpus() -> None:
    board = host_profile()
    assert board.clusters[0].cores == physical_cores() >= 1
    if board.arch == "x86_64":
        assert board.clusters[0].cpu in [level.name for level in board.architecture.levels]
