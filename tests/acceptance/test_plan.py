"""The steps: all devices of each class, what gives most first."""

from __future__ import annotations

import pytest

from toolchain.acceptance.choices import NETWORKS
from toolchain.acceptance.plan import check_skips, planned_steps
from toolchain.errors import UsageError
from toolchain.models.zoo import ZOO
from toolchain.profiles import class_names, load_profile


def test_the_whole_zoo_is_there() -> None:
    assert {each.source for each in NETWORKS} == {f"zoo:{name}" for name in ZOO}
    assert len({each.name for each in NETWORKS}) == len(NETWORKS)


@pytest.mark.parametrize("name", class_names())
def test_each_device_of_a_class_is_verified_early_and_always(name: str) -> None:
    profile = load_profile(name)
    steps = planned_steps(profile)
    names = [step.name for step in steps]
    assert len(names) == len(set(names)) and names[:3] == ["facts", "edge-rt", "rates"]
    kinds = {device.kind for device in profile.devices}
    firsts = names[3 : 3 + len(kinds)]
    assert {first.split(":")[1] for first in firsts} == kinds
    always = {step.name for step in steps if step.always}
    assert always == {"facts", "edge-rt", *firsts}
    for kind in kinds:
        assert {f"bench:{kind}", f"predict:{kind}"} <= set(names)
    assert "tune:cpu" in names


def test_networks_too_large_for_a_class_are_left_out() -> None:
    pynq = [step.name for step in planned_steps(load_profile("pynq"))]
    large = [step.name for step in planned_steps(load_profile("x86_64"))]
    assert "verify:cpu:vgg-16" in large and "verify:cpu:vgg-16" not in pynq
    assert "verify:cpu:mobilenet" in pynq and "verify:vta:resnet-18-int8" in pynq
    assert "verify:vta:mobilenet-int8" not in pynq


def test_devices_take_turns_after_the_first_networks() -> None:
    names = [step.name for step in planned_steps(load_profile("rk3399"))]
    rest = [name.split(":")[1] for name in names[names.index("tune:cpu") + 1 :]]
    assert rest[:4] == ["cpu", "opencl", "cpu", "opencl"]


def test_words_of_skip_name_steps_or_beginnings() -> None:
    steps = planned_steps(load_profile("rk3399"))
    check_skips(steps, ("tune", "verify:opencl", "bench:cpu", "rates"))
    for wrong in ("tun", "verify:", "verify:vta", ""):
        with pytest.raises(UsageError, match="--skip"):
            check_skips(steps, (wrong,))
    assert [step.name for step in steps if step.named_by("tune")] == ["tune:cpu"]
