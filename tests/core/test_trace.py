"""A trace keeps every stage of one query, and knows where any passage of the corpus stands, or why nowhere."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
import yaml
from psycopg import sql

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.config import Indexing
from retrieval_lab.database import Database
from retrieval_lab.embed import HashEmbedder
from retrieval_lab.errors import InputError, LabError
from retrieval_lab.hybrid import search
from retrieval_lab.index import index_corpus
from retrieval_lab.rerank import LexicalReranker, pipeline
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.settings import HashEmbedding, MarkdownChunker, NoReranker, RrfFusion
from retrieval_lab.trace import Trace
from retrieval_lab.trace_markdown import trace_markdown
from retrieval_lab.types import Chunk, Filter, GoldenQuery, Place
from tests.core import reference

Connection = psycopg.Connection[Any]

QUESTIONS = [
    "How many milliseconds does reranking 40 pairs take?",
    "who painted the inn sign?",
    "ef_search",
    "when is a cached prefix cheaper than a long prompt",
]
HOSTILE = [
    "",
    "!!!",
    "rank\x00 fusion",
    "\ud800 rank \udfff",
    "-" * 40 + "rank",
    "( ' & | ! <-> :* )",
    '"unclosed phrase -',
    "%s %(x)s {} \\",
    "\x1b[31mred[/] [@click=app.quit]go[/]",
    "rank fusion " * 9_000,
    "x" * 100_000,
    "日本語のテスト 😀 İstanbul",
]


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


def sides(n: int, **settings: Any) -> PipelineConfig:
    """Both sides with lists of n, and a pool that holds them."""
    return PipelineConfig(retrievers=(VectorSearch(n=n), TextSearch(n=n)), **settings)


# --- the lists are those of the pinned functions -------------------------------------------------------------------


def test_a_trace_of_any_golden_query_ends_in_what_the_pipeline_returns(lab: Lab, conn: Connection) -> None:
    assert len(lab.golden) == 48
    for query in lab.golden:
        made = lab.trace(query)
        assert list(made.final) == pipeline(conn, HashEmbedder(), LexicalReranker(), query.query, scan="exact")
        assert list(made.fused[:50]) == search(conn, HashEmbedder(), query.query, top_k=50, scan="exact")


def test_an_evaluation_sees_what_a_trace_sees(lab: Lab) -> None:
    config = sides(20, fusion=RrfFusion(k=10, n=30), top_k=5, mmr_lambda=0.4)
    for result in lab.evaluate_queries(config)[::5]:
        made = lab.trace(result.query, config)
        assert result.final == made.final
        assert result.relevant_ids == set(made.relevant)
        fate = {stage: place.rank if place.listed else None for stage, place in made.fate().items()}
        assert dict(result.ranks) == fate


def test_every_stage_is_kept_and_timed(lab: Lab) -> None:
    made = lab.trace(QUESTIONS[0], sides(20, fusion=RrfFusion(n=25), top_k=5))
    assert made.query == QUESTIONS[0]
    assert made.stages == ("vector", "text", "fused", "reranked", "final")
    assert [len(hits) for hits in made.lists.values()] == [20, 20]
    assert (made.vector, made.text) == (made.lists["vector"], made.lists["text"])
    union = {hit.chunk_id for hits in made.lists.values() for hit in hits}
    assert {row.chunk_id for row in made.fused} == union
    assert list(made.pool) == list(made.fused[:25])
    assert sorted(row.chunk_id for row in made.reranked) == sorted(row.chunk_id for row in made.pool)
    assert set(made.chunks) == {row.chunk_id for row in made.pool}
    assert len(made.final) == 5
    assert list(made.timings) == ["vector", "text", "fusion", "fetch", "rerank", "mmr"]
    assert all(0 <= seconds < 10 for seconds in made.timings.values())


@pytest.mark.parametrize("name", ["fusion", "fetch", "rerank", "mmr"])
def test_a_list_named_like_a_step_loses_no_timing(lab: Lab, name: str) -> None:
    try:
        config = PipelineConfig(retrievers=(VectorSearch(name=name), TextSearch()))
    except InputError:
        return  # as good: such a name is refused
    assert len(lab.trace("rank", config).timings) == 6


def test_the_ranks_of_fusion_stay_through_reranking_and_mmr(lab: Lab) -> None:
    made = lab.trace(QUESTIONS[0])
    listed = [{hit.chunk_id: hit.rank for hit in hits} for hits in made.lists.values()]
    for row in (*made.fused, *made.reranked, *made.final):
        assert row.ranks == tuple(ranks.get(row.chunk_id) for ranks in listed)


def test_lists_are_kept_by_name_in_the_order_of_the_configuration(lab: Lab) -> None:
    config = PipelineConfig(
        retrievers=(
            TextSearch(name="words", n=5, operators=False),
            VectorSearch(name="near", n=7),
            VectorSearch(name="graph", n=9, scan="hnsw"),
        )
    )
    made = lab.trace('"rank fusion" -vector', config)
    assert [(name, len(hits)) for name, hits in made.lists.items()] == [("words", 5), ("near", 7), ("graph", 9)]
    assert list(made.searches) == ["words", "near", "graph"]
    assert made.stages == ("words", "near", "graph", "fused", "reranked", "final")
    assert (made.vector, made.text) == ((), ())
    assert all(len(row.ranks) == 3 for row in made.fused)
    assert list(made.ranks_of(made.final[0].chunk_id)) == list(made.stages)
    assert list(Trace.from_dict(json.loads(json.dumps(made.to_dict()))).lists) == ["words", "near", "graph"]


def test_without_reranker_and_mmr_the_final_list_is_the_head_of_the_pool(lab: Lab) -> None:
    made = lab.trace(QUESTIONS[0], PipelineConfig(reranker=NoReranker(), mmr_lambda=None, top_k=7))
    assert list(made.final) == list(made.fused[:7]) == list(made.reranked[:7])
    made = lab.trace(QUESTIONS[0], PipelineConfig(mmr_lambda=None, top_k=7))
    assert list(made.final) == list(made.reranked[:7]) != list(made.fused[:7])


# --- how it was searched -------------------------------------------------------------------------------------------


def test_the_query_is_shown_as_full_text_read_it(lab: Lab) -> None:
    made = lab.trace('How does the "reciprocal rank" of a fusion -vector help?')
    assert made.parsed.phrases == ("( 'reciproc' <-> 'rank' )",)
    assert made.parsed.terms == ("'fusion'", "'help'")
    assert made.parsed.excluded == ("'vector'",)
    assert made.parsed.stop_words == ("how", "does", "the", "of", "a")
    assert "text excluded: 'vector'" in made.notes
    parsed = made.to_dict()["parsed"]
    assert (parsed["terms"], parsed["phrases"]) == (["'fusion'", "'help'"], ["( 'reciproc' <-> 'rank' )"])


def test_stop_words_are_told_once_each_and_symbols_are_none(lab: Lab) -> None:
    made = lab.trace("To be or not to be -- THE who, !! C++")
    assert made.parsed.stop_words == ("to", "be", "or", "not", "the", "who")
    assert made.parsed.terms == ("'c'",)
    assert lab.trace("inn sign").parsed.stop_words == ()


def test_rows_asked_and_returned_are_kept(lab: Lab) -> None:
    made = lab.trace("AnchorError RLAB-4309", sides(30))
    searches = made.to_dict()["searches"]
    assert {name: (one["asked"], one["returned"]) for name, one in searches.items()} == {
        "vector": (30, 30),
        "text": (30, len(made.text)),
    }
    assert 0 < len(made.text) < 30


def test_the_plan_says_how_the_table_was_read(lab: Lab) -> None:
    config = PipelineConfig(retrievers=(VectorSearch(), VectorSearch(name="graph", scan="hnsw"), TextSearch()))
    made = lab.trace(QUESTIONS[0], config)
    exact, graph, text = ("\n".join(search.plan) for search in made.searches.values())
    assert "Seq Scan on chunks" in exact
    assert "hnsw" not in exact
    assert "Index Scan using chunks_embedding_hnsw" in graph
    assert "Seq Scan" not in graph
    assert "ts_rank_cd" in text
    assert all(len(line) < 1000 for search in made.searches.values() for line in search.plan)


def test_no_plan_where_no_server_was_asked(lab: Lab) -> None:
    made = lab.trace("!!!")
    assert {name: (one.asked, one.plan) for name, one in made.searches.items()} == {
        "vector": (50, ()),
        "text": (50, ()),
    }
    assert any(note.startswith("vector: nothing to embed") for note in made.notes)
    assert any(note.startswith("text: no terms") for note in made.notes)


# --- ranks in the whole corpus -------------------------------------------------------------------------------------


def vector_ranks(query: str, chunks: list[Chunk]) -> dict[str, tuple[int, int, float]]:
    """The lowest and the highest rank that a chunk may have, and its cosine; cosines within 1e-6 are a tie or not."""
    vectors = np.array([VECTORS.setdefault(one.text, reference.hash_vector(one.text)) for one in chunks], dtype=float)
    cosines = vectors @ reference.hash_vector(query).astype(float) / np.linalg.norm(vectors, axis=1)
    return {
        one.chunk_id: (1 + int((cosines > cosine + 1e-6).sum()), int((cosines > cosine - 1e-6).sum()), cosine)
        for one, cosine in zip(chunks, cosines, strict=True)
    }


VECTORS: dict[str, reference.Vector] = {}

TEXT_RANKS = """
    WITH asked AS (SELECT replace(websearch_to_tsquery('english', %s)::text, '&', '|')::tsquery AS q)
    SELECT chunk_id, row_number() OVER (ORDER BY score DESC, chunk_id COLLATE "C"), score
    FROM (SELECT chunk_id, ts_rank_cd(tsv, q, 32) AS score FROM chunks, asked WHERE tsv @@ q) AS matching
