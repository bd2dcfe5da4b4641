"""The TVM target of a CPU cluster or of a device beside it, checked before LLVM gets it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from functools import cache

import tvm

from toolchain.architectures.rates import ClusterRates
from toolchain.devices.device import CPU, Device, device_key
from toolchain.devices.table import kind_of
from toolchain.errors import UsageError
from toolchain.profiles import Profile

# Queries the LLVM that is built into TVM about cpus and features.


def _target(triple: str, cpu: str | None = None) -> tvm.target.Target:
    options = {"kind": "llvm", "mtriple": triple}
    return tvm.target.Target(options if cpu is None else {**options, "mcpu": cpu})


@cache
def cpus(triple: str) -> frozenset[str]:
    """Return the cpu names that LLVM knows for a triple."""
    listed = tvm.get_global_func("target.llvm_get_cpu_archlist")(_target(triple))
    return frozenset(str(name) for name in listed)


@cache
def cpu_features(triple: str, cpu: str) -> frozenset[str]:
    """Return the LLVM features of a cpu."""
    listed = tvm.get_global_func("target.llvm_get_cpu_features")(_target(triple, cpu))
    return frozenset(str(name) for name in listed)


def without_loop_vectors(target: tvm.target.Target) -> tvm.target.Target:
    """Return the target with LLVM's loop vectoriser switched off.

    TVM sets the option only while it compiles for this target.
    """
    definition = {key: value for key, value in target.export().items() if key != "tag"}
    return tvm.target.Target({**definition, "cl-opt": ["-vectorize-loops:bool=false"]})


@dataclass(frozen=True)
class BoardTarget:
    """A target of code generation, with the facts that records, manifests and tuning need.

    Attributes
    ----------
    requires
        CPU features that the code needs at load time, by Linux's names.
    level
        Feature level in the key of records: `x86-64-v3`, `neon` …
    threads
        Threads to run with: by default the cores of the cluster.
    dtype
        Type in which the code computes: float32 or float16.
    features
        LLVM features switched on or off beyond those of the cpu.
    device
        Kind and name of the device that computes, as in records and manifests; empty for the CPU. The kind
        alone if the device's name is not known; such a target has no records.
    limits
        The device's entry of board.toml, with the limits that code must keep; None for the CPU.
    recorded_as
        Name of the device in records, if it differs from `device`.
    rates
        Measured speeds of the cluster, by which code is chosen; None: those of the machine's row.
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
    rates: ClusterRates | None = None

    @property
    def kind(self) -> str:
        """Kind of the device that computes, in whose memory the values are; `cpu` without a device."""
        return self.limits.kind if self.limits else CPU

    @property
    def computes_on(self) -> str:
        """Device that computes, as edge-rt is asked for it; `cpu` without one."""
        return self.limits.kind if self.limits else self.device or CPU

    @property
    def architectures(self) -> tuple[str, ...]:
        """Architectures of the device for which code is made; empty if its driver compiles the kernels."""
        if self.limits is None or "arch" not in self.limits.own:
            return ()
        return tuple(key for key in map(str, self.target.keys) if key not in (self.kind, "gpu"))

    @property
    def host(self) -> tvm.target.Target:
        """Target of the CPU that runs the host code."""
        return host_of(self.target)


def host_of(target: tvm.target.Target) -> tvm.target.Target:
    """Return the CPU of a target: its host if it is a device's target, else the target itself."""
    return target if target.host is None else target.host


