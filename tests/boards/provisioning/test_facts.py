"""What a board says of itself is understood strictly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.boards.provisioning.facts import Clock, OriginalSettings, parse_facts
from toolchain.boards.transport import RemoteFile
from toolchain.errors import ToolchainError

SAID = """\
edge-toolchain facts 1
machine=aarch64
bits=64
glibc=glibc 2.31
user=pi
uid=1000
home=/home/pi
root=/home/pi/.edge-toolchain
mode=700
writable=yes
free_kib=1234
sudo=password
policy=/sys/devices/system/cpu/cpufreq/policy0|ondemand|ondemand performance
gpu=/sys/class/devfreq/ff9a0000.gpu|simple_ondemand|performance
file=3000000 1700000000 bin/edge-rt-aaaa
link=edge-rt bin/edge-rt-aaaa
entry=bin
entry=edge-rt
record={"schema_version": 1, "governors": {"/sys/x": "ondemand"}}
clock=1700000000
end
"""


def test_parses_all_facts() -> None:
    facts = parse_facts("b", SAID, 1700000000.0, 1700000001.0)
    assert (facts.machine, facts.glibc, facts.sudo, facts.writable) == ("aarch64", "2.31", "password", True)
    assert facts.clocks == (
        Clock("/sys/devices/system/cpu/cpufreq/policy0", "ondemand", ("ondemand", "performance")),
        Clock("/sys/class/devfreq/ff9a0000.gpu", "simple_ondemand", ("performance",), "GPU"),
    )
    assert facts.files == {"bin/edge-rt-aaaa": RemoteFile(3000000, 1700000000.0)}
    assert facts.links == {"edge-rt": "bin/edge-rt-aaaa"}
    assert facts.entries == ("bin", "edge-rt")
    assert facts.record == OriginalSettings(governors={"/sys/x": "ondemand"})
    assert facts.clock_offset_s == 0


def test_what_a_login_prints_before_is_ignored() -> None:
    assert parse_facts("b", "Welcome!\nmachine=z80\n" + SAID, 0, 0).machine == "aarch64"


@pytest.mark.parametrize(
    ("kernel", "bits", "machine"),
    [
        ("aarch64", "64", "aarch64"),
        ("aarch64", "32", "armv7l"),  # a 64-bit kernel under a 32-bit system
        ("armv8l", "32", "armv7l"),
        ("armv7l", "32", "armv7l"),
        ("x86_64", "64", "x86_64"),
    ],
)
def test_the_machine_is_what_programs_see(kernel: str, bits: str, machine: str) -> None:
    text = SAID.replace("machine=aarch64", f"machine={kernel}").replace("bits=64", f"bits={bits}")
    assert parse_facts("b", text, 0, 0).machine == machine


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("glibc 2.36", "2.36"),
        ("ldd (Ubuntu GLIBC 2.27-3ubuntu1.6) 2.27", "2.27"),
        ("ldd (GNU libc) 2.17", "2.17"),
        ("GNU C Library (Debian GLIBC 2.36-9+deb12u10) stable release version 2.36.", "2.36"),
        ("GNU C Library (GNU libc) stable release version 2.24, by Roland McGrath et al.", "2.24"),
        ("GNU C Library (Buildroot) stable release version 2.38.0.", "2.38"),
        ("", None),
        ("musl libc (aarch64)", None),
    ],
)
def test_the_c_library_is_told_by_getconf_or_ldd_or_itself(said: str, version: str | None) -> None:
    assert parse_facts("b", SAID.replace("glibc 2.31", said), 0, 0).glibc == version


def test_optional_facts_may_be_missing() -> None:
    facts = parse_facts("b", SAID.replace("free_kib=1234", "free_kib="), 0, 0)
    assert (facts.free_kib, facts.noexec, facts.readonly, facts.places) == (None, None, None, ())
    assert facts.noted_class is None


def test_how_its_file_systems_are_mounted() -> None:
    more = 'noexec=/home\nreadonly=/\nplace=/data\nplace=/srv\nclass={"class": "rk3399"}\nend\n'
    facts = parse_facts("b", SAID.replace("end\n", more), 0, 0)
    assert (facts.noexec, facts.readonly, facts.places) == ("/home", "/", ("/data", "/srv"))
    assert facts.noted_class == '{"class": "rk3399"}'


@pytest.mark.parametrize(
    ("host", "offset"),
    [
        ((1699999990.0, 1700000010.0), 0.0),  # somewhere between: no difference that could be known
        ((1700000100.0, 1700000101.0), -100.0),
        ((1699990000.0, 1699990001.0), 9999.0),
    ],
)
def test_the_clock_is_compared_with_both_ends_of_the_trip(host: tuple[float, float], offset: float) -> None:
    assert parse_facts("b", SAID, *host).clock_offset_s == offset


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("end\n", "", "clock=1700000000"),  # cut off
        ("edge-toolchain facts 1", "This account is not available.", "end"),
        ("bits=64\n", "", "no bits"),
        ("bits=64", "bits=64\nbits=64", "bits=64"),
        ("bits=64", "colour=blue", "colour=blue"),
        ("free_kib=1234", "free_kib=many", "free_kib is 'many': .*integer"),
        ("sudo=password", "sudo=perhaps", "sudo is 'perhaps'"),
        ("|ondemand|", "|", "policy is '/sys.* wanted"),
        ("|simple_ondemand|", "|", "gpu is '/sys.* wanted"),
        ("1700000000 bin", "nan bin", "file is '3000000 nan bin"),
        ("edge-rt bin", "edge-rt", "link is 'edge-rt"),
        ("clock=1700000000", f"clock=1{'0' * 300}", "clock is '1000.*…'"),
        ("user=pi", "user=p\x1b]0;i", r"cannot be read: 'user=p\\x1b"),
        ('"schema_version": 1', '"schema_version": 2', "provisioned.json is broken"),
        ('{"schema_version"', '{"schema', "provisioned.json is broken"),
    ],
)
def test_refuses_unreadable_facts(old: str, new: str, says: str) -> None:
    assert old in SAID
    with pytest.raises(ToolchainError, match=says) as raised:
        parse_facts("bench-7", SAID.replace(old, new), 0, 0)
    assert "bench-7" in raised.value.message
    assert raised.value.hint


@given(st.text())
def test_fact_parser_never_crashes(text: str) -> None:
    for said in (text, SAID.replace("end\n", f"{text}\nend\n"), SAID.replace("1234", text)):
        try:
            parse_facts("b", said, 0, 0)
        except ToolchainError as error:
            assert error.hint
