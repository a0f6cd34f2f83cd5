"""Pipelines of one list and of eight: which lists are in sight, what the lines above say of all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from retrieval_lab.config_file import effective_config
from retrieval_lab.diagnosis.bundle import make_bundle, read_bundle, write_bundle
from retrieval_lab.diagnosis.replay import Replay
from retrieval_lab.lab import Lab
from retrieval_lab.many_lists import found_in
from retrieval_lab_tui.app import ExplorerApp
from retrieval_lab_tui.list_names import fitting
from retrieval_lab_tui.screens.compare import CompareScreen
from retrieval_lab_tui.screens.explain import ExplainScreen
from retrieval_lab_tui.screens.sides import SideChooser
from retrieval_lab_tui.widgets.lists import Lists
from retrieval_lab_tui.widgets.tabs import Tabs
from tests.tui.driving import NARROW, WIDE, Answered, WaitFor, ranked, shown

QUESTION = "how long does the loaf bake"
LONG = "a-list-whose-name-has-40-characters-rest"
EIGHT = f"""\
retrievers:
  vector: {{}}
  text: {{}}
  near: {{kind: vector, scan: hnsw}}
  plain: {{kind: text, operators: false}}
  {LONG}: {{kind: text, n: 20}}
  deep: {{kind: vector, n: 200}}
  half: {{kind: text, weight: 0.5}}
  shown-only: {{kind: vector, weight: 0}}