"""


@pytest.mark.parametrize("query", QUESTIONS)
def test_ranks_are_those_of_a_ranking_of_the_whole_corpus(
    lab: Lab, conn: Connection, corpus_chunks: list[Chunk], query: str
) -> None:
    by_vector = vector_ranks(query, corpus_chunks)
    by_text = {row[0]: row[1:] for row in conn.execute(TEXT_RANKS, (query,))}
    made = lab.trace(query, sides(10))
    listed = [hit.chunk_id for hits in made.lists.values() for hit in hits]
    others = random.Random(7).sample([one.chunk_id for one in corpus_chunks if one.chunk_id not in listed], 15)
    sharp = 0
    for chunk_id in [*listed[::3], *others]:
        places = made.ranks_of(chunk_id)
        lowest, highest, cosine = by_vector[chunk_id]
        vector, text = places["vector"], places["text"]
        assert vector.rank is not None
        assert lowest <= vector.rank <= highest
        assert vector.score == pytest.approx(cosine, abs=1e-6)
        assert vector.listed == (vector.rank <= 10)
        sharp += lowest == highest
        if chunk_id in by_text:
            assert (text.rank, text.score) == (by_text[chunk_id][0], pytest.approx(by_text[chunk_id][1], abs=1e-6))
            assert (text.listed, text.reason) == (by_text[chunk_id][0] <= 10, None)
        else:
            assert text == Place(None, reason="no word in common")
    assert sharp > 15


def test_every_chunk_has_another_rank_and_together_they_are_all_ranks(lab: Lab, corpus_chunks: list[Chunk]) -> None:
    some = [one.chunk_id for one in corpus_chunks if one.doc_id in ("hybrid-search", "reranking-and-mmr")]
    config = sides(1, filter=Filter(("hybrid-search", "reranking-and-mmr")))
    made = lab.trace("rank fusion", config)
    ranks = [made.ranks_of(chunk_id)["vector"].rank for chunk_id in some]
    assert sorted(rank or 0 for rank in ranks) == list(range(1, len(some) + 1))


def test_a_rank_beyond_the_list_is_the_one_that_a_longer_list_gives(lab: Lab) -> None:
    short, long = lab.trace(QUESTIONS[1], sides(5)), lab.trace(QUESTIONS[1], sides(5000))
    assert len(long.vector) > 500
    for name in ("vector", "text"):
        for hit in long.lists[name][:40:3]:
            place = short.ranks_of(hit.chunk_id)[name]
            assert (place.rank, place.score, place.listed) == (hit.rank, hit.score, hit.rank <= 5)


def test_ranks_beyond_the_list_of_an_index_scan_are_exact(lab: Lab) -> None:
    graph = lab.trace(QUESTIONS[1], PipelineConfig(retrievers=(VectorSearch(n=5, scan="hnsw"),)))
    exact = lab.trace(QUESTIONS[1], PipelineConfig(retrievers=(VectorSearch(n=60),)))
    for hit in exact.vector[10::7]:
        assert graph.ranks_of(hit.chunk_id)["vector"] == Place(hit.rank, hit.score)


def test_later_stages_say_where_and_why_not(lab: Lab) -> None:
    made = lab.trace(QUESTIONS[0], sides(30, fusion=RrfFusion(n=20), top_k=5))
    for row in made.fused[:20]:
        places = made.ranks_of(row.chunk_id)
        assert places["fused"] == Place(row.rank, row.score, listed=True)
        assert places["reranked"].listed
        assert places["final"].listed == (row.chunk_id in {one.chunk_id for one in made.final})
        assert places["final"].listed or "first 5" in (places["final"].reason or "")
    below = made.ranks_of(made.fused[20].chunk_id)
    assert (below["fused"].rank, below["fused"].listed) == (21, False)
    assert "pool of 20" in (below["fused"].reason or "")
    assert [below[stage].rank for stage in ("reranked", "final")] == [None, None]
    assert all(below[stage].reason for stage in ("reranked", "final"))


# --- a small corpus: reasons, golden queries, headings -------------------------------------------------------------

FILES = {
    "bread": "# Bread\n\nBake the loaf in the oven.\n\n## Proof\n\nLet the dough rise.\n",
    "copy": "# Bread\n\nBake the loaf in the oven.\n",
    "another": "# Bread\n\nBake the loaf in the oven.\n",
    "faces": "😀 😀\n",
    "fish": "# Salmon\n\nCatch a salmon and serve it with a loaf.\n\n## Boats\n\nThe harbour has forty boats.\n",
}
GOLDEN = """
- {query_id: good, query: dough rising, kind: factual, doc_id: bread, anchor: let the DOUGH}
- {query_id: lost, query: dough, kind: factual, doc_id: bread, anchor: let the cake}
- {query_id: gone, query: dough, kind: factual, doc_id: cakes, anchor: let the cake}
- {query_id: face, query: loaf, kind: factual, doc_id: faces, anchor: "😀"}
"""


@pytest.fixture(scope="module")
def small_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    (folder / "docs").mkdir()
    for name, text in FILES.items():
        (folder / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / "golden.yaml").write_text(GOLDEN, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def small(small_corpus: Path, database: Database) -> Iterator[Lab]:
    assert database.embedded
    with Lab.open(small_corpus) as opened:
        assert opened.index.chunks == 7
        yield opened


def test_equal_passages_are_ranked_by_their_ids(small: Lab) -> None:
    made = small.trace("loaf in the oven", sides(1))
    for name in ("vector", "text"):
        ranks = [made.ranks_of(chunk_id)[name].rank for chunk_id in ("another#000", "bread#000", "copy#000")]
        assert ranks == [1, 2, 3]


@pytest.mark.parametrize(
    ("query", "chunk_id", "side", "reason"),
    [
        ("oven", "fish#001", "text", "no word in common"),
        ("loaf -salmon", "fish#000", "text", "excluded by 'salmon'"),
        ('loaf -"serve it" -salmon', "fish#000", "text", "excluded by .*'salmon'"),
        ("loaf -boats", "fish#001", "text", "excluded by 'boat'"),
        ("!!!", "bread#000", "vector", "nothing to embed"),
        ("!!!", "bread#000", "text", "no terms"),
        ("the of", "bread#000", "text", "no terms"),
        ("-loaf", "fish#001", "text", "no terms"),
        ("loaf", "faces#000", "vector", "its vector is zero"),
        ("loaf", "faces#000", "text", "no word in common"),
        ("loaf", "bread#007", "vector", "not in the index"),
        ("loaf", "bread#007", "text", "not in the index"),
        ("loaf", "", "vector", "not in the index"),
        ("loaf", "'; DROP TABLE chunks; --", "text", "not in the index"),
        ("loaf", "bread#000\x00", "vector", "not in the index"),
        ("loaf", "bread#000\x00", "text", "not in the index"),
        ("loaf", "\ud800", "vector", "not in the index"),
        ("loaf", "x" * 100_000, "vector", "not in the index"),
    ],
)
def test_a_chunk_that_stands_nowhere_has_a_reason(
    small: Lab, query: str, chunk_id: str, side: str, reason: str
) -> None:
    place = small.trace(query).ranks_of(chunk_id)[side]
    assert (place.rank, place.score, place.listed) == (None, None, False)
    assert place.reason is not None
    assert re.match(reason, place.reason)


def test_what_the_filter_leaves_out_has_that_for_a_reason_and_no_rank_of_others_counts_it(small: Lab) -> None:
    made = small.trace("loaf in the oven", sides(1, filter=Filter(("copy", "fish"))))
    out = made.ranks_of("bread#000")
    assert [(out[name].rank, out[name].reason) for name in ("vector", "text")] == [(None, "left out by the filter")] * 2
    fish = [made.ranks_of(chunk_id) for chunk_id in ("fish#000", "fish#001")]
    assert sorted(places["vector"].rank or 0 for places in fish) == [2, 3]
    assert [places["text"].rank for places in fish] == [2, None]


def test_excluded_chunks_do_not_count_in_the_ranks_of_others(small: Lab) -> None:
    made = small.trace("loaf oven salmon -bread", sides(1))
    assert [hit.chunk_id for hit in made.text] == ["fish#000"]
    assert made.ranks_of("copy#000")["text"].reason == "excluded by 'bread'"
    # Three passages with the loaf and the oven would tie with the one that has the dough, and come before it.
    assert small.trace("loaf salmon dough -oven", sides(1)).ranks_of("bread#001")["text"].rank == 2
    assert small.trace("loaf salmon dough", sides(1)).ranks_of("bread#001")["text"].rank == 4


def test_a_trace_outlives_other_questions_and_a_closed_lab_says_so(small_corpus: Path, database: Database) -> None:
    assert database.embedded
    with Lab.open(small_corpus) as lab:
        made = lab.trace("loaf in the oven", sides(1))
        lab.trace("boats")
        assert made.ranks_of("copy#000")["vector"].rank == 3
    with pytest.raises(LabError, match="closed"):
        made.ranks_of("copy#000")
    assert made.ranks_of(made.vector[0].chunk_id)["vector"].rank == 1


def test_the_relevant_chunks_of_a_golden_query_are_known_with_their_places(small: Lab) -> None:
    query = small.golden_query("good")
    made = small.trace(query)
    assert (made.golden, made.query, made.relevant, made.unlabelled) == (query, query.query, ("bread#001",), None)
    assert made.beyond == {}
    assert made.fate() == made.ranks_of("bread#001")
    assert made.fate()["final"] == Place(made.final[0].rank, made.final[0].score, listed=True)


def test_the_places_of_relevant_chunks_beyond_the_lists_are_kept_in_the_trace(small: Lab) -> None:
    query = replace(small.golden_query("good"), query="salmon boats", anchor="bread")
    made = small.trace(query, sides(1))
    assert made.relevant == ("bread#000",)
    assert set(made.beyond) == {"bread#000"}
    assert made.beyond["bread#000"]["text"] == Place(None, reason="no word in common")
    whole = {hit.chunk_id: hit.rank for hit in small.trace("salmon boats").vector}
    assert made.beyond["bread#000"]["vector"].rank == whole["bread#000"] > 1
    assert {stage: place.rank for stage, place in made.fate().items()} == {
        "vector": whole["bread#000"],
        "text": None,
        "fused": None,
        "reranked": None,
        "final": None,
    }


def test_the_fate_is_the_best_of_several_relevant_chunks(small: Lab) -> None:
    query = GoldenQuery("two", "boats", "factual", "fish", "the")
    made = small.trace(query, sides(1))
    assert made.relevant == ("fish#001",)
    query = replace(query, anchor="a")
    made = small.trace(query, sides(1))
    assert made.relevant == ("fish#000", "fish#001")
    assert made.ranks_of("fish#000")["text"].rank is None
    assert (made.fate()["text"], made.fate()["final"]) == (
        made.ranks_of("fish#001")["text"],
        made.ranks_of("fish#001")["final"],
    )


@pytest.mark.parametrize(("query_id", "reason"), [("lost", "let the cake"), ("gone", "'cakes'")])
def test_a_golden_query_without_a_relevant_chunk_says_why(small: Lab, query_id: str, reason: str) -> None:
    made = small.trace(small.golden_query(query_id))
    assert made.relevant == ()
    assert reason in (made.unlabelled or "")
    assert made.fate() == {}
    assert Trace.from_dict(json.loads(json.dumps(made.to_dict()))) == made


def test_a_relevant_chunk_without_a_vector_has_that_for_its_fate(small: Lab) -> None:
    fate = small.trace(small.golden_query("face")).fate()
    assert (fate["vector"].reason, fate["text"].reason) == ("its vector is zero", "no word in common")


def test_a_query_id_that_does_not_exist_is_refused_with_the_nearest_ones(small: Lab) -> None:
    with pytest.raises(InputError, match=r"golden\.yaml: no query 'goode' among 4; there is good"):
        small.golden_query("goode")


# --- as plain values -----------------------------------------------------------------------------------------------


def again(made: Trace) -> Trace:
    """The trace written as JSON text and read back."""
    return Trace.from_dict(json.loads(json.dumps(made.to_dict())))


def test_a_trace_reads_back_from_json_as_an_equal_one(lab: Lab, small: Lab) -> None:
    config = PipelineConfig(
        retrievers=(TextSearch(weight=2, operators=False), VectorSearch(name="near", scan="hnsw", n=9)),
        reranker=NoReranker(),
        mmr_lambda=None,
        filter=Filter(("hybrid-search", "vector-indexes")),
    )
    traces = [lab.trace(QUESTIONS[0]), lab.trace(QUESTIONS[1], config), *map(lab.trace, lab.golden[::12])]
    traces.append(small.trace(replace(small.golden_query("good"), query="salmon boats"), sides(1)))
    for made in traces:
        assert again(made) == made
        assert again(made).to_dict() == made.to_dict()
        assert made.to_dict()["format"] == 1
        assert PipelineConfig.from_dict(made.to_dict()["config"]) == made.config


@pytest.mark.parametrize("query", HOSTILE, ids=lambda query: repr(query[:20]))
def test_a_hostile_query_is_traced_and_reads_back(lab: Lab, query: str) -> None:
    made = lab.trace(query)
    assert made.query == query
    assert again(made) == made
    assert len(made.final) == (10 if any(character.isalnum() for character in query) else 0)
    unlisted = made.ranks_of("hybrid-search#000")
    assert all(place.rank or place.reason for place in unlisted.values())


def test_a_hostile_golden_query_is_traced(lab: Lab) -> None:
    query = GoldenQuery("q\x00", "rank\x00 \ud800", "kind", "doc\x00\ud800", "anchor\x00")
    made = lab.trace(query)
    assert again(made) == made
    assert made.relevant == ()
    assert made.unlabelled


def test_a_trace_from_a_file_knows_what_was_kept_and_says_so_of_the_rest(lab: Lab, small: Lab) -> None:
    made = small.trace(replace(small.golden_query("good"), query="salmon boats"), sides(1))
    read = again(made)
    assert read.fate() == made.fate()
    assert read.fate()["vector"].rank
    other = read.ranks_of("copy#000")
    assert all(place.rank is None and place.reason for place in other.values())
    assert "list of 1;" in (other["vector"].reason or "")
    wide = lab.trace(QUESTIONS[0])
    for row in (*wide.final, wide.fused[-1]):
        assert {stage: place for stage, place in again(wide).ranks_of(row.chunk_id).items() if place.rank} == {
            stage: place
            for stage, place in wide.ranks_of(row.chunk_id).items()
            if place.listed or (stage == "fused" and place.rank)
        }


@pytest.mark.parametrize("data", [None, [], "trace", 5, {}, {"format": 2}, {"format": "1"}, {"format": None}])
def test_another_format_is_refused_with_what_was_found(data: Any) -> None:
    with pytest.raises(InputError, match=r"no trace of format 1: it(s format)? is") as caught:
        Trace.from_dict(data)
    assert "\n" not in str(caught.value)


BREAKS: dict[str, Callable[[dict[str, Any]], object]] = {
    **{f"no {key}": lambda data, key=key: data.pop(key) for key in ("query", "config", "lists", "parsed", "timings")},
    "config is text": lambda data: data.update(config="abc"),
    "config is null": lambda data: data.update(config=None),
    "config is of bad values": lambda data: data["config"].update(top_k=0),
    "config of unknown keys": lambda data: data["config"].update(other=1),
    "lists is a list": lambda data: data.update(lists=[]),
    "lists is empty": lambda data: data.update(lists={}),
    "a hit is empty": lambda data: data["lists"].update(vector=[{}]),
    "a hit is text": lambda data: data["lists"].update(vector=["a"]),
    "ranks is a number": lambda data: data["fused"][0].update(ranks=5),
    "a chunk is empty": lambda data: data["chunks"].update(a={}),
    "golden is a list": lambda data: data.update(golden=[]),
    "golden has other keys": lambda data: data.update(golden={"a": 1}),
    "a search is a number": lambda data: data["searches"].update(vector=5),
    "a list without its search": lambda data: data["searches"].pop("text"),
    "parsed is of numbers": lambda data: data["parsed"].update(positive=5),
    "timings is text": lambda data: data.update(timings="fast"),
    "timings is a list": lambda data: data.update(timings=[1]),
    "a place has other keys": lambda data: data["beyond"].update(a={"vector": {"where": 1}}),
}

OTHER_TYPES: dict[str, Callable[[dict[str, Any]], object]] = {
    "query is a number": lambda data: data.update(query=5),
    "a score is text": lambda data: data["fused"][0].update(score="high"),
    "a rank is text": lambda data: data["fused"][0].update(rank="1"),
    "notes is text": lambda data: data.update(notes="abc"),
    "a place is text": lambda data: data["beyond"].update(a={"vector": {"rank": "first"}}),
    "a chunk's text is a number": lambda data: next(iter(data["chunks"].values())).update(text=5),
}


@pytest.fixture(scope="module")
def plain(lab: Lab) -> str:
    """A trace as JSON text."""
    return json.dumps(lab.trace(lab.golden[0]).to_dict())


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_trace_is_refused_in_one_line(plain: str, name: str) -> None:
    data = json.loads(plain)
    BREAKS[name](data)
    with pytest.raises(InputError) as caught:
        Trace.from_dict(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", OTHER_TYPES)
def test_a_trace_with_values_of_other_types_is_refused_in_one_line(plain: str, name: str) -> None:
    data = json.loads(plain)
    OTHER_TYPES[name](data)
    with pytest.raises(InputError) as caught:
        Trace.from_dict(data)
    assert "\n" not in str(caught.value)


# --- other configurations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "named", "not_named"),
    [
        ({"embedder": HashEmbedding(64)}, ["embedder", "64"], ["chunker", "contextual_headers"]),
        ({"chunker": MarkdownChunker(800)}, ["chunker", "800"], ["embedder", "contextual_headers"]),
        ({"contextual_headers": True}, ["contextual_headers"], ["chunker", "embedder"]),
        (
            {"chunker": MarkdownChunker(overlap=0), "embedder": HashEmbedding(64)},
            ["chunker", "embedder"],
            ["contextual_headers"],
        ),
    ],
)
def test_a_configuration_of_another_index_is_refused_with_the_settings_that_differ(
    small: Lab, change: Mapping[str, Any], named: list[str], not_named: list[str]
) -> None:
    config = PipelineConfig(**change)
    for call in (lambda: small.trace("loaf", config), lambda: small.evaluate(config=config)):
        with pytest.raises(InputError, match="another index") as caught:
            call()
        assert all(name in str(caught.value) for name in named)
        assert not any(name in str(caught.value) for name in not_named)


def test_two_configurations_of_one_corpus_live_side_by_side(small: Lab, small_corpus: Path) -> None:
    other = PipelineConfig(embedder=HashEmbedding(32), chunker=MarkdownChunker(30, 0))
    with Lab.open(small_corpus, other) as second:
        assert second.schema != small.schema
        assert second.index.chunks > small.index.chunks
        assert small.trace("dough").final[0].chunk_id == "bread#001"
        assert second.chunks(["bread#001"])["bread#001"].text != small.chunks(["bread#001"])["bread#001"].text
        assert second.trace("dough").final
    for config in (None, other):
        with Lab.open(small_corpus, config) as again_opened:
            assert again_opened.index.indexed == ()


def test_contextual_headers_find_a_chunk_by_its_heading_alone(small: Lab, small_corpus: Path) -> None:
    """`fish#001` stands under Salmon > Boats; its text has no salmon."""
    with Lab.open(small_corpus, PipelineConfig(contextual_headers=True)) as lab:
        assert lab.schema != small.schema
        made = lab.trace("salmon")
        assert [hit.chunk_id for hit in made.text] == ["fish#000", "fish#001"]
        assert [hit.chunk_id for hit in small.trace("salmon").text] == ["fish#000"]
        assert made.ranks_of("fish#001")["text"].listed
        assert small.trace("salmon").ranks_of("fish#001")["text"].reason == "no word in common"
        stored = lab.chunks(["fish#001"])["fish#001"]
        assert stored == small.chunks(["fish#001"])["fish#001"]
        assert stored.text.startswith("## Boats")
        by_hand = reference.cosine(
            reference.hash_vector("salmon"), reference.hash_vector(f"Salmon > Boats\n\n{stored.text}")
        )
        assert made.ranks_of("fish#001")["vector"].score == pytest.approx(by_hand, abs=1e-6)


def test_a_chunk_without_a_heading_is_indexed_alike_with_and_without_headers(small_corpus: Path, small: Lab) -> None:
    with Lab.open(small_corpus, PipelineConfig(contextual_headers=True)) as lab:
        assert lab.chunks(["faces#000"])["faces#000"].heading_path == ""
        for query in ("loaf", "faces", "1"):
            assert lab.trace(query).ranks_of("faces#000") == small.trace(query).ranks_of("faces#000")


USUAL = Indexing(MarkdownChunker(), HashEmbedding(32), contextual_headers=False)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (USUAL, replace(USUAL, contextual_headers=True), "without contextual headers"),
        (replace(USUAL, contextual_headers=True), USUAL, "with contextual headers"),
        (USUAL, replace(USUAL, embedder=HashEmbedding(16)), "32 dimensions.*16"),
    ],
)
def test_a_chosen_schema_with_another_index_in_it_is_refused_and_kept(
    database: Database,
    small_corpus: Path,
    new_schema: Callable[[], str],
    first: Indexing,
    second: Indexing,
    words: str,
) -> None:
    schema = new_schema()
    rows = sql.SQL("SELECT xmin::text, * FROM {} ORDER BY chunk_id").format(sql.Identifier(schema, "chunks"))
    with database.connect() as conn:
        index_corpus(conn, small_corpus, first, schema)
        before = conn.execute(rows).fetchall()
        with pytest.raises(InputError, match=words):
            index_corpus(conn, small_corpus, second, schema)
        assert conn.execute(rows).fetchall() == before
        assert index_corpus(conn, small_corpus, first, schema).indexed == ()


def test_a_chosen_schema_of_another_chunker_is_indexed_anew(
    database: Database, small_corpus: Path, new_schema: Callable[[], str]
) -> None:
    schema = new_schema()
    with database.connect() as conn:
        index_corpus(conn, small_corpus, USUAL, schema)
        report = index_corpus(conn, small_corpus, replace(USUAL, chunker=MarkdownChunker(30, 0)), schema)
        assert len(report.indexed) == len(FILES)
        assert report.chunks > 7


def test_as_markdown_it_can_be_pasted_whatever_it_holds(lab: Lab) -> None:
    golden = GoldenQuery("q|1", "# `what`\n| is_this *bold*?", "kind", "hybrid-search", "no such [anchor](x)")
    lines = trace_markdown(lab.trace(golden)).splitlines()
    assert lines[0] == "# # \\`what\\` | is\\_this \\*bold\\*?"
    assert "No passage is marked: " in "\n".join(lines)
    tables = [line for line in lines if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in tables} == {5}
    assert lines[-1] == "```"
    config = yaml.safe_load("\n".join(lines[lines.index("```yaml") + 1 : -1]))
    assert PipelineConfig.from_dict(config) == lab.config


def test_as_markdown_the_wanted_passage_stands_in_every_stage(lab: Lab) -> None:
    text = trace_markdown(lab.trace(lab.golden_query("q22")))
    assert "| vector | 246 |" in text
    assert "| text | 140 |" in text
    assert "## final: 10" in text
