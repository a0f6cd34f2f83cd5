"""The journey of one passage: every number by an independent computation, every stage that can lose it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.config import Indexing
from retrieval_lab.database import Database
from retrieval_lab.diagnosis.journey import Journey
from retrieval_lab.diagnosis.report import journey_report
from retrieval_lab.errors import InputError
from retrieval_lab.mmr import mmr, mmr_pick
from retrieval_lab.rerank import LexicalReranker
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.settings import Bm25Reranker, MarkdownChunker, NoReranker, RrfFusion
from retrieval_lab.store import upsert
from retrieval_lab.trace import Trace
from retrieval_lab.types import Chunk, Filter, GoldenQuery, Ranked
from tests.core import reference

Connection = psycopg.Connection[Any]

STAGES = {"chunking", "pool", "index", "fusion", "reranker", "mmr", None}


@pytest.fixture(scope="module")
def lab(database: Database) -> Iterator[Lab]:
    assert database.embedded
    with Lab.open() as opened:
        yield opened


@pytest.fixture(scope="module")
def conn(lab: Lab, database: Database) -> Iterator[Connection]:
    """A connection of the test's own to the lab's index of the bundled corpus."""
    with database.connect(lab.schema) as connection:
        yield connection


@pytest.fixture(scope="module")
def vectors(corpus_chunks: list[Chunk]) -> np.ndarray[Any, Any]:
    return np.array([reference.hash_vector(one.text) for one in corpus_chunks], dtype=float)


def round_trip(journey: Journey) -> dict[str, Any]:
    """Its JSON document, once it is sure that an equal journey comes of it and that it can be printed."""
    document: dict[str, Any] = json.loads(json.dumps(journey.to_dict(), allow_nan=False))
    assert Journey.from_dict(document) == journey
    lines = journey_report(journey).splitlines()
    assert all(line.isprintable() for line in lines)
    return document


# --- the bundled corpus: every number against an independent one ---------------------------------------------------


def test_vector_ranks_are_those_of_brute_force(
    lab: Lab, corpus_chunks: list[Chunk], vectors: np.ndarray[Any, Any]
) -> None:
    ids = [one.chunk_id for one in corpus_chunks]
    lengths = np.linalg.norm(vectors, axis=1)
    sharp = beyond = 0
    for query in lab.golden[::3]:
        journey = lab.explain(query)
        found = journey.vector
        assert found is not None
        assert found.rank is not None
        wanted = ids.index(journey.chunk_id or "")
        cosines = vectors @ reference.hash_vector(query.query).astype(float) / lengths
        lowest = 1 + int((cosines > cosines[wanted] + 1e-6).sum())
        highest = int((cosines > cosines[wanted] - 1e-6).sum())
        assert lowest <= found.rank <= highest
        assert found.score == pytest.approx(cosines[wanted], abs=1e-6)
        assert found.listed == (found.rank if found.rank <= 50 else None)
        sharp += lowest == highest
        beyond += found.rank > 50
    assert sharp > 12
    assert beyond > 3


def text_order(conn: Connection, query: str) -> list[tuple[str, float]]:
    """Every chunk that any word of the query matches, sorted here."""
    rows = conn.execute(
        """SELECT chunk_id, ts_rank_cd(tsv, q, 32) FROM chunks,
            (SELECT replace(plainto_tsquery('english', %s)::text, '&', '|')::tsquery AS q) AS asked
        WHERE tsv @@ q""",
        (query,),
    ).fetchall()
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def test_text_ranks_and_terms_are_those_of_the_whole_table_sorted_here(lab: Lab, conn: Connection) -> None:
    unmatched = 0
    for query in lab.golden[1::2]:
        if any(mark in query.query for mark in '"-_/.:'):
            continue  # phrases and exclusions have a test of their own
        journey = lab.explain(query)
        found, ranked = journey.text, text_order(conn, query.query)
        assert found is not None
        places = {chunk_id: (place, score) for place, (chunk_id, score) in enumerate(ranked, start=1)}
        rank, score = places.get(journey.chunk_id or "", (None, None))
        assert (found.rank, found.score) == (rank, score)
        words = conn.execute("SELECT tsvector_to_array(to_tsvector('english', %s))", (query.query,)).fetchone()
        held = conn.execute("SELECT tsvector_to_array(tsv) FROM chunks WHERE chunk_id = %s", (journey.chunk_id,))
        lexemes = set((held.fetchone() or [[]])[0])
        assert set(found.matched) == set((words or [[]])[0]) & lexemes
        assert set(found.absent) == set((words or [[]])[0]) - lexemes
        assert found.excluded == ()
        unmatched += rank is None
    assert unmatched > 0


def test_each_list_adds_its_weight_over_k_and_rank(lab: Lab) -> None:
    config = PipelineConfig(
        retrievers=(VectorSearch(weight=0.5), TextSearch(weight=2.0, operators=False)), fusion=RrfFusion(k=10)
    )
    seen = 0
    for query in lab.golden[::4]:
        journey = lab.explain(query, config=config)
        vector, text, fused = journey.vector, journey.text, journey.fused
        if fused is None or vector is None or text is None:
            continue
        expected = {
            "vector": 0.5 / (10 + vector.listed) if vector.listed else 0.0,
            "text": 2.0 / (10 + text.listed) if text.listed else 0.0,
        }
        assert fused.parts == pytest.approx(expected, rel=1e-12)
        assert fused.score == pytest.approx(sum(expected.values()), rel=1e-12)
        seen += 1
    assert seen > 5


def test_the_terms_of_bm25_sum_to_the_score_of_the_formula(lab: Lab) -> None:
    seen = 0
    for query in lab.golden[::5]:
        trace = lab.trace(query)
        journey = lab.explain(trace)
        if journey.reranked is None or journey.reranked.terms is None:
            continue
        pool = [trace.chunks[row.chunk_id] for row in trace.pool]
        place = [one.chunk_id for one in pool].index(journey.chunk_id or "")
        expected = reference.bm25(query.query, [one.text for one in pool])
        total = math.fsum(one.contribution for one in journey.reranked.terms)
        assert total == pytest.approx(expected[place], abs=1e-9)
        assert total == pytest.approx(journey.reranked.score, abs=1e-12)
        assert [one.term for one in journey.reranked.terms] == list(dict.fromkeys(reference.words(query.query)))
        for one in journey.reranked.terms:
            assert one.tf == reference.words(pool[place].text).count(one.term)
            assert one.df == sum(one.term in reference.words(other.text) for other in pool)
        better = sum(score > expected[place] + 1e-9 for score in expected)
        assert journey.reranked.rank > better
        seen += 1
    assert seen > 5


def greedy(relevance: np.ndarray[Any, Any], vectors: np.ndarray[Any, Any], lam: float) -> list[int]:
    """All candidates in the order in which MMR picks them."""
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = units @ units.T
    order: list[int] = []
    while len(order) < len(relevance):
        redundancy = cosines[:, order].max(axis=1) if order else np.zeros(len(relevance))
        values = lam * relevance - (1 - lam) * redundancy
        values[order] = -np.inf
        order.append(int(np.flatnonzero(values >= values.max() - 1e-12)[0]))
    return order


def test_mmr_penalises_the_likest_earlier_pick(
    lab: Lab, corpus_chunks: list[Chunk], vectors: np.ndarray[Any, Any]
) -> None:
    by_id = dict(zip((one.chunk_id for one in corpus_chunks), vectors, strict=True))
    beyond = 0
    for query in lab.golden[::16]:
        trace = lab.trace(query.query)
        ids = [row.chunk_id for row in trace.reranked]
        rows = np.array([by_id[one] for one in ids])  # of unit length
        relevance = np.array(
            reference.relevances(reference.hash_vector(query.query), [row.score for row in trace.reranked], rows)
        )
        order = greedy(relevance, rows, 0.7)
        for row in (order[0], order[1], order[9], order[10], order[30]):
            found = lab.explain(trace, ids[row]).mmr
            assert found is not None
            assert found.rank == order.index(row) + 1
            assert found.relevance == pytest.approx(relevance[row])
            before = order[: min(found.rank - 1, 10)]
            cosines = [float(rows[row] @ rows[one]) for one in before]
            assert found.cosine == pytest.approx(max(cosines, default=0.0), abs=1e-6)
            assert found.because == (ids[before[int(np.argmax(cosines))]] if before else None)
            assert found.penalty == pytest.approx(0.3 * max(cosines, default=0.0), abs=1e-6)
            assert found.value == pytest.approx(0.7 * found.relevance - found.penalty)
            beyond += found.rank > 10
    assert beyond == 6


def test_the_index_rank_is_the_one_in_the_list_of_the_index(lab: Lab, conn: Connection) -> None:
    for query in lab.golden[::6]:
        journey = lab.explain(query)
        found = journey.vector
        assert found is not None
        assert found.rank is not None
        assert found.index_depth == max(50, found.rank)
        with conn.transaction(force_rollback=True):
            conn.execute("SET LOCAL enable_seqscan = off")
            conn.execute(f"SET LOCAL hnsw.ef_search = {found.index_depth}")
            vector = str(reference.hash_vector(query.query).tolist())
            ids = conn.execute(
                "SELECT chunk_id FROM chunks ORDER BY embedding <=> %s::vector LIMIT %s", (vector, found.index_depth)
            )
            listed = [chunk_id for (chunk_id,) in ids]
        expected = listed.index(journey.chunk_id) + 1 if journey.chunk_id in listed else None
        assert found.index_rank == expected


def test_every_golden_query_is_lost_where_its_lists_say(lab: Lab) -> None:
    found = set()
    for query in lab.golden:
        trace = lab.trace(query)
        journey = lab.explain(trace)
        document = round_trip(journey)
        wanted = journey.chunk_id
        listed = any(hit.chunk_id == wanted for hits in trace.lists.values() for hit in hits)
        pool = [row.chunk_id for row in trace.fused[:50]]
        first = [row.chunk_id for row in trace.reranked[:10]]
        final = [row.chunk_id for row in trace.final]
        stage = None
        if wanted not in final:
            stage = "mmr" if wanted in first else "reranker" if wanted in pool else "fusion" if listed else "pool"
        assert (document["lost_at"], document["in_prompt"]) == (stage, stage is None)
        assert (journey.reason is None) == (stage is None)
        assert journey.final_rank == (final.index(wanted) + 1 if wanted in final else None)
        if journey.final_rank:
            assert journey.mmr is not None
            assert journey.mmr.rank == journey.final_rank
        found.add(stage)
    assert found == {None, "reranker", "fusion", "pool"}


def test_a_journey_from_a_trace_is_the_one_from_the_question(lab: Lab) -> None:
    query = lab.golden_query("q08")
    config = PipelineConfig(top_k=5)
    trace = lab.trace(query, config)
    assert lab.explain(trace) == lab.explain(query, config=config)
    stored = Trace.from_dict(json.loads(json.dumps(trace.to_dict())))
    assert lab.explain(stored) == lab.explain(trace)
    assert lab.explain(query.query, "interview-rag-answers#012", config).lists == lab.explain(trace).lists
    with pytest.raises(InputError, match="another configuration"):
        lab.explain(trace, config=PipelineConfig(top_k=6))


def test_a_passage_within_the_reranked_ten_that_mmr_passes_over_is_lost_there(lab: Lab) -> None:
    config = PipelineConfig(mmr_lambda=0.1)
    trace = lab.trace(lab.golden[0].query, config)
    final = {row.chunk_id for row in trace.final}
    passed = [row.chunk_id for row in trace.reranked[:10] if row.chunk_id not in final]
    assert passed
    for chunk_id in passed:
        journey = lab.explain(trace, chunk_id)
        assert (journey.lost_at, journey.final_rank) == ("mmr", None)
        assert journey.mmr is not None
        assert journey.mmr.rank > 10
        assert journey.mmr.because in final
        assert journey.reason is not None
        assert journey.mmr.because in journey.reason
        assert journey.displacement.stage == "final"
        assert len(journey.displacement.above) == 10


def test_without_reranker_fusion_is_the_last_order_and_loses_what_its_top_k_leaves_out(lab: Lab) -> None:
    config = PipelineConfig(reranker=NoReranker(), mmr_lambda=None, top_k=3)
    trace = lab.trace("who painted the inn sign?", config)
    for row in (trace.fused[2], trace.fused[3]):
        journey = lab.explain(trace, row.chunk_id)
        assert (journey.reranked, journey.mmr) == (None, None)
        assert journey.lost_at == (None if row.rank == 3 else "fusion")
    assert journey.reason == "fused rank 4, beyond the first 3, and there is no reranker to lift it"
    assert [one.rank for one in journey.displacement.above] == [1, 2, 3]


# --- a small corpus: arithmetic by hand, and what is rare ----------------------------------------------------------

FILES = {
    "bread": (
        "# Bread\n\nBake the loaf in the oven.\n\n## Proof\n\nLet the dough rise.\n\n## Oven\n\nLet the dough rise.\n"
    ),
    "copy": "# Bread\n\nBake the loaf in the oven, as it is baked everywhere in this town.\n",
    "faces": "😀 😀\n",
    "fish": "# Salmon\n\nCatch a salmon and serve it with a loaf.\n\n## Boats\n\nThe harbour has forty boats.\n",
    "hostile": "# [bold]red[/]\n\nThe \x1b[31mescape\x07 <b>loaf</b> %s {} \\ ' \" rises.\n",
}
GOLDEN = """
- {query_id: one, query: dough rising, kind: factual, doc_id: fish, anchor: forty BOATS}
- {query_id: several, query: dough oven, kind: factual, doc_id: bread, anchor: let the DOUGH}
- {query_id: cut, query: salmon loaf, kind: factual, doc_id: fish, anchor: "with a loaf.  ## boats the harbour"}
- {query_id: absent, query: dough, kind: factual, doc_id: bread, anchor: let the cake}
- {query_id: gone, query: dough, kind: factual, doc_id: cakes, anchor: let the cake}
- {query_id: face, query: loaf, kind: factual, doc_id: faces, anchor: "😀"}
- {query_id: escape, query: "\\e[31m loaf [/]", kind: factual, doc_id: hostile, anchor: "escape\\a <b>loaf"}
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, database: Database) -> Iterator[Lab]:
    assert database.embedded
    folder: Path = tmp_path_factory.mktemp("small")
    (folder / "docs").mkdir()
    for name, text in FILES.items():
        (folder / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / "golden.yaml").write_text(GOLDEN.replace("\\\\", "\\"), encoding="utf-8")
    with Lab.open(folder) as opened:
        assert opened.golden_faults == ()
        assert opened.index.chunks == 8
        yield opened


