"""Every field of a statement is checked; a release key that signs nonsense gets a refusal, not a path."""

from __future__ import annotations

from typing import Any

import pytest

from tests.field.program import Checks, RefusalError, changed
from tests.field.signed import ANNA, NOW, RELEASE, TRUST, by_parts, public, sign, statement, trust
from tests.releases.conftest import Release
from toolchain.errors import CheckError
from toolchain.releases.envelope import PublicKey, parse_envelope
from toolchain.releases.signed_release import ReleaseKeys, check_release
from toolchain.releases.trust import day

pytestmark = pytest.mark.slow  # the program may have to be compiled

BOARD = sign(trust([ANNA], [ANNA]), TRUST, ANNA)
GIB = 2**30


def host_refuses(release: bytes) -> bool:
    envelope = parse_envelope(release, RELEASE, "it")
    try:
        check_release(envelope, ReleaseKeys([PublicKey(public(ANNA))], 1), "it", NOW)
    except CheckError as error:
        return "is not a release" in error.message
    return False


def refused(checks: Checks, path: list[str | int], new: Any) -> bool:
    """Return whether both ends refuse a changed statement."""
    return refused_as(checks, changed(statement(), path, new))


def refused_as(checks: Checks, value: Any) -> bool:
    """Return whether both ends refuse a statement."""
    release = sign(value, RELEASE, ANNA)
    assert checks.refusal("release", release, BOARD, NOW) == "statement"
    return host_refuses(release)


