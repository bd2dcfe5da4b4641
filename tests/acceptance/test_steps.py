"""The judgements of single steps, on made-up measurements."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.acceptance.documents import benched, document, step
from toolchain.acceptance import facts, networks, predictions
from toolchain.acceptance.conditions import SystemSaid
from toolchain.acceptance.context import AcceptContext
from toolchain.acceptance.found import BoardConditions, FactsFound
from toolchain.acceptance.predictions import ModelSaid, TaskTime
from toolchain.architectures.rates import BoardRates
from toolchain.profiles import load_profile
from toolchain.reports.acceptance import acceptance_page

RK3399 = load_profile("rk3399")


def board_facts(**changed: Any) -> FactsFound:
    values = {
        "machine": "aarch64",
        "cpu": None,
        "cores": {"cortex-a72": 2, "cortex-a53": 4},
        "logical_cpus": 6,
        "memory_mib": 3800,
        "glibc": "2.31",
        "kernel": "5.10.1",
        "features": ("asimd",),
        "devices": (),
        "conditions": BoardConditions(),
    }
    return FactsFound.model_validate({**values, **changed})


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({}, []),
        ({"cores": {"unknown": 6}}, []),
        ({"memory_mib": None}, []),
        (
            {"cores": {"cortex-a53": 4}, "logical_cpus": 4},
            ["4 CPUs, the class has 6 cores", "0 cores cortex-a72"],
        ),
        ({"memory_mib": 1000}, ["1000 MiB of memory, the class has 2048"]),
    ],
)
def test_a_board_beside_its_class(changed: dict[str, Any], says: list[str]) -> None:
    found = facts._beyond(board_facts(**changed), RK3399)
    assert len(found) == len(says) and all(
        text.startswith(part) for text, part in zip(found, says, strict=True)
    )


def test_features_that_code_for_the_class_uses() -> None:
    assert facts._lacking(("asimd", "fp", "sve"), RK3399) == []
    assert facts._lacking(("fp",), RK3399) == ["asimd"]
    assert "asimdhp" in facts._lacking(("asimd", "fp"), load_profile("raspberrypi5"))


def published(found: FactsFound) -> str:
    """Return everything that is written about a board."""
    written = document(step("facts", found))
    return written.text() + acceptance_page(written.model_dump(mode="json"))


ORDINARY = published(board_facts())


@pytest.mark.slow
@settings(max_examples=15)  # each renders a page
@given(word=st.from_regex(r"[a-z]{5,12}", fullmatch=True), host=st.from_regex(r"[a-z]{5,12}", fullmatch=True))
def test_whatever_a_board_says_of_itself_its_owner_is_not_in_the_facts(word: str, host: str) -> None:
    """Each text that comes from the board has a name of its owner in it."""
    assume(not any(each in ORDINARY.lower() for each in (word, host)))
    said = SimpleNamespace(
        machine="aarch64",
        glibc="2.31",
        cpus=[SimpleNamespace(core=f"cortex-{word}"), SimpleNamespace(core=host)],
        cpu_features=("asimd", "fp", f"{word}_ext"),
        logical_cpus=2,
        memory_mib=1000,
        devices=(SimpleNamespace(kind="opencl", names=(f"Mali of {word}",), details=()),),
    )
    context = context_of(SimpleNamespace(facts=said))
    system = SystemSaid(kernel=f"5.10.1-{host}", model=f"{word} CPU", governor=(word,), khz=(1,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(facts, "ask_system", lambda _board: system)
        patch.setattr(context, "telling", frozenset({word, host}))
        found = facts.facts(context).found
    assert (
        isinstance(found, FactsFound)
        and found.kernel == "5.10.1"
        and found.conditions.governors == ("other",)
    )
    text = published(found).lower()
    assert word not in text and host not in text


def rates(gflops: float, memory: float, share: float = 1.0) -> BoardRates:
    each = {"threads": 1, "gops": {"neon": gflops}, "gb_s": {"l1": 40.0, "l2": 20.0, "memory": memory}}
    cluster = {"core": "cortex-a72", "one": each, "all": {**each, "threads": 2}}
    return BoardRates.model_validate(
        {"measured": "2026-11-27", "edge_rt": "0.1.0 abc", "cpu_share": share, "clusters": [cluster]}
    )


@pytest.mark.parametrize(
    ("measured", "result", "says"),
    [
        (rates(14.0, 4.2), "passed", ""),
        (rates(7.0, 4.2), "missed", "7 of 14.4 GFLOP/s"),
        (rates(14.0, 2.0), "missed", "2 of 4 GB/s"),
        (rates(14.0, 4.2, 0.5), "missed", "other programs ran"),
    ],
)
def test_rates_beside_the_class(
    measured: BoardRates, result: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "measure_rates", lambda _board, _note: measured)
    context: Any = SimpleNamespace(board=SimpleNamespace(emulated=False, profile=RK3399), note=print)
    end = facts.rates(context)
    assert end.result == result and says in end.reason
    context.board.emulated = True
    assert facts.rates(context).result == "skipped"


def test_runs_that_become_slower_are_told() -> None:
    assert networks.drift((1.0,) * 7) is None
    assert networks.drift((1.0,) * 100) == 1.0
    assert networks.drift((1.0,) * 50 + (1.3,) * 50) == 1.3
    assert networks._problems(benched()) == []
    assert "30%" in networks._problems(benched(drift=1.3))[0]
    assert "20%" in networks._problems(benched(noise=0.2))[0]


@pytest.mark.parametrize(
    ("governors", "mhz", "throttled"),
    [
        (("performance",), (1800, 1416), False),
        (("performance",), (1200, 1416), True),
        (("schedutil",), (400, 400), False),
        (("performance", "schedutil"), (400, 400), False),
        ((), (), False),
    ],
)
def test_a_clock_below_its_highest(governors: tuple[str, ...], mhz: tuple[int, ...], throttled: bool) -> None:
    after = BoardConditions(governors=governors, mhz=mhz, most_mhz=(1800, 1416)[: len(mhz)])
    assert bool(networks.throttled(after)) == throttled
    assert bool(networks._problems(benched(after=after))) == throttled


def test_what_a_system_says_becomes_numbers() -> None:
    said = SystemSaid(
        khz=(1_800_000,),
        most_khz=(1_800_000,),
        governor=("performance", "performance"),
        gpu_hz=(800_000_000,),
        gpu_most_hz=(800_000_000,),
        millidegrees=(45_000, 51_500),
    ).conditions()
    assert said == BoardConditions(
        temperature_c=51.5,
        governors=("performance",),
        mhz=(1800,),
        most_mhz=(1800,),
        gpu_mhz=(800,),
        gpu_most_mhz=(800,),
    )
    assert SystemSaid().conditions() == BoardConditions()


def test_predictions_stand_beside_the_same_functions() -> None:
    tasks = [
        SimpleNamespace(id="a", functions=("conv", "conv_1")),
        SimpleNamespace(id="b", functions=("dense",)),
        SimpleNamespace(id="c", functions=("gone",)),
    ]
    built: Any = SimpleNamespace(bundle=SimpleNamespace(manifest=SimpleNamespace(tasks=tasks)))
    operators = [
        {"name": name, "ms": ms}
        for name, ms in (("conv", 3.0), ("conv_1", 1.0), ("dense", 2.0), ("pool", 2.0))
    ]
    timed: Any = SimpleNamespace(operators=operators)
    times = [
        TaskTime("b", "dense", "gemm", 1.0),
        TaskTime("a", "conv", "direct", 2.0),
        TaskTime("c", "x", "direct", 9.0),
    ]
    found = predictions._beside(ModelSaid("a model", times), built, timed)
    assert [(each.task, each.predicted_ms, each.measured_ms) for each in found.functions] == [
        ("conv", 2.0, 4.0),
        ("dense", 1.0, 2.0),
    ]
    assert (
        found.predicted_ms == 3.0 and found.measured_ms == 6.0 and found.ratio == 2.0 and found.share == 0.75
    )
    alone = predictions._beside(ModelSaid("a model", times), built, None)
    assert alone.measured_ms is None and alone.ratio is None and len(alone.functions) == 3


def test_a_model_of_a_vta_stands_beside_the_calls_of_its_programs() -> None:
    operators = [{"name": name, "ms": ms} for name, ms in (("edge.vta.run", 90.0), ("conv", 10.0))]
    timed: Any = SimpleNamespace(operators=operators)
    built: Any = SimpleNamespace(bundle=SimpleNamespace(manifest=SimpleNamespace(tasks=())))
    found = predictions._beside(ModelSaid("vta cycles, model 1", ms=78.0), built, timed)
    assert (found.predicted_ms, found.measured_ms, found.share) == (78.0, 90.0, 0.9)
    assert predictions._beside(ModelSaid("vta cycles, model 1", ms=78.0), built, None).measured_ms is None


def context_of(installed: object, *, emulated: bool = False) -> AcceptContext:
    """Return a context of a board with these answers of edge-rt, and nothing else."""
    make: Any = AcceptContext
    board = SimpleNamespace(emulated=emulated, profile=RK3399)
    found: AcceptContext = make(board, None, None, None, None, None, frozenset(), {}, installed)
    return found


def test_devices_that_are_not_there_are_skipped_with_the_reason() -> None:
    answer = SimpleNamespace(kind="opencl", names=(), details=())
    installed = SimpleNamespace(facts=SimpleNamespace(devices=(answer,)))
    context = context_of(installed)
    none: Any = None
    end = networks.verify(context, none, "opencl", keep=False)
    assert end.result == "skipped" and "opencl" in end.reason


@pytest.mark.parametrize(("kind", "name"), [("vta", "sim"), ("opencl", "pthread-Zen")])
def test_what_is_no_hardware_is_not_timed(kind: str, name: str) -> None:
    details = (SimpleNamespace(type="cpu"),) if kind == "opencl" else ()
    answer = SimpleNamespace(kind=kind, names=(name,), details=details)
    context = context_of(SimpleNamespace(facts=SimpleNamespace(devices=(answer,))))
    none: Any = None
    end = networks.bench(context, none, kind)
    assert end.result == "skipped" and "no such hardware" in end.reason


@pytest.mark.parametrize(
    ("kind", "names", "type_", "there", "real", "place"),
    [
        ("cpu", ("x",), "", True, True, None),
        ("opencl", ("Mali-T860",), "gpu", True, True, None),
        ("opencl", ("pthread-Zen",), "cpu", True, False, None),
        ("vta", ("sim",), "", True, False, "vta:sim"),
        ("vta", ("pynq", "sim"), "", True, True, None),
    ],
)
def test_what_is_hardware_and_what_is_not(
    kind: str, names: tuple[str, ...], type_: str, there: bool, real: bool, place: str | None
) -> None:
    details = (SimpleNamespace(type=type_),) if type_ else ()
    answer = SimpleNamespace(kind=kind, names=names, details=details)
    installed = SimpleNamespace(facts=SimpleNamespace(devices=(answer,)))
    for emulated in (False, True):
        context = context_of(installed, emulated=emulated)
        found = context.device(kind)
        assert (found.there, found.real) == (there, real and not emulated)
        assert context.place(kind) == place