def test_bm25_by_hand(small: Lab) -> None:
    config = PipelineConfig(
        retrievers=(TextSearch(),), reranker=Bm25Reranker(k1=2.0, b=0.5), filter=Filter(("bread", "fish"))
    )
    journey = small.explain("loaf of salmon, salmon", "fish#000", config)
    # The pool: `bread#000` (# Bread Bake the loaf in the oven: 7 words) and `fish#000` (10 words).
    assert journey.reranked is not None
    assert journey.reranked.terms is not None
    factor = 1 - 0.5 + 0.5 * 10 / 8.5
    loaf, of, salmon = journey.reranked.terms
    assert (loaf.term, loaf.tf, loaf.df) == ("loaf", 1, 2)
    assert (of.term, of.tf, of.df, of.contribution) == ("of", 0, 0, 0.0)
    assert (salmon.term, salmon.tf, salmon.df) == ("salmon", 2, 1)
    assert loaf.length_factor == pytest.approx(factor)
    assert loaf.idf == pytest.approx(math.log(1 + 0.5 / 2.5))
    assert salmon.idf == pytest.approx(math.log(1 + 1.5 / 1.5))
    assert loaf.contribution == pytest.approx(math.log(1.2) * 3 / (1 + 2 * factor))
    assert salmon.contribution == pytest.approx(math.log(2) * 2 * 3 / (2 + 2 * factor))
    assert journey.reranked.score == pytest.approx(loaf.contribution + salmon.contribution)
    assert (journey.reranked.rank, journey.vector) == (1, None)


def ranked(scores: dict[str, float]) -> list[Ranked]:
    return [Ranked(name, score, rank, ()) for rank, (name, score) in enumerate(scores.items(), start=1)]


def test_mmr_by_hand() -> None:
    """Three candidates on the plane: `b` repeats `a` (cosine 0.8), `c` is at right angles to it."""
    candidates = [
        Ranked(name, score, rank, ()) for rank, (name, score) in enumerate(zip("abc", (4, 3, 1), strict=True), 1)
    ]
    rows = {"a": np.array([1.0, 0.0]), "b": np.array([0.8, 0.6]), "c": np.array([0.0, 2.0])}
    asked = np.array([1.0, 1.0])
    # 0.5 * 0.75 - 0.5 * 0.8 = -0.025 for b, 0.5 * 0.25 - 0 = 0.125 for c, which goes first.
    assert [row.chunk_id for row in mmr(asked, candidates, rows, lam=0.5, top_k=3)] == ["a", "c", "b"]
    first, last, second = (mmr_pick(asked, candidates, rows, row, lam=0.5, top_k=2) for row in range(3))
    assert (first.rank, first.relevance, first.penalty, first.because) == (1, 1.0, 0.0, None)
    assert (second.rank, second.relevance, second.penalty, second.because) == (2, 0.25, 0.0, "a")
    assert (last.rank, last.relevance, last.because) == (3, 0.75, "a")
    assert (last.cosine, last.penalty, last.value) == pytest.approx((0.8, 0.4, -0.025))


