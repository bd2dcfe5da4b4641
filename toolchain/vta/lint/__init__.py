"""Checks that a program stays in the subset on which all implementations of VTA agree.

The analysis is static: a program that passes may still be wrong, and properties that depend on computed
values are checked by edge-rt's strict machine.
"""

from toolchain.vta.lint.check import problems
from toolchain.vta.lint.rules import RULES, RuleViolation

__all__ = ["RULES", "RuleViolation", "problems"]