def target_for(
    profile: Profile,
    cluster: str | None = None,
    threads: int | None = None,
    dtype: str = "float32",
    *,
    integers: bool = False,
) -> BoardTarget:
    """Return the target of a CPU cluster of a board class (a cpu name; None for the first cluster).

    Parameters
    ----------
    integers
        Whether to use the class's optional instructions for products of 8-bit integers: the best of them.

    Raises
    ------
    UsageError
        The class names an unknown architecture, cpu or feature (LLVM would only log the latter two and
        generate plain code), or its cores do not compute in `dtype`.
    """
    cores = profile.cluster(cluster)
    source = f"board class {profile.name}"
    row = profile.architecture
    _check_cpu(source, profile.triple, cores.cpu)
    _check_features(source, profile)
    features = profile.features + _for_dtype(profile, cores.cpu, dtype)
    if integers:
        features += tuple(f"+{name}" for name in row.integers if f"+{name}" in profile.optional)[:1]
    count = threads or cores.cores
    options: dict[str, object] = {
        "kind": "llvm",
        "mtriple": profile.triple,
        "mcpu": cores.cpu,
        "num-cores": count,
        **row.target_options,
    }
    if features:
        options["mattr"] = list(features)
    target = tvm.target.Target(options)
    requires = row.linux_features(_enabled(profile.triple, features, cores.cpu))
    level = row.level(requires)
    return BoardTarget(
        target,
        profile.triple,
        cores.cpu,
        level,
        requires,
        count,
        dtype,
        features,
        rates=cores.rates,
    )


def device_target(
    profile: Profile,
    kind: str,
    name: str = "",
    cluster: str | None = None,
    threads: int | None = None,
    dtype: str = "float32",
    arch: str = "",
) -> BoardTarget:
    """Return the target of a device of a board class, with the cores of `cluster` as its host.

    Parameters
    ----------
    kind
        A kind of the table of kinds of devices, not the CPU.
    name
        Name of the device, if it is not the class's or the class names none.
    arch
        Architectures of the device, separated by commas; empty for the class's.

    Raises
    ------
    UsageError
        The class has no such device, it does not compute in `dtype`, no code can be made for `arch`, or the
        cores are invalid as in `target_for`.
    MissingError
        The device's architecture is that of this host, which cannot be asked.
    """
    device, row = profile.device(kind), kind_of(kind)
    if row.target_options is None:
        raise UsageError(
            f"--device {kind}: TVM generates no code for this kind of device", "use --device cpu"
        )
    device = _with_architectures(device.model_copy(update={"name": name or device.name}), arch)
    if dtype == "float16" and not device.half:
        raise UsageError(
            f"--dtype float16: the {kind} device of board class {profile.name} does not compute in float16 "
            f"(it lacks {row.half})",
            "use --dtype float32; a class whose devices do has `half = true` in its board.toml",
        )
    if dtype == "tfloat32" and not row.tensors:
        raise UsageError(
            f"--dtype tfloat32: {kind} devices have no tensor cores that multiply tfloat32",
            "use --dtype float32, or --device cuda",
        )
    cores = target_for(profile, cluster, threads)
    return replace(
        cores,
        target=tvm.target.Target({"kind": kind, **row.target_options(device)}, host=cores.target),
        dtype=dtype,
        device=device_key(kind, device.name) if device.name else kind,
        limits=device,
    )


def _with_architectures(device: Device, arch: str) -> Device:
    if not arch:
        return device
    changed = Device.model_validate({**device.model_dump(exclude_none=True), "arch": arch.split(",")})
    try:
        if check := kind_of(device.kind).check:
            check(changed)
    except ValueError as error:
        hint = "name the GPU's, such as --arch sm_90, or --arch native for a GPU here; or leave --arch out"
        raise UsageError(f"--arch {arch}: {error}", hint) from error
    return changed


def _for_dtype(profile: Profile, cpu: str, dtype: str) -> tuple[str, ...]:
    """Return the features to switch on so that the cores compute in a dtype.

    Raises
    ------
    UsageError
        The cores do not compute in it.
    """
    if dtype == "float32":
        return ()
    if dtype == "tfloat32":
        raise UsageError(
            "--dtype tfloat32: only tensor cores multiply tfloat32",
            "add --device cuda, or use --dtype float32",
        )
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
    """Return every feature that at least one cpu of the triple has."""
    return frozenset().union(*(cpu_features(triple, cpu) for cpu in cpus(triple)))


def _enabled(triple: str, features: tuple[str, ...], cpu: str) -> frozenset[str]:
    on = {feature[1:] for feature in features if feature.startswith("+")}
    off = {feature[1:] for feature in features if feature.startswith("-")}
    return (cpu_features(triple, cpu) | on) - off
