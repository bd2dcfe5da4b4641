"""What a candidate's kernels ask of a device."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbeds.mali.article import kernel
from toolchain.building.chosen import explain, modelled_ms
from toolchain.devices.kernel import Kernel
from toolchain.errors import UsageError
from toolchain.tasks.candidate import Candidate, Entry
from toolchain.testbeds.mali import model as mali
from toolchain.testbeds.mali.estimate import estimate
from toolchain.testbeds.mali.model import Modelled
from toolchain.testbeds.mali.statistics import read_statistics

RECORDED = Path(__file__).parents[1] / "testbeds" / "mali" / "recorded"
STEPS = ("bind", "vectorize")


class Code:
    """Two kernels, as a function for OpenCL has them."""

    def objects(self, symbol: str) -> tuple[bytes, ...]:
        raise NotImplementedError(symbol)

    linkable = objects

    def launches(self) -> list[Kernel]:
        return [kernel(step) for step in STEPS]


class CpuCode:
    def objects(self, symbol: str) -> tuple[bytes, ...]:
        raise NotImplementedError(symbol)


class Model:
    """Says what was recorded; of a kernel in `refused` nothing."""

    refused: tuple[str, ...] = ()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_ended: object) -> None: ...

    def ask(self, kernels: list[Kernel]) -> list[Modelled]:
        return [self._ask(each) for each in kernels]

    def _ask(self, asked: Kernel) -> Modelled:
        if asked.name in self.refused:
            return Modelled(asked, None, None, "does not compile")
        compiled = read_statistics((RECORDED / f"{asked.name}.txt").read_text())
        return Modelled(asked, compiled, estimate(asked, compiled))


def candidate(code: object) -> Candidate:
    return Candidate(Entry("packed", "", ""), code, (), 1)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> type[Model]:
    class Own(Model): ...

    monkeypatch.setattr(mali, "MaliModel", Own)
    return Own


def test_explains_kernels_without_model() -> None:
    found = [each.to_json() for each in explain(candidate(Code()), "opencl:other", model=False)]
    assert [each["kernel"] for each in found] == list(STEPS)
    assert [each["vector_width"] for each in found] == [1, 4]
    assert found[0]["group"] == (1, 1, 8) and found[0]["groups"] == (64, 56, 2)
    assert all(each["model"] is None for each in found)


@pytest.mark.usefixtures("model")
def test_the_models_times_are_added() -> None:
    found = explain(candidate(Code()), "opencl:mali-t860", model=True)
    document = found[1].to_json()["model"]
    assert (document["registers"], document["spills"], document["fills"]) == (16, 0, 0)
    assert document["words"] == {"arithmetic": 16146, "load_store": 6918, "texture": 0}
    total = modelled_ms(found)
    assert total == pytest.approx(6396.36 + 144.67, abs=0.01)


def test_no_total_without_all_modelled_times(model: type[Model]) -> None:
    model.refused = ("bind",)
    found = explain(candidate(Code()), "opencl:mali-t860", model=True)
    assert found[0].to_json()["model"]["problem"] == "does not compile"
    assert modelled_ms(found) is None


def test_a_model_of_another_device_is_refused() -> None:
    with pytest.raises(
        UsageError, match="model of opencl:mali-t860 only, and this code is for opencl:pocl"
    ) as told:
        explain(candidate(Code()), "opencl:pocl", model=True)
    assert "--device opencl:mali-t860" in told.value.hint


def test_code_of_a_cpu_has_no_kernels() -> None:
    with pytest.raises(UsageError, match="--explain: this code is for a CPU") as told:
        explain(candidate(CpuCode()), "", model=False)
    assert "--device opencl" in told.value.hint
