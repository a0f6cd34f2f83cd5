"""Kept runs and one against another: listed on one scale, compared by kind and measure, opened side by side."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from retrieval_lab.config import PipelineConfig
from retrieval_lab.evals import runs
from retrieval_lab.evals.kept import resolve_run, stored_runs
from retrieval_lab.evals.resampling import Interval
from retrieval_lab.evals.runs import QueryRecord, Run
from retrieval_lab.lab import Lab
from retrieval_lab.settings import HashEmbedding, NoReranker
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.interval_bars import Scale, interval_bar, p_text, scale_around_zero, scale_of
from retrieval_lab_tui.measuring import Measuring
from retrieval_lab_tui.screens.compare import CompareScreen
from retrieval_lab_tui.screens.measures import MeasuresScreen
from retrieval_lab_tui.screens.runs import RunsScreen
from retrieval_lab_tui.screens.versus import VersusScreen
from retrieval_lab_tui.widgets.key_line import KeyLine
from retrieval_lab_tui.widgets.ranked_list import RankedList
from tests.tui.driving import NARROW, WIDE, Answered, WaitFor
from tests.tui.test_comparing import with_gate

GOLDEN = """\
- {query_id: q1, query: how long does the loaf bake, kind: factual, doc_id: bread, anchor: forty minutes}
- {query_id: q2, query: what is baked, kind: factual, doc_id: bread, anchor: the loaf}
- {query_id: q3, query: potatoes, kind: factual, doc_id: soup, anchor: two potatoes}
- {query_id: q4, query: leeks, kind: other, doc_id: soup, anchor: leeks}
- {query_id: q5, query: boil, kind: other, doc_id: soup, anchor: Boil}
"""
FIRST = "how long does the loaf bake"
BEFORE: Sequence[int | None] = (1, None, 2, 4, 1)
AFTER: Sequence[int | None] = (1, 1, 1, 5, None)
NO_RERANKER = PipelineConfig(reranker=NoReranker(), mmr_lambda=None)


@pytest.fixture
def corpus(small_corpus: Path) -> Path:
    """Five golden queries of two kinds."""
    (small_corpus / "golden.yaml").write_text(GOLDEN, encoding="utf-8")
    return small_corpus


def ndcg(rank: int | None) -> float:
    """With one relevant chunk, at this rank."""
    return 0.0 if rank is None else 1 / math.log2(rank + 1)


_MADE: dict[int, Run] = {}


def evaluated(corpus: Path, k: int) -> Run:
    """A run of the five queries, which is the same in every test."""
    if k not in _MADE:
        with Lab.open(corpus, PipelineConfig()) as lab:
            _MADE[k] = runs.run(lab, k=k)
    return _MADE[k]


def keep(
    corpus: Path,
    name: str,
    ranks: Sequence[int | None],
    *,
    config: PipelineConfig | None = None,
    created: str = "2026-11-30T10:00:00+00:00",
    golden_hash: str | None = None,
) -> Run:
    """Keep a run of the corpus as if it had found each query's chunk at this rank."""
    config = config or PipelineConfig()
    made = evaluated(corpus, config.top_k)
    kept = replace(
        made,
        name=name,
        created=created,
        config=config,
        corpus=replace(made.corpus, golden_hash=golden_hash or made.corpus.golden_hash),
        queries=tuple(_at(record, rank) for record, rank in zip(made.queries, ranks, strict=True)),
    )
    kept.save(resolve_run(name, corpus))
    return kept


def _at(record: QueryRecord, rank: int | None) -> QueryRecord:
    values: Mapping[str, float] = {"mrr": 1 / rank if rank else 0.0, "ndcg": ndcg(rank)}
    found = float(rank is not None)
    measures = {name: values.get(name.partition("@")[0], found) for name in record.measures}
    return replace(record, ranks={**record.ranks, "final": rank}, measures=measures)


def text(app: ExplorerApp, selector: str) -> str:
    return str(app.screen.query_one(selector, Static).visual)


def line_of(app: ExplorerApp, selector: str, word: str) -> str:
    return next(line for line in text(app, selector).splitlines() if word in line)


def names(app: ExplorerApp) -> list[str]:
    assert isinstance(app.screen, RunsScreen)
    return [run.title for run in app.screen._runs]


