"""The command `retrieval-lab doctor`: has this machine what the lab needs?"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import typer

from retrieval_lab.cli_options import DsnOption, JsonOption, print_json
from retrieval_lab.doctor import Check, examine
from retrieval_lab.errors import EnvironmentMissing
from retrieval_lab.text import printable

_COLUMNS = 80
_STATE_WIDTH = len("optional")
_NAME_WIDTH = len("claude login")
_MEND = " " * (_STATE_WIDTH + 2) + "mend: "


def doctor(dsn: DsnOption = None, as_json: JsonOption = False) -> None:
    """Say what this machine has of what the lab needs, and what mends the rest. Starts and writes nothing.

    [bold]missing[/bold] is what the lab cannot work without, [bold]optional[/bold] what only a part of it needs. Exit
    code 3 when something is missing.

    Example: [bold]retrieval-lab doctor --json[/bold]
    """
    checks = examine(dsn)
    missing = any(check.state == "missing" for check in checks)
    if as_json:
        print_json({"ok": not missing, "checks": [asdict(check) for check in checks]})
    else:
        typer.echo("\n".join(_described(checks)))
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
        printable(text),
        _COLUMNS,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )
