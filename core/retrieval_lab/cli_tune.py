"""The command `retrieval-lab tune`: choose the weights of the lists, or any other setting, by the dev queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval_lab.cli_options import CorpusArgument, DsnOption, JsonOption, opened_lab, print_json, progress_bar
from retrieval_lab.cli_pipeline import UNCHANGED, PipelineChoice, takes_pipeline
from retrieval_lab.cli_text import counted, print_table, stdout
from retrieval_lab.errors import InputError
from retrieval_lab.text import printable
from retrieval_lab.wording import interval_text, setting_text, signed

if TYPE_CHECKING:
    from retrieval_lab.evals.curve import Curve, Point
    from retrieval_lab.lab import Lab

_WIDEST_BAR = 60
_LEAST_BAR = 12
_GAP = 2
_MEASURE = "ndcg@10"


@takes_pipeline
def tune(
    corpus: CorpusArgument = None,
    setting: Annotated[
        str | None,
        typer.Option("--setting", metavar="KEY", help="Turn this setting instead of the weights, such as fusion.k."),
    ] = None,
    values: Annotated[
        str | None, typer.Option("--values", metavar="A,B,C", help="With --setting: the values to try.")
    ] = None,
    measure: Annotated[
        str, typer.Option("--measure", metavar="NAME", help="The measure to choose by, such as recall@20 or map.")
    ] = _MEASURE,
    write: Annotated[bool, typer.Option("--write", help="Write the best value into lab.yaml.")] = False,
    choice: PipelineChoice = UNCHANGED,
    dsn: DsnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose the weights of the lists by the dev queries, and show what every value would have brought.

    Weights are measured on the fused list, before reranking; with --setting the
    values of any other setting are, on the final list. Each has its mean with
    its 95% bootstrap interval. Of equal means the value nearest to the present
    one is best. Held-out queries are not looked at: confirm the choice on them.

    Example: [bold]retrieval-lab tune --setting fusion.k --values 1,10,60,100[/bold]
    """
    if (setting is None) != (values is None):
        raise InputError("--setting KEY and --values A,B,C go together")
    if write and choice.changes:
        raise InputError(
            "--write puts what was chosen beside the settings of lab.yaml, not those of other options; leave out "
            "--set, --embedder and --reranker, or write them into lab.yaml first"
        )
    from retrieval_lab.evals.tune import require_measure

    require_measure(measure)
    with opened_lab(corpus, choice, dsn) as lab:
        with progress_bar("measuring") as step:
            found = (
                _weights(lab, measure, step)
                if setting is None
                else _swept(lab, setting, values or "", measure, choice, dsn, step)
            )
        if not as_json:
            _print(found)  # before it is written, so that a file that cannot be written takes nothing with it
        written = _write(found, choice.path, lab.corpus) if write and found.best != found.present else None
        if as_json:
            print_json({**found.to_dict(), "written": None if written is None else str(written)})
        elif written is not None:
            typer.echo(printable(f"written into {written}"))


# --- the work ------------------------------------------------------------------------------------------------------


def _weights(lab: Lab, measure: str, step: Any) -> Curve:
    from retrieval_lab.evals.tune import tune_weights

    return tune_weights(lab, measure=measure, progress=step)


def _swept(lab: Lab, key: str, values: str, measure: str, choice: PipelineChoice, dsn: str | None, step: Any) -> Curve:
    from retrieval_lab.evals.tune import tune_setting
    from retrieval_lab.lab import Lab

    texts = [text.strip() for text in values.split(",") if text.strip()]
    if not texts:
        raise InputError("--values: expected values with commas between them, such as 1,10,60")
    configs = [choice.with_setting(f"{key}={text}").configured(lab.corpus).config for text in texts]
    return tune_setting(
        lab, key, configs, measure=measure, reopen=lambda config: Lab.open(lab.corpus, config, dsn), progress=step
    )


def _write(found: Curve, path: Path | None, corpus: Path) -> Path:
    from retrieval_lab.config_edit import write_settings
    from retrieval_lab.config_file import config_path

    target = path or config_path(corpus)
    write_settings(target, found.chosen.settings)
    return target


# --- text ----------------------------------------------------------------------------------------------------------


def _print(found: Curve) -> None:
    queries = counted(len(found.query_ids), "dev query")
    typer.echo(f"{found.measure} of the {found.stage} list over {queries}, with 95% bootstrap intervals")
    if found.dealt:
        typer.echo("golden.yaml has no splits: these are the queries that `retrieval-lab split` would deal into dev")
    if found.excluded:
        typer.echo(printable(f"not counted, no chunk is relevant: {', '.join(found.excluded)}"))
    typer.echo()
    _print_curve(found)
    typer.echo()
    for line in _verdict(found):
        typer.echo(printable(line))


def _print_curve(found: Curve) -> None:
    from retrieval_lab.evals.interval_scale import drawn, scale_of

    titles = [*(found.lists or (found.setting,)), found.measure, "interval"]
    cells = [[*_value(found, one), f"{one.mean:.3f}", _ends(one)] for one in found.points]
    marks = [_mark(found, place) for place in range(len(cells))]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    used = sum(width + _GAP for width in widths) + max(map(len, marks)) + _GAP
    width = max(_LEAST_BAR, min(_WIDEST_BAR, stdout().width - used))
    scale = scale_of((one.mean, one.interval) for one in found.points)
    now = found.points[found.present].mean
    bars = [drawn(one.mean, one.interval, scale, width, mark=now).text for one in found.points]
    rows = [[*row, bar, mark] for row, bar, mark in zip(cells, bars, marks, strict=True)]
    columns = [*((title, True) for title in titles), (scale.ends(width), False), ("", False)]
    print_table(columns, rows)


def _value(found: Curve, one: Point) -> list[str]:
    return [f"{share:.2f}" for share in one.value] if found.lists else [setting_text(one.value)]


def _ends(one: Point) -> str:
    return "–" if one.interval is None else f"{one.interval.low:.3f}–{one.interval.high:.3f}"


def _mark(found: Curve, place: int) -> str:
    names = [name for name, which in (("best", found.best), ("present", found.present)) if which == place]
    return f"◂ {', '.join(names)}" if names else ""


def _verdict(found: Curve) -> Iterator[str]:
    if found.best == found.present:
        yield "no value is better than the present one: there is nothing to change"
        return
    yield f"best minus present: {signed(found.difference)}, paired 95% interval {interval_text(found.interval)}"
    options = " ".join(_options(found.chosen.settings))
    yield f"chosen: {options}"
    dealt = "`retrieval-lab split`, then " if found.dealt else ""
    yield "this was chosen on dev, where the best of many looks better than it is; confirm it on the held-out queries:"
    yield f"  {dealt}retrieval-lab eval --split held-out {options}"


def _options(settings: Mapping[str, Any]) -> Iterator[str]:
    from retrieval_lab.config_edit import inline

    for key, value in settings.items():
        text = f"{key}={inline(value)}"
        yield f"--set {text}" if text.replace(" ", "") == text else f"--set '{text}'"
