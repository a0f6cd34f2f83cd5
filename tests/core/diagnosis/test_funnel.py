"""The funnel: every loss by hand on a small corpus, counts against journeys made one by one, intervals, the picture."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.database import Database
from retrieval_lab.diagnosis.funnel import STAGES, Funnel, funnel
from retrieval_lab.diagnosis.funnel_text import funnel_text, lost_text
from retrieval_lab.errors import Cancelled, InputError
from retrieval_lab.evals.proportions import Share, wilson_interval
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.settings import NoReranker
from retrieval_lab.types import Filter
from retrieval_lab.wording import share_text
from tests.core.diagnosis.losing import CONFIG, FOUND, LOST, make_corpus


@pytest.fixture(scope="module")
def lab(database: Database) -> Iterator[Lab]:
    assert database.embedded
    with Lab.open() as opened:
        yield opened


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, database: Database) -> Iterator[Lab]:
    assert database.embedded
    with Lab.open(make_corpus(tmp_path_factory.mktemp("losing") / "fruit")) as opened:
        assert opened.config == CONFIG
        yield opened


@pytest.fixture(scope="module")
def found(small: Lab) -> Funnel:
    return funnel(small)


# --- counts --------------------------------------------------------------------------------------------------------


def test_each_stage_loses_what_was_laid_out_for_it(found: Funnel) -> None:
    assert {step.stage: step.query_ids for step in found.all.steps} == LOST
    assert found.all.query_ids == FOUND
    assert [step.entered for step in found.all.steps] == [10, 8, 5, 5, 3, 2]
    assert [step.left for step in found.all.steps] == [8, 5, 5, 3, 2, 1]
    assert [step.share.of for step in found.all.steps] == [10] * 6
    assert found.all.share == Share(1, 10)


def test_kinds_are_funnels_of_their_own(found: Funnel) -> None:
    one, two = found.by_kind["one"], found.by_kind["two"]
    assert list(found.by_kind) == ["one", "two"]
    assert [len(step.lost) for step in one.steps] == [0, 0, 0, 2, 1, 1]
    assert [len(step.lost) for step in two.steps] == [2, 3, 0, 0, 0, 0]
    assert (one.queries, len(one.found), two.queries, len(two.found)) == (5, 1, 5, 0)
    assert one.step("fusion").query_ids == ("apple", "fig")


@pytest.mark.parametrize(
    "config",
    [
        PipelineConfig(),
        PipelineConfig(mmr_lambda=0.1),
        PipelineConfig(reranker=NoReranker(), mmr_lambda=None),
        PipelineConfig(
            retrievers=(VectorSearch(n=40, scan="hnsw"),),
            filter=Filter(("hybrid-search", "prompt-design", "structured-output", "llm-as-judge")),
        ),
    ],
    ids=["default", "mmr", "no reranker", "filter"],
)
def test_fates_are_those_of_journeys_made_one_by_one(lab: Lab, config: PipelineConfig) -> None:
    made = funnel(lab, config)
    assert [fate.query_id for fate in made.fates] == [query.query_id for query in lab.golden]
    for number, (query, fate) in enumerate(zip(lab.golden, made.fates, strict=True)):
        if fate.lost_at is None and number % 6:
            continue  # some of the found will do
        journey = lab.explain(query, config=config)
        assert (fate.chunk_id, fate.final_rank) == (journey.chunk_id, journey.final_rank)
        assert (fate.lost_at, fate.reason) == (journey.lost_at, journey.reason)
    assert sum(len(step.lost) for step in made.all.steps) + len(made.all.found) == len(lab.golden)
    if config.filter.doc_ids:
        assert any("left out by the filter" in (fate.reason or "") for fate in made.fates)
    if config.mmr_lambda == 0.1:
        assert made.all.step("mmr").lost


def test_what_is_found_is_what_the_evaluation_hits(lab: Lab) -> None:
    hits = [one.query.query_id for one in lab.evaluate_queries() if one.hit]
    assert list(funnel(lab).all.query_ids) == hits


# --- the connection, progress, cancelling --------------------------------------------------------------------------


def test_questions_are_answered_meanwhile(small: Lab) -> None:
    heard = []

    def progress(done: int, total: int) -> None:
        # Over the connection that the funnel holds this would wait for ever.
        heard.append((done, total, len(small.trace("apple").final)))

    funnel(small, progress=progress)
    assert heard == [(done, 10, 2) for done in range(11)]


def test_it_stops_between_queries(small: Lab) -> None:
    asked = iter([False, False, True])
    with pytest.raises(Cancelled, match="after 2 of 10"):
        funnel(small, cancelled=lambda: next(asked))


def test_a_pipeline_that_needs_another_index_is_refused(small: Lab) -> None:
    with pytest.raises(InputError, match="another index"):
        funnel(small, replace(CONFIG, contextual_headers=True))


def test_without_golden_queries_there_is_nothing_to_count(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = make_corpus(tmp_path_factory.mktemp("none") / "fruit")
    (folder / "golden.yaml").unlink()
    with Lab.open(folder) as opened, pytest.raises(InputError, match="no golden queries"):
        funnel(opened)


# --- intervals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "of"), [(1, 10), (13, 48), (24, 48), (47, 48), (1, 2)])
def test_the_ends_of_an_interval_solve_wilsons_equation(count: int, of: int) -> None:
    """Both ends p are where the share lies z standard errors away: (share - p)^2 = z^2 p (1 - p) / n."""
    z, share, found = 1.959963984540054, count / of, wilson_interval(count, of)
    assert 0 <= found.low < share < found.high <= 1
    for end in (found.low, found.high):
        assert (share - end) ** 2 == pytest.approx(z * z * end * (1 - end) / of, rel=1e-9)


def test_intervals_of_none_and_all() -> None:
    z2 = 1.959963984540054**2
    none, everything = wilson_interval(0, 16), wilson_interval(16, 16)
    assert (none.low, everything.high) == (0.0, 1.0)
    assert none.high == pytest.approx(z2 / (16 + z2))
    assert everything.low == pytest.approx(16 / (16 + z2))


def test_a_known_interval() -> None:
    """8 of 10 at 95%: 0.4902 to 0.9433, as tables of the Wilson interval have it."""
    found = wilson_interval(8, 10)
    assert (round(found.low, 4), round(found.high, 4)) == (0.4902, 0.9433)
    assert wilson_interval(8, 10, level=0.5).low > found.low


@pytest.mark.parametrize(("count", "of", "level"), [(1, 0, 0.95), (-1, 3, 0.95), (4, 3, 0.95), (1, 3, 1.0)])
def test_what_is_no_share_has_no_interval(count: int, of: int, level: float) -> None:
    with pytest.raises(InputError):
        wilson_interval(count, of, level=level)


# --- JSON ----------------------------------------------------------------------------------------------------------


def test_a_funnel_is_read_back_as_it_was_written(found: Funnel) -> None:
    document: dict[str, Any] = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert Funnel.from_dict(document) == found
    assert document["format"] == 1
    assert document["corpus"] == "fruit"
    lost = document["all"]["steps"][STAGES.index("pool")]["lost"]
    assert (lost["count"], lost["of"], lost["share"]) == (3, 10, 0.3)
    assert math.isclose(lost["interval"]["low"], 0.107791, abs_tol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "format 1"),
        ({"fates": 3}, "fates is 3"),
        ({"fates": [{}]}, r"fates\[0\].query_id is missing"),
        ({"config": {"top_k": 0}}, "top_k"),
    ],
)
def test_a_broken_funnel_is_refused(found: Funnel, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Funnel.from_dict({**found.to_dict(), **change})


def test_fates_that_contradict_themselves_are_refused(found: Funnel) -> None:
    document = found.to_dict()
    document["fates"][0]["final_rank"] = 1
    with pytest.raises(InputError, match=r"fates\[0\] has both"):
        Funnel.from_dict(document)
    document = found.to_dict()
    document["fates"][1] = document["fates"][0]
    with pytest.raises(InputError, match="stands twice"):
        Funnel.from_dict(document)
    document["fates"][0]["lost_at"] = "elsewhere"
    with pytest.raises(InputError, match="elsewhere"):
        Funnel.from_dict(document)


# --- the picture ---------------------------------------------------------------------------------------------------


def test_the_picture_has_the_counts_and_bars_in_proportion(found: Funnel) -> None:
    lines = funnel_text(found, 80).splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["asked", "10"],
        *([stage, str(left)] for stage, left in zip(STAGES, (8, 5, 5, 3, 2, 1), strict=True)),
        ["final", "1"],
    ]
    whole = lines[0].count("█")
    for line, left in zip(lines[1:7], (8, 5, 5, 3, 2, 1), strict=True):
        assert abs(line.count("█") - whole * left / 10) <= 1
    assert [("-" + line.split("-")[1].split()[0]) if "-" in line else "" for line in lines[1:7]] == [
        "-2",
        "-3",
        "",
        "-2",
        "-1",
        "-1",
    ]
    assert "on no list" in lines[2]
    assert "30% (11–60%)" in lines[2]


@pytest.mark.parametrize("width", [60, 80, 120, 240])
@pytest.mark.parametrize("kind", [None, "one", "two"])
def test_the_picture_keeps_to_its_width(found: Funnel, width: int, kind: str | None) -> None:
    text = funnel_text(found, width, kind=kind)
    assert max(map(len, text.splitlines())) <= width
    assert all(line.isprintable() for line in text.splitlines())
    assert max(map(len, lost_text(found, width).splitlines())) <= width


def test_the_lost_are_named_and_cannot_steer_the_terminal(found: Funnel) -> None:
    assert lost_text(found).splitlines() == [
        "chunking  cut absent",
        "pool      gap next head",
        "fusion    apple fig",
        "reranker  pear",
        "mmr       plum",
    ]
    hostile = replace(found, fates=tuple(replace(fate, query_id="\x1b[31m" + "x" * 300) for fate in found.fates))
    for line in lost_text(hostile).splitlines():
        assert not any(unicodedata.category(char) == "Cc" for char in line)
        assert len(line) <= 80


def test_a_share_of_nothing_is_a_dash() -> None:
    assert share_text(Share(0, 0)) == "–"
    assert Share(0, 0).to_dict() == {"count": 0, "of": 0, "share": None, "interval": None}
