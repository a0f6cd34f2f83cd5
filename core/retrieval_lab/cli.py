"""The command line without the explorer. Each group of commands lies in a module of its own and is added to `app`."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated

import psycopg
import typer
from typer.main import get_command

from retrieval_lab import (
    cli_analysis,
    cli_ask,
    cli_calibrate,
    cli_check,
    cli_compare,
    cli_config,
    cli_db,
    cli_diagnose,
    cli_doctor,
    cli_drift,
    cli_eval,
    cli_export,
    cli_funnel,
    cli_import,
    cli_index,
    cli_portable,
    cli_report,
    cli_rescue,
    cli_robustness,
    cli_score,
    cli_search,
    cli_split,
    cli_train,
    cli_tune,
)
from retrieval_lab.errors import LabError

PROGRAM = "retrieval-lab"
EXIT_FAILED = 1
EXIT_ENVIRONMENT = 3
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141  # what a shell reports for a program that SIGPIPE ended


app = typer.Typer(
    name=PROGRAM,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("search")(cli_search.search)
app.command("trace")(cli_search.trace)
app.command("ask")(cli_ask.ask)
app.command("rescue")(cli_rescue.rescue)
app.command("funnel")(cli_funnel.funnel)
app.command("diagnose")(cli_diagnose.diagnose)
app.command("index")(cli_index.index)
app.command("export-index")(cli_portable.export_index)
app.command("eval")(cli_eval.evaluate)
app.command("calibrate")(cli_calibrate.calibrate)
app.command("tune")(cli_tune.tune)
app.command("compare")(cli_compare.compare)
app.command("robustness")(cli_robustness.robustness)
app.command("drift")(cli_drift.drift)
app.command("report")(cli_report.report)
app.command("score")(cli_score.score)
app.command("check")(cli_check.check)
app.command("import")(cli_import.import_)
app.command("export")(cli_export.export)
app.command("split")(cli_split.split)
app.command("train-reranker")(cli_train.train_reranker)
app.add_typer(cli_analysis.app, name="analysis")
app.add_typer(cli_config.app, name="config")
app.command("doctor")(cli_doctor.doctor)
app.add_typer(cli_db.app, name="db")


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            version = metadata.version(PROGRAM)
        except metadata.PackageNotFoundError:
            version = "(not installed, run from its source)"
        typer.echo(f"{PROGRAM} {version}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    ctx: typer.Context,
    version: Annotated[  # noqa: ARG001 - the option's callback does the work
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
    debug: Annotated[  # noqa: ARG001 - `main` takes it out of the arguments, wherever it stands
        bool, typer.Option("--debug", help="Show the traceback of an error. Works after a command, too.")
    ] = False,
) -> None:
    """See one question go through every stage of hybrid retrieval over Postgres.

    A first tour, on the corpus that comes with the lab:

    [bold]retrieval-lab trace --golden q08[/bold]   where a wanted passage is lost

    [bold]retrieval-lab eval --failures[/bold]      all questions whose passage is missed

    [bold]retrieval-lab check[/bold]                what is wrong with the labels

    [bold]retrieval-lab doctor[/bold]               what this machine lacks, if anything

    Exit codes: 0 done; 1 a check or gate failed; 2 bad input, or something was left out; 3 the machine lacks something.
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def main(argv: Sequence[str] | None = None, *, command: typer.Typer = app, program: str = PROGRAM) -> int:
    """Run the command line and return the exit code; `argv` is without the program's name, by default the process's.

    `program` is what help and usage errors call it; `command` stands in for `app` where a module runs by itself.
    Errors become a message on stderr: 2 for bad input or usage, 3 for something that this machine lacks, else 1.
    """
    arguments, debug = _take_debug(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # it was closed before we began, as with `>&-`
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open until the process ends
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(command, arguments, program)
        sys.stdout.flush()
    except BrokenPipeError:
        code = EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last place before the user
        message, code = _explain(error)
        if debug:
            traceback.print_exc()
        typer.echo(f"error: {message}", err=True)
    if code == EXIT_BROKEN_PIPE:
        # What is still buffered would raise again when the interpreter ends.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _run(command: typer.Typer, arguments: Sequence[str], program: str) -> int:
    try:
        get_command(command)(args=list(arguments), prog_name=program)
    except SystemExit as end:
        # Typer ends with 1 when who reads the output went away, as in `... | head`; here 1 means that a check failed.
        if isinstance(end.__context__, BrokenPipeError):
            return EXIT_BROKEN_PIPE
        return end.code if isinstance(end.code, int) else 0 if end.code is None else EXIT_FAILED
    return 0


def _take_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """The arguments without `--debug`, and whether it was there. What follows `--` is left alone."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    options = [argument for argument in arguments[:end] if argument != "--debug"]
    return [*options, *arguments[end:]], len(options) < end


def _explain(error: Exception) -> tuple[str, int]:
    """The message and the exit code of an error."""
    if isinstance(error, LabError):
        return str(error), error.exit_code
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'what was printed'}: {error.strerror}", EXIT_FAILED
    first_line = str(error).partition("\n")[0]
    if isinstance(error, psycopg.OperationalError):
        return (
            f"the database gave up ({first_line}): run it again, or look at 'retrieval-lab db status'",
            EXIT_ENVIRONMENT,
        )
    return f"unexpected {type(error).__name__}: {first_line} (run again with --debug to see where)", EXIT_FAILED