def test_only_the_first_top_k_picks_cause_a_penalty() -> None:
    """`d` equals `c`, which is picked second: with a final list of one that is no pick yet."""
    candidates = [
        Ranked(name, score, rank, ()) for rank, (name, score) in enumerate(zip("acd", (4, 3, 1), strict=True), 1)
    ]
    rows = {"a": np.array([1.0, 0.0]), "c": np.array([0.0, 1.0]), "d": np.array([0.0, 1.0])}
    found = [mmr_pick(np.zeros(2), candidates, rows, 2, lam=0.5, top_k=top_k) for top_k in (1, 2)]
    assert [(one.rank, one.because, one.cosine) for one in found] == [(3, "a", 0.0), (3, "c", 1.0)]


def test_a_passage_on_no_list_is_lost_in_the_pool(small: Lab) -> None:
    config = PipelineConfig(retrievers=(VectorSearch(n=1), TextSearch(n=1)), top_k=2)
    document = round_trip(small.explain("bake bread", "fish#001", config))
    assert (document["lost_at"], document["fused"], document["reranked"], document["mmr"]) == ("pool", None, None, None)
    assert document["vector"]["rank"] > 1
    assert document["vector"]["listed"] is None
    assert document["text"]["rank"] is None
    assert document["reason"].endswith("text no word in common")
    assert document["displacement"]["stage"] == "final"


