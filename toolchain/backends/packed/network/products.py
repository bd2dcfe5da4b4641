"""Names what the code of a function multiplies by."""

from __future__ import annotations

from toolchain.backends.packed.instruction import multiply_add
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.network.steps import Call, Generated, Recurrent
from toolchain.backends.packed.recognise.contraction import recognise


def products_of(step: Call, machine: Machine) -> str:
    """Return the name of the `Products` by which the function of a call multiplies.

    A function without a contraction has those of the network's type, a recurrence those of float32. The
    general algorithm multiplies and adds in vectors of any type, and uses no instruction for bytes.
    """
    if isinstance(step, Recurrent):
        return multiply_add("float32").name
    if not isinstance(step, Generated):
        return multiply_add(machine.dtype).name
    contraction = step.contraction or recognise(step.read)
    dtype = machine.dtype if contraction is None else contraction.dtype
    return (multiply_add(dtype) if step.subject is None else machine.products_of(dtype)).name
