"""The command `retrieval-lab ask`: a cited answer to a question from its passages, or the refusal."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval_lab.cli_options import (
    CorpusOption,
    DsnOption,
    GoldenOption,
    JsonOption,
    QuestionArgument,
    opened_lab,
    print_json,
)
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.errors import InputError
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.answering import Answerer, Grounds, Said
    from retrieval_lab.entailment import EntailmentModel, EntailmentReport
    from retrieval_lab.lab import Lab
    from retrieval_lab.types import GoldenQuery

_SOURCES = 5
_CHARS_PER_TOKEN = 4


class Who(StrEnum):
    """Who answers; the usual one is Claude where there is a login."""

    USUAL = "usual"
    CLAUDE = "claude"
    EXTRACTIVE = "extractive"


@takes_pipeline
def ask(
    query: QuestionArgument = None,
    golden: GoldenOption = None,
    answerer: Annotated[
        Who, typer.Option("--answerer", help="Who answers; usual: Claude if there is a login, else extractive.")
    ] = Who.USUAL,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Another model of Claude's than the usual one.")
    ] = None,
    sources: Annotated[int, typer.Option("--sources", min=1, help="How many passages to answer from.")] = _SOURCES,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the prompt and its size; nobody is asked, nothing is spent.")
    ] = False,
    entailment: Annotated[
        str | None,
        typer.Option(
            "--entailment", metavar="MODEL", help="Say how far the sources entail each sentence: an NLI model's folder."
        ),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="With --golden: keep the answer with all it rests on in answers/.")
    ] = False,
    replay: Annotated[
        Path | None, typer.Option("--replay", metavar="FILE", help="Show a recorded answer; needs nothing else.")
    ] = None,
    corpus: CorpusOption = None,
    choice: PipelineChoice = UNCHANGED,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a question from the corpus with every sentence cited, or refuse when no passage supports it.

    The support of a passage is the share of the question that it covers; below
    the floor of the configuration (see `calibrate`) nobody is asked. Without a
    login at Claude the answer is made of the passages' own sentences. Marked
    with ! are sentences without a citation.

    Example: [bold]retrieval-lab ask "who made the clock of Sankt Veit?"[/bold]
    """
    if replay is not None:
        others = (query, golden, answerer is not Who.USUAL, model, sources != _SOURCES, dry_run, entailment, record)
        _replayed(replay, given=(*others, corpus, dsn, choice != UNCHANGED), as_json=as_json)
        return
    if (query is None) == (golden is None):
        raise InputError('name one question: retrieval-lab ask "QUESTION", or retrieval-lab ask --golden ID')
    if record and (golden is None or dry_run):
        raise InputError("--record keeps the answer to a golden query: give --golden ID, and no --dry-run")
    from retrieval_lab.answering import grounds

    with opened_lab(corpus, choice, dsn) as lab:
        asked: str | GoldenQuery = query if query is not None else lab.golden_query(golden or "")
        made = grounds(lab, asked, top_k=sources)
        if dry_run:
            _print_prompt(made, as_json=as_json)
        else:
            _answer(lab, made, _who(answerer, model), entailment, record=record, as_json=as_json)


def _who(who: Who, model: str | None) -> Answerer:
    from retrieval_lab.answering import Claude, Extractive, usual_answerer

    if who is Who.EXTRACTIVE and model is not None:
        raise InputError("--model has no effect with the extractive answerer, which has none")
    if who is Who.CLAUDE or model is not None:
        return Claude(model)
    return Extractive() if who is Who.EXTRACTIVE else usual_answerer()


def _answer(
    lab: Lab, made: Grounds, answerer: Answerer, entailment: str | None, *, record: bool, as_json: bool
) -> None:
    from retrieval_lab.answer_text import answer_lines
    from retrieval_lab.answering import Claude, say

    model = None if entailment is None else _judge(entailment)  # before anybody is paid
    if isinstance(answerer, Claude) and not made.draft.refused:
        typer.echo(printable(f"asking {answerer.name}"), err=True)  # without a network it tries for minutes
    said = say(made, answerer)
    kept = _recorded(lab, made, said) if record else None
    judged = None if model is None else _judged(said, model)
    if as_json:
        print_json({**said.to_dict(), **({} if judged is None else {"entailment": asdict(judged)})})
    else:
        typer.echo("\n".join(answer_lines(said, judged)))
    if kept is not None:
        typer.echo(printable(f"kept as {kept}"), err=True)


def _judge(name: str) -> EntailmentModel:
    from retrieval_lab.entailment import EntailmentModel

    return EntailmentModel.named(name)


def _judged(said: Said, model: EntailmentModel) -> EntailmentReport:
    from retrieval_lab.entailment import faithfulness

    claims = [one.text for one in said.report.claims if one.needs_citation]
    return faithfulness(model, claims, [one.chunk.text for one in said.sources])


def _recorded(lab: Lab, made: Grounds, said: Said) -> Path:
    from retrieval_lab.answer_record import record, record_path

    kept = record(lab, made, said)
    path = record_path(lab.corpus, kept.golden.query_id if kept.golden else "question", kept.created)
    kept.save(path)
    return path


def _replayed(path: Path, given: tuple[Any, ...], *, as_json: bool) -> None:
    from retrieval_lab.answer_record import AnswerRecord
    from retrieval_lab.answer_text import answer_lines

    if any(given):
        raise InputError("a recorded answer brings its own question, corpus and settings: give --replay alone")
    record = AnswerRecord.load(path)
    if as_json:
        print_json(record.said.to_dict())
        return
    typer.echo(printable(f"{record.query}  (recorded {record.created})") + "\n")
    typer.echo("\n".join(answer_lines(record.said)))


def _print_prompt(made: Grounds, *, as_json: bool) -> None:
    """The prompt on stdout, its size on stderr; tokens are estimated, since counting them would ask the model.

    What could steer the terminal is shown as an escape; --json has the prompt as it is sent.
    """
    prompt = made.draft.prompt
    size = {"characters": len(prompt), "words": len(prompt.split()), "tokens": round(len(prompt) / _CHARS_PER_TOKEN)}
    if as_json:
        about = {"refused": made.draft.refused, "support": made.support, "floor": made.floor}
        print_json({"prompt": prompt, **size, "citations": list(made.draft.citations), **about})
        return
    if made.draft.refused:
        typer.echo(f"no prompt: the support is {made.support:.2f}, below the floor of {made.floor:g}")
        return
    typer.echo("\n".join(map(_readable, prompt.split("\n"))), nl=False)
    typer.echo(
        f"{size['characters']:,} characters, {size['words']:,} words, about {size['tokens']:,} tokens; nobody asked",
        err=True,
    )


def _readable(line: str) -> str:
    """Tabs are no danger, and most are the indentation of code."""
    return "\t".join(map(printable, line.split("\t")))
