"""The command `retrieval-lab eval`: the golden set's measures with intervals, kept as a run, held against another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval_lab.cli_compare import complete_run, head, print_versus, warn
from retrieval_lab.cli_options import (
    CorpusArgument,
    DsnOption,
    IndexOption,
    JsonOption,
    opened_lab,
    print_json,
    progress_bar,
)
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.corpus import GOLDEN_FILE
from retrieval_lab.errors import Fault, FaultyInput, InputError
from retrieval_lab.paths import bundled_corpus
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.config import PipelineConfig
    from retrieval_lab.evals.gates import Gate, Outcome
    from retrieval_lab.evals.records import QueryRecord
    from retrieval_lab.evals.runs import Run
    from retrieval_lab.evals.summary import Group, Summary
    from retrieval_lab.evals.versus import Versus
    from retrieval_lab.lab import Lab

EXIT_FAILED = 1


@dataclass(frozen=True, slots=True)
class _Evaluated:
    """A run with all that was asked about it; `saved` is where it was kept, `unsaved` why it could not be.

    `parts` are the means over the queries of each value of the label field `by`.
    """

    run: Run
    summary: Summary
    by: str
    parts: Mapping[str, Group]
    outcomes: tuple[Outcome, ...]
    baseline: Run | None
    versus: Versus | None
    saved: Path | None
    unsaved: InputError | None

    def to_dict(self, *, failures: bool) -> dict[str, Any]:
        """The JSON document."""
        run = self.run
        document: dict[str, Any] = {
            "name": run.name,
            "created": run.created,
            "saved": None if self.saved is None else str(self.saved),
            "k": run.k,
            "corpus": asdict(run.corpus),
            "config": run.config.to_dict(),
            "fingerprint": asdict(run.fingerprint),
            **self.summary.to_dict(),
            "by": {"field": self.by, "groups": {value: group.to_dict() for value, group in self.parts.items()}},
            "gates": [outcome.to_dict() for outcome in self.outcomes],
            "comparison": None,
        }
        if failures:
            document["failures"] = [_failure(record) for record in _failures(run)]
        if self.versus is not None and self.baseline is not None:
            document["comparison"] = {"baseline": head(self.baseline), **self.versus.to_dict()}
        return document


@takes_pipeline
def evaluate(
    corpus: CorpusArgument = None,
    k: Annotated[
        int | None, typer.Option("--k", min=1, help="Cut of the final list; else the configuration's top_k.")
    ] = None,
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="FIELD",
            help="Part the queries by kind, split, document (the folder of what they want) or a label field; by dates"
            " also as FIELD:year, FIELD:month and FIELD:weekday.",
        ),
    ] = "kind",
    split: Annotated[
        str | None,
        typer.Option("--split", metavar="NAME", help="Evaluate this split alone, such as dev or held-out."),
    ] = None,
    choice: PipelineChoice = UNCHANGED,
    index: IndexOption = None,
    dsn: DsnOption = None,
    failures: Annotated[
        bool, typer.Option("--failures", help="List the misses instead of the measures; with --json both.")
    ] = False,
    save: Annotated[bool, typer.Option("--save", help="Keep the run, named by date and time unless --name.")] = False,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Keep the run under this name, or at a path ending in .json."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a run that is kept under this name.")] = False,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="RUN",
            help="Compare with this kept run as `compare` does.",
            autocompletion=complete_run,
        ),
    ] = None,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-under",
            metavar="MEASURE=VALUE",
            help="Exit code 1 when a mean over all queries is lower, such as recall@10=0.70; may be repeated.",
        ),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record", metavar="FILE", help="Keep what ran, its versions, numbers and cost in a file, to be replayed."
        ),
    ] = None,
    replay: Annotated[
        Path | None, typer.Option("--replay", metavar="FILE", help="Show a recorded or kept run; needs nothing else.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run the golden set and print its measures, all and by kind, each with its 95% bootstrap interval.

    Recall is that of the final list, of the fused pool, and of each list alone.
    With --failures: [bold]query_id, kind, best_rank[/bold] for each query whose first
    relevant chunk is outside the top k, where best_rank is its rank in the
    whole reranked pool, or none.

    Runs are kept in the folder runs/ of the corpus, or in the data directory
    when that is read-only. Exit code 1 when a gate fails, 2 when queries
    without a relevant chunk had to be left out. With --index the queries are
    asked of an index that was exported, and no server is needed.

    Example: [bold]retrieval-lab eval --name before --set reranker=none[/bold], then
    [bold]retrieval-lab eval --baseline before --fail-under recall@10=0.70[/bold]
    """
    if force and not (save or name or record):
        raise InputError("--force has no effect without --save, --name or --record")
    folder = corpus or index or bundled_corpus()
    if replay is not None:
        if any((k, split, index, dsn, save, name, record, choice != UNCHANGED)):
            raise InputError(
                "--replay shows a run as it was; with it go --failures, --baseline, --fail-under and --json"
            )
        shown = _replayed(replay, by, folder, baseline, fail_under or ())
        _tell(shown, as_json=as_json, failures=failures)
        _judge(shown)
        return
    if record is not None and not force:
        _require_free(record)
    choice = choice.with_setting(f"top_k={k}") if k else choice
    gates = [] if index is not None else _gates(choice.configured(folder).config, fail_under or ())
    other = _baseline(baseline, folder)
    target = _target(name, folder, force=force) if name is not None else None
    with opened_lab(corpus, choice, dsn, index) as lab:
        gates = gates if index is None else _gates(lab.config, fail_under or ())
        _require_field(lab, by)
        made = _run(lab, other, split)
        if name is not None or save:
            target = target or _free_target(made.name, folder)
            made = replace(made, name=target.stem)
        found = _evaluated(made, by, gates, other, target, force=force)
        if record is not None:
            _record(found, record)
        _tell(found, as_json=as_json, failures=failures)
        _warn_of_training(made)
        undefined = [
            Fault(lab.corpus / GOLDEN_FILE, None, why, query_id) for query_id, why in found.summary.undefined.items()
        ]
        if undefined:
            raise FaultyInput([*lab.index.faults, *undefined])
    _judge(found)


