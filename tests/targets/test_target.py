"""What code is generated for: known to LLVM, or refused by us, since LLVM only logs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.architectures.architecture import Architecture
from toolchain.architectures.table import LINUX
from toolchain.errors import UsageError
from toolchain.host import host_cpu_flags, host_profile
from toolchain.profiles import Cluster, Profile, class_names, load_profile
from toolchain.targets.target import cpu_features, cpus, device_target, target_for

X86 = LINUX["x86_64"]
X86_LEVELS = {level.name: level.flags for level in X86.levels}


def changed(name: str = "rk3399", cpu: str | None = None, **values: Any) -> Profile:
    profile = load_profile(name)
    if cpu is not None:
        values["clusters"] = (Cluster(cpu=cpu, cores=3),)
    return profile.model_copy(update=values)


@pytest.mark.parametrize("name", class_names())
def test_every_cluster_of_every_class_has_a_target(name: str) -> None:
    profile = load_profile(name)
    for cluster in profile.clusters:
        target = target_for(profile, cluster.cpu)
        attributes = target.target.attrs
        assert str(attributes["mtriple"]) == profile.triple == target.triple
        assert str(attributes["mcpu"]) == cluster.cpu == target.cpu
        assert int(attributes["num-cores"]) == cluster.cores == target.threads
        assert [str(feature) for feature in attributes.get("mattr", [])] == list(profile.features)
        assert target.requires == tuple(sorted(target.requires))
        assert target.requires


def test_default_cluster_and_threads() -> None:
    assert target_for(load_profile("rk3399")).cpu == "cortex-a72"
    target = target_for(load_profile("rk3399"), "cortex-a53", threads=1)
    assert (target.cpu, target.threads) == ("cortex-a53", 1)
    assert int(target.target.attrs["num-cores"]) == 1


def test_unknown_cluster_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"--cluster cortex-a76.*rk3399.*cortex-a72, cortex-a53"):
        target_for(load_profile("rk3399"), "cortex-a76")


def test_the_host_has_what_its_target_requires() -> None:
    target = target_for(host_profile())
    assert set(target.requires) <= host_cpu_flags()
    assert target.level in (*X86_LEVELS, "neon")


@pytest.mark.parametrize("level", X86_LEVELS)
def test_x86_levels_require_the_abis_features(level: str) -> None:
    target = target_for(changed("x86_64", level))
    assert target.level == level
    assert X86_LEVELS[level] <= set(target.requires)


def test_level_is_the_highest_that_the_features_allow() -> None:
    assert target_for(changed("x86_64", "haswell")).level == "x86-64-v3"
    assert target_for(changed("x86_64", "skylake-avx512")).level == "x86-64-v4"
    assert target_for(changed("x86_64", "nehalem")).level == "x86-64-v2"


def test_requirements_have_linuxs_names() -> None:
    assert target_for(load_profile("rk3399")).requires == ("asimd", "fp")


def test_armv7_is_hard_float_and_shares_no_records_with_aarch64() -> None:
    target = target_for(load_profile("pynq"))
    assert target.requires == ("neon", "vfpd32", "vfpv3")
    assert (target.cpu, target.level, target.threads) == ("cortex-a9", "neon", 2)
    assert str(target.target.attrs["mfloat-abi"]) == "hard"
    assert target.triple != target_for(load_profile("rk3399")).triple  # the level is called neon there too


def test_features_are_switched_on_and_off() -> None:
    more = target_for(changed(features=("+neon", "+dotprod")))
    assert "asimddp" in more.requires
    less = target_for(changed("x86_64", "x86-64-v4", features=("-avx512vl",)))
    assert "avx512vl" not in less.requires
    assert less.level == "x86-64-v3"


@pytest.mark.parametrize(
    ("cpu", "near"), [("cortex-a7x", "cortex-a7"), ("cortexa72", "cortex-a72"), ("CORTEX-A72", "cortex-")]
)
def test_unknown_cpu_suggests_similar_names(cpu: str, near: str) -> None:
    with pytest.raises(UsageError, match=rf"board class rk3399.*no cpu '{cpu}' for aarch64") as raised:
        target_for(changed(cpu=cpu))
    assert near in raised.value.hint
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("feature", "hint"),
    [("+dotprdo", "+dotprod"), ("+noen", "+neon"), ("neon", "+neon"), ("+avx2", ""), ("+", ""), ("", "")],
)
def test_unknown_feature_suggests_similar_names(feature: str, hint: str) -> None:
    with pytest.raises(UsageError, match=r"board class rk3399: LLVM knows no feature") as raised:
        target_for(changed(features=(feature,)))
    assert repr(feature) in raised.value.message
    assert hint in raised.value.hint
    assert raised.value.hint


def test_a_cpu_of_another_architecture_is_unknown() -> None:
    with pytest.raises(UsageError, match="no cpu 'haswell' for aarch64"):
        target_for(changed(cpu="haswell"))


@pytest.mark.parametrize("triple", ["riscv64-unknown-linux-gnu", "toaster-unknown-linux-gnu"])
def test_refuses_unsupported_architectures(triple: str) -> None:
    with pytest.raises(UsageError, match=rf"triple '{triple}' is not supported"):
        target_for(changed(triple=triple))


@given(st.text(max_size=12))
def test_cpu_names_are_checked_before_llvm(name: str) -> None:
    profile = changed(cpu=name)
    if name in cpus(profile.triple):
        target_for(profile)
    else:
        with pytest.raises(UsageError):
            target_for(profile)


@pytest.mark.parametrize("row", LINUX.values(), ids=list(LINUX))
def test_feature_table_matches_llvm(row: Architecture) -> None:
    known = frozenset().union(*(cpu_features(row.triple, cpu) for cpu in cpus(row.triple)))
    assert set(row.features) <= known


def test_linux_features_are_sorted_and_filtered() -> None:
    assert X86.linux_features({"fma", "avx2", "64bit", "slow-shld"}) == ("avx2", "fma")
    assert LINUX["aarch64"].linux_features(()) == ()


def test_all_features_of_levels_are_translated() -> None:
    for level, flags in X86_LEVELS.items():
        assert flags <= set(X86.linux_features(cpu_features(X86.triple, level)))


LACKING = [
    (name, cluster.cpu)
    for name in ("rk3399", "raspberrypi4", "pynq", "android-arm64", "x86_64")
    for cluster in load_profile(name).clusters
]


@pytest.mark.parametrize(("name", "cpu"), LACKING)
def test_refuses_float16_without_cpu_support(name: str, cpu: str) -> None:
    with pytest.raises(UsageError, match=rf"--dtype float16: {cpu} of board class {name} does not") as caught:
        target_for(load_profile(name), cpu, dtype="float16")
    assert caught.value.hint == "use --dtype float32"


@pytest.mark.parametrize("name", ["raspberrypi5", "jetson-orin", "rk3399", "x86_64"])
def test_refuses_tfloat32_on_cpus(name: str) -> None:
    with pytest.raises(UsageError, match="--dtype tfloat32: only tensor cores") as caught:
        target_for(load_profile(name), dtype="tfloat32")
    assert caught.value.hint == "add --device cuda, or use --dtype float32"


def test_only_float16_code_requires_float16() -> None:
    has = changed("x86_64", "x86-64-v4", optional=("+avx512fp16",))
    half, full = target_for(has, dtype="float16"), target_for(has)
    assert (half.dtype, full.dtype) == ("float16", "float32")
    assert set(half.requires) - set(full.requires) == {"avx512_fp16"}
    assert half.features == ("+avx512fp16",)
    assert "avx512fp16" in str(half.target.attrs["mattr"])
    assert half.level == full.level == "x86-64-v4"
    assert "asimdhp" in target_for(load_profile("raspberrypi5"), dtype="float16").requires


def test_host_offers_float16_if_its_cpu_does() -> None:
    profile, flags = host_profile(), host_cpu_flags()
    if flags & {"avx512_fp16", "asimdhp"}:
        assert set(target_for(profile, dtype="float16").requires) <= flags
    else:
        with pytest.raises(UsageError, match="does not compute in float16"):
            target_for(profile, dtype="float16")


def test_only_integer_code_uses_dot_products() -> None:
    offering = load_profile("x86_64").model_copy(update={"optional": ("+avxvnni", "+avx512vnni")})
    target = target_for(offering, integers=True)
    assert "avx512_vnni" in target.requires and "avx_vnni" not in target.requires
    assert not {"avx512_vnni", "avx_vnni"} & set(target_for(offering).requires)
    assert target_for(load_profile("x86_64"), integers=True).features == ()


def test_device_target_has_limits_and_host() -> None:
    profile = load_profile("rk3399")
    target = device_target(profile, "opencl", cluster="cortex-a53")
    attributes = target.target.attrs
    assert (str(target.target.kind.name), str(attributes["device"])) == ("opencl", "mali")
    assert int(attributes["max_threads_per_block"]) == int(attributes["max_num_threads"]) == 256
    assert int(attributes["max_shared_memory_per_block"]) == 32768
    assert str(target.host.attrs["mcpu"]) == target.cpu == "cortex-a53"
    assert (target.device, target.limits) == ("opencl:mali-t860", profile.device("opencl"))
    assert str(target.target) == str(type(target.target)(str(target.target))), (
        "other processes read it as text"
    )


def test_unnamed_device_is_any_of_its_kind() -> None:
    profile = load_profile("x86_64")
    target = device_target(profile, "opencl")
    assert target.device == "opencl" and "device" not in target.target.attrs
    assert device_target(profile, "opencl", "pthread-Some CPU").device == "opencl:pthread-some-cpu"
    assert device_target(load_profile("rk3399"), "opencl", "pthread-x").device == "opencl:pthread-x"


def test_refuses_float16_without_device_support() -> None:
    assert device_target(load_profile("rk3399"), "opencl", dtype="float16").dtype == "float16"
    with pytest.raises(UsageError, match=r"--dtype float16: the opencl device of board class x86_64.*fp16"):
        device_target(load_profile("x86_64"), "opencl", dtype="float16")


def test_missing_device_lists_the_classs_devices() -> None:
    with pytest.raises(UsageError, match=r"--device opencl: board class pynq has no such device") as raised:
        device_target(load_profile("pynq"), "opencl")
    assert raised.value.hint == "it has: cpu, vta"


def test_a_cpu_is_its_own_host() -> None:
    target = target_for(load_profile("pynq"))
    assert target.host.same_as(target.target) and target.limits is None


def test_gpu_architectures_can_be_chosen() -> None:
    cuda = load_profile("cuda")
    assert device_target(cuda, "cuda").target.keys == ("cuda", "gpu", "sm_80", "sm_90", "sm_120")
    one = device_target(cuda, "cuda", arch="sm_90")
    assert one.target.keys == ("cuda", "gpu", "sm_90") and one.target.attrs["arch"] == "sm_90"
    with pytest.raises(UsageError, match=r"--arch sm_90,sm_42: arch is sm_80 or newer") as caught:
        device_target(cuda, "cuda", arch="sm_90,sm_42")
    assert "--arch native" in caught.value.hint
