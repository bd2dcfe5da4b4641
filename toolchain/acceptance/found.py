"""The findings of steps, as the document has them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from toolchain.architectures.rates import BoardRates

Hardware = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ()@.,+_-]{0,63}$")]
"""Name of a CPU or a device as its maker gives it."""
Keyword = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,99}$")]
Version = Annotated[str, Field(pattern=r"^[0-9]{1,4}(\.[0-9]{1,6}){1,3}$")]
Ms = Annotated[float, Field(ge=0, le=1e9)]
Count = Annotated[int, Field(ge=0, le=2**40)]
Mhz = Annotated[int, Field(ge=0, le=10**6)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class BoardConditions(_Strict):
    """Temperature, clocks and governors at one moment; None or empty if the system does not report them.

    Attributes
    ----------
    mhz, most_mhz
        Present and highest allowed clock of each group of cores that share one.
    gpu_mhz, gpu_most_mhz
        The same for GPUs.
    """

    temperature_c: float | None = Field(None, ge=-300, le=10_000)
    governors: tuple[Keyword, ...] = Field((), max_length=64)
    mhz: tuple[Mhz, ...] = Field((), max_length=1024)
    most_mhz: tuple[Mhz, ...] = Field((), max_length=1024)
    gpu_mhz: tuple[Mhz, ...] = Field((), max_length=64)
    gpu_most_mhz: tuple[Mhz, ...] = Field((), max_length=64)


class DeviceFound(_Strict):
    """A kind of device that the class promises.

    Attributes
    ----------
    there
        Whether a driver reports such a device.
    real
        Whether it is that hardware: no simulation, no CPU in place of a GPU, no emulated board.
    name
        Name that its driver reports; None if it is not fit to be published.
    """

    kind: Keyword
    there: bool
    real: bool
    name: Hardware | None = None


class FactsFound(_Strict):
    """The board as it reports itself.

    Attributes
    ----------
    cores
        Number of CPUs by the name of their core; `unknown` if the system does not tell.
    kernel
        Numbers of Linux's version; None if the board has no system of its own.
    """

    kind: Literal["facts"] = "facts"
    machine: Keyword
    cpu: Hardware | None
    cores: dict[Keyword, Count] = Field(max_length=64)
    logical_cpus: Count
    memory_mib: Count | None
    glibc: Version
    kernel: Version | None
    features: tuple[Keyword, ...] = Field(max_length=2000)
    devices: tuple[DeviceFound, ...] = Field(max_length=64)
    conditions: BoardConditions


class Compared(_Strict):
    """A measured speed beside the one by which code for the class is chosen."""

    cpu: Keyword
    speed: Literal["GFLOP/s", "GB/s"]
    promised: float = Field(gt=0, le=1e9)
    measured: float = Field(gt=0, le=1e9)


class RatesFound(_Strict):
    """Measured rates, and those of the class.

    Attributes
    ----------
    source
        Origin of the class's rates: a measured core, or a model.
    """

    kind: Literal["rates"] = "rates"
    rates: BoardRates
    source: str = Field(pattern=r"^[ -~]{0,100}$")
    compared: tuple[Compared, ...] = Field(max_length=64)


class _OnDevice(_Strict):
    """A network on a device.

    Attributes
    ----------
    network
        Name in the zoo, `-int8` behind it if it was quantised; `own` for another network.
    real
        Whether that hardware computed; see `DeviceFound`.
    """

    network: Keyword
    device: Keyword
    real: bool
    threads: Annotated[int, Field(ge=1, le=4096)]
    cluster: Keyword


class VerifyFound(_OnDevice):
    """The comparison of a network's outputs with onnxruntime's.

    Attributes
    ----------
    error, tolerance
        The largest max|y-r| / max|r| of an output, and its tolerance; None if it could not be compared.
    """

    kind: Literal["verify"] = "verify"
    gflop: float = Field(ge=0, le=1e9)
    outputs: Count
    error: float | None = Field(ge=0)
    tolerance: float = Field(ge=0)


class BenchFound(_OnDevice):
    """The latency of an inference, and how the board was before and after.

    Attributes
    ----------
    noise
        Standard deviation over mean.
    drift
        Median of the last quarter of the runs over that of the first; None with fewer than 8 runs.
    """

    kind: Literal["bench"] = "bench"
    mean_ms: Ms
    p50_ms: Ms
    p95_ms: Ms
    min_ms: Ms
    runs: Count
    noise: float = Field(ge=0, le=1e6)
    drift: float | None = Field(ge=0, le=1e6)
    peak_rss_mib: float = Field(ge=0, le=2**30)
    before: BoardConditions
    after: BoardConditions


class TunedFound(_Strict):
    """One task of the small tuning run; times of one call."""

    task: Keyword
    choice: Keyword
    trials: Count
    default_ms: Ms
    best_ms: Ms


class TuneFound(_OnDevice):
    """A small tuning run.

    Attributes
    ----------
    judged
        Whether the winners were timed in the whole network, or alone.
    before_ms, after_ms
        Times of the network without and with the winners; None if they were judged alone.
    error
        Deviation of the network that was built with the run's records, as in `VerifyFound`.
    """

    kind: Literal["tune"] = "tune"
    trials: Count
    failed: Count
    judged: Literal["in the network", "alone"]
    before_ms: Ms | None
    after_ms: Ms | None
    error: float | None = Field(ge=0)
    tasks: tuple[TunedFound, ...] = Field(max_length=64)


class FunctionPredicted(_Strict):
    """One function of a network, all of its calls: a model's time and the profile's."""

    task: Keyword
    choice: Keyword
    predicted_ms: Ms
    measured_ms: Ms | None


class Predicted(_Strict):
    """A model's time for a network, and the measured time of the same functions.

    Attributes
    ----------
    model
        `cpu, class's rates` or `cpu, board's rates`: the code generator's estimate; or a device's model.
    share
        Share of the network's measured time that these functions have.
    functions
        The functions for which the model has a time, the heaviest first.
    """

    model: str = Field(pattern=r"^[a-z0-9][a-z0-9 ,'.-]{0,63}$")
    predicted_ms: Ms
    measured_ms: Ms | None
    share: float | None = Field(None, ge=0, le=2)
    functions: tuple[FunctionPredicted, ...] = Field((), max_length=256)

    @property
    def ratio(self) -> float | None:
        """Measured time over predicted time; None if there is no measured one."""
        return self.measured_ms / self.predicted_ms if self.measured_ms and self.predicted_ms else None


class PredictFound(_OnDevice):
    """Predicted and measured times of a network."""

    kind: Literal["predict"] = "predict"
    predictions: tuple[Predicted, ...] = Field(max_length=16)


class ProgramFound(_Strict):
    """edge-rt on the board, which said its version and what its drivers answer."""

    kind: Literal["edge-rt"] = "edge-rt"
    version: Version
    drivers: dict[Keyword, Count] = Field(max_length=64)


class SelfTestFound(_Strict):
    """edge-rt's own test of a release: its largest error, median latency, peak memory and number of runs."""

    kind: Literal["self-test"] = "self-test"
    network: Keyword
    error: float = Field(ge=0)
    latency_ms: Ms
    memory_mib: float = Field(ge=0, le=2**30)
    runs: Count


Found = (
    FactsFound
    | ProgramFound
    | RatesFound
    | VerifyFound
    | SelfTestFound
    | BenchFound
    | TuneFound
    | PredictFound
)
