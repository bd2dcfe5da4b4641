"""The tvm Target of a cluster of cores, checked before LLVM sees it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache

import tvm

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
        What computes, where it is no CPU: kind and name, as records and manifests have it.
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
