"""Runs and times an uploaded program in a board's session, through `edge.vta.measure`."""

from __future__ import annotations

from collections.abc import Sequence

import tvm

from toolchain.answers import Answer, Several, Word, lie, shown, understood
from toolchain.devices.device import VTA
from toolchain.measuring.answers import Milliseconds, Simulated
from toolchain.measuring.device import simulation
from toolchain.quantities import counted
from toolchain.tasks.candidate import ModelledRun, Often, Times
from toolchain.vta.design import VtaConfig

_MEASURE, _USE = "edge.vta.measure", "edge.vta.use"
_WHAT = f"the answer of {_MEASURE}"
_ONCE = (1, 0, 0)


class _Measured(Answer):
    """The answer about a program: times of an accelerator, or the cycle model's result of a simulation."""

    device: Word
    times_ms: Several[Milliseconds]
    modelled: Simulated | None


class UploadedProgram:
    """An uploaded program; see `tasks.upload.Opened`.

    Parameters
    ----------
    driver
        Driver that runs it: `sim` or `pynq`; empty for the board's hardware.
    """

    def __init__(
        self, session: tvm.rpc.RPCSession, name: str, board: str, driver: str, config: VtaConfig
    ) -> None:
        self._name, self._board, self._config = name, board, config
        self._driver = driver
        if driver:
            session.get_function(_USE)(driver)
        self._measure = session.get_function(_MEASURE)

    def run(self, function: str, tensors: Sequence[tvm.runtime.Tensor]) -> None:
        """Run the program once."""
        del function
        self._measure(self._name, *_ONCE, *tensors)

    def time(self, function: str, tensors: Sequence[tvm.runtime.Tensor], memory: str, often: Often) -> Times:
        """Time the program: an accelerator by the board's clock, a simulation by the cycle model.

        Raises
        ------
        CheckError
            An answer of the board cannot be right.
        """
        del function, memory
        said = self._measure(self._name, often.number, often.repeat, often.min_repeat_ms, *tensors)
        if not isinstance(said, str):
            raise lie(self._board, _WHAT, f"it is {shown(said)}, no text")
        return self._times(understood(_Measured, said, self._board, _WHAT), often)

    def _times(self, said: _Measured, often: Often) -> Times:
        model = said.modelled
        run = ModelledRun(model.cycles, model.mhz, model.version) if model else None
        try:
            modelled = modelled_ms(said.device, run, self._driver, self._config)
        except ValueError as error:
            raise lie(self._board, _WHAT, str(error)) from error
        if modelled is None:
            if len(said.times_ms) != often.repeat:
                raise lie(
                    self._board,
                    _WHAT,
                    f"{counted(len(said.times_ms), 'time')} where {often.repeat} were asked for",
                )
            return Times(tuple(said.times_ms))
        return Times((modelled,), modelled=True)


def modelled_ms(device: str, run: ModelledRun | None, driver: str, config: VtaConfig) -> float | None:
    """Return what the cycle model says of a run, in ms; None for an accelerator's run, which a clock times.

    Parameters
    ----------
    device
        The device that ran it, as the board names it.
    driver
        Driver that was to run it; empty for the board's hardware.

    Raises
    ------
    ValueError
        The answer cannot be right; the text says why.
    """
    model = config.cycles
    if driver and device != f"{VTA}:{driver}":
        raise ValueError(f"{device} ran what {VTA}:{driver} was to run")
    if (run is not None) != (device == simulation(VTA)):
        raise ValueError(f"times of {device} are a clock's, and a simulation's a model's")
    if run is None:
        return None
    if (run.mhz, run.version) != (model.mhz, model.version):
        raise ValueError(
            f"cycle model {run.version} at {run.mhz} MHz, where the program has model {model.version} at "
            f"{model.mhz} MHz"
        )
    return model.milliseconds(run.cycles)
