"""Addresses that go along with loops are those that TVM wrote."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.lowering.dialects.opencl_c import with_running_addresses

IDS = {"convert_int(get_group_id(0))": 5, "convert_int(get_local_id(1))": 3}
HEAD = "__kernel void k(__global float* restrict a_ptr, __global half* restrict b_ptr, int n) {\n"


def touched(source: str) -> list[tuple[str, int]]:
    """Run a kernel of loops, conditions and `touch(address);`; return the addresses in their order."""
    found: list[tuple[str, int]] = []
    lines = []
    for line in source.split("\n")[1:]:
        text = line.strip()
        for name, value in IDS.items():
            text = text.replace(name, str(value))
        text = re.sub(r"\bvload4\(0, (.*?)\);$", r"touch(\1)", text)
        depth = (len(line) - len(line.lstrip())) // 2
        if loop := re.match(r"for \(int (\w+) = 0; \w+ < (\d+); \+\+\w+(.*)\) \{", text):
            more = [each.strip() for each in loop[3].split(",") if each.strip()]
            lines.append("  " * depth + f"for {loop[1]} in turns({loop[2]}, {more!r}):")
            lines.append("  " * (depth + 1) + "pass")
        elif condition := re.match(r"if \((.*)\) \{", text):
            lines.append("  " * depth + f"if {condition[1]}:")
            lines.append("  " * (depth + 1) + "pass")
        elif declared := re.match(r"__global (?:float|half)\* (\w+) = (\w+) \+ \((.*)\);", text):
            lines.append("  " * depth + f"{declared[1]} = {declared[2]} + ({declared[3]})")
        elif text.startswith("touch"):
            lines.append("  " * depth + text)
    program = textwrap.dedent("\n".join(lines))
    scope: dict[str, object] = {"a_ptr": Address("a", 0), "b_ptr": Address("b", 0)}

    def turns(count: int, more: Sequence[str]) -> Iterator[int]:
        for turn in range(count):
            yield turn
            for step in more:
                exec(step, scope)  # noqa: S102 - its own text

    scope["turns"] = turns
    scope["touch"] = lambda address: found.append((address.buffer, address.place))
    exec(program, scope)  # noqa: S102
    return found


class Address:
    def __init__(self, buffer: str, place: int) -> None:
        self.buffer, self.place = buffer, place

    def __add__(self, distance: int) -> Address:
        return Address(self.buffer, self.place + distance)


FACTOR = st.integers(-3, 50)


@st.composite
def kernels(draw: st.DrawFn) -> str:
    """Return a kernel of up to three loops, with a condition in one of them now and then."""
    lines, counters = list[str](), list[str]()
    depth = 1
    for number in range(draw(st.integers(1, 3))):
        if draw(st.booleans()) and counters:
            lines.append("  " * depth + f"if ({counters[-1]} < 2) {{")
            depth += 1
        counters.append(f"v_{number}")
        turns = draw(st.integers(1, 4))
        lines.append("  " * depth + f"for (int v_{number} = 0; v_{number} < {turns}; ++v_{number}) {{")
        depth += 1
        for _ in range(draw(st.integers(0, 3))):
            terms = [f"({name} * {draw(FACTOR)})" for name in draw(st.permutations([*counters, *IDS]))]
            buffer = draw(st.sampled_from(["a_ptr", "b_ptr"]))
            total = " + ".join([*terms[: draw(st.integers(1, len(terms)))], str(draw(st.integers(0, 20)))])
            lines.append("  " * depth + f"vload4(0, {buffer} + ({total}));")
    while depth > 0:
        depth -= 1
        lines.append("  " * depth + "}")
    return HEAD + "\n".join(lines)


@given(kernels())
def test_the_same_is_read_in_the_same_order(source: str) -> None:
    made = with_running_addresses(source)
    assert touched(made) == touched(source)
    assert "vload4(0, a_ptr" not in made and "vload4(0, b_ptr" not in made


def test_pointers_stand_before_the_outermost_loop_and_move_with_each() -> None:
    source = HEAD + textwrap.dedent(
        """\
          for (int v = 0; v < 8; ++v) {
            for (int v_1 = 0; v_1 < 3; ++v_1) {
              x = vload4(0, a_ptr + (((v * 30) + (v_1 * 4)) + 12));
              y = vload4(0, a_ptr + ((v * 30) + (v_1 * 4)));
              b_ptr[(v_1 * 2)] = x;
            }
          }
        }"""
    )
    made = with_running_addresses(source)
    assert "__global float* along_0 = a_ptr + (0);" in made and "__global half* along_1" in made
    assert "for (int v = 0; v < 8; ++v, along_0 += 18, along_1 += -6) {" in made
    assert "for (int v_1 = 0; v_1 < 3; ++v_1, along_0 += 4, along_1 += 2) {" in made
    assert "x = vload4(0, along_0 + 12);" in made and "along_1[0] = x;" in made


@pytest.mark.parametrize(
    "address",
    ["(v / 3)", "(v * v)", "(n + v)", "((int)c_ptr[v])", "((v < 3) ? v : 0)", "(v * get_global_id(0))"],
)
def test_what_is_no_sum_of_counters_stays(address: str) -> None:
    source = HEAD + f"  for (int v = 0; v < 8; ++v) {{\n    x = vload4(0, a_ptr + {address});\n  }}\n}}"
    assert with_running_addresses(source) == source


def test_code_outside_of_loops_stays() -> None:
    source = HEAD + "  x = vload4(0, a_ptr + (convert_int(get_group_id(0)) * 4));\n}"
    assert with_running_addresses(source) == source