"""
NAMES = ("vector", "text", "near", "plain", LONG, "deep", "half", "shown-only")


@pytest.fixture
def eight(small_corpus: Path) -> Iterator[ExplorerApp]:
    (small_corpus / "lab.yaml").write_text(EIGHT, encoding="utf-8")
    explorer = ExplorerApp(small_corpus)
    yield explorer
    explorer.close_lab()


def in_sight(app: ExplorerApp) -> list[str]:
    """The lists of which every column is on the screen."""
    frame = app.explore.query_one(Lists).region
    return [stage for stage in app.explore.stages if frame.contains_region(ranked(app, stage).region)]


def subtitle(app: ExplorerApp, stage: str) -> str:
    """Without the marks of its styles."""
    return re.sub(r"\[[^]]*\]", "", str(ranked(app, stage).border_subtitle))


async def test_four_lists_are_in_sight_and_those_at_the_edges_tell_how_many_follow(
    eight: ExplorerApp, answered: Answered, wait_for: WaitFor
) -> None:
    async with eight.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        await wait_for(pilot, lambda: in_sight(eight) == ["half", "shown-only", "fused", "final"])
        assert {ranked(eight, stage).size.width for stage in in_sight(eight)} == {WIDE[0] // 4 - 2}
        assert subtitle(eight, "half") == "‹ 6 more  ts_rank_cd"
        assert "more" not in subtitle(eight, "final")
        await pilot.press("1")
        await wait_for(pilot, lambda: in_sight(eight) == list(NAMES[:4]))
        assert subtitle(eight, "vector") == "cosine"
        assert subtitle(eight, "plain") == "ts_rank_cd  6 more ›"
        await pilot.press("right", "right", "right", "right")
        await wait_for(pilot, lambda: in_sight(eight) == list(NAMES[1:5]))
        assert subtitle(eight, "text") == "‹ 1 more  ts_rank_cd"
        assert subtitle(eight, LONG) == "ts_rank_cd  5 more ›"
        assert subtitle(eight, "plain") == "ts_rank_cd"
        assert re.fullmatch(r"a-list-whose\S+…\S+rest · 1 · 0 ms", str(ranked(eight, LONG).border_title))


async def test_a_list_comes_into_sight_by_number_arrow_tab_and_click(
    eight: ExplorerApp, answered: Answered, wait_for: WaitFor
) -> None:
    async with eight.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        for key, stage in (("9", "fused"), ("0", "final"), ("l", "vector"), ("h", "final"), ("5", LONG)):
            await pilot.press(key)
            await wait_for(pilot, lambda stage=stage: eight.focused is ranked(eight, stage))
            await wait_for(pilot, lambda stage=stage: stage in in_sight(eight))
        await wait_for(pilot, lambda: in_sight(eight)[0] == LONG)
        await pilot.press("tab", "tab", "tab", "tab")
        await wait_for(pilot, lambda: eight.focused is ranked(eight, "fused"))
        await wait_for(pilot, lambda: in_sight(eight) == ["deep", "half", "shown-only", "fused"])
        last = ranked(eight, "fused").outer_size
        await pilot.click(ranked(eight, "fused"), offset=(last.width - 4, last.height - 1))
        await wait_for(pilot, lambda: in_sight(eight)[-1] == "final")
        await pilot.click(ranked(eight, "half"), offset=(4, last.height - 1))
        await wait_for(pilot, lambda: in_sight(eight)[0] == "deep")
        assert eight.explore.active == "deep"


async def test_the_lists_are_in_sight_after_a_resize(eight: ExplorerApp, answered: Answered, wait_for: WaitFor) -> None:
    async with eight.run_test(size=NARROW) as pilot:
        await answered(pilot, QUESTION)
        await pilot.press("5")
        assert [stage for stage in eight.explore.stages if ranked(eight, stage).display] == [LONG]
        await wait_for(pilot, lambda: in_sight(eight) == [LONG])
        assert "more" not in subtitle(eight, LONG)
        for size in ((161, 45), (1, 1), (239, 70)):
            await pilot.resize_terminal(*size)
        await wait_for(pilot, lambda: len(in_sight(eight)) == 4 and LONG in in_sight(eight))
        await pilot.resize_terminal(*NARROW)
        await wait_for(pilot, lambda: in_sight(eight) == [LONG])
        assert ranked(eight, LONG).outer_size.width == NARROW[0]


async def test_tabs_never_outgrow_the_screen_and_the_active_one_is_always_there(
    eight: ExplorerApp, answered: Answered, wait_for: WaitFor
) -> None:
    async with eight.run_test(size=NARROW) as pilot:
        await answered(pilot, QUESTION)
        tabs = eight.explore.query_one(Tabs)
        titles = ["Vector", "Full text", "near", "plain", "a-lis", "deep", "half", "shown-only", "Fused", "Final"]
        seen = set()
        for key, title in [*zip("1234567890", titles, strict=True), ("5", "a-lis"), ("1", "Vector")]:
            await pilot.press(key)
            await wait_for(pilot, lambda key=key: eight.focused is ranked(eight, eight.explore.stages[int(key) - 1]))
            line = shown(eight, "#tabs")
            assert len(line) <= NARROW[0], line
            assert re.search(rf" {int(key) or 10} {title}", line), line
            numbers = [int(number) for number in re.findall(r" (\d+) [A-Za-z]", line)]
            assert numbers == list(range(numbers[0], numbers[-1] + 1))
            assert re.findall(r"‹ (\d+)", line) == ([str(numbers[0] - 1)] if numbers[0] > 1 else [])
            assert re.findall(r"(\d+) ›", line) == ([str(10 - numbers[-1])] if numbers[-1] < 10 else [])
            seen.add(tuple(numbers))
        assert len(seen) > 1
        beyond = int(re.findall(r" (\d+) [A-Za-z]", shown(eight, "#tabs"))[-1]) + 1
        await pilot.click(tabs, offset=(NARROW[0] - 1, 0))
        assert eight.explore.active == eight.explore.stages[beyond - 1]
        await pilot.press("0")
        before = int(re.findall(r" (\d+) [A-Za-z]", shown(eight, "#tabs"))[0]) - 1
        await pilot.click(tabs, offset=(1, 0))
        assert eight.explore.active == eight.explore.stages[before - 1]


async def test_the_fate_line_has_the_rank_in_every_list_or_counts_them(
    eight: ExplorerApp, small_corpus: Path, answered: Answered, wait_for: WaitFor
) -> None:
    with Lab.open(small_corpus) as lab:
        trace = lab.trace(lab.golden[0])
        places = trace.ranks_of("bread#000")
    assert all(places[name].listed for name in NAMES)
    async with eight.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        line = shown(eight, "#fate")
        assert len(line) <= WIDE[0]
        short = [re.escape(name) if name != LONG else r"a-list-wh\S+" for name in NAMES]
        ranks = [f"{name} {places[stage].rank} › " for name, stage in zip(short, NAMES, strict=True)]
        assert re.search(f"{''.join(ranks)}fused 1 › rerank 1 › final 1", line), line
        # Of a row, how many of the eight lists have it.
        row = next(row for row in ranked(eight, "fused").rows if row.chunk_id == "bread#000")
        assert row.detail == "8/8 best 1"
        in_lists = {name: [hit.chunk_id for hit in hits] for name, hits in trace.lists.items()}
        for row in ranked(eight, "fused").rows:
            having = [ids.index(row.chunk_id) + 1 for ids in in_lists.values() if row.chunk_id in ids]
            assert row.detail == f"{len(having)}/8 best {min(having)}"
        assert "RRF · in lists, best rank" in subtitle(eight, "fused")
        await pilot.resize_terminal(*NARROW)
        await wait_for(pilot, lambda: "lists 8/8 best 1 › fused 1 › rerank 1 › final 1" in shown(eight, "#fate"))
        assert len(shown(eight, "#fate")) <= NARROW[0]
        await pilot.press("j", "k")
        assert str(eight.explore.query_one("#passage").border_subtitle) == "lists 8/8 best 1 · fused 1 · final 1"


async def test_of_a_passage_on_no_list_the_narrow_line_counts_none(small_corpus: Path, answered: Answered) -> None:
    """Lists of one row each hold the other document only."""
    retrievers = ", ".join(f"t{number}: {{kind: text, n: 1, operators: false}}" for number in range(8))
    (small_corpus / "lab.yaml").write_text(
        f"retrievers: {{{retrievers}}}\ntop_k: 1\nfusion: {{n: 1}}\n", encoding="utf-8"
    )
    golden = "- {query_id: q, query: leeks potatoes soup bake, kind: factual, doc_id: bread, anchor: forty minutes}\n"
    (small_corpus / "golden.yaml").write_text(golden, encoding="utf-8")
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=NARROW) as pilot:
        await answered(pilot, "leeks potatoes soup bake")
        assert "lists 0/8 › fused – › rerank – › final >1" in shown(app, "#fate")
        await pilot.press("C")
        await pilot.pause()
    app.close_lab()


async def test_journey_and_comparison_of_eight_lists(eight: ExplorerApp, answered: Answered, wait_for: WaitFor) -> None:
    async with eight.run_test(size=NARROW) as pilot:
        await answered(pilot, QUESTION)
        await pilot.press("x")
        await wait_for(pilot, lambda: isinstance(eight.screen, ExplainScreen))
        lines = str(eight.screen.query_one("#page", Static).visual).split("\n")
        for name in NAMES:
            if name in (LONG, "shown-only"):  # too long for the column of names
                assert re.match(r" +1  (ts_rank_cd|cosine)", lines[lines.index(name) + 1])
            else:
                assert any(re.match(rf"{name} +1  ", line) for line in lines), name
        assert all(len(line) < 160 or line.startswith("fused") for line in lines)
        await pilot.press("escape", "C")
        await wait_for(pilot, lambda: isinstance(eight.screen, SideChooser))
        await pilot.press(*"none", "enter")
        await wait_for(pilot, lambda: isinstance(eight.screen, CompareScreen))
        wanted = eight.screen.query_one("#wanted", Static)
        await wait_for(pilot, lambda: "final 1" in str(wanted.visual))
        assert len(str(wanted.visual)) <= 3 * NARROW[0]
        assert wanted.size.height <= 3


async def test_one_list_has_every_screen_too(small_corpus: Path, answered: Answered, wait_for: WaitFor) -> None:
    (small_corpus / "lab.yaml").write_text(f"retrievers: {{{LONG}: {{kind: vector}}}}\n", encoding="utf-8")
    app = ExplorerApp(small_corpus)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        await wait_for(pilot, lambda: in_sight(app) == [LONG, "fused", "final"])
        assert re.search(r"a-list-wh\S+rest 1 › fused 1 › rerank 1 › final 1", shown(app, "#fate"))
        assert str(ranked(app, LONG).border_title) == f"{LONG} · 2 · 0 ms"
        await pilot.press("4", "1")
        assert app.focused is ranked(app, LONG)
        await pilot.press("x")
        await wait_for(pilot, lambda: isinstance(app.screen, ExplainScreen))
        await pilot.press("escape", "C")
        await wait_for(pilot, lambda: isinstance(app.screen, SideChooser))
        await pilot.press(*"none", "enter")
        await wait_for(pilot, lambda: isinstance(app.screen, CompareScreen))
        await wait_for(pilot, lambda: "final 1" in str(app.screen.query_one("#wanted", Static).visual))
        await pilot.press("escape")
        await pilot.resize_terminal(*NARROW)
        await wait_for(pilot, lambda: "1 a-list-whose-name-has-40-characters-rest ●1" in shown(app, "#tabs"))
        assert len(shown(app, "#fate")) <= NARROW[0]
        assert len(shown(app, "#tabs")) <= NARROW[0]
    app.close_lab()


@pytest.mark.parametrize("text", [EIGHT, "retrievers: {text: {}}\n"], ids=["eight", "one"])
async def test_a_bundle_and_its_picture(
    small_corpus: Path,
    text: str,
    answered: Answered,
    wait_for: WaitFor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (small_corpus / "lab.yaml").write_text(text, encoding="utf-8")
    with Lab.open(small_corpus) as lab:
        write_bundle(tmp_path / "b.json", make_bundle(lab, lab.golden[0]))
    replay = Replay(read_bundle(tmp_path / "b.json"))
    names = tuple(json.loads((tmp_path / "b.json").read_text(encoding="utf-8"))["trace"]["lists"])
    monkeypatch.chdir(tmp_path)
    app = ExplorerApp(open_lab=lambda *_, **__: replay)
    async with app.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        assert app.explore.stages == (*names, "fused", "final")
        await pilot.press("1")
        await wait_for(pilot, lambda: names[0] in in_sight(app))
        await pilot.press("P", "c")
        (picture,) = tmp_path.glob("*.svg")
        content = picture.read_text(encoding="utf-8").replace("&#160;", " ")
        assert ("6 more ›" in content) == (len(names) == 8)
        assert app.screen is app.explore  # a bundle has no other configuration to choose
    app.close_lab()


async def test_changing_between_one_list_and_eight_in_any_state(
    eight: ExplorerApp, answered: Answered, wait_for: WaitFor, tmp_path: Path
) -> None:
    (tmp_path / "one.yaml").write_text("retrievers: {half: {kind: text}}\nreranker: none\n", encoding="utf-8")
    one = effective_config(None, path=tmp_path / "one.yaml").config

    async def changed(pilot: Pilot[None], count: int) -> None:
        await wait_for(pilot, lambda: len(eight.explore.stages) == count and not eight._jobs.running("ask"))
        assert [widget.stage for widget in eight.explore.query_one(Lists).children] == list(eight.explore.stages)  # type: ignore[attr-defined]

    async with eight.run_test(size=WIDE) as pilot:
        await answered(pilot, QUESTION)
        assert eight.labs.now is not None
        many = eight.labs.now.config
        for key, kept in (("7", "half"), ("1", "final"), ("9", "fused")):
            await pilot.press(key)
            eight._use(one)
            await changed(pilot, 3)
            await wait_for(pilot, lambda kept=kept: eight.focused is ranked(eight, kept))
            eight._use(many)
            await changed(pilot, 10)
            await wait_for(pilot, lambda kept=kept: kept in in_sight(eight) and len(in_sight(eight)) == 4)
        await pilot.press("slash", "x")
        for config in (one, many, one):
            eight._use(config)
            await pilot.resize_terminal(*NARROW)
            await pilot.press("y")
            await pilot.resize_terminal(*WIDE)
        await changed(pilot, 3)
        assert eight.focused is eight.explore.query_one("#query")


@pytest.mark.parametrize(
    ("names", "room", "expected"),
    [
        (["vector", "text"], 10, ("vector", "text")),
        (["abcdefghij", "text"], 12, ("abcd…hij", "text")),
        (["abcdefghij", "text"], 9, None),
        (["x" * 40], 100, ("x" * 10 + "…" + "x" * 9,)),
        ([], 0, ()),
    ],
)
def test_names_are_cut_until_they_fit(names: list[str], room: int, expected: tuple[str, ...] | None) -> None:
    assert fitting(names, room) == expected


def test_many_ranks_are_counted() -> None:
    assert found_in([None, 7, 3, None]) == "2/4 best 3"
    assert found_in([None, None]) == "0/2"