def test_a_passage_that_the_fused_top_n_cuts_is_lost_in_fusion(small: Lab) -> None:
    config = PipelineConfig(fusion=RrfFusion(n=2), top_k=2)
    trace = small.trace("loaf", config)
    journey = small.explain(trace, trace.fused[2].chunk_id)
    assert (journey.lost_at, journey.reason) == ("fusion", "fused rank 3, beyond the pool of 2")
    assert [one.chunk_id for one in journey.displacement.above] == [row.chunk_id for row in trace.fused[:2]]


def test_a_list_of_weight_0_brings_nothing_into_fusion(small: Lab) -> None:
    config = PipelineConfig(retrievers=(VectorSearch(weight=0.0), TextSearch()))
    journey = small.explain("loaf", "fish#001", config)
    assert journey.vector is not None
    assert journey.vector.listed is not None
    assert (journey.lost_at, journey.fused) == ("fusion", None)
    assert journey.reason == "only on lists of weight 0, which fusion does not count"


@pytest.fixture(scope="module")
def stale(tmp_path_factory: pytest.TempPathFactory, database: Database) -> Iterator[Lab]:
    """A corpus of 60 chunks, in whose HNSW index rows that are gone lie nearest to the query "tea"."""
    folder = tmp_path_factory.mktemp("stale")
    (folder / "docs").mkdir()
    for number in range(60):
        (folder / "docs" / f"cup-{number:02}.md").write_text(f"tea in cup {number}", encoding="utf-8")
    with Lab.open(folder) as opened, database.connect(opened.schema) as conn:
        conn.execute("ALTER TABLE chunks SET (autovacuum_enabled = false)")
        dead = [Chunk(f"dead#{number:03}", "dead", "", 0, 3, "tea") for number in range(30)]
        upsert(conn, dead, opened.embedder)
        conn.execute("DELETE FROM chunks WHERE doc_id = 'dead'")
        yield opened


def lost_by_the_index(lab: Lab) -> tuple[str, PipelineConfig]:
    """A chunk that the exact scan lists and the index scan does not."""
    config = PipelineConfig(retrievers=(VectorSearch(n=40),))
    through_index = replace(config, retrievers=(VectorSearch(n=40, scan="hnsw"),))
    exact = {hit.chunk_id for hit in lab.trace("tea", config).vector}
    missing = exact - {hit.chunk_id for hit in lab.trace("tea", through_index).vector}
    return min(missing), through_index


def test_what_the_exact_scan_has_and_the_index_has_not_is_lost_by_the_index(stale: Lab) -> None:
    lab = stale
    chunk_id, config = lost_by_the_index(lab)
    journey = lab.explain("tea", chunk_id, config)
    assert journey.vector is not None
    assert journey.vector.rank is not None
    assert journey.vector.rank <= 40
    assert (journey.vector.listed, journey.vector.index_rank, journey.vector.index_depth) == (None, None, 40)
    assert (journey.lost_at, journey.text) == ("index", None)
    assert "the HNSW index's list of 40 lacks it" in (journey.reason or "")
    round_trip(journey)
    # An exact scan never loses by the index, whatever the index would have done.
    exact = lab.explain("tea", chunk_id, replace(config, retrievers=(VectorSearch(n=40),)))
    assert exact.vector is not None
    assert (exact.vector.listed, exact.vector.index_rank) == (journey.vector.rank, None)
    assert exact.lost_at != "index"
    # Nor does one whose rank lies beyond the list anyway.
    shorter = replace(config, retrievers=(VectorSearch(n=journey.vector.rank - 1, scan="hnsw"),), top_k=1)
    assert lab.explain("tea", chunk_id, shorter).lost_at == "pool"


