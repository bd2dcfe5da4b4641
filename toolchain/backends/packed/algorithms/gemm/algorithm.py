"""The algorithm `gemm`: a matrix product in tiles, in a GPU's shared memory."""

from __future__ import annotations

from tvm import tirx

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import Algorithm
from toolchain.backends.packed.algorithms.cost import Cost
from toolchain.backends.packed.algorithms.gemm import space
from toolchain.backends.packed.algorithms.gemm.choice import GemmChoice
from toolchain.backends.packed.algorithms.gemm.loops import gemm
from toolchain.backends.packed.algorithms.gemm.weight import pack_weight
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.matmul import Matmul
from toolchain.backends.packed.recognise.read import Read


class SharedGemm(Algorithm[Matmul, GemmChoice]):
    """Matrix product whose tiles a work group keeps in shared memory."""

    choice = GemmChoice

    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return whether it is a product of floats, on a GPU."""
        return (
            machine.gpu is not None
            and isinstance(contraction, Matmul)
            and contraction.dtype in ("float32", "float16")
        )

    def default(self, contraction: Matmul, machine: Machine) -> GemmChoice | None:
        """Return the choice with the lowest estimated cost."""
        found = space.candidates(contraction, machine)
        return found[0] if found else None

    def candidates(self, contraction: Matmul, machine: Machine) -> list[GemmChoice]:
        """Return the choices that a tuner may measure."""
        return space.candidates(contraction, machine)

    def legal(self, choice: GemmChoice, contraction: Matmul, machine: Machine) -> bool:
        """Return whether a choice fits the product, the registers and the shared memory."""
        return space.legal(choice, contraction, machine)

    def cost(self, choice: GemmChoice, contraction: Matmul, machine: Machine) -> Cost:
        """Return the estimated cost."""
        return space.cost(choice, contraction, machine)

    def weight(
        self, value: Array, contraction: Matmul, choice: GemmChoice, machine: Machine, input_lanes: int
    ) -> Array:
        """Return the weight, packed as `weight_shape`."""
        del input_lanes
        return pack_weight(value, contraction, choice, machine.lanes)

    def function(
        self, read: Read, contraction: Matmul, choice: GemmChoice, layouts: Layouts, machine: Machine
    ) -> tirx.PrimFunc:
        """Return the generated function, epilogue included."""
        return gemm(read, contraction, choice, layouts, machine)
