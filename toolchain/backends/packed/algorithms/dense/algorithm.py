"""The algorithm `dense`: a matrix product on plain values."""

from __future__ import annotations

from tvm import tirx

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import Algorithm
from toolchain.backends.packed.algorithms.cost import Cost
from toolchain.backends.packed.algorithms.dense import space
from toolchain.backends.packed.algorithms.dense.choice import DenseChoice
from toolchain.backends.packed.algorithms.dense.loops import dense
from toolchain.backends.packed.algorithms.dense.weight import pack_weight
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.matmul import Matmul
from toolchain.backends.packed.recognise.read import Read


class Dense(Algorithm[Matmul, DenseChoice]):
    """Matrix product on plain values."""

    choice = DenseChoice
    any_products = True

    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return whether it is a matrix product whose factors the instruction can load."""
        if not isinstance(contraction, Matmul):
            return False
        depth = machine.products_of(contraction.dtype).depth
        return depth == 1 or (contraction.in_rows and contraction.inner.extent % depth == 0)

    def default(self, contraction: Matmul, machine: Machine) -> DenseChoice:
        """Return the best tile by measurements or models."""
        return space.default(contraction, machine)

    def candidates(self, contraction: Matmul, machine: Machine) -> list[DenseChoice]:
        """Return the choices that a tuner may measure."""
        return space.candidates(contraction, machine)

    def legal(self, choice: DenseChoice, contraction: Matmul, machine: Machine) -> bool:
        """Return whether a choice fits the contraction and the registers."""
        return space.legal(choice, contraction, machine)

    def cost(self, choice: DenseChoice, contraction: Matmul, machine: Machine) -> Cost | None:
        """Return the estimated cost on a GPU; None on other machines."""
        return space.cost(choice, contraction, machine)

    def weight(
        self, value: Array, contraction: Matmul, choice: DenseChoice, machine: Machine, input_lanes: int
    ) -> Array:
        """Return the weight, packed in panels; see `weight_shape`."""
        del input_lanes
        products = machine.products_of(contraction.dtype)
        value = value.astype(products.stored or value.dtype, copy=False)
        return pack_weight(value, contraction, choice, machine.lanes, products.depth)

    def function(
        self,
        read: Read,
        contraction: Matmul,
        choice: DenseChoice,
        layouts: Layouts,
        machine: Machine,
    ) -> tirx.PrimFunc:
        """Return the generated function, epilogue included."""
        return dense(read, contraction, choice, layouts, machine)
