"""Steps that need no network: what the board is, whether edge-rt works there, how fast its cores are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from toolchain.acceptance.conditions import ask_system
from toolchain.acceptance.context import AcceptContext
from toolchain.acceptance.found import Compared, FactsFound, ProgramFound, RatesFound
from toolchain.acceptance.public import hardware_name, kernel_version, keyword, public_keyword
from toolchain.acceptance.step import StepEnd
from toolchain.architectures.rates import ClusterRates
from toolchain.backends.table import class_rates
from toolchain.devices.device import CPU
from toolchain.measuring.rates import BUSY_SHARE, measure_rates
from toolchain.profiles import Profile
from toolchain.quantities import counted

_USABLE = 0.8  # of a board's memory: the rest is the kernel's, a GPU's or a camera's
_SLOWEST = 0.9  # of a promised speed that still keeps the promise
UNKNOWN = "unknown"


def facts(context: AcceptContext) -> StepEnd:
    """Compare the board with its class's table."""
    board = context.board
    said, system = context.installed().facts, ask_system(board)
    profile = board.profile
    cores = Counter(public_keyword(each.core, context.telling) for each in said.cpus)
    features = {public_keyword(each, context.telling) for each in said.cpu_features}
    found = FactsFound(
        machine=keyword(said.machine),
        cpu=hardware_name(system.model, context.telling),
        cores=dict(cores),
        logical_cpus=said.logical_cpus,
        memory_mib=said.memory_mib,
        glibc=said.glibc,
        kernel=kernel_version(system.kernel),
        features=tuple(sorted(features)),
        devices=tuple(context.device(each.kind) for each in profile.devices if each.kind != CPU),
        conditions=system.conditions(),
    )
    if lacking := _lacking(said.cpu_features, profile):
        return StepEnd("failed", f"the CPUs lack {', '.join(lacking)}, which code for the class uses", found)
    missed = [] if board.emulated else _beyond(found, profile)
    if missed:
        return StepEnd("missed", "; ".join(missed)[:400], found)
    return StepEnd(
        "passed", "emulated: CPUs and memory are those of the host" if board.emulated else "", found
    )


def _lacking(features: Collection[str], profile: Profile) -> list[str]:
    """Return the CPU features that code for the class's clusters uses and the board does not have."""
    from toolchain.targets.target import target_for  # imports TVM

    used = {name for each in profile.clusters for name in target_for(profile, each.cpu, None).requires}
    return sorted(used.difference(features))


def _beyond(found: FactsFound, profile: Profile) -> list[str]:
    """Return in which numbers a board is less than its class promises."""
    missed = []
    promised = sum(cluster.cores for cluster in profile.clusters)
    if found.logical_cpus < promised:
        missed.append(f"{counted(found.logical_cpus, 'CPU')}, the class has {counted(promised, 'core')}")
    if found.cores.keys() <= {UNKNOWN, "x86"}:
        return missed + _memory(found, profile)
    for cluster in profile.clusters:
        there = found.cores.get(cluster.cpu, 0)
        if there < cluster.cores:
            missed.append(f"{counted(there, 'core')} {cluster.cpu}, the class has {cluster.cores}")
    return missed + _memory(found, profile)


def _memory(found: FactsFound, profile: Profile) -> list[str]:
    if found.memory_mib is None or found.memory_mib >= _USABLE * profile.memory_mib:
        return []
    return [f"{found.memory_mib} MiB of memory, the class has {profile.memory_mib}"]


def program(context: AcceptContext) -> StepEnd:
    """Check as provisioning does that edge-rt starts and is this version; tell what drivers answer."""
    said = context.installed().facts  # `install` has refused another machine, C library or fingerprint
    drivers = {each.kind: len(each.names) for each in said.devices}
    found = ProgramFound(
        version=said.version, drivers={keyword(kind): count for kind, count in drivers.items()}
    )
    promised = [each.kind for each in context.board.profile.devices]
    absent = [kind for kind in promised if not drivers.get(kind)]
    return StepEnd("passed", f"no driver answers for {', '.join(absent)}" if absent else "", found)


def rates(context: AcceptContext) -> StepEnd:
    """Measure the rates of the cores, and compare them with those by which code for the class is chosen."""
    board = context.board
    if board.emulated:
        return StepEnd("skipped", "emulated: what could be measured are the speeds of an emulator")
    measured = measure_rates(board, context.note)
    profile = board.profile
    first = profile.clusters[0]
    mine = measured.of_core(first.cpu) or measured.clusters[0]
    compared, source = _compared(profile, mine)
    found = RatesFound(rates=measured, source=source, compared=compared)
    if measured.cpu_share < BUSY_SHARE:
        return StepEnd(
            "missed", f"other programs ran: only {measured.cpu_share:.0%} of the CPUs measured", found
        )
    slow = [each for each in compared if each.measured < _SLOWEST * each.promised]
    if slow:
        text = ", ".join(f"{each.measured:.3g} of {each.promised:.3g} {each.speed}" for each in slow)
        return StepEnd("missed", f"one core reaches {text}", found)
    return StepEnd("passed", "" if compared else "the class promises no rates", found)


def _compared(profile: Profile, mine: ClusterRates) -> tuple[tuple[Compared, ...], str]:
    """Return the speeds of one core of the first cluster beside the class's, and the origin of these."""
    first = profile.clusters[0]
    own, row = first.rates, class_rates(profile.triple, first.cpu)
    if own is not None:
        promised, source = (_peak(own), own.one.gb_s["memory"]), "measured on a board of the class"
    elif row is not None:
        promised, source = (row.peak / 1e9, row.stream / 1e9), row.source
    else:
        return (), ""
    measured = (_peak(mine), mine.one.gb_s["memory"])
    rows = [
        Compared(cpu=keyword(first.cpu), speed=speed, promised=told, measured=is_)
        for speed, told, is_ in zip(("GFLOP/s", "GB/s"), promised, measured, strict=True)
        if told and is_
    ]
    return tuple(rows), source


def _peak(rates: ClusterRates) -> float:
    return (rates.peak_flops() or 0.0) / 1e9