async def list_runs(pilot: Pilot[None], answered: Answered, wait_for: WaitFor, *, measured: bool = False) -> RunsScreen:
    app = pilot.app
    assert isinstance(app, ExplorerApp)
    await answered(pilot, FIRST)
    if measured:
        await wait_for(pilot, lambda: app.measuring.measured)
    await pilot.press("R")
    await wait_for(pilot, lambda: isinstance(app.screen, RunsScreen) and app.screen._kept is not None)
    assert isinstance(app.screen, RunsScreen)
    return app.screen


async def set_against(pilot: Pilot[None], wait_for: WaitFor, baseline: str, system: str) -> VersusScreen:
    """From the runs, compare two of them by their names."""
    app = pilot.app
    assert isinstance(app, ExplorerApp)
    for name, key in ((baseline, "space"), (system, "enter")):
        await pilot.press("g", *["j"] * names(app).index(name), key)
    await wait_for(pilot, lambda: isinstance(app.screen, VersusScreen))
    assert isinstance(app.screen, VersusScreen)
    return app.screen


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run of the moment never comes."""
    monkeypatch.setattr(Measuring, "start", lambda *_: None)


# --- the runs -------------------------------------------------------------------------------------------------------


async def test_the_runs_are_listed_by_the_measure_that_the_arrows_choose_or_by_time(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(corpus, "before", BEFORE)
    keep(corpus, "after", AFTER, config=NO_RERANKER, created="2026-11-30T12:00:00+00:00")
    app = ExplorerApp(corpus)
    async with app.run_test(size=WIDE) as pilot:
        screen = await list_runs(pilot, answered, wait_for, measured=True)
        means = {
            "before": (1 + 0 + 1 / math.log2(3) + 1 / math.log2(5) + 1) / 5,
            "after": (1 + 1 + 1 + 1 / math.log2(6) + 0) / 5,
        }
        assert means["after"] > means["before"]
        assert names(app) == [f"now · {app.measuring.measured.run.name}", "after", "before"]  # type: ignore[union-attr]
        for name, mean in means.items():
            line = line_of(app, "#rows", name)
            assert f" {mean:.3f} " in line
        assert "not kept · the file's settings" in line_of(app, "#rows", "now")
        assert "reranker none · mmr_lambda –" in line_of(app, "#rows", "after")
        assert "2026-11-30 12:00" in line_of(app, "#rows", "after")
        assert screen.baseline is not None
        assert screen.baseline.name == "after"  # the newest
        await pilot.press("j", "o")
        assert screen.run is not None
        assert screen.run.name == "after"
        await pilot.press("o", "left")
        assert "mrr@10" in text(app, "#state")
        mrr = {"before": (1 + 0 + 1 / 2 + 1 / 4 + 1) / 5, "after": (1 + 1 + 1 + 1 / 5 + 0) / 5}
        for name, mean in mrr.items():
            assert f" {mean:.3f} " in line_of(app, "#rows", name)
        await pilot.press("left", "left")
        assert "precision@10" in text(app, "#state")
        await pilot.press("o")
        assert "the newest first" in text(app, "#title")
        assert names(app)[1:] == ["after", "before"]
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_the_order_by_time_is_another_than_by_the_measure_and_the_cursor_stays_on_its_run(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(corpus, "best", (1, 1, 1, 1, 1), created="2026-01-01T00:00:00+00:00")
    keep(corpus, "worst", (None, None, None, None, 9), created="2026-01-03T00:00:00+00:00")
    keep(corpus, "between", BEFORE, created="2026-01-02T00:00:00+00:00")
    app = ExplorerApp(corpus)
    async with app.run_test(size=NARROW) as pilot:
        screen = await list_runs(pilot, answered, wait_for)
        assert names(app) == ["best", "between", "worst"]
        await pilot.press("g", "o")
        assert names(app) == ["worst", "between", "best"]
        assert screen.run is not None
        assert screen.run.name == "best"
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_the_bars_share_a_scale_that_the_lowest_and_the_highest_end_span(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(corpus, "before", BEFORE)
    keep(corpus, "after", AFTER)
    keep(corpus, "none", (None,) * 5)
    app = ExplorerApp(corpus)
    async with app.run_test(size=WIDE) as pilot:
        await list_runs(pilot, answered, wait_for)
        lines = {name: line_of(app, "#rows", name) for name in ("before", "after", "none")}
        start = text(app, "#heads").index("0.00")
        end = text(app, "#heads").index("95%") - 2
        low = {name: float(line.split("–")[-2][-4:]) for name, line in lines.items()}
        high = max(float(line.split("–")[-1][:4]) for line in lines.values())
        assert low["none"] == 0
        for name, ranks in (("before", BEFORE), ("after", AFTER), ("none", (None,) * 5)):
            mean = sum(map(ndcg, ranks)) / 5
            assert abs(lines[name].index("●") - (start + mean / high * (end - start))) <= 1
        left = lines["before"].index("─")
        assert abs(left - (start + low["before"] / high * (end - start))) <= 1
    app.close_lab()


async def test_files_that_are_no_runs_are_named_with_their_reason(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(corpus, "good", BEFORE)
    folder = resolve_run("good", corpus).parent
    (folder / "half [tag=x:.json").write_text('{"format": 1, "na', encoding="utf-8")
    (folder / "foreign.json").write_text('{"format": "[@click=app.quit]"}', encoding="utf-8")
    (folder / "list.json").write_text("[1]", encoding="utf-8")
    (folder / "folder.json").mkdir()
    (folder / "bytes.json").write_bytes(b"\xff\x1b]52;c;AAAA\x07")
    app = ExplorerApp(corpus)
    async with app.run_test(size=NARROW) as pilot:
        await list_runs(pilot, answered, wait_for, measured=True)
        found = text(app, "#unreadable")
        assert found.count("not read") == 5
        assert "half [tag=x:.json:1: not JSON" in found
        assert "foreign.json: this is no run of format 1: its format is '[@click=app.quit]'" in found
        assert "folder.json: cannot be read" in found
        assert "\x1b" not in found
        assert names(app)[1:] == ["good"]
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_runs_of_other_queries_or_another_cut_say_so_and_why_they_cannot_be_compared(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(corpus, "good", BEFORE, created="2026-01-03T00:00:00+00:00")
    keep(corpus, "cut", BEFORE, config=PipelineConfig(top_k=5))
    keep(corpus, "strange", BEFORE, golden_hash="0" * 64)
    app = ExplorerApp(corpus)
    async with app.run_test(size=WIDE) as pilot:
        await list_runs(pilot, answered, wait_for)
        await pilot.press("g", *["j"] * names(app).index("good"), "space")
        assert "cut at 5 · top_k 5" in line_of(app, "#rows", "cut")
        assert " – " in line_of(app, "#rows", "cut")
        assert "other queries or labels" in line_of(app, "#rows", "strange")
        await pilot.press("enter")
        assert "This run is the baseline" in text(app, "#trouble")
        await pilot.press("g", *["j"] * names(app).index("cut"), "enter")
        await wait_for(pilot, lambda: "is cut at 10, the system at 5" in text(app, "#trouble"))
        await pilot.press("g", *["j"] * names(app).index("strange"), "enter")
        await wait_for(pilot, lambda: "is of another golden set" in text(app, "#trouble"))
        assert isinstance(app.screen, RunsScreen)
    app.close_lab()


async def test_the_run_of_the_moment_comes_when_it_is_measured_is_kept_and_stands_there_once(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    app = ExplorerApp(corpus)
    async with app.run_test(size=NARROW) as pilot:
        await list_runs(pilot, answered, wait_for)
        await wait_for(pilot, lambda: len(names(app)) == 1)
        assert "No other run is kept yet: w keeps this one" in text(app, "#state")
        assert "not kept" in text(app, "#rows")
        await pilot.press("w")
        await wait_for(pilot, lambda: "not kept" not in text(app, "#rows"))
        assert app.measuring.measured is not None
        name = app.measuring.measured.run.name
        assert stored_runs(corpus) == [name]
        assert names(app) == [f"now · {name}"]
        await pilot.press("escape", "e")
        await wait_for(pilot, lambda: isinstance(app.screen, MeasuresScreen))
        await pilot.press("c")
        await wait_for(pilot, lambda: isinstance(app.screen, RunsScreen))
        await pilot.press("escape")
        assert isinstance(app.screen, MeasuresScreen)
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_reading_shows_how_far_it_is_and_ends_unheard_once_the_screen_is_closed(
    corpus: Path, answered: Answered, wait_for: WaitFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        keep(corpus, name, BEFORE)
    gate, load = threading.Event(), Run.load
    read: list[str] = []

    def slow(path: Path) -> Run:
        read.append(path.stem)
        if path.stem == "three":
            assert gate.wait(10)
        return load(path)

    monkeypatch.setattr(Run, "load", slow)
    app = ExplorerApp(corpus)
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, FIRST)
        await pilot.press("R")
        await wait_for(pilot, lambda: isinstance(app.screen, RunsScreen) and "1 of 3" in text(app, "#state"))
        await pilot.press("escape")
        assert app.screen is app.explore
        gate.set()
        await wait_for(pilot, lambda: not [one for one in threading.enumerate() if one.name.startswith("runs-")])
        await pilot.pause()
        assert read == ["one", "three"]
        assert app.screen is app.explore
    app.close_lab()


# --- one against another --------------------------------------------------------------------------------------------


def exact_p(differences: Sequence[float]) -> float:
    """Two-sided sign-flip test by enumeration."""
    observed = abs(sum(differences))
    sums = [
        abs(sum(sign * one for sign, one in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(one >= observed - 1e-12 for one in sums) / len(sums)


@pytest.mark.usefixtures("unmeasured")
async def test_a_comparison_has_means_difference_p_and_counts_of_all_and_of_each_kind(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(corpus, "before", BEFORE)
    keep(corpus, "after", AFTER, config=NO_RERANKER)
    app = ExplorerApp(corpus)
    async with app.run_test(size=WIDE) as pilot:
        await list_runs(pilot, answered, wait_for)
        await set_against(pilot, wait_for, "before", "after")
        assert "reranker lexical · mmr_lambda 0.7" in line_of(app, "#sides", "A before")
        assert "reranker none · mmr_lambda –" in line_of(app, "#sides", "B after")
        a, b = [ndcg(rank) for rank in BEFORE], [ndcg(rank) for rank in AFTER]

        def expect(places: slice, counts: str) -> None:
            ours, theirs = a[places], b[places]
            gain = [new - old for old, new in zip(ours, theirs, strict=True)]
            line = line_of(app, "#measures", "ndcg@10")
            assert f"{sum(ours) / len(ours):.3f} {sum(theirs) / len(theirs):.3f}  {sum(gain) / len(gain):+.3f}" in line
            assert line.split()[-2:] == [f"{exact_p(gain):.3f}", counts]

        assert text(app, "#kinds").split() == ["all", "5", "factual", "3", "other", "2"]
        expect(slice(0, 5), "2/1/2")
        await pilot.press("right")
        expect(slice(0, 3), "2/1/0")
        await pilot.press("right")
        expect(slice(3, 5), "0/0/2")
        await pilot.press("right", "c")
        await wait_for(pilot, lambda: "B before" in text(app, "#sides"))
        a, b = b, a
        expect(slice(0, 5), "2/1/2")
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_the_queries_that_changed_stand_below_by_the_measure_and_those_that_carry_it_are_marked(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(corpus, "before", BEFORE)
    keep(corpus, "after", AFTER)
    app = ExplorerApp(corpus)
    async with app.run_test(size=NARROW) as pilot:
        await list_runs(pilot, answered, wait_for)
        await set_against(pilot, wait_for, "before", "after")

        def rows() -> list[tuple[str, bool, str]]:
            lines = text(app, "#queries").splitlines()
            queries = [next(word for word in line.split() if word.startswith("q")) for line in lines]
            return [
                (name, "★" in line, line.partition(name)[0].split("0 ")[-1].strip())
                for name, line in zip(queries, lines, strict=True)
            ]

        gain = {
            f"q{place}": ndcg(new) - ndcg(old) for place, (old, new) in enumerate(zip(BEFORE, AFTER, strict=True), 1)
        }
        order = sorted((name for name in gain if gain[name]), key=lambda name: -abs(gain[name]))
        assert [name for name, _, _ in rows()] == order == ["q2", "q5", "q3", "q4"]
        assert sum(gain.values()) > 0
        assert {name for name, carries, _ in rows() if carries} == {"q2", "q3"}  # only these point its way
        assert "– → 1" in line_of(app, "#queries", "q2")
        assert "1 → –" in line_of(app, "#queries", "q5")
        assert "2 → 1" in line_of(app, "#queries", "q3")
        assert "4 queries changed · 1 gained, 1 lost" in text(app, "#changed")
        await pilot.press("right", "right")
        assert [name for name, _, _ in rows()] == ["q5", "q4"]
        await pilot.press("left", "left", "M", "M")
        assert "by hit@10" in text(app, "#changed")
        assert [name for name, _, _ in rows()] == ["q2", "q5", "q3", "q4"]  # equal ones by the change of 1 / rank
        assert "+0.000" in line_of(app, "#queries", "q3")
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_equal_runs_have_p_1_an_interval_of_zero_and_no_query_that_changed(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(corpus, "one", BEFORE)
    keep(corpus, "two", BEFORE)
    app = ExplorerApp(corpus)
    async with app.run_test(size=NARROW) as pilot:
        await list_runs(pilot, answered, wait_for)
        screen = await set_against(pilot, wait_for, "one", "two")
        lines = text(app, "#measures").splitlines()
        assert len(lines) == len(screen.found.measures)
        for line in lines:
            assert line.split()[-3:] == ["+.000…+.000", "1.000", "0/5/0"]
        assert "0 queries changed" in text(app, "#changed")
        await pilot.press("j", "enter", "G")
        assert app.screen is screen
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_enter_opens_the_query_in_both_pipelines_though_neither_is_that_of_the_moment(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    no_mmr = PipelineConfig(mmr_lambda=None)
    (corpus / "lab.yaml").write_text("mmr_lambda: 0.3\n", encoding="utf-8")
    keep(corpus, "before", BEFORE, config=no_mmr)
    keep(corpus, "after", AFTER, config=NO_RERANKER)
    with Lab.open(corpus) as lab:
        query = lab.golden[4]
        finals = [[row.chunk_id for row in lab.trace(query, config).final] for config in (no_mmr, NO_RERANKER)]
    app = ExplorerApp(corpus)
    async with app.run_test(size=WIDE) as pilot:
        await list_runs(pilot, answered, wait_for)
        screen = await set_against(pilot, wait_for, "before", "after")
        await pilot.press("j", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, CompareScreen) and "in both" in text(app, "#title"))
        assert text(app, "#question") == query.query
        lists = [app.screen.query_one(f"#list-{side}", RankedList) for side in ("left", "right")]
        assert [[row.chunk_id for row in one.rows] for one in lists] == finals
        assert [str(one.border_title)[:14] for one in lists] == ["reranker lexic", "reranker none "]
        await pilot.press("m")  # the misses of the runs: q2 before, q5 after
        await wait_for(pilot, lambda: text(app, "#question") == "what is baked" and "in both" in text(app, "#title"))
        await pilot.press("escape")
        assert app.screen is screen
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, CompareScreen) and "in both" in text(app, "#title"))
        chosen = app.screen.query_one("#list-left", RankedList).chunk_id
        await pilot.press("enter")
        await wait_for(pilot, lambda: app.screen is app.explore)
        assert app.explore.chunk is not None
        assert app.explore.chunk.chunk_id == chosen
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_an_index_that_is_not_open_is_made_first_and_escape_comes_back_to_the_comparison(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(corpus, "before", BEFORE, config=PipelineConfig(embedder=HashEmbedding(64)))
    keep(corpus, "after", AFTER)
    gate = threading.Event()
    app = ExplorerApp(corpus, open_lab=with_gate(gate, 64))
    async with app.run_test(size=NARROW) as pilot:
        await list_runs(pilot, answered, wait_for)
        screen = await set_against(pilot, wait_for, "before", "after")
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, CompareScreen))
        await wait_for(pilot, lambda: "hash-64" in text(app, "#indexing") and "1 of 2 doc" in text(app, "#indexing"))
        await pilot.press("escape")
        assert app.screen is screen
        await pilot.press("enter")
        await wait_for(pilot, lambda: isinstance(app.screen, CompareScreen) and "1 of 2" in text(app, "#indexing"))
        gate.set()
        await wait_for(pilot, lambda: "in both" in text(app, "#title"))
        assert "embedder hash-64" in str(app.screen.query_one("#list-left", RankedList).border_title)
    app.close_lab()


@pytest.mark.usefixtures("unmeasured")
async def test_a_query_that_golden_yaml_has_no_more_is_not_asked(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(corpus, "before", BEFORE)
    keep(corpus, "after", AFTER)
    (corpus / "golden.yaml").write_text(GOLDEN.splitlines(keepends=True)[0], encoding="utf-8")
    app = ExplorerApp(corpus)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await list_runs(pilot, answered, wait_for)
        screen = await set_against(pilot, wait_for, "before", "after")
        await pilot.press("enter")
        await wait_for(pilot, lambda: [one for one in app._notifications if "no query 'q2' any more" in one.message])
        assert app.screen is screen
    app.close_lab()


# --- sizes, keys, mouse ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unmeasured")
async def test_every_line_fits_and_the_footer_is_whole_at_every_size(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(corpus, "before", BEFORE)
    keep(corpus, "after", AFTER)
    app = ExplorerApp(corpus)
    async with app.run_test(size=NARROW) as pilot:
        await list_runs(pilot, answered, wait_for)
        for against in (False, True):
            if against:
                await set_against(pilot, wait_for, "before", "after")
            for size in (NARROW, (120, 40), (160, 45), (1, 1), (40, 10), WIDE):
                await pilot.resize_terminal(*size)
                await pilot.pause()
                check_width(app, size[0])
    app.close_lab()


def check_width(app: ExplorerApp, width: int) -> None:
    if width < NARROW[0]:
        return  # it need not fit, only stand
    assert sum(key.cell_length for key in app.screen.query_one(KeyLine).drawn_keys()) <= width
    for selector in ("#heads", "#rows" if isinstance(app.screen, RunsScreen) else "#measures"):
        lines = text(app, selector).splitlines()
        assert max(map(len, lines)) <= width - 2, selector


@pytest.mark.usefixtures("unmeasured")
async def test_runs_kinds_measures_and_queries_can_be_clicked(
    corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    keep(corpus, "before", BEFORE, created="2026-01-03T00:00:00+00:00")
    keep(corpus, "after", AFTER)
    app = ExplorerApp(corpus)
    async with app.run_test(size=NARROW) as pilot:
        screen = await list_runs(pilot, answered, wait_for)
        assert names(app) == ["after", "before"]
        await pilot.click("#rows", offset=(8, 2))
        assert screen.run is not None
        assert screen.run.name == "before"
        await pilot.click("#rows", offset=(8, 0))
        await pilot.click("#rows", offset=(8, 1))  # its second line
        await wait_for(pilot, lambda: isinstance(app.screen, VersusScreen))
        kinds = text(app, "#kinds")
        await pilot.click("#kinds", offset=(kinds.index("other") + 1, 0))
        assert len(text(app, "#queries").splitlines()) == 2
        await pilot.click("#measures", offset=(5, 3))
        assert "by mrr@10" in text(app, "#changed")
        await pilot.click("#queries", offset=(20, 1))
        await pilot.click("#queries", offset=(20, 1))
        await wait_for(pilot, lambda: isinstance(app.screen, CompareScreen))
        assert text(app, "#question") == "leeks"
    app.close_lab()


# --- bars -----------------------------------------------------------------------------------------------------------


def test_a_bar_has_its_value_its_interval_and_the_mark_in_their_cells() -> None:
    scale = Scale(0.0, 1.0)
    assert str(interval_bar(0.5, Interval(0.2, 0.8), scale, 11, mark=0.9)) == "  ───●───┊ "
    assert str(interval_bar(0.5, Interval(0.2, 0.8), scale, 11, mark=0.3)) == "  ─┼─●───  "
    assert str(interval_bar(0.5, None, scale, 11)) == "     ●     "
    assert str(interval_bar(0.5, Interval(0.5, 0.5), scale, 11, mark=0.5)) == "     ●     "
    assert str(interval_bar(2.0, Interval(-1.0, 3.0), scale, 5)) == "────●"


def test_scales_hold_every_value_and_have_a_width() -> None:
    assert scale_of([(0.5, Interval(0.3, 0.6)), (0.7, None)]) == Scale(0.3, 0.7)
    assert scale_of([]) == Scale(0.0, 1.0)
    alone = scale_of([(0.5, None)])
    assert alone.low < 0.5 < alone.high
    assert scale_around_zero([(0.1, Interval(-0.3, 0.2))]) == Scale(-0.3, 0.3)
    assert scale_around_zero([(0.0, None)]).high > 0
    assert Scale(-0.3, 0.3).ends(13, sign=True) == "-0.30   +0.30"


def test_a_p_is_never_a_bare_zero() -> None:
    assert [p_text(p) for p in (1 / 10_001, 0.0009, 0.001, 0.0424, 1.0)] == [
        "<.001",
        "<.001",
        "0.001",
        "0.042",
        "1.000",
    ]
