"""The tvm Target of a cluster of cores, or of a device beside them, checked before LLVM sees it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from functools import cache

import tvm

from toolchain.devices.device import CPU, Device, device_key
from toolchain.devices.table import kind_of
from toolchain.errors import UsageError
from toolchain.profiles import Profile
from toolchain.targets.llvm import cpu_features, cpus


@dataclass(frozen=True)
class BoardTarget:
    """What code is generated for.

    Attributes
    ----------
    requires
        Linux's names of the CPU features without which the code must not be loaded.
    level
        Feature level of the records' key: `x86-64-v3`, `neon` …
    threads
        Cores of the cluster.
    dtype
        What the code computes in, float32 or float16.
    features
        LLVM's, beyond the cpu's.
    device
        What computes, where it is no CPU: kind and name, as records and manifests have it; the kind alone
        where it is not known which of them, so that no record is one of it.
    limits
        That device's, which code for it keeps to.
    recorded_as
        What records call the device, where that is not `device`.
    """

    target: tvm.target.Target
    triple: str
    cpu: str
    level: str
    requires: tuple[str, ...]
    threads: int
    dtype: str = "float32"
    features: tuple[str, ...] = ()
    device: str = ""
    limits: Device | None = None
    recorded_as: str = ""

    @property
    def kind(self) -> str:
        """Kind of what computes, in whose memory values lie."""
        return self.limits.kind if self.limits else CPU

    @property
    def host(self) -> tvm.target.Target:
        """What starts the work: the cores, with a device or without."""
        return host_of(self.target)


def host_of(target: tvm.target.Target) -> tvm.target.Target:
    """Return the CPU of a target: its host where a device computes, else itself."""
    return target if target.host is None else target.host


def target_for(
    profile: Profile, cluster: str | None = None, threads: int | None = None, dtype: str = "float32"
) -> BoardTarget:
    """Return the Target for `cluster` (a cpu name; None: the first) of a board class.

    Raises
    ------
    UsageError
        The class names an architecture, cpu or feature that is unknown; LLVM itself would only
        log the latter two and go on with plain code. Or its cores do not compute in `dtype`.
    """
    cores = profile.cluster(cluster)
    source = f"board class {profile.name}"
    row = profile.architecture
    _check_cpu(source, profile.triple, cores.cpu)
    _check_features(source, profile)
    features = profile.features + _for_dtype(profile, cores.cpu, dtype)
    count = threads or cores.cores
    options: dict[str, object] = {
        "kind": "llvm",
        "mtriple": profile.triple,
        "mcpu": cores.cpu,
        "num-cores": count,
    }
    if row.hard_float:
        options["mfloat-abi"] = "hard"  # the profile's triple says so; TVM wants it here too
    if features:
        options["mattr"] = list(features)
    target = tvm.target.Target(options)
    requires = row.linux_features(_enabled(profile.triple, features, cores.cpu))
    level = row.level(requires)
    return BoardTarget(target, profile.triple, cores.cpu, level, requires, count, dtype, features)


def device_target(
    profile: Profile,
    kind: str,
    name: str = "",
    cluster: str | None = None,
    threads: int | None = None,
    dtype: str = "float32",
) -> BoardTarget:
    """Return the Target for a device of a board class, with the cores of `cluster` as its host.

    Parameters
    ----------
    kind
        Of the table of kinds of devices, the CPU apart.
    name
        Of the device, where it is another than the class's, or the class leaves it open.

    Raises
    ------
    UsageError
        The class has no such device, or one that does not compute in `dtype`; or its cores are wrong, as
        with `target_for`.
    """
    device, row = profile.device(kind), kind_of(kind)
    if row.target_options is None:
        raise UsageError(f"--device {kind}: TVM makes no code for devices of this kind", "use --device cpu")
    device = device.model_copy(update={"name": name or device.name})
    if dtype == "float16" and not device.half:
        raise UsageError(
            f"--dtype float16: the {kind} device of board class {profile.name} does not compute in float16 "
            f"(it lacks {row.half})",
            "use --dtype float32; a class whose devices do has `half = true` in its board.toml",
        )
    cores = target_for(profile, cluster, threads)
    return replace(
        cores,
        target=tvm.target.Target({"kind": kind, **row.target_options(device)}, host=cores.target),
        dtype=dtype,
        device=device_key(kind, device.name) if device.name else kind,
        limits=device,
    )


def _for_dtype(profile: Profile, cpu: str, dtype: str) -> tuple[str, ...]:
    """Return the features to switch on for code in a dtype."""
    if dtype == "float32":
        return ()
    needed = profile.architecture.half
    if needed in _enabled(profile.triple, profile.features, cpu):
        return ()
    if f"+{needed}" in profile.optional:
        return (f"+{needed}",)
    lacks = f"it lacks {needed}" if needed else f"{profile.arch} has no such instructions"
    raise UsageError(
        f"--dtype {dtype}: {cpu} of board class {profile.name} does not compute in {dtype} ({lacks})",
        "use --dtype float32",
    )


def _check_cpu(source: str, triple: str, cpu: str) -> None:
    known = cpus(triple)
    if cpu not in known:
        close = difflib.get_close_matches(cpu, known, n=3) or sorted(known)
        raise UsageError(f"{source}: LLVM knows no cpu {cpu!r} for {triple}", f"try: {', '.join(close)}")


def _check_features(source: str, profile: Profile) -> None:
    for feature in (*profile.features, *profile.optional):
        known = _known_features(profile.triple)
        if feature[:1] not in "+-" or feature[1:] not in known:
            close = difflib.get_close_matches(feature.lstrip("+-"), known, n=3)
            hint = (
                "try: " + ", ".join(f"+{name}" for name in close) if close else "write it as +name or -name"
            )
            raise UsageError(f"{source}: LLVM knows no feature {feature!r} for {profile.triple}", hint)


@cache
def _known_features(triple: str) -> frozenset[str]:
    """Every feature that some cpu of the triple has."""
    return frozenset().union(*(cpu_features(triple, cpu) for cpu in cpus(triple)))


def _enabled(triple: str, features: tuple[str, ...], cpu: str) -> frozenset[str]:
    on = {feature[1:] for feature in features if feature.startswith("+")}
    off = {feature[1:] for feature in features if feature.startswith("-")}
    return (cpu_features(triple, cpu) | on) - off