def _judge(found: _Evaluated) -> None:
    if not all(outcome.passed for outcome in found.outcomes):
        raise typer.Exit(EXIT_FAILED)


# --- what is asked for, checked before the work --------------------------------------------------------------------


def _gates(config: PipelineConfig, texts: Sequence[str]) -> list[Gate]:
    if not texts:
        return []
    from retrieval_lab.evals.gates import parse_gate
    from retrieval_lab.evals.runs import measure_names

    names = measure_names(config)
    return [parse_gate(text, names) for text in texts]


def _replayed(path: Path, by: str, folder: Path, baseline: str | None, gates: Sequence[str]) -> _Evaluated:
    """A run that was kept, with all that is asked about it now."""
    from retrieval_lab.evals.gates import parse_gate
    from retrieval_lab.evals.runs import Run, measure_names
    from retrieval_lab.evals.slices import require_field_of

    kept = Run.load(path)
    require_field_of(kept, by)
    names = measure_names(kept.config)
    parsed = [parse_gate(text, names) for text in gates]
    return _evaluated(kept, by, parsed, _baseline(baseline, folder), None, force=False)


def _require_field(lab: Lab, by: str) -> None:
    from retrieval_lab.evals.slices import require_field

    require_field(lab.golden, by)


def _require_free(path: Path) -> None:
    from retrieval_lab.evals.kept import require_free

    require_free(path)


def _baseline(name: str | None, folder: Path) -> Run | None:
    if name is None:
        return None
    from retrieval_lab.evals.kept import resolve_run
    from retrieval_lab.evals.runs import Run

    return Run.load(resolve_run(name, folder))


def _target(name: str, folder: Path, *, force: bool) -> Path:
    from retrieval_lab.evals.kept import SUFFIX, require_free, resolve_run

    path = resolve_run(name, folder)
    if path.suffix != SUFFIX or not printable(name) == name:
        raise InputError(
            f"--name {printable(name)!r}: expected a name without a slash, or a path that ends in {SUFFIX}"
        )
    if not force:
        require_free(path)
    return path


def _free_target(name: str, folder: Path) -> Path:
    """Where a run of this name lies, or of this name with a number when that is taken."""
    from retrieval_lab.evals.kept import resolve_run, stored_runs

    taken, number, free = set(stored_runs(folder)), 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    return resolve_run(free, folder)


