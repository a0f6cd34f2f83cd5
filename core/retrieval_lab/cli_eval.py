"""The command `retrieval-lab eval`: the golden set's measures with intervals, kept as a run, held against another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len

from retrieval_lab.cli_compare import complete_run, head, print_versus, warn
from retrieval_lab.cli_options import (
    CorpusArgument,
    DsnOption,
    JsonOption,
    opened_lab,
    print_json,
    progress_bar,
)
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.cli_text import counted, print_table, stdout
from retrieval_lab.corpus import GOLDEN_FILE
from retrieval_lab.errors import Fault, FaultyInput, InputError
from retrieval_lab.paths import bundled_corpus
from retrieval_lab.shorten import shorten_middle
from retrieval_lab.text import printable

if TYPE_CHECKING:
    from retrieval_lab.evals.gates import Gate, Outcome
    from retrieval_lab.evals.records import QueryRecord
    from retrieval_lab.evals.runs import Run
    from retrieval_lab.evals.summary import Estimate, Group, Summary
    from retrieval_lab.evals.versus import Versus
    from retrieval_lab.lab import Lab

EXIT_FAILED = 1

_CELL = len("0.729 .60–.85")
_GAP = 2
_LABEL_WIDTH = 28
_KIND_WIDTH = 20


@dataclass(frozen=True, slots=True)
class _Evaluated:
    """A run with all that was asked about it; `saved` is where it was kept, `unsaved` why it could not be."""

    run: Run
    summary: Summary
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
    split: Annotated[
        str | None,
        typer.Option("--split", metavar="NAME", help="Evaluate this split alone, such as dev or held-out."),
    ] = None,
    choice: PipelineChoice = UNCHANGED,
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
    without a relevant chunk had to be left out.

    Example: [bold]retrieval-lab eval --name before --set reranker=none[/bold], then
    [bold]retrieval-lab eval --baseline before --fail-under recall@10=0.70[/bold]
    """
    if force and not (save or name or record):
        raise InputError("--force has no effect without --save, --name or --record")
    folder = corpus or bundled_corpus()
    if replay is not None:
        if any((k, split, dsn, save, name, record, choice != UNCHANGED)):
            raise InputError(
                "--replay shows a run as it was; with it go --failures, --baseline, --fail-under and --json"
            )
        shown = _replayed(replay, folder, baseline, fail_under or ())
        _tell(shown, as_json=as_json, failures=failures)
        _judge(shown)
        return
    if record is not None and not force:
        _require_free(record)
    choice = choice.with_setting(f"top_k={k}") if k else choice
    gates = _gates(folder, choice, fail_under or ())
    other = _baseline(baseline, folder)
    target = _target(name, folder, force=force) if name is not None else None
    with opened_lab(corpus, choice, dsn) as lab:
        made = _run(lab, other, split)
        if name is not None or save:
            target = target or _free_target(made.name, folder)
            made = replace(made, name=target.stem)
        found = _evaluated(made, gates, other, target, force=force)
        if record is not None:
            _record(found, record)
        _tell(found, as_json=as_json, failures=failures)
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


def _gates(folder: Path, choice: PipelineChoice, texts: Sequence[str]) -> list[Gate]:
    if not texts:
        return []
    from retrieval_lab.evals.gates import parse_gate
    from retrieval_lab.evals.runs import measure_names

    names = measure_names(choice.configured(folder).config)
    return [parse_gate(text, names) for text in texts]


def _replayed(path: Path, folder: Path, baseline: str | None, gates: Sequence[str]) -> _Evaluated:
    """A run that was kept, with all that is asked about it now."""
    from retrieval_lab.evals.gates import parse_gate
    from retrieval_lab.evals.runs import Run, measure_names

    kept = Run.load(path)
    names = measure_names(kept.config)
    return _evaluated(kept, [parse_gate(text, names) for text in gates], _baseline(baseline, folder), None, force=False)


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
    run: Run, gates: Sequence[Gate], baseline: Run | None, target: Path | None, *, force: bool
) -> _Evaluated:
    from retrieval_lab.evals.gates import check_gates
    from retrieval_lab.evals.summary import summarise
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


# --- for people ----------------------------------------------------------------------------------------------------


def _print(found: _Evaluated, *, failures: bool) -> None:
    if failures:
        for record in _failures(found.run):
            typer.echo(printable(f"{record.query_id}, {record.kind}, {record.ranks['reranked'] or 'none'}"))
    else:
        _print_summary(found)
    if found.versus is not None and found.baseline is not None:
        typer.echo()
        print_versus(found.versus, found.baseline, found.run)


def _print_summary(found: _Evaluated) -> None:
    from retrieval_lab.evals.golden_text import golden_lines
    from retrieval_lab.evals.runs import measure_names

    groups = {"all": found.summary.all, **found.summary.by_kind}
    names = measure_names(found.run.config)
    room = stdout().width - min(_LABEL_WIDTH, max(map(len, names)))
    for number, block in enumerate(_blocks(groups, room)):
        if number:
            typer.echo()
        titles = [shorten_middle(printable(kind), _KIND_WIDTH) for kind in block]
        print_table([("", False), *((title, False) for title in titles)], list(_rows(names, list(block.values()))))
    typer.echo()
    corpus, printed, latency = found.run.corpus, found.run.fingerprint, found.summary.latency
    scans = "".join(f", {name} {scan} scan" for name, scan in printed.scans.items())
    typer.echo(f"{counted(corpus.documents, 'document')}, {counted(corpus.chunks, 'chunk')}; ", nl=False)
    typer.echo(printable(f"embedder {printed.embedder}, reranker {printed.reranker}{scans}"))
    typer.echo(f"means with 95% percentile bootstrap intervals, {printed.resamples:,} resamples of the queries")
    typer.echo(f"a query takes {latency.median * 1e3:.1f} ms (median), 95% at most {latency.p95 * 1e3:.1f} ms")
    for line in golden_lines(found.run, found.summary):
        typer.echo(printable(line))
    if found.summary.undefined:
        typer.echo(printable(f"not counted, no chunk is relevant: {', '.join(found.summary.undefined)}"))


def _blocks(groups: Mapping[str, Group], room: int) -> Iterator[dict[str, Group]]:
    """The groups in tables whose columns are no wider than the room beside the labels, at least one in each."""
    block: dict[str, Group] = {}
    used = 0
    for kind, group in groups.items():
        wide = _GAP + max(_CELL, min(_KIND_WIDTH, cell_len(printable(kind))))
        if block and used + wide > room:
            yield block
            block, used = {}, 0
        block[kind] = group
        used += wide
    yield block


def _rows(names: Sequence[str], groups: Sequence[Group]) -> Iterator[list[str]]:
    yield ["queries", *(str(group.queries) for group in groups)]
    for name in names:
        cells = (_cell(group.measures.get(name)) for group in groups)
        yield [shorten_middle(name, _LABEL_WIDTH), *cells]


def _cell(estimate: Estimate | None) -> str:
    """Such as `0.729 .60–.85`: the mean, and its interval to two places."""
    if estimate is None:
        return "–"
    if estimate.interval is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} {_end(estimate.interval.low)}–{_end(estimate.interval.high)}"


def _end(value: float) -> str:
    """Two places in three cells: .85, and 1.0 for one."""
    text = f"{value:.2f}"
    return text[1:] if text.startswith("0") else text[:3]


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
