"""The analysis of the bundled corpus: complete, and every figure in it is what the lab gives, so it cannot go stale."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from retrieval_lab import Lab
from retrieval_lab.config_file import effective_config
from retrieval_lab.database import Database
from retrieval_lab.diagnosis.analysis_check import Misses, check_analysis
from retrieval_lab.diagnosis.analysis_file import Document, Row
from retrieval_lab.diagnosis.analysis_store import ANALYSIS_FILE, load_analysis
from retrieval_lab.diagnosis.kinds import Failure
from retrieval_lab.embed import HashEmbedder
from retrieval_lab.evals.runs import Run, run
from retrieval_lab.rerank import default_pipeline
from retrieval_lab.rerankers import LexicalReranker, word_counts

CORPUS = Path(__file__).parents[3] / "fixtures" / "corpus"
PATH = CORPUS / ANALYSIS_FILE
DOCUMENT = load_analysis(PATH)
ROWS = DOCUMENT.rows
IDS = [row.query_id for row in ROWS]

RANKS = re.compile(r"vector (\S+), text (\S+), fused (\S+), rerank (\S+); words (\d+) of (\d+)\.")
SETTING = re.compile(r"`([\w.]+=[^`]+)` → final (\d+)")
PASSAGE = re.compile(r"`([\w-]+#\d+)` at final (\d+)")
REWRITES = re.compile(r"(\d) of (\d) rewrites")
QUERY_ID = re.compile(r"q\d\d")


@pytest.fixture(scope="module")
def lab(database: Database) -> Iterator[Lab]:
    assert database.embedded
    with Lab.open(CORPUS) as opened:
        yield opened


@pytest.fixture(scope="module")
def as_it_is(lab: Lab) -> Run:
    return run(lab)


def table(document: Document, first: str) -> list[list[str]]:
    """The rows below the header whose first cell is this."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in document.lines]
    start = next(at for at, row in enumerate(rows) if row[0] == first and len(row) > 1)
    end = next((at for at in range(start, len(rows)) if len(rows[at]) == 1), len(rows))
    return rows[start + 2 : end]


def rank(text: str) -> int | None:
    return None if text == "–" else int(text)


def with_settings(settings: str) -> Lab:
    """The lab under `KEY=VALUE` settings with blanks between them."""
    return Lab.open(CORPUS, config=effective_config(CORPUS, overrides=settings.split()).config)


def missed(found: Run) -> set[str]:
    return {record.query_id for record in found.queries if record.is_miss}


def best_final(lab: Lab, query: str, chunk_ids: frozenset[str]) -> int | None:
    return next((hit.rank for hit in lab.trace(query).final if hit.chunk_id in chunk_ids), None)


@cache
def holders(lab: Lab) -> Mapping[str, frozenset[str]]:
    return {result.query.query_id: result.relevant_ids for result in lab.evaluate_queries()}


def test_it_passes_the_check(as_it_is: Run) -> None:
    queries = {record.query_id: record.query for record in as_it_is.queries}
    misses = Misses(tuple(one for one in queries if one in missed(as_it_is)), (), queries)
    assert check_analysis(DOCUMENT, PATH, misses) == []
    shown = {cells[0]: cells[3] for cells in table(DOCUMENT, "query_id")}
    assert shown == {one: queries[one] for one in misses.ids}


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_the_ranks_are_those_of_the_lab(lab: Lab, row: Row) -> None:
    found = RANKS.match(row.notes)
    assert found is not None, "the notes begin with the ranks"
    document = lab.explain(lab.golden_query(row.query_id)).to_dict()
    places = [document[stage] for stage in ("vector", "text", "fused", "reranked")]
    assert [rank(text) for text in found.groups()[:4]] == [place and place["rank"] for place in places]
    matched, absent = len(document["text"]["matched"]), len(document["text"]["absent"])
    assert (int(found[5]), int(found[6])) == (matched, matched + absent)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_other_passages_stand_where_the_notes_say(lab: Lab, row: Row) -> None:
    query = lab.golden_query(row.query_id).query
    for chunk_id, place in PASSAGE.findall(row.notes):
        assert best_final(lab, query, frozenset([chunk_id])) == int(place)


def test_each_ambiguity_names_the_passage_that_answers() -> None:
    assert all(PASSAGE.search(row.notes) for row in ROWS if row.failure == "anchor-ambiguity")


CLAIMS = [(row.query_id, settings, int(place)) for row in ROWS for settings, place in SETTING.findall(row.notes)]


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("settings", sorted({settings for _, settings, _ in CLAIMS}))
def test_a_setting_rescues_as_the_notes_say(settings: str) -> None:
    with with_settings(settings) as changed:
        for query_id, claimed, place in CLAIMS:
            if claimed == settings:
                query = changed.golden_query(query_id)
                assert best_final(changed, query.query, holders(changed)[query_id]) == place, query_id


def test_the_rewrites_give_what_their_table_says(lab: Lab) -> None:
    works: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    for query_id, rewrite, place in table(DOCUMENT, "for"):
        assert best_final(lab, rewrite, holders(lab)[query_id]) == rank(place), rewrite
        tried[query_id] += 1
        works[query_id] += place != "–"
    for row in ROWS:
        found = REWRITES.search(row.notes)
        assert found is not None, row.query_id
        assert (int(found[1]), int(found[2])) == (works[row.query_id], tried[row.query_id])


@pytest.mark.usefixtures("database")
def test_the_settings_do_what_their_table_says(as_it_is: Run) -> None:
    before: set[str] = set()
    for settings, recall, mrr, mended, lost in table(DOCUMENT, "setting"):
        if settings == "as it is":
            found, before = as_it_is, missed(as_it_is)
        else:
            with with_settings(settings.strip("`")) as changed:
                found = run(changed)
        count = len(found.queries)
        assert recall == f"{sum(record.measures['recall@10'] for record in found.queries) / count:.3f}", settings
        assert mrr == f"{sum(record.measures['mrr@10'] for record in found.queries) / count:.3f}", settings
        after = missed(found)
        assert (QUERY_ID.findall(mended), QUERY_ID.findall(lost)) == (sorted(before - after), sorted(after - before))


def test_a_reranker_that_stems_mends_and_loses_what_the_text_says(lab: Lab, database: Database, as_it_is: Run) -> None:
    found = re.search(r"mends (.+?) but loses (.+?)\.", " ".join(DOCUMENT.paragraph(Failure.RERANKER_DEMOTION).split()))
    assert found is not None
    with database.connect(lab.schema) as conn:

        @cache
        def stems(text: str) -> Counter[str]:
            """The words as Postgres's English dictionary has them, without its stop words."""
            counts: Counter[str] = Counter()
            for word, times in word_counts(text).items():
                row = conn.execute("SELECT ts_lexize('english_stem', %s)", [word]).fetchone()
                assert row is not None
                counts.update(dict.fromkeys(row[0] or (), times))
            return counts

        made = default_pipeline(conn, HashEmbedder(), LexicalReranker(count=stems))
        after = {
            query.query_id
            for query in lab.golden
            if holders(lab)[query.query_id].isdisjoint(hit.chunk_id for hit in made.run(query.query).final)
        }
    before = missed(as_it_is)
    assert set(QUERY_ID.findall(found[1])) == before - after
    assert set(QUERY_ID.findall(found[2])) == after - before
