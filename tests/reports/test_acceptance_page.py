"""The page of an acceptance: it stands alone, and calls emulated and simulated what is so."""

from __future__ import annotations

import pytest

from tests.acceptance.documents import benched, document, step, verified
from tests.reports.pages import Page, assert_stands_alone
from toolchain.acceptance.document import Acceptance
from toolchain.acceptance.found import (
    BoardConditions,
    DeviceFound,
    FactsFound,
    FunctionPredicted,
    Predicted,
    PredictFound,
    TunedFound,
    TuneFound,
)
from toolchain.reports.acceptance import acceptance_page

pytestmark = pytest.mark.slow


def whole(**changed: object) -> Acceptance:
    real = not changed.get("emulated", False)
    on = {"network": "mobilenet", "device": "cpu", "real": real, "threads": 2, "cluster": "cortex-a72"}
    facts = FactsFound(
        machine="aarch64",
        cpu=None,
        cores={"cortex-a72": 2},
        logical_cpus=2,
        memory_mib=3800,
        glibc="2.31",
        kernel="5.10.1",
        features=(),
        devices=(
            DeviceFound(kind="opencl", there=True, real=False),
            DeviceFound(kind="vta", there=False, real=False),
        ),
        conditions=BoardConditions(),
    )
    functions = [
        FunctionPredicted(task="conv", choice="direct", predicted_ms=2.0, measured_ms=3.0 if real else None)
    ]
    row = Predicted(
        model="cpu, class's rates",
        predicted_ms=2.0,
        measured_ms=3.0 if real else None,
        share=0.9 if real else None,
        functions=tuple(functions),
    )
    tuned = TunedFound(task="conv", choice="winograd", trials=8, default_ms=3.0, best_ms=2.0)
    hot = BoardConditions(temperature_c=71.5, governors=("performance",), mhz=(1200,), most_mhz=(1800,))
    return document(
        step("facts", facts),
        step("rates", result="skipped", reason="no time left"),
        step("verify:cpu:mobilenet", verified(real=real)),
        step(
            "verify:cpu:resnet-18",
            verified(real=real, network="resnet-18", error=None),
            result="failed",
            reason="wrong numbers",
        ),
        step(
            "bench:cpu",
            benched(real=real, drift=1.25, after=hot),
            result="missed",
            reason="the last runs took 25% longer",
        ),
        step("predict:cpu", PredictFound(**on, predictions=(row,))),
        step(
            "tune:cpu",
            TuneFound(
                **on,
                trials=8,
                failed=1,
                judged="in the network",
                before_ms=70,
                after_ms=60,
                error=1e-5,
                tasks=(tuned,),
            ),
        ),
        **changed,
    )


def page_of(document: Acceptance) -> str:
    return acceptance_page(document.model_dump(mode="json"))


def test_page_shows_the_findings() -> None:
    html = page_of(whole())
    assert_stands_alone(html, figures=1)
    text = Page(html).text
    for shown_text in (
        "rk3399: what its class promises",
        "no time left",
        "1.00e-05",
        "+25.0 %",
        "71.5",
        "1200 of 1800",
        "1.50×",  # noqa: RUF001 (as the page has it)
        "1.50",
    ):
        assert shown_text in text, shown_text
    assert "emulated" not in text and "simulated" in text  # its OpenCL device is a CPU


def test_emulated_board_is_marked_everywhere() -> None:
    html = page_of(whole(emulated=True))
    assert_stands_alone(html, figures=0)
    text = Page(html).text
    assert "emulated: times say nothing about silicon" in text
    for heading in (
        "rk3399 (emulated): what",
        "Latencies (emulated)",
        "Tuning of mobilenet, cpu (emulated)",
        "Board (emulated)",
    ):
        assert heading in text, heading
    assert text.count("cpu (emulated)") >= 6


def test_document_without_steps() -> None:
    Page(page_of(document()))


def test_equal_documents_give_equal_bytes() -> None:
    assert page_of(whole()) == page_of(whole())