NAMES = (
    *(
        "../library.so",
        "/etc/passwd",
        "sample/../../x",
        "library.so/",
        "./library.so",
        "library.so ",
        "LIBRARY.SO",
    ),
    *(
        "sample/00.npy",
        "sample/1.npy",
        "sample/-1.npy",
        "sample/0.npy.so",
        "sample//0.npy",
        "sample",
        "expected/0.npy",
    ),
    *(
        "sample/0.npy\n",
        "sample\\0.npy",
        "manifest.json",
        "library.so\u0001",
        "release.json",
        "current",
        ".",
        "..",
        "",
    ),
    *("sample/99999999999999999999.npy", "x" * 300, "sample/\u0660.npy", "bundle"),
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("at", [2, 3])
def test_a_part_has_no_other_name(checks: Checks, name: str, at: int) -> None:
    assert refused(checks, ["subject", at, "name"], name)


def test_a_name_with_nul(checks: Checks) -> None:
    assert refused(checks, ["subject", 2, "name"], "library.so\0.txt")


def tensors(inputs: int, outputs: int) -> dict[str, Any]:
    value = statement()
    names = [f"sample/{n}.npy" for n in range(inputs)] + [f"expected/{n}.npy" for n in range(outputs)]
    digest = {"sha256": "00" * 32}
    value = changed(
        value, ["subject"], lambda listed: [*listed[:3], *({"name": n, "digest": digest} for n in names)]
    )
    value = changed(value, ["predicate", "sizes"], [1] * (2 + inputs + outputs))
    return changed(value, ["predicate", "test", "outputs"], lambda listed: [listed[0]] * outputs)


def test_counts_of_parts(checks: Checks) -> None:
    most = sign(tensors(128, 128), RELEASE, ANNA)
    assert len(checks.ask("release", most, BOARD, NOW)["parts"]) == 258
    assert not host_refuses(most)
    for inputs, outputs in ((128, 129), (0, 1), (1, 0), (0, 0), (1000, 1)):
        release = sign(tensors(inputs, outputs), RELEASE, ANNA)
        assert checks.refusal("release", release, BOARD, NOW) == "statement"
        assert host_refuses(release)


APPS = (
    "",
    ".",
    "..",
    "a/b",
    "A",
    "-a",
    "_a",
    "a b",
    "a\n",
    "ä",
    "a" * 64,
    "lock",
    "trust.json",
    "trust.json~",
    1,
    None,
)
VERSIONS = ("", "2", "2.0", "2.0.0+b", "v2.0.0", "02.0.0", "2.0.0 ", "9" * 65 + ".0.0", 2)
CLASSES: tuple[Any, ...] = ([], "rk3399", ["../x"], ["-x"], [""], ["x"] * 65, ["a b"], [1])
WRONG: dict[str, tuple[list[str | int], tuple[Any, ...]]] = {
    "_type": (["_type"], ("https://in-toto.io/Statement/v0.1", None)),
    "predicateType": (["predicateType"], ("urn:edge-toolchain:release:3",)),
    "parts that this type does not have": (
        ["predicate", "test", "outputs", 0],
        (lambda o: {**o, "parts": {}},),
    ),
    "no parts where the type has them": (["predicateType"], ("urn:edge-toolchain:release:2",)),
    "predicate": (["predicate"], ({}, [], None)),
    "more": ([], (lambda value: {**value, "more": 1},)),
    "more in the predicate": (["predicate"], (lambda value: {**value, "more": 1},)),
    "subject": (["subject"], ([], {}, lambda listed: listed[:-1], lambda listed: listed[1:])),
    "the bundle's name": (["subject", 0, "name"], ("x.bundle",)),
    "digest": (
        ["subject", 1, "digest"],
        ({"sha1": "00"}, {"sha256": "AB" * 32}, {"sha256": "00"}, "00" * 32),
    ),
    "two digests": (["subject", 1, "digest"], (lambda value: {**value, "sha512": "00"},)),
    "app": (["predicate", "app"], APPS),
    "version": (["predicate", "version"], VERSIONS),
    "issued": (["predicate", "issued"], (0, -1, 2**53, NOW + 365 * 86_400, "now", 1.5)),
    "expires": (["predicate", "expires"], (NOW, 0, 2**53 + 1, None)),
    "classes": (["predicate", "classes"], CLASSES),
    "sizes": (["predicate", "sizes"], ([], lambda sizes: sizes[:-1], lambda sizes: [*sizes, 1], {})),
    "a size": (["predicate", "sizes", 1], (-1, 2 * GIB + 1, 2**53, "1", None)),
    "the manifest's size": (["predicate", "sizes", 0], (2**22 + 1,)),
    "all sizes": (["predicate", "sizes"], ([1, 2 * GIB, GIB, GIB, 1, 1, 1],)),
    "requires": (["predicate", "requires"], (None, lambda value: {**value, "kernel": "5"})),
    "arch": (["predicate", "requires", "arch"], ("../x", "", None)),
    "features": (["predicate", "requires", "features"], (["a,b"], ["-x"], ["x"] * 257, "asimd")),
    "functions": (["predicate", "requires", "functions"], (["a b"], ["a,b"])),
    "device": (["predicate", "run", "device"], ("--state=/", "", "cpu x", "a\n", "x" * 300)),
    "threads": (["predicate", "run", "threads"], (0, -1, 4097)),
    "cluster": (["predicate", "run", "cluster"], ("", "--any-peer", "a b", None)),
    "runs": (["predicate", "test", "runs"], (0, 10_001)),
    "timeout_s": (["predicate", "test", "timeout_s"], (0, 86_401)),
    "outputs": (
        ["predicate", "test", "outputs"],
        ([], lambda listed: listed[1:], lambda listed: [*listed, listed[0]]),
    ),
    "compare": (["predicate", "test", "outputs", 0, "compare"], ("nothing", "steps", "")),
    "tolerance_ppb": (["predicate", "test", "outputs", 0, "tolerance_ppb"], (-1, 1e-3, 2**53 + 1)),
    "step": (
        ["predicate", "test", "outputs", 3, "step"],
        ("0", "-1", "nan", "inf", "1e999", "0x1", "1,5", "", None, "." * 9),
    ),
    "a step where none is": (["predicate", "test", "outputs", 0, "step"], ("1",)),
    "values where no step is": (["predicate", "test", "outputs", 0, "values"], (1,)),
    "budget": (["predicate", "budget"], (None, {}, {"latency_us": 0, "memory_kib": None})),
    "verified": (["predicate", "verified"], ({}, "yes", True)),
    "provenance": (
        ["predicate", "provenance"],
        (None, [], {"a": 1}, {"a": "x" * 2000}, {str(n): "" for n in range(65)}),
    ),
}


@pytest.mark.parametrize(("path", "values"), WRONG.values(), ids=WRONG.keys())
def test_what_is_no_statement(checks: Checks, path: list[str | int], values: tuple[Any, ...]) -> None:
    for value in values:
        assert refused(checks, path, value), value


RIGHT: tuple[tuple[list[str | int], Any], ...] = (
    (["predicate", "verified"], None),
    (["predicate", "requires", "glibc"], None),
    (["predicate", "test", "outputs", 3, "step"], "1e-05"),
    (["predicate", "test", "outputs", 3, "values"], None),
    (["predicate", "sizes", 1], 2 * GIB),
    (["predicate", "provenance"], {}),
)


@pytest.mark.parametrize(("path", "value"), RIGHT)
def test_what_may_be(checks: Checks, path: list[str | int], value: Any) -> None:
    release = sign(changed(statement(), path, value), RELEASE, ANNA)
    checks.ask("release", release, BOARD, NOW)
    assert not host_refuses(release)


PARTS: tuple[tuple[Any, bool], ...] = (
    ({}, True),
    ({"1": [4, 84]}, True),
    ({"1": [4, 84], "2": [1, 2, 9]}, True),
    ({"31": [1, 2**53]}, True),
    ({"0": [*range(1, 65)]}, True),
    ({"0": [*range(1, 66)]}, False),
    ({"0": [*range(1, 34)], "1": [1, 2]}, False),
    ({"32": [1, 2]}, False),
    ({"01": [1, 2]}, False),
    ({"-1": [1, 2]}, False),
    ({"": [1, 2]}, False),
    ({"a": [1, 2]}, False),
    ({"2": [1, 2], "1": [1, 2]}, False),
    ({"1": [2]}, False),
    ({"1": []}, False),
    ({"1": [0, 2]}, False),
    ({"1": [2, 2]}, False),
    ({"1": [3, 2]}, False),
    ({"1": 4}, False),
    ([], False),
    (None, False),
)


@pytest.mark.parametrize(("parts", "accepted"), PARTS)
def test_parts_of_an_output(checks: Checks, parts: Any, accepted: bool) -> None:
    release = sign(by_parts(statement(), parts), RELEASE, ANNA)
    assert host_refuses(release) is not accepted
    if accepted:
        checks.ask("release", release, BOARD, NOW)
    else:
        assert checks.refusal("release", release, BOARD, NOW) == "statement"


@pytest.mark.parametrize("output", [1, 2, 3])
def test_only_values_have_parts(checks: Checks, output: int) -> None:
    value = by_parts(statement(), {})
    assert refused_as(
        checks, changed(value, ["predicate", "test", "outputs", output, "parts"], {"1": [1, 2]})
    )


def test_what_the_host_writes_is_read(checks: Checks, signed: Release) -> None:
    """A bundle that the host made into a release, by its own code."""
    from tests.releases import made
    from toolchain.releases.signed_release import open_release, release_path

    bundle = signed(made.ANNA)
    written = made.trust([made.ANNA], [made.ANNA]).enveloped().signed_by(made.ANNA, "trust").to_bytes()
    answer = checks.ask("release", release_path(bundle).read_bytes(), written, made.NOW)
    release = open_release(bundle)
    assert answer["digest"] == release.digest
    assert answer["parts"] == [[part.name, part.sha256, part.size] for part in release.parts]


@pytest.mark.parametrize(
    "now",
    [
        *(NOW - 2 * 86400, 0, 951_782_400, 1_078_012_799, 4_107_542_399, 4_107_542_400, 2**31),
        *(253_402_300_799, 253_402_300_800, 2**40),
    ],
)
def test_moments_are_told_as_dates(checks: Checks, now: int) -> None:
    """Leap days, centuries, 2038 and the last year of the calendar: as the host shows them."""
    release = sign(statement(), RELEASE, ANNA)
    board = sign(trust([ANNA], [ANNA], expires=2**50), TRUST, ANNA)
    with pytest.raises(RefusalError) as refused:
        checks.ask("release", release, board, now)
    kind = "clock" if now < NOW else "expired"
    assert refused.value.kind == kind and f"this board's clock says {day(now)}" in refused.value.message
    predicate = statement()["predicate"]
    other = predicate["issued" if kind == "clock" else "expires"]
    assert f"at {day(other)}" in refused.value.message
