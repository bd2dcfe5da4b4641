"""Whether a program stays inside the subset on which all implementations of VTA agree.

What is found is found without running it: a program that passes may still be wrong, and what depends on
values that it computes, edge-rt's strict machine judges.
"""

from toolchain.vta.lint.check import problems
from toolchain.vta.lint.problem import RULES, Problem

__all__ = ["RULES", "Problem", "problems"]
