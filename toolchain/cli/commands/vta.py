"""`toolchain vta`: configurations and programs of the accelerator VTA."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolchain.cli import complete
from toolchain.cli.commands.vta_compile import compile_, tasks_
from toolchain.cli.options import Seconds
from toolchain.cli.output import emit, note, output_options, table, wants_json
from toolchain.quantities import counted, shown_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolchain.vta.design import VtaConfig
    from toolchain.vta.dumps.dump import Judged
    from toolchain.vta.lint import RuleViolation

_SHOWN = 20  # problems; --json has all


@click.group()
@output_options
def vta() -> None:
    """Inspect and test the accelerator VTA: configurations, programs, portability."""


vta.add_command(compile_)
vta.add_command(tasks_)


@vta.command()
@click.argument("config", metavar="[NAME|FILE]", required=False, shell_complete=complete.vta_configs)
@output_options
def config(config: str | None) -> None:
    """Show a configuration and the facts derived from it; without a name, list the published ones.

    FILE has the form of upstream's vta_config.json.
    """
    from toolchain.vta.config_file import find_config
    from toolchain.vta.design import SAMPLES

    if config is None:
        listed = [{"name": name, **_summary(sample)} for name, sample in SAMPLES.items()]
        emit(
            listed, lambda: table(["NAME", "TARGET", "BITSTREAM", "ISA"], [list(d.values()) for d in listed])
        )
        return
    design = find_config(config)
    emit(design.document(), lambda: _print_config(design))


@vta.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--config",
    metavar="NAME|FILE",
    shell_complete=complete.vta_configs,
    help="Configuration of the design; default: the folder's, else pynq.",
)
@click.option(
    "--isa-rev", type=click.IntRange(1, 2), help="Revision of the encoding; default: the configuration's."
)
@output_options
def disasm(path: Path, config: str | None, isa_rev: int | None) -> None:
    """Print a program as text, one instruction per line.

    PATH is a folder that a program was dumped into, or a file of instructions, 16 bytes each.
    """
    from toolchain.vta.config_file import find_config
    from toolchain.vta.design import of_revision
    from toolchain.vta.dumps.dump import INSTRUCTIONS, decode_file, read_dump, read_program
    from toolchain.vta.isa.instructions import disassemble, text_of

    chosen = find_config(config or "pynq")
    file = path
    if path.is_dir():
        dump = read_dump(path)
        file, program = path / INSTRUCTIONS, dump.program
        chosen = chosen if config else dump.config
    else:
        program = read_program(path)
    chosen = of_revision(chosen, isa_rev)
    decoded = decode_file(file, program, chosen)
    instructions = [
        {"index": index, "stage": instruction.stage.name.lower(), "text": text_of(instruction)}
        for index, instruction in enumerate(decoded)
    ]
    emit(
        {**_summary(chosen), "instructions": instructions},
        lambda: click.echo("\n".join(disassemble(decoded))),
    )


@vta.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@output_options
def lint(folder: Path) -> None:
    """Check that a dumped program keeps the rules on which all implementations agree.

    The program is not run, so what depends on computed values is not checked. Exits with 4 if a rule is
    broken.
    """
    from toolchain.errors import CheckError
    from toolchain.foreign import printable
    from toolchain.vta.dumps.dump import INSTRUCTIONS, decode_file, read_dump
    from toolchain.vta.lint import problems

    dump = read_dump(folder)
    program = decode_file(folder / INSTRUCTIONS, dump.program, dump.config)
    violations = problems(program, dump.before, dump.phys_base, dump.config)
    document = {
        **_summary(dump.config),
        "instructions": len(program),
        "problems": [problem.document() for problem in violations],
    }
    emit(document, lambda: _print_violations(violations, len(program)))
    if violations and wants_json():
        click.get_current_context().exit(CheckError.exit_code)  # the document above says what is wrong
    if violations:
        named = printable(str(folder))
        broken = counted(len(violations), "rule is", "rules are")
        raise CheckError(
            f"{named} is not portable: {broken} broken",
            f"`toolchain vta disasm {named}` shows the instructions",
        )


@vta.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Reject programs that only some implementations run.")
@click.option(
    "--trace",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write a timeline of the instructions, for ui.perfetto.dev or chrome://tracing.",
)
@click.option(
    "--timeout",
    metavar="S",
    type=Seconds(),
    default=120.0,
    show_default=True,
    help="Seconds until the simulator is stopped.",
)
@output_options
def simulate(folder: Path, strict: bool, trace: Path | None, timeout: float) -> None:
    """Run a dumped program in the simulator, and compare its memory with the expected one.

    Cycles and milliseconds come from a model, not from a board. Exits with 4 if the program is rejected or
    the memory differs.
    """
    from toolchain.errors import CheckError, UsageError
    from toolchain.foreign import printable
    from toolchain.vta.dumps.dump import INSTRUCTIONS, decode_file, judge, read_dump
    from toolchain.vta.machine.requests import Refused
    from toolchain.vta.machine.trace import write_trace

    if trace is not None and not trace.parent.is_dir():
        raise UsageError(
            f"--trace {printable(str(trace))}: there is no folder {printable(str(trace.parent))}",
            "name a file in a folder that is there, or make it first",
        )
    dump = read_dump(folder)
    judged = judge(dump, strict=strict, trace=trace is not None, deadline_s=timeout, progress=note)
    outcome, mhz = judged.outcome, dump.config.cycles.mhz
    if trace is not None and not isinstance(outcome, Refused):
        program = decode_file(folder / INSTRUCTIONS, dump.program, dump.config)
        write_trace(trace, program, outcome.timeline, mhz)
    document = {**_summary(dump.config), "strict": strict, **judged.document()}
    document["cycle_model"] = dump.config.cycles.document()
    emit(document, lambda: _print_judgement(judged, mhz))
    if judged.passed is False and wants_json():
        click.get_current_context().exit(CheckError.exit_code)  # the document above says what is wrong
    if judged.passed is False:
        raise CheckError(*judged.complaint(printable(str(folder)), strict=strict))


def _summary(config: VtaConfig) -> dict[str, Any]:
    return {"target": config.target, "bitstream": config.bitstream, "isa_rev": config.isa_rev}


def _print_config(config: VtaConfig) -> None:
    document = config.document()
    for key, value in document["parameters"].items():
        click.echo(f"{key:<18}{value}")
    click.echo(f"\nbitstream {config.bitstream}, instructions of revision {config.isa_rev}\n")
    rows = [(name, *buffer.values()) for name, buffer in document["buffers"].items()]
    table(["BUFFER", "BYTES", "ELEMENT", "DEPTH", "INDEX BITS"], rows)
    cycles = config.cycles
    click.echo(f"\ncycle model {cycles.version}, fitted to no board: {cycles.mhz} MHz; cycles of")
    table(
        [
            "FETCH",
            "INSTRUCTION",
            "ROW OF DMA",
            f"{cycles.bus_bytes} BYTES",
            "PIPELINE",
            "GEMM STEP",
            "ALU STEP",
        ],
        [
            (
                *(cycles.fetch, cycles.overhead, cycles.dma_row, 1),
                *(cycles.pipeline, cycles.gemm_step, cycles.alu_step),
            )
        ],
    )


def _print_judgement(judged: Judged, mhz: float) -> None:
    model = judged.model
    if model is None:
        return
    click.echo(
        f"model (no board): {model.cycles} cycles, {shown_ms(model.cycles / mhz / 1000)} at {mhz} MHz\n"
    )
    rows = [(name, *vars(times).values()) for name, times in model.stages]
    table(["STAGE", "INSTRUCTIONS", "BUSY", "WAITS FOR TOKENS", "WAITS FOR FETCH"], rows)
    if judged.passed is None:
        click.echo("\nthere is no expected.bin to compare the memory with")
    elif judged.passed:
        click.echo("\nthe memory equals expected.bin")


def _print_violations(violations: Sequence[RuleViolation], instructions: int) -> None:
    for problem in violations[:_SHOWN]:
        click.echo(str(problem))
    if len(violations) > _SHOWN:
        click.echo(f"and {len(violations) - _SHOWN} more; --json has all")
    if not violations:
        click.echo(f"{instructions} instructions keep the rules of the portable subset")
