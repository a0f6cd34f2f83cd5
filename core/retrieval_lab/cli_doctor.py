"""The command `retrieval-lab doctor`: has this machine what the lab needs?"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from retrieval_lab.database import DSN_VARIABLE
from retrieval_lab.doctor import Check, examine
from retrieval_lab.errors import EnvironmentMissing

_COLUMNS = 80
_STATE_WIDTH = len("optional")
_NAME_WIDTH = len("claude login")
_MEND = " " * (_STATE_WIDTH + 2) + "mend: "


def doctor(
    dsn: Annotated[
        str | None, typer.Option("--dsn", help=f"Another server than the embedded one; by default ${DSN_VARIABLE}.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Say what this machine has of what the lab needs, and what mends the rest. Starts and writes nothing.

    [bold]missing[/bold] is what the lab cannot work without, [bold]optional[/bold] what only a part of it needs. Exit
    code 3 when something is missing.

    Example: [bold]retrieval-lab doctor --json[/bold]
    """
    checks = examine(dsn)
    missing = any(check.state == "missing" for check in checks)
    document = {"ok": not missing, "checks": [asdict(check) for check in checks]}
    typer.echo(json.dumps(document, indent=2) if as_json else "\n".join(_described(checks)))
    if missing:
        raise typer.Exit(EnvironmentMissing.exit_code)


def _described(checks: Sequence[Check]) -> Iterator[str]:
    """The lines for people."""
    for check in checks:
        yield from _wrapped(f"{check.state:<{_STATE_WIDTH}}  {check.name:<{_NAME_WIDTH}}  ", check.found)
        if check.mend is not None:
            yield from _wrapped(_MEND, check.mend)
    missing = [check.name for check in checks if check.state == "missing"]
    yield ""
    yield f"missing: {', '.join(missing)}" if missing else "Everything that the lab needs is there."


def _wrapped(start: str, text: str) -> list[str]:
    """The text after `start`, aligned; a path or a command's word is never cut, so that it can be copied."""
    return textwrap.wrap(
        _printable(text),
        _COLUMNS,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _printable(text: str) -> str:
    """What paths and variables may hold cannot steer the terminal."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
