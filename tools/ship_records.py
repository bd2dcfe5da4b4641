"""Write the records that the project ships for the Mali-T860 of an rk3399, from those that its model made.

    toolchain tune zoo:resnet-18 --board rk3399 --device opencl --runner mali-model --trials 1500
    python tools/ship_records.py zoo:resnet-18 zoo:mobilenet

The model sees no memory and no start of a group (docs/decisions/0042-a-model-of-mali.md). So what it praises
is left out where the estimate that knows of memory calls it slower, and where a group has fewer than 16
items; and what gains less than 2 %.
"""

from __future__ import annotations

import sys
from collections import defaultdict

from toolchain.backends.packed.algorithms.algorithm import Choice
from toolchain.backends.packed.algorithms.policy import cost
from toolchain.backends.packed.algorithms.table import choice_from
from toolchain.backends.packed.backend import Packed
from toolchain.backends.packed.space import PackedSpace
from toolchain.devices.kernel import Kernel
from toolchain.models.load import load_model
from toolchain.models.options import ModelOptions
from toolchain.profiles import load_profile
from toolchain.records.exchange import write_records
from toolchain.records.lookup import SHIPPED
from toolchain.records.record import Record
from toolchain.records.store import RecordStore, user_store
from toolchain.tasks.candidate import DeviceCode, record_key
from toolchain.tasks.options import CodeOptions
from toolchain.testbeds.mali.model import MaliModel

_BOARD = "rk3399"
_GAIN = 0.98
_GROUP = 16  # work items


def main(networks: list[str]) -> None:
    """Write the file anew, and say what is in it."""
    backend = Packed(load_profile(_BOARD), CodeOptions(device="opencl"))
    target = backend.target()
    with user_store() as store, MaliModel() as model:
        chosen: dict[str, Record] = {}
        for name in networks:
            with backend.lower(load_model(name, ModelOptions()), target) as network:
                for task in network.tasks:
                    found = store.all(record_key(task.workload, target, _BOARD))
                    before, best = _best(network.space(task), found, model)
                    if best is not None and task.workload not in chosen:
                        chosen[task.workload] = best
                        print(f"{name} {task.name}: {before:.3f} -> {best.best_ms:.3f} ms by the model")
        _write(store, list(chosen.values()))


def _write(store: RecordStore, records: list[Record]) -> None:
    functions, count = write_records(SHIPPED, store.functions(), records)
    print(f"{count} records of {functions} functions: {SHIPPED}")


def _best(space: PackedSpace, records: list[Record], model: MaliModel) -> tuple[float, Record | None]:
    """Return the default's time, and the fastest record that may be shipped."""
    by_choice: defaultdict[Choice, list[Record]] = defaultdict(list)
    for record in records:
        if record.provenance.modelled and record.best_ms is not None:
            by_choice[choice_from(record.payload)].append(record)
    before = _modelled(space, space.default(), model) if by_choice else 0.0
    quick = sorted((_ms(found[0]), place, found[0]) for place, found in enumerate(by_choice.values()))
    for ms, _place, record in quick:
        if ms > before * _GAIN:
            break
        if _believed(space, choice_from(record.payload)):
            return before, record
    return before, None


def _believed(space: PackedSpace, choice: Choice) -> bool:
    """Whether nothing that the model does not see speaks against a choice."""
    default, contraction, machine = space.default(), space.contraction, space.choices.machine
    if contraction is None or not space.legal(choice):
        return False
    mine, other = (cost(each, contraction, machine) for each in (choice, default))
    slower = mine is not None and other is not None and mine.seconds > other.seconds
    groups, usual = (
        min(kernel.items_in_group for kernel in _kernels(space, each)) for each in (choice, default)
    )
    return not slower and groups >= min(_GROUP, usual)


def _kernels(space: PackedSpace, choice: Choice) -> list[Kernel]:
    code = space.candidate(choice).code
    return code.launches() if isinstance(code, DeviceCode) else []


def _modelled(space: PackedSpace, choice: Choice, model: MaliModel) -> float:
    estimates = [each.estimate for each in model.ask(_kernels(space, choice))]
    return sum(each.ms for each in estimates if each is not None)


def _ms(record: Record) -> float:
    if record.best_ms is None:
        raise AssertionError("a failure has no time")
    return record.best_ms


if __name__ == "__main__":
    main(sys.argv[1:])