# --- the work ------------------------------------------------------------------------------------------------------


def _run(lab: Lab, baseline: Run | None, split: str | None) -> Run:
    from retrieval_lab.evals.runs import hash_of_golden, run
    from retrieval_lab.evals.versus import require_comparable

    golden = lab.golden if split is None else lab.split(split)
    if baseline is not None and golden:
        require_comparable(baseline, golden, golden_hash=hash_of_golden(golden), k=lab.config.top_k)
    with progress_bar("evaluating") as step:
        return run(lab, split=split, progress=step)


def _evaluated(
    run: Run, by: str, gates: Sequence[Gate], baseline: Run | None, target: Path | None, *, force: bool
) -> _Evaluated:
    from retrieval_lab.evals.gates import check_gates
    from retrieval_lab.evals.summary import sliced, summarise
    from retrieval_lab.evals.versus import versus

    unsaved = None
    if target is not None:
        try:
            run.save(target, overwrite=force)
        except InputError as error:  # told at the end: the work is done and can be shown
            unsaved = error
    summary = summarise(run)
    return _Evaluated(
        run=run,
        summary=summary,
        by=by,
        parts=sliced(run, summary, by),
        outcomes=check_gates(gates, summary.all),
        baseline=baseline,
        versus=None if baseline is None else versus(baseline, run),
        saved=target if unsaved is None else None,
        unsaved=unsaved,
    )


def _record(found: _Evaluated, path: Path) -> None:
    from retrieval_lab.stored import write_json

    # Nobody is paid for a retrieval that runs here; the key says so to whoever adds up what live runs cost.
    write_json(path, {**found.run.to_dict(), "summary": found.summary.to_dict(), "cost_usd": 0.0})
    typer.echo(printable(f"recorded in {path}"), err=True)


def _tell(found: _Evaluated, *, as_json: bool, failures: bool) -> None:
    if as_json:
        print_json(found.to_dict(failures=failures))
    else:
        _print(found, failures=failures)
    if found.versus is not None:
        warn(found.versus)
    if found.saved is not None:
        typer.echo(printable(f"kept as {found.run.name}: {found.saved}"), err=True)
    for outcome in found.outcomes:
        if not outcome.passed:
            typer.echo(str(outcome), err=True)
    if found.unsaved is not None:
        raise found.unsaved


def _warn_of_training(run: Run) -> None:
    """Says on stderr that a learned reranker knows queries that were measured. Raises InputError for a broken file."""
    from retrieval_lab.evals.splits import DEV, HELD_OUT, parted
    from retrieval_lab.learned_model import read_model
    from retrieval_lab.settings import TrainedReranker

    reranker = run.config.reranker
    if not isinstance(reranker, TrainedReranker):
        return
    on = read_model(reranker.file).trained_on
    splits, dealt = parted(run.queries)
    if on.corpus != run.corpus.folder or DEV not in splits.values():
        return
    first = "`retrieval-lab split`, then " if dealt else ""
    typer.echo(
        f"warning: the reranker was trained on {on.queries} dev queries of this corpus, so their part in these numbers"
        f" flatters it; without them: {first}--split {HELD_OUT}",
        err=True,
    )


def _print(found: _Evaluated, *, failures: bool) -> None:
    from retrieval_lab.cli_eval_text import print_summary

    if failures:
        for record in _failures(found.run):
            typer.echo(printable(f"{record.query_id}, {record.kind}, {record.ranks['reranked'] or 'none'}"))
    else:
        print_summary(found.run, found.summary, found.parts)
    if found.versus is not None and found.baseline is not None:
        typer.echo()
        print_versus(found.versus, found.baseline, found.run)


# --- the misses ----------------------------------------------------------------------------------------------------


def _failures(run: Run) -> list[QueryRecord]:
    return [record for record in run.queries if record.is_miss or record.is_unlabelled]


def _failure(record: QueryRecord) -> dict[str, Any]:
    return {
        "query_id": record.query_id,
        "kind": record.kind,
        "best_rank": record.ranks["reranked"],
        "query": record.query,
        "ranks": dict(record.ranks),
        "relevant": list(record.relevant),
        "undefined": record.undefined,
    }