def test_each_retriever_has_an_entry_by_its_name(lab: Lab) -> None:
    config = PipelineConfig(
        retrievers=(
            TextSearch(name="plain", operators=False, n=7),
            TextSearch(name="words", n=9),
            VectorSearch(name="graph", scan="hnsw", n=11, weight=2.0),
            VectorSearch(name="vector", n=13),
        )
    )
    journey = lab.explain("rank fusion -vector", "vector-indexes#001", config)
    document = round_trip(journey)
    assert list(document["lists"]) == ["plain", "words", "graph", "vector"]
    assert [one["n"] for one in document["lists"].values()] == [7, 9, 11, 13]
    assert document["text"]["name"] == "plain"  # the first of its kind, as none is called text
    assert document["vector"]["name"] == "vector"
    assert document["lists"]["graph"]["rank"] == document["vector"]["rank"]
    assert (document["lists"]["graph"]["scan"], document["vector"]["scan"]) == ("hnsw", "exact")
    assert document["lists"]["words"]["excluded"] == ["vector"]
    assert document["lists"]["words"]["rank"] is None
    assert document["lists"]["plain"]["excluded"] == []
    assert "vector" in document["lists"]["plain"]["matched"]


def test_without_a_retriever_of_a_kind_that_side_is_null(lab: Lab) -> None:
    only_text = round_trip(lab.explain("rank fusion", "hybrid-search#003", PipelineConfig(retrievers=(TextSearch(),))))
    assert only_text["vector"] is None
    assert only_text["text"]["rank"] is not None
    only_vector = round_trip(
        lab.explain("rank fusion", "hybrid-search#003", PipelineConfig(retrievers=(VectorSearch(),)))
    )
    assert only_vector["text"] is None
    assert only_vector["fused"]["parts"].keys() == {"vector"}


def test_exclusions_phrases_and_stop_words_that_hit_are_named(small: Lab) -> None:
    text = small.explain('loaf "serve it" "it serve" the -salmon -oven', "fish#000").text
    assert text is not None
    assert (text.rank, text.reason) == (None, "excluded by 'salmon'")
    assert text.matched == ("loaf", "serv")
    assert text.excluded == ("salmon",)
    phrase = small.explain('"serve loaf" "catch salmon" oven it', "fish#000").text
    assert phrase is not None
    assert (phrase.matched, phrase.absent) == ((), ("'serv' <-> 'loaf'", "'catch' <-> 'salmon'", "oven"))
    assert phrase.stop_words == ("it",)
    assert phrase.apart == ("serv", "loaf", "catch", "salmon")  # "a" stands between the last two


def test_a_zero_vector_has_a_reason_and_no_rank(small: Lab) -> None:
    document = round_trip(small.explain(small.golden_query("face")))
    assert document["chunk_id"] == "faces#000"
    assert document["lost_at"] == "pool"
    assert (document["vector"]["rank"], document["vector"]["index_rank"]) == (None, None)
    assert document["vector"]["reason"] == "its vector is zero"


@pytest.mark.parametrize("query", ["", "!!!", "the of", "-loaf", "\x00", "\ud800"])
def test_a_query_without_words_loses_everything_in_the_pool_or_finds_it_by_vector(small: Lab, query: str) -> None:
    journey = small.explain(query, "bread#000")
    assert journey.text is not None
    assert (journey.text.rank, journey.text.matched, journey.text.absent) == (None, (), ())
    has_vector = query in ("the of", "-loaf")
    assert journey.lost_at == (None if has_vector else "pool")
    assert journey.vector is not None
    assert (journey.vector.index_rank is None) == (not has_vector)
    assert "\ud800" in query or round_trip(journey)


@pytest.mark.parametrize(
    "query",
    [
        "rank\x00 loaf",
        "( ' & | ! <-> :* )",
        "%s %(x)s {} \\ loaf",
        "\x1b[31mloaf[/]",
        "loaf " * 9_000,
        "'a''b' \\' loaf",
    ],
    ids=lambda query: repr(query[:20]),
)
def test_hostile_text_is_text(small: Lab, query: str) -> None:
    journey = small.explain(query, "hostile#000")
    round_trip(journey)
    assert journey.chunk is not None
    assert "\x1b[31m" in journey.chunk.text


def test_an_anchor_of_hostile_text_is_followed(small: Lab) -> None:
    journey = small.explain(small.golden_query("escape"))
    assert journey.chunk_id == "hostile#000"
    assert journey.lost_at is None
    round_trip(journey)


@pytest.mark.parametrize("chunk_id", ["bread#009", "", "bread#000\x00", "\ud800", "'; DROP TABLE chunks; --", "\x1b[m"])
def test_a_chunk_that_is_not_there_is_bad_input(small: Lab, chunk_id: str) -> None:
    with pytest.raises(InputError, match="no chunk ") as error:
        small.explain("loaf", chunk_id)
    assert str(error.value).isprintable()


