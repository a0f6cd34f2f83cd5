"""Vector search against brute force, with the index and without; reciprocal rank fusion; and the two sides together."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab import hybrid
from retrieval_lab.database import Database
from retrieval_lab.embed import HashEmbedder
from retrieval_lab.errors import InputError
from retrieval_lab.hybrid import rrf, search, text_search, vector_search
from retrieval_lab.store import Schema, upsert
from retrieval_lab.types import Chunk, Hit, Ranked
from tests.core import reference
from tests.core.reference import Vector

Connection = psycopg.Connection[Any]

QUERIES = [
    "how many positions of one lexeme does a tsvector keep?",
    "who painted the inn sign?",
    "ef_search",
    "zyzzyva",
    '"reciprocal rank fusion" -vector',
]


class Directions:
    """An embedder for texts such as "at 30": a vector of that angle in degrees; "null" is the zero vector."""

    name = "directions"
    dims = 2

    def embed(self, texts: Sequence[str]) -> Vector:
        return np.array([self.vector(text) for text in texts], dtype=np.float32).reshape(len(texts), 2)

    @staticmethod
    def vector(text: str) -> tuple[float, float]:
        if text == "null":
            return (0.0, 0.0)
        angle = math.radians(float(text.removeprefix("at ")))
        return (math.cos(angle), math.sin(angle))


Fill = Callable[..., dict[str, Vector]]


@pytest.fixture
def fill(fresh: Connection) -> Fill:
    """`fill("at 10", "null", ...)` stores one chunk for each text, ids in a scrambled order; gives their vectors."""
    Schema.create(fresh, 2)

    def store(*texts: str, ids: Sequence[str] | None = None) -> dict[str, Vector]:
        # 7919 is prime, so the ids are a permutation and neighbours in storage are none by id.
        ids = ids or [f"d#{i * 7919 % 10007:05d}" for i in range(len(texts))]
        chunks = [Chunk(chunk_id, "d", "", 0, len(text), text) for chunk_id, text in zip(ids, texts, strict=True)]
        upsert(fresh, chunks, Directions(), batch=500)
        fresh.execute("ANALYZE chunks")
        return {c.chunk_id: vector for c, vector in zip(chunks, Directions().embed(list(texts)), strict=True)}

    return store


def ef_search(conn: Connection) -> str | None:
    row = conn.execute("SELECT current_setting('hnsw.ef_search', true)").fetchone()
    assert row
    return row[0] or None


def index_scans(conn: Connection) -> int:
    """How often the HNSW index was read so far."""
    conn.execute("SELECT pg_stat_force_next_flush()")
    conn.execute("SELECT pg_stat_clear_snapshot()")
    row = conn.execute(
        "SELECT sum(idx_scan)::int FROM pg_stat_user_indexes i JOIN pg_class c ON c.oid = i.indexrelid "
        "JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'hnsw' AND i.relid = 'chunks'::regclass"
    ).fetchone()
    assert row
    return int(row[0])


def check(hits: list[Hit], expected: list[tuple[str, float]]) -> None:
    assert [hit.chunk_id for hit in hits] == [chunk_id for chunk_id, _ in expected]
    assert [hit.score for hit in hits] == pytest.approx([cosine for _, cosine in expected], abs=1e-6)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))


# --- vector search: order and score --------------------------------------------------------------------------------


@pytest.mark.parametrize("scan", [None, "exact"])
@pytest.mark.parametrize("n", [1, 5, 50, 200])
def test_order_and_score_are_those_of_brute_force(fresh: Connection, fill: Fill, n: int, scan: Any) -> None:
    vectors = fill(*(f"at {i * 1.5}" for i in range(100)))
    check(
        vector_search(fresh, Directions(), "at 40.4", n, scan=scan),
        reference.nearest(Directions.vector("at 40.4"), vectors, n),
    )


def test_the_score_is_one_minus_the_cosine_distance_and_may_be_negative(fresh: Connection, fill: Fill) -> None:
    fill("at 0", "at 60", "at 90", "at 180", ids=["a", "b", "c", "d"])
    hits = vector_search(fresh, Directions(), "at 0")
    assert [(hit.chunk_id, hit.rank) for hit in hits] == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
    assert [hit.score for hit in hits] == pytest.approx([1, 0.5, 0, -1], abs=1e-6)


@pytest.mark.parametrize("query", QUERIES[:3])
def test_the_bundled_corpus_is_ranked_as_by_brute_force(
    stored: Connection, corpus_chunks: list[Chunk], query: str
) -> None:
    hits = vector_search(stored, HashEmbedder(), query, 700, scan="exact")
    by_id = {piece.chunk_id: reference.hash_vector(piece.text) for piece in corpus_chunks}
    vector = reference.hash_vector(query)
    assert {hit.chunk_id for hit in hits} == set(by_id)
    for hit in hits:
        assert hit.score == pytest.approx(reference.cosine(vector, by_id[hit.chunk_id]), abs=1e-6)
    assert [(hit.score, hit.chunk_id) for hit in hits] == sorted(
        ((hit.score, hit.chunk_id) for hit in hits), key=lambda row: (-row[0], row[1])
    )


@pytest.mark.parametrize("n", [1, 3, 5, 12])
@pytest.mark.parametrize("scan", [None, "exact", "hnsw"])
def test_ties_are_in_code_point_order_of_the_chunk_id_even_at_the_cut(
    fresh: Connection, fill: Fill, n: int, scan: Any
) -> None:
    ids = ["b", "a", "B", "é", "_", "a-b", "a#001", "a#0001", "Z", "0"]
    fill("at 1", *["at 5"] * len(ids), "at 50", ids=["zz first", *ids, "00 last"])
    expected = ["zz first", *sorted(ids), "00 last"]
    assert [hit.chunk_id for hit in vector_search(fresh, Directions(), "at 1", n, scan=scan)] == expected[:n]


def test_the_planner_may_use_the_index_or_not_and_ties_come_out_alike(fresh: Connection, fill: Fill) -> None:
    fill(*(f"at {i // 2 * 4}" for i in range(60)))
    fresh.execute("SET enable_seqscan = off")
    by_index = vector_search(fresh, Directions(), "at 31", 50)
    fresh.execute("RESET enable_seqscan")
    fresh.execute("SET enable_indexscan = off")
    assert vector_search(fresh, Directions(), "at 31", 50) == by_index


def test_every_order_in_sql_ends_with_code_points_whatever_the_collation_of_the_server() -> None:
    # The embedded server's own collation is C already, so that no list could show it.
    source = Path(hybrid.__file__).parent
    texts = [
        node.value
        for name in ("hybrid", "index", "metrics", "places", "store")
        for node in ast.walk(ast.parse((source / f"{name}.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "SELECT" in node.value
    ]
    orders = [text.rpartition("ORDER BY")[2].split("LIMIT")[0].strip() for text in texts if "ORDER BY" in text]
    assert len(orders) >= 3
    assert [order for order in orders if not order.endswith('COLLATE "C"')] == []


# --- vector search: zero vectors and queries without words ---------------------------------------------------------


@pytest.mark.parametrize("scan", [None, "exact", "hnsw"])
@pytest.mark.parametrize("n", [2, 3, 10])
def test_trap_16_a_zero_vector_is_left_out_and_never_first(fresh: Connection, fill: Fill, scan: Any, n: int) -> None:
    fill("null", "at 0", "null", "at 90", "null", "at 180", ids=["a", "b", "c", "d", "e", "f"])
    hits = vector_search(fresh, Directions(), "at 0", n, scan=scan)
    assert [hit.chunk_id for hit in hits] == ["b", "d", "f"][:n]
    assert all(math.isfinite(hit.score) for hit in hits)


@pytest.mark.parametrize("scan", [None, "exact", "hnsw"])
def test_trap_16_a_zero_query_finds_nothing(fresh: Connection, fill: Fill, scan: Any) -> None:
    fill("at 0", "at 1", "null")
    assert vector_search(fresh, Directions(), "null", scan=scan) == []


@pytest.mark.parametrize("query", ["", "   ", "!!!", "😀", "- & | ( )", "\x00", "\ud800"])
def test_no_words_in_the_query_find_nothing_and_are_not_embedded(stored: Connection, query: str) -> None:
    class Never(HashEmbedder):
        def embed(self, texts: Sequence[str]) -> Vector:
            raise AssertionError(f"asked to embed {texts!r}")

    assert vector_search(stored, Never(), query) == []


def test_an_empty_table_gives_an_empty_list(fresh: Connection) -> None:
    Schema.create(fresh, 256)
    for scan in (None, "exact", "hnsw"):
        assert vector_search(fresh, HashEmbedder(), "word", scan=scan) == []
    assert text_search(fresh, "word") == []
    assert search(fresh, HashEmbedder(), "word") == []


def test_trap_16_a_query_vector_that_is_not_finite_is_refused(stored: Connection) -> None:
    class Broken(HashEmbedder):
        def embed(self, texts: Sequence[str]) -> Vector:
            return np.full((len(texts), self.dims), np.nan, dtype=np.float32)

    with pytest.raises(InputError, match="hash-256"):
        vector_search(stored, Broken(), "word")
    assert stored.execute("SELECT 1").fetchone() == (1,)


def test_trap_16_huge_and_tiny_vectors_never_give_nan(fresh: Connection) -> None:
    class Extreme(Directions):
        def embed(self, texts: Sequence[str]) -> Vector:
            values = {"huge": (1e30, 1e30), "tiny": (1e-30, 1e-30), "plain": (1.0, 0.0)}
            return np.array([values[text] for text in texts], dtype=np.float32)

    Schema.create(fresh, 2)
    upsert(fresh, [Chunk(text, "d", "", 0, 5, text) for text in ("huge", "tiny", "plain")], Extreme())
    for query in ("huge", "tiny", "plain"):
        hits = vector_search(fresh, Extreme(), query, scan="exact")
        assert all(math.isfinite(hit.score) for hit in hits)
    assert vector_search(fresh, Extreme(), "plain", scan="exact")[0].chunk_id == "plain"


def test_noise_that_no_server_can_take_is_no_part_of_a_word(stored: Connection) -> None:
    assert vector_search(stored, HashEmbedder(), "rank\x00 fusion\ud800") == vector_search(
        stored, HashEmbedder(), "rank fusion"
    )


# --- vector search: the index, and how many rows it yields ---------------------------------------------------------


def test_trap_3_an_index_scan_left_alone_stops_at_40(fresh: Connection, fill: Fill) -> None:
    # What the tests below would see without the setting.
    fill(*(f"at {i * 0.5}" for i in range(300)))
    fresh.execute("SET enable_seqscan = off")
    rows = fresh.execute("SELECT 1 FROM chunks ORDER BY embedding <=> '[1,0]' LIMIT 100").fetchall()
    assert len(rows) == 40


@pytest.mark.parametrize("n", [41, 50, 100, 299])
@pytest.mark.parametrize("scan", [None, "hnsw"])
def test_trap_3_more_than_40_rows_come_from_the_index(fresh: Connection, fill: Fill, n: int, scan: Any) -> None:
    vectors = fill(*(f"at {i * 0.5}" for i in range(300)))
    if scan is None:
        fresh.execute("SET enable_seqscan = off")
    before = index_scans(fresh)
    hits = vector_search(fresh, Directions(), "at 70.1", n, scan=scan)
    assert index_scans(fresh) == before + 1
    assert len(hits) == len({hit.chunk_id for hit in hits}) == n
    for hit in hits:
        expected = reference.cosine(Directions.vector("at 70.1"), vectors[hit.chunk_id])
        assert hit.score == pytest.approx(expected, abs=1e-6)
    assert [(-hit.score, hit.chunk_id) for hit in hits] == sorted((-hit.score, hit.chunk_id) for hit in hits)
    exact = reference.nearest(Directions.vector("at 70.1"), vectors, n)
    assert len({hit.chunk_id for hit in hits} & {chunk_id for chunk_id, _ in exact}) >= 0.95 * n


@pytest.mark.parametrize("scan", [None, "hnsw"])
def test_trap_3_more_than_1000_rows_come_in_spite_of_the_limit_of_pgvector(
    fresh: Connection, fill: Fill, scan: Any
) -> None:
    vectors = fill(*(f"at {i * 0.1}" for i in range(1200)))
    fresh.execute("SET enable_seqscan = off")
    for n in (1000, 1001, 1150, 5000):
        hits = vector_search(fresh, Directions(), "at 33.33", n, scan=scan)
        assert len(hits) == min(n, 1200)
    check(hits, reference.nearest(Directions.vector("at 33.33"), vectors, 5000))


def test_rows_that_were_replaced_or_deleted_do_not_shorten_the_list(fresh: Connection, fill: Fill) -> None:
    texts = [f"at {i * 0.5}" for i in range(200)]
    ids = [f"d#{i:03d}" for i in range(200)]
    fill(*texts, ids=ids)
    for shift in (0.1, 0.2, 0.3):
        fill(*(f"at {i * 0.5 + shift}" for i in range(200)), ids=ids)
    fresh.execute("DELETE FROM chunks WHERE chunk_id < 'd#100'")
    fresh.execute("SET enable_seqscan = off")
    assert len(vector_search(fresh, Directions(), "at 10", 60)) == 60
    assert len(vector_search(fresh, Directions(), "at 10", 100)) == 100
    assert len(vector_search(fresh, Directions(), "at 10", 200)) == 100


def test_scan_exact_reads_no_index_whatever_the_session_prefers(fresh: Connection, fill: Fill) -> None:
    vectors = fill(*(f"at {i * 0.5}" for i in range(300)))
    fresh.execute("SET enable_seqscan = off")
    before = index_scans(fresh)
    check(
        vector_search(fresh, Directions(), "at 70.1", 120, scan="exact"),
        reference.nearest(Directions.vector("at 70.1"), vectors, 120),
    )
    assert index_scans(fresh) == before


def test_scan_hnsw_reads_the_index_whatever_the_planner_prefers(fresh: Connection, fill: Fill) -> None:
    fill("at 0", "at 10", "at 20")
    fresh.execute("SET enable_indexscan = off")
    before = index_scans(fresh)
    assert len(vector_search(fresh, Directions(), "at 5", scan="hnsw")) == 3
    assert index_scans(fresh) == before + 1


SETTINGS = ("hnsw.ef_search", "enable_seqscan", "enable_indexscan")


def session(conn: Connection) -> list[Any]:
    return [conn.execute("SELECT current_setting(%s, true)", (name,)).fetchone() for name in SETTINGS]


@pytest.mark.parametrize("scan", [None, "exact", "hnsw"])
@pytest.mark.parametrize("n", [5, 100, 2000])
def test_settings_are_what_they_were_after_a_query_on_autocommit(
    fresh: Connection, fill: Fill, scan: Any, n: int
) -> None:
    fill("at 0", "at 1")
    fresh.execute("SET hnsw.ef_search = 77")
    fresh.execute("SET enable_seqscan = off")
    before = session(fresh)
    vector_search(fresh, Directions(), "at 0", n, scan=scan)
    assert session(fresh) == before
    assert fresh.execute("SHOW hnsw.ef_search").fetchone() == ("77",)


@pytest.mark.parametrize("scan", [None, "exact", "hnsw"])
def test_a_session_that_never_used_pgvector_is_left_with_its_default(
    database: Database, stored_schema: str, stored: Connection, scan: Any
) -> None:
    with database.connect(stored_schema) as new:
        hits = vector_search(new, HashEmbedder(), "ranking", 100, scan=scan)
        assert len(hits) == 100
        assert ef_search(new) in (None, "40")
        new.execute("SELECT '[1]'::vector <=> '[1]'::vector")  # loads the library
        assert ef_search(new) == "40"
        assert vector_search(new, HashEmbedder(), "ranking", 100, scan="exact") == vector_search(
            stored, HashEmbedder(), "ranking", 100, scan="exact"
        )


@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize("scan", [None, "exact", "hnsw"])
def test_settings_are_what_they_were_inside_and_after_the_users_transaction(
    database: Database, stored_schema: str, stored: Connection, autocommit: bool, scan: Any
) -> None:
    assert stored.execute("SELECT count(*) FROM chunks").fetchone() != (0,)
    with database.connect(stored_schema) as other:
        other.autocommit = autocommit
        with other.transaction(force_rollback=True):
            other.execute("SELECT '[1]'::vector")
            other.execute("SET LOCAL hnsw.ef_search = 55")
            before = session(other)
            vector_search(other, HashEmbedder(), "ranking", 100, scan=scan)
            assert session(other) == before
            assert ef_search(other) == "55"
        assert ef_search(other) == "40"


@pytest.mark.parametrize("autocommit", [True, False])
def test_the_users_transaction_stays_open_and_his_own(
    database: Database, stored_schema: str, stored: Connection, autocommit: bool
) -> None:
    query = "ranking of chunks"
    expected = vector_search(stored, HashEmbedder(), query)
    with database.connect(stored_schema) as other:
        other.autocommit = autocommit
        for _ in range(2):
            with other.transaction():
                other.execute("CREATE TEMP TABLE kept (x int) ON COMMIT DROP")
                assert vector_search(other, HashEmbedder(), query) == expected
                other.execute("INSERT INTO kept VALUES (1)")
                assert search(other, HashEmbedder(), query) == search(stored, HashEmbedder(), query)
                assert other.execute("SELECT x FROM kept").fetchall() == [(1,)]
        with other.transaction(force_rollback=True):
            other.execute("CREATE TEMP TABLE gone (x int)")
            vector_search(other, HashEmbedder(), query)
        assert other.execute("SELECT to_regclass('pg_temp.gone')").fetchone() == (None,)


def test_what_the_user_wrote_in_his_open_transaction_is_found_and_can_be_committed(
    database: Database, fresh: Connection, fill: Fill
) -> None:
    fill("at 0", ids=["a"])
    row = fresh.execute("SELECT current_schema()").fetchone()
    assert row
    with database.connect(row[0]) as other:
        other.autocommit = False
        other.execute("SELECT 1")  # which opens it
        upsert(other, [Chunk("b", "d", "", 0, 4, "at 1")], Directions())
        assert [hit.chunk_id for hit in vector_search(other, Directions(), "at 0")] == ["a", "b"]
        assert [hit.chunk_id for hit in vector_search(fresh, Directions(), "at 0")] == ["a"]
        other.commit()
    assert [hit.chunk_id for hit in vector_search(fresh, Directions(), "at 0")] == ["a", "b"]


def test_settings_are_what_they_were_after_a_query_that_failed(fresh: Connection, fill: Fill) -> None:
    fill("at 0")
    fresh.execute("SET hnsw.ef_search = 77")
    before = session(fresh)
    with pytest.raises((psycopg.Error, InputError)):
        vector_search(fresh, HashEmbedder(3), "another dimension", 100)
    assert session(fresh) == before
    assert len(vector_search(fresh, Directions(), "at 0")) == 1


def test_a_higher_ef_search_of_the_session_is_not_lowered(fresh: Connection, fill: Fill) -> None:
    # 8 of 10 rows at the cut are dead; only a scan that sees more than n of them can fill the list.
    fill(*(f"at {i}" for i in range(300)), ids=[f"d#{i:03d}" for i in range(300)])
    fresh.execute("SET hnsw.ef_search = 300")
    fresh.execute("SET enable_seqscan = off")
    fresh.execute("DELETE FROM chunks WHERE chunk_id < 'd#250'")
    assert len(vector_search(fresh, Directions(), "at 0", 50)) == 50


@pytest.mark.parametrize("n", [0, -1])
def test_no_rows_asked_for(stored: Connection, n: int) -> None:
    if n == 0:
        assert vector_search(stored, HashEmbedder(), "ranking", 0) == []
        assert search(stored, HashEmbedder(), "ranking", 5, 0) == []
    else:
        with pytest.raises(InputError, match="-1"):
            vector_search(stored, HashEmbedder(), "ranking", -1)
        with pytest.raises(InputError, match="-1"):
            search(stored, HashEmbedder(), "ranking", 5, -1)


# --- reciprocal rank fusion ----------------------------------------------------------------------------------------


def hits(*ids: str) -> list[Hit]:
    return [Hit(chunk_id, 1 / rank, rank) for rank, chunk_id in enumerate(ids, start=1)]


def test_rrf_by_hand() -> None:
    found = rrf([hits("a", "b"), hits("c", "a")])
    assert [(row.chunk_id, row.rank, row.ranks) for row in found] == [
        ("a", 1, (1, 2)),
        ("c", 2, (None, 1)),
        ("b", 3, (2, None)),
    ]
    assert [row.score for row in found] == pytest.approx([1 / 61 + 1 / 62, 1 / 61, 1 / 62], abs=1e-12)


def test_trap_10_agreement_beats_a_single_first_place_at_60_but_not_at_1() -> None:
    lists = [hits("Y", "p", "q", "X"), hits("r", "s", "t", "X")]
    assert rrf(lists)[0] == Ranked("X", 1 / 64 + 1 / 64, 1, (4, 4))
    assert [row.chunk_id for row in rrf(lists, k=1)] == ["Y", "r", "X", "p", "s", "q", "t"]
    assert [row.score for row in rrf(lists, k=1)][:3] == pytest.approx([1 / 2, 1 / 2, 1 / 5 + 1 / 5])


def at_rank(chunk_id: str, rank: int) -> list[Hit]:
    return [Hit(chunk_id, 0.0, rank)]


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("turned", [False, True])
def test_trap_10_an_honest_tie_is_broken_by_the_chunk_id(names: tuple[str, str], turned: bool) -> None:
    uneven, even = names
    assert 1 / 63 + 1 / 84 == 1 / 72 + 1 / 72
    lists = [at_rank(uneven, 3) + at_rank(even, 12), at_rank(even, 12) + at_rank(uneven, 24)]
    found = rrf(lists[::-1] if turned else lists)
    assert [row.chunk_id for row in found] == ["a", "b"]
    assert found[0].score == found[1].score


def test_ties_are_in_code_point_order() -> None:
    ids = ["b", "é", "B", "a", "_", "Z#10", "Z#9"]
    found = rrf([at_rank(chunk_id, 7) for chunk_id in ids])
    assert [row.chunk_id for row in found] == sorted(ids) == ["B", "Z#10", "Z#9", "_", "a", "b", "é"]


def test_trap_10_a_chunk_repeated_in_one_list_counts_once_at_its_best_rank() -> None:
    found = rrf([hits("a", "b", "a", "b"), hits("b")])
    assert [(row.chunk_id, row.ranks) for row in found] == [("b", (2, 1)), ("a", (1, None))]
    assert [row.score for row in found] == pytest.approx([1 / 62 + 1 / 61, 1 / 61])


def test_rrf_takes_the_ranks_it_is_given() -> None:
    assert rrf([at_rank("a", 40)])[0] == Ranked("a", 1 / 100, 1, (40,))


def test_rrf_of_nothing() -> None:
    assert rrf([]) == rrf([[]]) == rrf([[], []]) == []
    assert rrf([[], hits("a")])[0].ranks == (None, 1)


LISTS = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=6, unique=True), min_size=1, max_size=4)


@given(LISTS, st.sampled_from([0, 1, 60]))
def test_rrf_equals_a_plain_one(lists: list[list[str]], k: int) -> None:
    found = rrf([hits(*ids) for ids in lists], k)
    expected = dict(reference.rrf(lists, k))
    assert {row.chunk_id: row.score for row in found} == pytest.approx(expected, abs=1e-12)
    for above, below in itertools.pairwise(found):
        assert (-above.score, above.chunk_id) < (-below.score, below.chunk_id)
    for row in found:
        assert row.ranks == tuple(ids.index(row.chunk_id) + 1 if row.chunk_id in ids else None for ids in lists)
    assert [row.rank for row in found] == list(range(1, len(found) + 1))


@given(LISTS, st.randoms(use_true_random=False))
def test_another_order_of_the_lists_changes_the_order_of_ranks_only(lists: list[list[str]], random: Any) -> None:
    order = list(range(len(lists)))
    random.shuffle(order)
    straight = rrf([hits(*ids) for ids in lists])
    turned = rrf([hits(*lists[i]) for i in order])
    assert [(row.chunk_id, row.score, row.rank) for row in turned] == [
        (row.chunk_id, row.score, row.rank) for row in straight
    ]
    assert [row.ranks for row in turned] == [tuple(row.ranks[i] for i in order) for row in straight]


# --- both sides ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize(("n", "top_k"), [(50, 10), (5, 99), (1, 1), (50, 100)])
def test_search_fuses_the_top_n_of_both_sides(stored: Connection, query: str, n: int, top_k: int) -> None:
    sides = [vector_search(stored, HashEmbedder(), query, n), text_search(stored, query, n)]
    ids = [[hit.chunk_id for hit in side] for side in sides]
    found = search(stored, HashEmbedder(), query, n, top_k)
    expected = reference.rrf(ids)[:top_k]
    assert [row.chunk_id for row in found] == [chunk_id for chunk_id, _ in expected]
    assert [row.score for row in found] == pytest.approx([score for _, score in expected], abs=1e-9)
    for row in found:
        assert row.ranks == tuple(side.index(row.chunk_id) + 1 if row.chunk_id in side else None for side in ids)


def test_search_takes_50_of_each_side_and_gives_10(stored: Connection) -> None:
    query = QUERIES[0]
    assert search(stored, HashEmbedder(), query) == search(stored, HashEmbedder(), query, 50, 10)
    assert len(search(stored, HashEmbedder(), query)) == 10
    assert len(vector_search(stored, HashEmbedder(), query)) == len(text_search(stored, query)) == 50


@pytest.mark.parametrize(
    "query", ["vector & index", "'vector | ! <-> ) (index :*", "-" * 40 + "vector index", "-vector -index"]
)
def test_operators_never_raise_and_leave_the_vector_side_working(stored: Connection, query: str) -> None:
    assert vector_search(stored, HashEmbedder(), query) == vector_search(stored, HashEmbedder(), "vector index")
    assert any(row.ranks[0] for row in search(stored, HashEmbedder(), query))


def test_a_prepared_statement_heeds_a_scan_that_is_chosen_later(fresh: Connection, fill: Fill) -> None:
    """psycopg prepares a statement after five runs, and PostgreSQL keeps one plan for it after five more."""
    fill(*(f"at {i * 0.5}" for i in range(200)), ids=[f"d#{i:03d}" for i in range(200)])
    embedder = Directions()
    fresh.execute("ANALYZE chunks")
    for _ in range(20):
        vector_search(fresh, embedder, "at 10", 5, scan="hnsw")
    scans = "SELECT seq_scan, idx_scan FROM pg_stat_xact_all_tables WHERE relid = 'chunks'::regclass"
    with fresh.transaction():
        before = fresh.execute(scans).fetchone()
        vector_search(fresh, embedder, "at 10", 5, scan="exact")
        after = fresh.execute(scans).fetchone()
    assert before
    assert after
    assert (after[0] - before[0], after[1] - before[1]) == (1, 0)


def test_searching_keeps_the_statements_that_were_prepared(fresh: Connection, fill: Fill) -> None:
    fill("at 0")
    for _ in range(10):
        search(fresh, Directions(), "at 10")
    assert fresh.execute(
        "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%ts_rank_cd%'"
    ).fetchone() == (1,)
