"""The algorithm `implicit-gemm`: a convolution in tiles of a matrix product, in a GPU's shared memory."""

from __future__ import annotations

from tvm import tirx

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import PackedAlgorithm
from toolchain.backends.packed.algorithms.cost import Cost
from toolchain.backends.packed.algorithms.implicit_gemm import space
from toolchain.backends.packed.algorithms.implicit_gemm.choice import ImplicitGemmChoice
from toolchain.backends.packed.algorithms.implicit_gemm.cost import cost
from toolchain.backends.packed.algorithms.implicit_gemm.loops import implicit_gemm
from toolchain.backends.packed.algorithms.implicit_gemm.weight import pack_weight
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Read


class ImplicitGemm(PackedAlgorithm[Convolution, ImplicitGemmChoice]):
    """Convolution as a matrix product whose tiles a work group keeps in shared memory."""

    choice = ImplicitGemmChoice
    full_blocks = True

    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return whether it is a convolution of floats without groups, on a GPU."""
        return (
            machine.gpu is not None
            and isinstance(contraction, Convolution)
            and contraction.groups == 1
            and contraction.dtype in ("float32", "float16")
        )

    def default(self, contraction: Convolution, machine: Machine) -> ImplicitGemmChoice | None:
        """Return the choice with the lowest estimated cost."""
        return space.default(contraction, machine)

    def candidates(self, contraction: Convolution, machine: Machine) -> list[ImplicitGemmChoice]:
        """Return the choices that a tuner may measure."""
        return space.candidates(contraction, machine)

    def legal(self, choice: ImplicitGemmChoice, contraction: Convolution, machine: Machine) -> bool:
        """Return whether a choice fits the convolution, the registers and the shared memory."""
        return space.legal(choice, contraction, machine)

    def cost(self, choice: ImplicitGemmChoice, contraction: Convolution, machine: Machine) -> Cost:
        """Return the estimated cost."""
        return cost(choice, contraction, machine)

    def weight(
        self,
        value: Array,
        contraction: Convolution,
        choice: ImplicitGemmChoice,
        machine: Machine,
        input_lanes: int,
    ) -> Array:
        """Return the weight, packed as `weight_shape`."""
        del input_lanes
        return pack_weight(value, contraction, choice, machine.lanes)

    def function(
        self,
        read: Read,
        contraction: Convolution,
        choice: ImplicitGemmChoice,
        layouts: Layouts,
        machine: Machine,
    ) -> tirx.PrimFunc:
        """Return the generated function, epilogue included."""
        return implicit_gemm(read, contraction, choice, layouts, machine)