def test_a_question_alone_names_no_passage(small: Lab) -> None:
    with pytest.raises(InputError, match="name the passage to follow"):
        small.explain("loaf")
    with pytest.raises(InputError, match="needs another index"):
        small.explain("loaf", "bread#000", PipelineConfig(contextual_headers=True))


# --- the anchor ----------------------------------------------------------------------------------------------------


def test_of_several_chunks_with_the_anchor_the_best_placed_one_is_followed(small: Lab) -> None:
    query = small.golden_query("several")
    journey = small.explain(query)
    assert journey.anchor is not None
    assert journey.anchor.chunk_ids == ("bread#001", "bread#002")
    final = [row.chunk_id for row in small.trace(query).final]
    assert final.index("bread#002") < final.index("bread#001")
    assert journey.chunk_id == "bread#002"
    assert small.explain(query, "bread#001").chunk_id == "bread#001"
    # On no later stage the better rank in the whole corpus decides: "oven" is in the second of the two alone.
    none = small.explain(replace(query, query="oven"), config=PipelineConfig(retrievers=(TextSearch(n=1),), top_k=1))
    assert (none.chunk_id, none.lost_at, none.text.rank if none.text else None) == ("bread#002", "pool", 2)


def test_any_other_chunk_may_be_followed_for_a_golden_query(small: Lab) -> None:
    journey = small.explain(small.golden_query("one"), "copy#000")
    assert (journey.chunk_id, journey.anchor) == ("copy#000", None)
    assert journey.displacement.sentence is None


def test_an_anchor_that_a_cut_parts_is_lost_in_chunking_with_both_parts(small: Lab) -> None:
    journey = small.explain(small.golden_query("cut"))
    document = round_trip(journey)
    assert document["lost_at"] == "chunking"
    assert document["anchor"] == {
        "chunk_ids": [],
        "parts": [
            {"chunk_id": "fish#000", "text": "with a loaf."},
            {"chunk_id": "fish#001", "text": "## Boats\n\nThe harbour"},
        ],
    }
    assert journey.reason == "a cut parts the anchor: fish#000 and fish#001 hold a part each"
    for key in ("chunk_id", "chunk", "vector", "text", "fused", "reranked", "mmr", "final_rank"):
        assert document[key] is None
    assert not document["in_prompt"]
    assert document["displacement"]["above"]


@pytest.mark.parametrize(("query_id", "reason"), [("absent", "holds the anchor"), ("gone", "no document 'cakes'")])
def test_an_anchor_in_no_chunk_is_lost_in_chunking_with_the_reason(small: Lab, query_id: str, reason: str) -> None:
    journey = small.explain(small.golden_query(query_id))
    assert (journey.lost_at, journey.chunk_id) == ("chunking", None)
    assert journey.anchor is not None
    assert journey.anchor.parts == ()
    assert reason in (journey.reason or "")
    round_trip(journey)


def test_an_anchor_over_three_chunks_has_three_parts(small: Lab, database: Database) -> None:
    indexing = Indexing(MarkdownChunker(max_chars=10, overlap=0), PipelineConfig().embedder, False)
    with Lab.open(small.corpus, PipelineConfig(chunker=indexing.chunker)) as cut:
        anchor = "oven. ## Proof Let the dough"
        journey = cut.explain(GoldenQuery("x", "dough", "k", "bread", anchor))
        with database.connect(cut.schema) as conn:
            rows = conn.execute("SELECT chunk_id, text FROM chunks WHERE doc_id = 'bread' ORDER BY start_char")
            held = [chunk_id for chunk_id, text in rows][1:4]
    assert journey.anchor is not None
    assert [part.chunk_id for part in journey.anchor.parts] == held
    assert [part.text for part in journey.anchor.parts] == ["oven.", "## Proof", "Let the dough"]


def test_contextual_headers_count_as_text_of_the_passage(small: Lab) -> None:
    with Lab.open(small.corpus, PipelineConfig(contextual_headers=True)) as headed:
        text = headed.explain("bread proof", "bread#001").text
    plain = small.explain("bread proof", "bread#001").text
    assert text is not None
    assert plain is not None
    assert (text.matched, plain.matched) == (("bread", "proof"), ("proof",))


