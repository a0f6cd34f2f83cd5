"""The console script: the core's command line with `explore` added, which is also what runs without a command."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.main import get_command

from retrieval_lab import cli
from retrieval_lab.cli_options import CorpusArgument, DsnOption, IndexOption
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.errors import InputError
from retrieval_lab.paths import data_dir

if TYPE_CHECKING:
    from retrieval_lab.config import PipelineConfig
    from retrieval_lab.lab import Lab
    from retrieval_lab.offline import IndexSource
    from retrieval_lab_tui.app import ExplorerApp

_GLOBAL_OPTIONS = ("-h", "--help", "--version", "--install-completion", "--show-completion")


@cli.app.command()
@takes_pipeline
def explore(
    corpus: CorpusArgument = None,
    choice: PipelineChoice = UNCHANGED,
    dsn: DsnOption = None,
    index: IndexOption = None,
    golden: Annotated[
        Path | None,
        typer.Option("--golden", metavar="FILE", help="With --index: a file of golden queries; else the corpus's."),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--bundle", metavar="FILE", help="Replay one question from a file of `trace --bundle`; needs no database."
        ),
    ] = None,
) -> None:
    """Open the explorer: one question in every stage, side by side.

    Without a command, a folder is opened in the explorer, and without a folder the bundled corpus is.

    With --index nothing is indexed and no server is needed: the questions are asked of an index that export-index
    wrote; a corpus beside it gives the golden queries and the files.

    Example: [bold]retrieval-lab fixtures/corpus[/bold]
    """
    _require_terminal()
    if corpus is not None and not corpus.is_dir():
        raise InputError(f"{corpus}: no such folder; a corpus is a folder with docs/*.md and stories/*.txt")
    _log_to_file()
    if golden is not None and index is None:
        raise InputError("--golden goes with --index; a corpus has its own golden.yaml")
    if bundle is not None:
        explorer = _replay(bundle, given=(corpus, choice.path, choice.changes, dsn, index))
    elif index is not None:
        if dsn is not None:
            raise InputError("--index needs no server: leave out --dsn")
        explorer = _over_index(choice.on_index(index, corpus, golden))
    else:
        explorer = _explorer(corpus, choice, dsn)
    try:
        explorer.run()
    finally:
        explorer.close_lab()
    if explorer.problem is not None:
        raise explorer.problem
    if explorer.return_code:
        raise typer.Exit(explorer.return_code)


def _explorer(corpus: Path | None, choice: PipelineChoice, dsn: str | None) -> ExplorerApp:
    # Textual takes a moment to import, which the other commands need not wait for.
    from retrieval_lab_tui.app import ExplorerApp

    settings = choice.configured(corpus).config if choice != UNCHANGED else None
    name = choice.path.stem if choice.path is not None and not choice.changes else None
    return ExplorerApp(corpus, dsn, config=settings, config_name=name)


def _over_index(source: IndexSource) -> ExplorerApp:
    """The explorer on an index, which is opened before the screen is, so that what is wrong with it is told plainly."""
    from retrieval_lab_tui.app import ExplorerApp

    opened = [source.open()]

    def open_lab(_corpus: Path | None, config: PipelineConfig | None, *_: object, **__: object) -> Lab:
        return opened.pop() if opened and config is None else source.open(config)

    return ExplorerApp(source.corpus, open_lab=open_lab)


def _replay(path: Path, given: Sequence[object]) -> ExplorerApp:
    """The explorer on a bundle, which has its own corpus and configuration."""
    from retrieval_lab.diagnosis.bundle import read_bundle
    from retrieval_lab.diagnosis.replay import Replay
    from retrieval_lab_tui.app import ExplorerApp

    if any(given):
        raise InputError("a bundle brings its own question and settings: give --bundle alone")
    replay = Replay(read_bundle(path))
    return ExplorerApp(open_lab=lambda *_, **__: replay)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code, as `retrieval_lab.cli.main` does.

    Without a command, or with a folder in its place, `explore` is meant; a command's name wins over a folder's.
    """
    return cli.main(_with_command(sys.argv[1:] if argv is None else list(argv)))


def _with_command(arguments: list[str]) -> list[str]:
    rest = [argument for argument in arguments if argument != "--debug"]
    if not rest:
        return ["explore", *arguments]
    first = rest[0]
    if first in _known_commands() or first.startswith(_GLOBAL_OPTIONS):
        return arguments
    return ["explore", *arguments] if first.startswith("-") or _is_like_a_path(first) else arguments


def _is_like_a_path(text: str) -> bool:
    """Whether a person who wrote this meant a path, so that a typing error is about a folder and not a command."""
    return Path(text).exists() or "/" in text or "." in text


def _known_commands() -> set[str]:
    return set(getattr(get_command(cli.app), "commands", {}))


def _require_terminal() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError(
            "the explorer needs a terminal; the commands that need none are listed by `retrieval-lab --help`"
        )
    if "utf" not in (sys.stdout.encoding or "").lower():
        raise InputError(
            f"the explorer draws in UTF-8, and this terminal takes {sys.stdout.encoding}; set LC_ALL=C.UTF-8"
        )
    if os.environ.get("TERM", "") in ("", "dumb"):
        raise InputError(
            "the explorer needs a terminal that can move its cursor; set TERM, for example to xterm-256color"
        )


def _log_to_file() -> None:
    """Keeps log lines and warnings off the screen, which they would tear."""
    try:
        data_dir().mkdir(parents=True, exist_ok=True)
        handler: logging.Handler = logging.FileHandler(data_dir() / "explorer.log", encoding="utf-8", delay=True)
    except OSError:
        handler = logging.NullHandler()
    logging.basicConfig(handlers=[handler], level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    logging.captureWarnings(True)
