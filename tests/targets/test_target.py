"""What code is generated for: known to LLVM, or refused by us, since LLVM only logs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.architectures.table import LINUX, Architecture
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
        made = target_for(profile, cluster.cpu)
        attributes = made.target.attrs
        assert str(attributes["mtriple"]) == profile.triple == made.triple
        assert str(attributes["mcpu"]) == cluster.cpu == made.cpu
        assert int(attributes["num-cores"]) == cluster.cores == made.threads
        assert [str(feature) for feature in attributes.get("mattr", [])] == list(profile.features)
        assert made.requires == tuple(sorted(made.requires))
        assert made.requires


def test_the_first_cluster_is_the_default_and_threads_can_be_given() -> None:
    assert target_for(load_profile("rk3399")).cpu == "cortex-a72"
    made = target_for(load_profile("rk3399"), "cortex-a53", threads=1)
    assert (made.cpu, made.threads) == ("cortex-a53", 1)
    assert int(made.target.attrs["num-cores"]) == 1


def test_a_cluster_that_the_class_lacks_is_refused_with_those_it_has() -> None:
    with pytest.raises(UsageError, match=r"--cluster cortex-a76.*rk3399.*cortex-a72, cortex-a53"):
        target_for(load_profile("rk3399"), "cortex-a76")


def test_the_host_has_what_its_target_requires() -> None:
    made = target_for(host_profile())
    assert set(made.requires) <= host_cpu_flags()
    assert made.level in (*X86_LEVELS, "neon")


@pytest.mark.parametrize("level", X86_LEVELS)
def test_the_levels_of_x86_are_their_own_and_require_what_the_abi_says(level: str) -> None:
    made = target_for(changed("x86_64", level))
    assert made.level == level
    assert X86_LEVELS[level] <= set(made.requires)


def test_a_cpu_has_the_highest_level_that_its_features_allow() -> None:
    assert target_for(changed("x86_64", "haswell")).level == "x86-64-v3"
    assert target_for(changed("x86_64", "skylake-avx512")).level == "x86-64-v4"
    assert target_for(changed("x86_64", "nehalem")).level == "x86-64-v2"


def test_what_cortex_a72_requires_is_in_linuxs_words() -> None:
    assert target_for(load_profile("rk3399")).requires == ("asimd", "fp")


def test_armv7_is_hard_float_and_shares_no_records_with_aarch64() -> None:
    made = target_for(load_profile("pynq"))
    assert made.requires == ("neon", "vfpd32", "vfpv3")
    assert (made.cpu, made.level, made.threads) == ("cortex-a9", "neon", 2)
    assert str(made.target.attrs["mfloat-abi"]) == "hard"
    assert made.triple != target_for(load_profile("rk3399")).triple  # the level is called neon there too


def test_features_are_added_and_taken_away() -> None:
    more = target_for(changed(features=("+neon", "+dotprod")))
    assert "asimddp" in more.requires
    less = target_for(changed("x86_64", "x86-64-v4", features=("-avx512vl",)))
    assert "avx512vl" not in less.requires
    assert less.level == "x86-64-v3"


@pytest.mark.parametrize(
    ("cpu", "near"), [("cortex-a7x", "cortex-a7"), ("cortexa72", "cortex-a72"), ("CORTEX-A72", "cortex-")]
)
def test_an_unknown_cpu_is_refused_with_those_of_like_names(cpu: str, near: str) -> None:
    with pytest.raises(UsageError, match=rf"board class rk3399.*no cpu '{cpu}' for aarch64") as raised:
        target_for(changed(cpu=cpu))
    assert near in raised.value.hint
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("feature", "hint"),
    [("+dotprdo", "+dotprod"), ("+noen", "+neon"), ("neon", "+neon"), ("+avx2", ""), ("+", ""), ("", "")],
)
def test_an_unknown_feature_is_refused_with_those_of_like_names(feature: str, hint: str) -> None:
    with pytest.raises(UsageError, match=r"board class rk3399: LLVM knows no feature") as raised:
        target_for(changed(features=(feature,)))
    assert repr(feature) in raised.value.message
    assert hint in raised.value.hint
    assert raised.value.hint


def test_a_cpu_of_another_architecture_is_unknown() -> None:
    with pytest.raises(UsageError, match="no cpu 'haswell' for aarch64"):
        target_for(changed(cpu="haswell"))


@pytest.mark.parametrize("triple", ["riscv64-unknown-linux-gnu", "toaster-unknown-linux-gnu"])
def test_an_architecture_that_is_not_supported_is_refused(triple: str) -> None:
    with pytest.raises(UsageError, match=rf"triple '{triple}' is not supported"):
        target_for(changed(triple=triple))


@given(st.text(max_size=12))
def test_no_cpu_name_reaches_llvm_unchecked(name: str) -> None:
    profile = changed(cpu=name)
    if name in cpus(profile.triple):
        target_for(profile)
    else:
        with pytest.raises(UsageError):
            target_for(profile)


@pytest.mark.parametrize("row", LINUX.values(), ids=list(LINUX))
def test_the_table_of_features_names_what_llvm_knows(row: Architecture) -> None:
    known = frozenset().union(*(cpu_features(row.triple, cpu) for cpu in cpus(row.triple)))
    assert set(row.features) <= known


def test_features_are_translated_sorted_and_the_rest_left_out() -> None:
    assert X86.linux_features({"fma", "avx2", "64bit", "slow-shld"}) == ("avx2", "fma")
    assert LINUX["aarch64"].linux_features(()) == ()


def test_the_features_of_the_levels_are_all_translated() -> None:
    for level, flags in X86_LEVELS.items():
        assert flags <= set(X86.linux_features(cpu_features(X86.triple, level)))


LACKING = [
    (name, cluster.cpu)
    for name in ("rk3399", "raspberrypi4", "pynq", "android-arm64", "x86_64")
    for cluster in load_profile(name).clusters
]


@pytest.mark.parametrize(("name", "cpu"), LACKING)
def test_float16_is_refused_where_the_cpu_does_not_compute_in_it(name: str, cpu: str) -> None:
    with pytest.raises(UsageError, match=rf"--dtype float16: {cpu} of board class {name} does not") as caught:
        target_for(load_profile(name), cpu, dtype="float16")
    assert caught.value.hint == "use --dtype float32"


@pytest.mark.parametrize("name", ["raspberrypi5", "jetson-orin", "rk3399", "x86_64"])
def test_tfloat32_is_refused_on_every_cpu_also_on_one_that_computes_in_float16(name: str) -> None:
    with pytest.raises(UsageError, match="--dtype tfloat32: only tensor cores") as caught:
        target_for(load_profile(name), dtype="tfloat32")
    assert caught.value.hint == "add --device cuda, or use --dtype float32"


def test_code_in_float16_asks_for_what_computes_in_it_and_other_code_does_not() -> None:
    has = changed("x86_64", "x86-64-v4", optional=("+avx512fp16",))
    half, full = target_for(has, dtype="float16"), target_for(has)
    assert (half.dtype, full.dtype) == ("float16", "float32")
    assert set(half.requires) - set(full.requires) == {"avx512_fp16"}
    assert half.features == ("+avx512fp16",)
    assert "avx512fp16" in str(half.target.attrs["mattr"])
    assert half.level == full.level == "x86-64-v4"
    assert "asimdhp" in target_for(load_profile("raspberrypi5"), dtype="float16").requires


def test_the_host_offers_float16_where_its_cpu_has_it() -> None:
    profile, flags = host_profile(), host_cpu_flags()
    if flags & {"avx512_fp16", "asimdhp"}:
        assert set(target_for(profile, dtype="float16").requires) <= flags
    else:
        with pytest.raises(UsageError, match="does not compute in float16"):
            target_for(profile, dtype="float16")


def test_integers_use_the_best_of_a_classs_instructions_and_other_code_does_not() -> None:
    offering = load_profile("x86_64").model_copy(update={"optional": ("+avxvnni", "+avx512vnni")})
    made = target_for(offering, integers=True)
    assert "avx512_vnni" in made.requires and "avx_vnni" not in made.requires
    assert not {"avx512_vnni", "avx_vnni"} & set(target_for(offering).requires)
    assert target_for(load_profile("x86_64"), integers=True).features == ()


def test_a_device_has_its_limits_and_the_cores_as_its_host() -> None:
    profile = load_profile("rk3399")
    made = device_target(profile, "opencl", cluster="cortex-a53")
    attributes = made.target.attrs
    assert (str(made.target.kind.name), str(attributes["device"])) == ("opencl", "mali")
    assert int(attributes["max_threads_per_block"]) == int(attributes["max_num_threads"]) == 256
    assert int(attributes["max_shared_memory_per_block"]) == 32768
    assert str(made.host.attrs["mcpu"]) == made.cpu == "cortex-a53"
    assert (made.device, made.limits) == ("opencl:mali-t860", profile.device("opencl"))
    assert str(made.target) == str(type(made.target)(str(made.target))), "other processes read it as text"


def test_a_device_without_a_name_is_any_of_its_kind_until_one_is_given() -> None:
    profile = load_profile("x86_64")
    made = device_target(profile, "opencl")
    assert made.device == "opencl" and "device" not in made.target.attrs
    assert device_target(profile, "opencl", "pthread-Some CPU").device == "opencl:pthread-some-cpu"
    assert device_target(load_profile("rk3399"), "opencl", "pthread-x").device == "opencl:pthread-x"


def test_float16_is_refused_where_the_device_lacks_it() -> None:
    assert device_target(load_profile("rk3399"), "opencl", dtype="float16").dtype == "float16"
    with pytest.raises(UsageError, match=r"--dtype float16: the opencl device of board class x86_64.*fp16"):
        device_target(load_profile("x86_64"), "opencl", dtype="float16")


def test_a_class_without_the_device_says_what_it_has() -> None:
    with pytest.raises(UsageError, match=r"--device opencl: board class pynq has no such device") as raised:
        device_target(load_profile("pynq"), "opencl")
    assert raised.value.hint == "it has: cpu, vta"


def test_a_cpu_is_its_own_host() -> None:
    made = target_for(load_profile("pynq"))
    assert made.host.same_as(made.target) and made.limits is None


def test_the_architectures_of_a_gpu_can_be_chosen() -> None:
    cuda = load_profile("cuda")
    assert device_target(cuda, "cuda").target.keys == ("cuda", "gpu", "sm_80", "sm_90", "sm_120")
    one = device_target(cuda, "cuda", arch="sm_90")
    assert one.target.keys == ("cuda", "gpu", "sm_90") and one.target.attrs["arch"] == "sm_90"
    with pytest.raises(UsageError, match=r"--arch sm_90,sm_42: arch is sm_80 or newer") as caught:
        device_target(cuda, "cuda", arch="sm_90,sm_42")
    assert "--arch native" in caught.value.hint