# --- reading it back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", 2, "no journey of format 1"),
        ("lost_at", "nowhere", "lost_at is 'nowhere'"),
        ("query", 3, "query is 3; expected text"),
        ("lists", {"vector": {}}, r"lists.vector.name is missing"),
        ("fused", {"rank": 0, "score": 1, "parts": {}, "n": 1}, "fused.rank is 0"),
        ("mmr", {"rank": 1, "relevance": "x"}, "mmr.relevance is 'x'"),
        ("displacement", None, "displacement is null"),
    ],
)
def test_a_broken_document_is_bad_input(small: Lab, key: str, value: Any, message: str) -> None:
    document = small.explain("loaf", "bread#000").to_dict()
    with pytest.raises(InputError, match=message):
        Journey.from_dict(json.loads(json.dumps({**document, key: value})))


def test_what_is_no_document_is_bad_input() -> None:
    with pytest.raises(InputError, match="it is a list"):
        Journey.from_dict([])  # type: ignore[arg-type]


def test_a_reranker_without_terms_has_a_score_alone(small: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    class ByLength:
        def rerank(self, query: str, chunks: list[Chunk], top_k: int) -> list[Ranked]:  # noqa: ARG002
            order = sorted(chunks, key=lambda chunk: -len(chunk.text))[:top_k]
            return [Ranked(one.chunk_id, float(len(one.text)), rank, ()) for rank, one in enumerate(order, start=1)]

    monkeypatch.setitem(small._rerankers, Bm25Reranker(k1=3.0), ByLength())
    journey = small.explain("loaf", "copy#000", PipelineConfig(reranker=Bm25Reranker(k1=3.0)))
    assert journey.reranked is not None
    assert (journey.reranked.rank, journey.reranked.terms) == (1, None)
    assert journey.reranked.score == len(FILES["copy"].strip())
    round_trip(journey)


def test_terms_of_the_reranker_are_asked_for_one_row(small: Lab) -> None:
    chunks = list(small.chunks(["bread#000", "copy#000"]).values())
    first, second = (LexicalReranker().terms("bake loaf", chunks, row) for row in range(2))
    ranked = {row.chunk_id: row.score for row in LexicalReranker().rerank("bake loaf", chunks, 2)}
    assert math.fsum(one.contribution for one in first) == ranked["bread#000"]
    assert math.fsum(one.contribution for one in second) == ranked["copy#000"]
    assert first[0].length_factor < 1 < second[0].length_factor


# --- what stands beside a passage ----------------------------------------------------------------------------------


def test_absent_words_are_looked_for_beside_the_passage_as_they_stand_in_the_table(
    lab: Lab, conn: Connection, corpus_chunks: list[Chunk]
) -> None:
    ids = [one.chunk_id for one in corpus_chunks]
    seen = {"heading": 0, "before": 0, "after": 0}

    def lexemes(text: str) -> set[str]:
        row = conn.execute("SELECT tsvector_to_array(to_tsvector('english', %s))", (text,)).fetchone()
        return set((row or [[]])[0])

    for query in lab.golden[::4]:
        if any(mark in query.query for mark in '"-_/.:'):
            continue  # phrases have a test of their own
        journey = lab.explain(query)
        near, chunk = journey.nearby, journey.chunk
        assert near is not None
        assert chunk is not None
        lacking = lexemes(query.query) - lexemes(chunk.text)
        assert set(near.lacking) == lacking
        assert set(near.heading) == lacking & lexemes(chunk.heading_path)
        seen["heading"] += bool(near.heading)
        for side, one, step in (("before", near.before, -1), ("after", near.after, 1)):
            place = ids.index(chunk.chunk_id) + step
            beside = corpus_chunks[place] if 0 <= place < len(ids) else None
            if beside is None or beside.doc_id != chunk.doc_id:
                assert one is None
                continue
            assert one is not None
            assert (one.chunk_id, set(one.holds)) == (beside.chunk_id, lacking & lexemes(beside.text))
            seen[side] += bool(one.holds)
    assert all(seen.values()), seen


def test_of_an_absent_phrase_the_words_that_are_there_do_not_lack(small: Lab) -> None:
    journey = small.explain('"loaf salmon boats"', "fish#000")
    assert journey.text is not None
    assert journey.nearby is not None
    assert (journey.text.matched, journey.text.apart) == ((), ("loaf", "salmon"))
    assert journey.nearby.lacking == ("boat",)
    assert journey.nearby.before is None
    assert journey.nearby.after is not None
    assert (journey.nearby.after.chunk_id, journey.nearby.after.holds) == ("fish#001", ("boat",))
    assert "in fish#001 beside it: boat" in journey_report(journey)
    # The heading path of what stands below it.
    below = small.explain("salmon", "fish#001")
    assert below.nearby is not None
    assert below.nearby.heading == ("salmon",)
    assert "in its heading path: salmon" in journey_report(below)
    assert small.explain(small.golden_query("absent")).nearby is None
