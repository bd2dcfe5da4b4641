"""The algorithm `winograd`: products of transformed inputs and weights, fewer than the convolution has."""

from __future__ import annotations

from tvm import tirx

from toolchain.arrays import Array
from toolchain.backends.packed.algorithms.algorithm import PackedAlgorithm
from toolchain.backends.packed.algorithms.cost import Cost
from toolchain.backends.packed.algorithms.winograd import space
from toolchain.backends.packed.algorithms.winograd.choice import WinogradChoice
from toolchain.backends.packed.algorithms.winograd.cost import cost
from toolchain.backends.packed.algorithms.winograd.loops import winograd
from toolchain.backends.packed.algorithms.winograd.weight import halo, pack_weight, tiles_of
from toolchain.backends.packed.layout import Layouts
from toolchain.backends.packed.machine import Machine
from toolchain.backends.packed.recognise.contraction import Contraction
from toolchain.backends.packed.recognise.convolution import Convolution
from toolchain.backends.packed.recognise.read import Read


class Winograd(PackedAlgorithm[Convolution, WinogradChoice]):
    """Winograd convolution: products of transformed inputs and weights."""

    choice = WinogradChoice
    exact = False
    any_products = True

    def applies(self, contraction: Contraction, machine: Machine) -> bool:
        """Return whether it is a convolution that winograd tiles fit.

        It is one of float32 whose rounding may differ, or of integers that are widened: their transforms are
        exact.
        """
        if machine.dtype != "float32" or not isinstance(contraction, Convolution):
            return False
        products = machine.products_of(contraction.dtype)
        fits = not contraction.rounded if products.plain else bool(products.widened)
        return fits and bool(tiles_of(contraction))

    def default(self, contraction: Convolution, machine: Machine) -> WinogradChoice | None:
        """Return the choice with the lowest estimated cost; None if no choice is legal, and on GPUs.

        There its three launches took 2.4 times their estimate (docs/decisions/0041), so only a measurement
        selects it.
        """
        return None if machine.gpu is not None else space.default(contraction, machine)

    def candidates(self, contraction: Convolution, machine: Machine) -> list[WinogradChoice]:
        """Return the choices that a tuner may measure."""
        return space.candidates(contraction, machine)

    def legal(self, choice: WinogradChoice, contraction: Convolution, machine: Machine) -> bool:
        """Return whether a choice fits the contraction and the registers."""
        return space.legal(choice, contraction, machine)

    def cost(self, choice: WinogradChoice, contraction: Convolution, machine: Machine) -> Cost:
        """Return the estimated cost."""
        return cost(choice, contraction, machine)

    def halo(self, contraction: Convolution, choice: WinogradChoice, machine: Machine) -> tuple[int, ...]:
        """Return the zeros needed around the input so that every tile is inside it."""
        del machine
        return halo(contraction, choice.tile)

    def weight(
        self,
        value: Array,
        contraction: Convolution,
        choice: WinogradChoice,
        machine: Machine,
        input_lanes: int,
    ) -> Array:
        """Return the transformed weight, packed as `weight_shape`."""
        del input_lanes
        products = machine.products_of(contraction.dtype)
        return pack_weight(value, contraction, choice, machine.lanes, products)

    def function(
        self,
        read: Read,
        contraction: Convolution,
        choice: WinogradChoice,
        layouts: Layouts,
        machine: Machine,
    ) -> tirx.PrimFunc:
        """Return the generated function, epilogue included."""
        return winograd(read, contraction, choice, layouts, machine)
