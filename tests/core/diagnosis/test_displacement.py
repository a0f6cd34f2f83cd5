"""What stands above a wanted passage: the rows, who voted for them, what repeats, what answers too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.database import Database
from retrieval_lab.diagnosis.displacement import Displacement, anchor_sentence
from retrieval_lab.diagnosis.report import journey_report
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.settings import RrfFusion
from retrieval_lab.stored import Stored
from retrieval_lab.types import GoldenQuery

FILES = {
    "answer": "# Tea\n\nFor guests. Steep the green leaves for three minutes at seventy degrees. Then drink it.\n",
    "copy": "# Leaves\n\nGreen leaves want three minutes at seventy degrees, so steep them that long and no longer.\n",
    "loud": "# Steep\n\nSteep steep: how long to steep is what everybody asks about the steep hill of leaves.\n",
    "loud-two": "# Steep\n\nSteep steep: how long to steep is what everybody asks about the steep hill of leaf.\n",
    "other": "# Hills\n\nThe long hill is steep.\n",
    "so": "# So\n\nWho drinks? Then it is so.\n",
}
QUERY = GoldenQuery("t", "how long to steep green leaves", "factual", "answer", "the GREEN  leaves for three minutes")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, database: Database) -> Iterator[Lab]:
    assert database.embedded
    folder: Path = tmp_path_factory.mktemp("tea")
    (folder / "docs").mkdir()
    for name, text in FILES.items():
        (folder / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
    with Lab.open(folder) as opened:
        yield opened


@pytest.mark.parametrize(
    ("text", "anchor", "sentence"),
    [
        (FILES["answer"], "GREEN leaves", "Steep the green leaves for three minutes at seventy degrees."),
        ("One. Two here! Three?", "two", "Two here!"),
        ("One. Two here! Three?", "one", "One."),
        ("One. Two here! Three?", "here! three", "Two here! Three?"),
        ("a line\nthat goes on. Next", "goes", "a line\nthat goes on."),
        ("a paragraph\n\nand  another one\n\nthe last", "another", "and  another one"),
        ("| a | b |\n| c | d |\n| e | f |", "d", "| c | d |"),
        ("- first item\n- second item\n1. third", "second", "- second item"),
        ("# Heading\n\nversion 1.5 of it. End", "1.5", "version 1.5 of it."),
        ("text", "not in it ", "not in it"),
        ("", "x", "x"),
    ],
)
def test_the_sentence_of_the_anchor(text: str, anchor: str, sentence: str) -> None:
    assert anchor_sentence(text, anchor) == sentence


def test_the_rows_above_are_those_of_the_stage_that_lost_it(lab: Lab) -> None:
    config = PipelineConfig(top_k=1, mmr_lambda=None)
    trace = lab.trace(QUERY, config)
    row = next(row for row in trace.reranked if row.chunk_id == "answer#000")
    journey = lab.explain(trace)
    assert row.rank > 2
    assert (journey.lost_at, journey.displacement.stage) == ("reranker", "reranked")
    above = journey.displacement.above
    assert [(one.chunk_id, one.rank, one.score) for one in above] == [
        (other.chunk_id, other.rank, other.score) for other in trace.reranked[: row.rank - 1]
    ]


def test_each_row_has_its_rank_in_each_list(lab: Lab) -> None:
    config = PipelineConfig(top_k=1, mmr_lambda=None)
    trace = lab.trace(QUERY, config)
    for one in lab.explain(trace).displacement.above:
        for name, hits in trace.lists.items():
            assert one.ranks[name] == next((hit.rank for hit in hits if hit.chunk_id == one.chunk_id), None)
    only = PipelineConfig(retrievers=(TextSearch(name="words"),), top_k=1, mmr_lambda=None)
    assert {name for one in lab.explain(QUERY, config=only).displacement.above for name in one.ranks} == {"words"}


def test_what_is_nowhere_is_compared_with_the_final_list(lab: Lab) -> None:
    config = PipelineConfig(retrievers=(TextSearch(n=1),), top_k=1)
    journey = lab.explain(replace(QUERY, query="hill"), config=config)
    assert (journey.lost_at, journey.displacement.stage) == ("pool", "final")
    assert [one.chunk_id for one in journey.displacement.above] == [
        row.chunk_id for row in lab.trace("hill", config).final
    ]


def test_what_is_found_has_those_before_it_above(lab: Lab) -> None:
    trace = lab.trace(QUERY)
    journey = lab.explain(trace)
    assert journey.lost_at is None
    assert journey.final_rank is not None
    above = [one.chunk_id for one in journey.displacement.above]
    assert above == [row.chunk_id for row in trace.final[: journey.final_rank - 1]]
    first = lab.explain(trace, trace.final[0].chunk_id)
    assert first.displacement.above == ()
    assert "nothing stands above it" in journey_report(first)


def test_a_pool_without_the_passage_stands_above_it_as_a_whole(lab: Lab) -> None:
    config = PipelineConfig(fusion=RrfFusion(n=2), top_k=1)
    trace = lab.trace("steep hill", config)
    journey = lab.explain(trace, trace.fused[3].chunk_id)
    assert (journey.lost_at, journey.displacement.stage) == ("fusion", "fused")
    assert [one.rank for one in journey.displacement.above] == [1, 2]


def test_the_content_words_that_a_passage_shares_are_counted_by_hand(lab: Lab) -> None:
    found = lab.explain(QUERY, config=PipelineConfig(top_k=1, mmr_lambda=None)).displacement
    assert found.sentence == "Steep the green leaves for three minutes at seventy degrees."
    # the, for and at are stop words
    assert found.content_words == ("degre", "green", "leav", "minut", "seventi", "steep", "three")
    by_id = {one.chunk_id: one for one in found.above}
    assert by_id["copy#000"].shared == found.content_words
    assert (by_id["copy#000"].share, by_id["copy#000"].answers) == (1.0, True)
    assert by_id["loud#000"].shared == ("leav", "steep")
    assert by_id["loud#000"].share == pytest.approx(2 / 7)
    assert not by_id["loud#000"].answers
    assert [one.chunk_id for one in found.answering] == ["copy#000"]


def test_near_duplicates_are_grouped_and_others_are_not(lab: Lab) -> None:
    found = lab.explain(QUERY, config=PipelineConfig(top_k=1, mmr_lambda=None)).displacement
    (group,) = found.duplicates
    assert set(group.chunk_ids) == {"loud#000", "loud-two#000"}
    assert 0.9 <= group.cosine < 1
    assert re.search(r"near-duplicates \(cosine 0\.9\d, from 0\.9\): loud", journey_report(lab.explain(QUERY)))


def test_the_wanted_passage_takes_part_in_the_groups(lab: Lab) -> None:
    trace = lab.trace("how long to steep", PipelineConfig(mmr_lambda=None))
    lower = next(row.chunk_id for row in reversed(trace.final) if row.chunk_id.startswith("loud"))
    (group,) = lab.explain(trace, lower).displacement.duplicates
    assert set(group.chunk_ids) == {"loud#000", "loud-two#000"}


def test_without_an_anchor_there_is_nothing_to_share(lab: Lab) -> None:
    found = lab.explain("steep hill", "copy#000", PipelineConfig(mmr_lambda=None)).displacement
    assert (found.sentence, found.content_words, found.answering) == (None, (), ())
    assert found.above
    assert {one.share for one in found.above} == {None}


def test_an_anchor_of_stop_words_alone_has_no_content_words(lab: Lab) -> None:
    query = replace(QUERY, query="steep", doc_id="so", anchor="then it")
    found = lab.explain(query, config=PipelineConfig(top_k=1)).displacement
    assert (found.sentence, found.content_words) == ("Then it is so.", ())
    assert found.above
    assert {(one.share, one.answers) for one in found.above} == {(None, False)}


def test_for_an_anchor_that_is_nowhere_its_own_words_are_looked_for(lab: Lab) -> None:
    journey = lab.explain(replace(QUERY, anchor="Steep green leaves\x00 three minutes"))
    found = journey.displacement
    assert (journey.lost_at, found.stage) == ("chunking", "final")
    assert found.content_words == ("green", "leav", "minut", "steep", "three")
    assert {one.chunk_id for one in found.answering} == {"answer#000", "copy#000"}


def test_a_displacement_becomes_json_and_comes_back(lab: Lab) -> None:
    found = lab.explain(QUERY, config=PipelineConfig(top_k=1, mmr_lambda=None)).displacement
    document = json.loads(json.dumps(found.to_dict()))
    assert Displacement.from_stored(Stored(document, "")) == found
    assert (document["duplicates_from"], document["answers_from"]) == (0.9, 0.5)
    assert [one["answers"] for one in document["above"]] == [one.answers for one in found.above]


def test_the_report_says_who_voted_and_who_answers(lab: Lab) -> None:
    report = journey_report(lab.explain(QUERY, config=PipelineConfig(top_k=1, mmr_lambda=None)))
    assert re.search(r"passages stand ahead of it in the reranked list; voted there by vector and text \(\d\)", report)
    assert "may answer too: copy#000 shares 100% of them" in report
