"""The table of chunks: what is created and where, what is written and when, and what is refused before any write."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row, namedtuple_row

from retrieval_lab.database import Database
from retrieval_lab.embed import HashEmbedder
from retrieval_lab.errors import InputError
from retrieval_lab.hybrid import search, text_search, vector_search
from retrieval_lab.rerank import LexicalReranker, fetch, pipeline
from retrieval_lab.store import Schema, Table, chunks_of, count, upsert
from retrieval_lab.types import Chunk
from tests.core.reference import Vector

Connection = psycopg.Connection[Any]


class Recorder(HashEmbedder):
    """HashEmbedder that remembers the texts of each call."""

    def __init__(self, dims: int = 8) -> None:
        super().__init__(dims)
        self.calls: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> Vector:
        self.calls.append(list(texts))
        return super().embed(texts)


class Broken(HashEmbedder):
    """HashEmbedder that gives one bad number for the texts that say so."""

    def __init__(self, bad: float) -> None:
        super().__init__(8)
        self.bad = bad

    def embed(self, texts: Sequence[str]) -> Vector:
        vectors = super().embed(texts)
        for row, text in enumerate(texts):
            if "bad" in text:
                vectors[row, 3] = self.bad
        return vectors


def passages(*texts: str) -> list[Chunk]:
    return [Chunk(f"d#{i:03d}", "d", "Guide > Use", i, i + len(text), text) for i, text in enumerate(texts)]


def rows(conn: Connection) -> list[tuple[Any, ...]]:
    columns = "chunk_id, doc_id, heading_path, start_char, end_char, text, tsv::text, embedding::text"
    return conn.execute(f"SELECT {columns} FROM chunks ORDER BY chunk_id").fetchall()


def versions(conn: Connection) -> dict[str, tuple[str, str]]:
    """Row version and place of every row: both stay where nothing is written."""
    return {row[0]: (row[1], row[2]) for row in conn.execute("SELECT chunk_id, xmin::text, ctid::text FROM chunks")}


@pytest.fixture
def table(fresh: Connection) -> Connection:
    Schema.create(fresh, 8)
    return fresh


# --- Schema.create -------------------------------------------------------------------------------------------------


def columns(conn: Connection) -> list[tuple[str, str]]:
    return conn.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = 'chunks'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    ).fetchall()


def indexes(conn: Connection) -> set[str]:
    found = conn.execute("SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()").fetchall()
    return {row[0].partition(" USING ")[2] for row in found}


def test_create_makes_the_table_of_the_contract(fresh: Connection) -> None:
    Schema.create(fresh, 17)
    assert [(name, kind.removeprefix("public.")) for name, kind in columns(fresh)] == [
        ("chunk_id", "text"),
        ("doc_id", "text"),
        ("heading_path", "text"),
        ("start_char", "integer"),
        ("end_char", "integer"),
        ("text", "text"),
        ("tsv", "tsvector"),
        ("embedding", "vector(17)"),
    ]
    generated = fresh.execute(
        "SELECT generation_expression FROM information_schema.columns "
        "WHERE table_schema = current_schema() AND table_name = 'chunks' AND is_generated = 'ALWAYS'"
    ).fetchall()
    assert generated == [("to_tsvector('english'::regconfig, text)",)]


def test_create_makes_the_primary_key_and_the_two_indexes(table: Connection) -> None:
    assert {definition.replace("public.", "") for definition in indexes(table)} == {
        "btree (chunk_id)",
        "hnsw (embedding vector_cosine_ops)",
        "gin (tsv)",
    }


def test_create_a_second_time_changes_nothing(table: Connection) -> None:
    upsert(table, passages("a fox"), HashEmbedder(8))
    before = rows(table), versions(table), indexes(table)
    Schema.create(table, 8)
    assert (rows(table), versions(table), indexes(table)) == before


def test_create_makes_what_is_missing_and_keeps_the_rest(table: Connection) -> None:
    upsert(table, passages("a fox"), HashEmbedder(8))
    before = rows(table), indexes(table)
    for (name,) in table.execute(
        "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND indexdef !~ 'btree'"
    ).fetchall():
        table.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
    Schema.create(table, 8)
    assert (rows(table), indexes(table)) == before


def test_a_table_of_another_dimension_is_a_value_error_that_names_both(table: Connection) -> None:
    upsert(table, passages("a fox"), HashEmbedder(8))
    before = rows(table), indexes(table)
    with pytest.raises(ValueError, match=r"\b8\b.*\b384\b|\b384\b.*\b8\b"):
        Schema.create(table, 384)
    assert (rows(table), indexes(table)) == before
    assert table.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


@pytest.mark.parametrize("dims", [0, -1, 2001])
def test_dimensions_that_cannot_be_indexed_are_refused_and_nothing_is_made(fresh: Connection, dims: int) -> None:
    with pytest.raises(ValueError, match=str(dims)):
        Schema.create(fresh, dims)
    assert fresh.execute("SELECT to_regclass('chunks')").fetchone() == (None,)


def test_a_table_of_the_same_name_in_another_schema_is_another_table(
    database: Database, new_schema: Callable[[], str]
) -> None:
    one, two = new_schema(), new_schema()
    with database.connect(one) as first, database.connect(two) as second:
        Schema.create(first, 8)
        second.execute(sql.SQL("SET search_path TO {}, {}, public").format(sql.Identifier(two), sql.Identifier(one)))
        Schema.create(second, 9)
        assert dict(columns(first))["embedding"].endswith("vector(8)")
        assert dict(columns(second))["embedding"].endswith("vector(9)")


def test_create_inside_the_users_transaction_can_be_rolled_back(fresh: Connection) -> None:
    with fresh.transaction(force_rollback=True):
        Schema.create(fresh, 8)
        upsert(fresh, passages("a"), HashEmbedder(8))
        assert count(fresh) == 1
    assert fresh.execute("SELECT to_regclass('chunks')").fetchone() == (None,)


def test_create_that_fails_leaves_nothing_half_made(fresh: Connection) -> None:
    fresh.execute("CREATE TABLE chunks (embedding vector(8))")  # no tsv: the second index cannot be made
    with pytest.raises(psycopg.errors.UndefinedColumn):
        Schema.create(fresh, 8)
    assert indexes(fresh) == set()


# --- the extension -------------------------------------------------------------------------------------------------


@pytest.fixture
def bare_dsn(conn: Connection) -> Iterator[str]:
    """A new database without the extension."""
    name = f"lab_test_{uuid.uuid4().hex[:12]}"
    conn.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    password = {"password": conn.info.password} if conn.info.password else {}
    yield make_conninfo(conn.info.dsn, dbname=name, **password)
    conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def extension_place(conn: Connection) -> list[tuple[Any, ...]]:
    return conn.execute(
        "SELECT nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'vector'"
    ).fetchall()


def test_the_extension_lands_in_public_and_other_schemas_survive_a_drop(bare_dsn: str) -> None:
    with psycopg.connect(bare_dsn, autocommit=True) as conn:
        assert extension_place(conn) == []
        for name in ("one", "two"):
            conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
            conn.execute(sql.SQL("SET search_path TO {}, public").format(sql.Identifier(name)))
            Schema.create(conn, 8)
            upsert(conn, passages("a fox", "a dog"), HashEmbedder(8))
        assert extension_place(conn) == [("public",)]
        before = rows(conn)
        conn.execute("DROP SCHEMA one CASCADE")
        assert rows(conn) == before
        assert vector_search(conn, HashEmbedder(8), "a dog")[0].chunk_id == "d#001"


def test_two_sessions_may_create_the_extension_at_the_same_moment(bare_dsn: str) -> None:
    barrier = threading.Barrier(4)
    failures: list[Exception] = []

    def create(name: str) -> None:
        try:
            with psycopg.connect(bare_dsn, autocommit=True) as conn:
                conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
                conn.execute(sql.SQL("SET search_path TO {}, public").format(sql.Identifier(name)))
                barrier.wait(timeout=20)
                Schema.create(conn, 8)
                upsert(conn, passages("a fox"), HashEmbedder(8))
        except Exception as error:  # noqa: BLE001 - handed to the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=create, args=(f"s{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with psycopg.connect(bare_dsn, autocommit=True) as conn:
        assert extension_place(conn) == [("public",)]


def test_an_extension_that_lies_elsewhere_is_used_there(bare_dsn: str) -> None:
    with psycopg.connect(bare_dsn, autocommit=True) as conn:
        conn.execute("CREATE SCHEMA ext")
        conn.execute("CREATE EXTENSION vector SCHEMA ext")
        conn.execute("CREATE SCHEMA one")
        conn.execute("SET search_path TO one")
        everything_works(conn)
        assert extension_place(conn) == [("ext",)]


def everything_works(conn: Connection) -> None:
    """Every stage once, on whatever search path the connection has."""
    embedder, chunks = HashEmbedder(32), passages("the quick fox", "a lazy dog", "foxes and dogs")
    Schema.create(conn, 32)
    upsert(conn, chunks, embedder)
    upsert(conn, chunks, embedder)
    assert count(conn) == 3
    assert chunks_of(conn, ["d"]) == chunks
    assert len(vector_search(conn, embedder, "fox")) == 3
    for scan in ("exact", "hnsw"):
        assert len(vector_search(conn, embedder, "fox", scan=scan)) == 3
    assert [hit.chunk_id for hit in text_search(conn, "fox -dog")] == ["d#000"]
    assert len(search(conn, embedder, "fox")) == 3
    assert len(pipeline(conn, embedder, LexicalReranker(), "fox")) == 3
    assert list(fetch(conn, ["d#002", "d#000"])) == ["d#002", "d#000"]


def test_a_search_path_of_the_schema_alone_without_public_works(
    database: Database, new_schema: Callable[[], str]
) -> None:
    with database.connect() as conn:
        conn.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(new_schema())))
        everything_works(conn)


@pytest.mark.parametrize("name", ['we"ird', "Upper Case", "sélect", "a.b", "%s", "select", "x" * 63])
def test_the_name_of_a_schema_may_hold_anything(database: Database, conn: Connection, name: str) -> None:
    identifier = sql.Identifier(name)
    conn.execute(sql.SQL("CREATE SCHEMA {}").format(identifier))
    try:
        with database.connect(name) as other:
            everything_works(other)
    finally:
        conn.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(identifier))


def test_a_foreign_table_is_read_and_written_through_its_description(fresh: Connection) -> None:
    foreign = Table(
        name="my Articles",
        chunk_id="key",
        doc_id="Document",
        heading_path="where",
        start_char="from",
        end_char="to",
        text='bo"dy',
        tsv="ts v",
        embedding="vec",
        text_config="simple",
    )
    embedder = HashEmbedder(32)
    Schema.create(fresh, 32, table=foreign)
    upsert(fresh, passages("the running fox", "a dog"), embedder, table=foreign)
    assert count(fresh, table=foreign) == 2
    assert fresh.execute("SELECT to_regclass('chunks')").fetchone() == (None,)
    assert [hit.chunk_id for hit in text_search(fresh, "running", table=foreign)] == ["d#000"]
    assert text_search(fresh, "run", table=foreign) == []  # 'simple' does not stem
    assert [hit.chunk_id for hit in text_search(fresh, "the", table=foreign)] == ["d#000"]
    assert vector_search(fresh, embedder, "a dog", 1, table=foreign)[0].chunk_id == "d#001"
    assert pipeline(fresh, embedder, LexicalReranker(), "dog", table=foreign)[0].chunk_id == "d#001"


# --- upsert --------------------------------------------------------------------------------------------------------


def test_upsert_writes_the_chunk_and_the_embedding_of_its_text(table: Connection) -> None:
    piece = Chunk("a b#000", "a b", "Guide > 'Use'", 3, 17, "It's a \\ fox\n\n日本 😀 %s")
    upsert(table, [piece], HashEmbedder(8))
    assert chunks_of(table, ["a b"]) == [piece]
    stored_chunk, vector = fetch(table, ["a b#000"])["a b#000"]
    assert stored_chunk == piece
    np.testing.assert_array_equal(vector, HashEmbedder(8).embed([piece.text])[0])
    assert table.execute("SELECT tsv = to_tsvector('english', %s) FROM chunks", (piece.text,)).fetchone() == (True,)


def test_vectors_are_stored_to_the_last_bit(table: Connection) -> None:
    class Odd(HashEmbedder):
        def embed(self, texts: Sequence[str]) -> Vector:
            values = [1 / 3, -1e-30, 1e30, 1.1754944e-38, 3.4028235e38, -0.0, 16777217, 0.1]
            return np.array([values] * len(texts), dtype=np.float32)

    upsert(table, passages("x"), Odd(8))
    np.testing.assert_array_equal(fetch(table, ["d#000"])["d#000"][1], Odd(8).embed(["x"])[0])


def test_a_second_upsert_changes_nothing(table: Connection) -> None:
    chunks = passages("a fox", "", "!!!", "a dog")
    upsert(table, chunks, HashEmbedder(8))
    before = rows(table), versions(table)
    upsert(table, chunks, HashEmbedder(8))
    upsert(table, chunks, HashEmbedder(8), batch=1)
    assert (rows(table), versions(table)) == before


@pytest.mark.parametrize(
    "edit",
    [
        {"text": "a new fox"},
        {"heading_path": "Elsewhere"},
        {"start_char": 5},
        {"end_char": 500},
        {"doc_id": "other"},
    ],
)
def test_an_edited_chunk_is_replaced_and_no_other(table: Connection, edit: dict[str, Any]) -> None:
    chunks = passages("a fox", "a dog", "a cat")
    upsert(table, chunks, HashEmbedder(8))
    before = versions(table)
    chunks[1] = replace(chunks[1], **edit)
    upsert(table, chunks, HashEmbedder(8))
    found = {piece.chunk_id: piece for piece, _ in fetch(table, [c.chunk_id for c in chunks]).values()}
    assert list(found.values()) == chunks
    after = versions(table)
    assert [chunk_id for chunk_id in before if before[chunk_id] != after[chunk_id]] == ["d#001"]
    assert count(table) == 3


def test_an_edited_text_gets_its_new_embedding_and_lexemes(table: Connection) -> None:
    upsert(table, passages("a fox"), HashEmbedder(8))
    upsert(table, passages("a dog"), HashEmbedder(8))
    assert text_search(table, "fox") == []
    assert [hit.chunk_id for hit in text_search(table, "dog")] == ["d#000"]
    np.testing.assert_array_equal(fetch(table, ["d#000"])["d#000"][1], HashEmbedder(8).embed(["a dog"])[0])


def test_another_embedder_of_the_same_width_replaces_the_vectors(table: Connection) -> None:
    upsert(table, passages("a fox"), HashEmbedder(8))
    other = Broken(0.25)
    upsert(table, passages("bad fox"), other)
    assert fetch(table, ["d#000"])["d#000"][1][3] == 0.25


def test_chunks_that_are_not_given_stay(table: Connection) -> None:
    upsert(table, passages("a", "b", "c"), HashEmbedder(8))
    upsert(table, passages("a"), HashEmbedder(8))
    assert count(table) == 3


@pytest.mark.parametrize(("number", "batch", "calls"), [(5, 2, [2, 2, 1]), (4, 2, [2, 2]), (3, 64, [3]), (0, 64, [])])
def test_at_most_batch_texts_go_into_one_call(table: Connection, number: int, batch: int, calls: list[int]) -> None:
    recorder = Recorder()
    upsert(table, passages(*map(str, range(number))), recorder, batch=batch)
    assert [len(call) for call in recorder.calls] == calls
    assert count(table) == number


def test_a_batch_has_64_texts_unless_told(table: Connection) -> None:
    recorder = Recorder()
    upsert(table, passages(*map(str, range(150))), recorder)
    assert [len(call) for call in recorder.calls] == [64, 64, 22]


def test_the_text_alone_is_embedded(table: Connection) -> None:
    recorder = Recorder()
    upsert(table, passages("a fox", "a dog"), recorder)
    assert recorder.calls == [["a fox", "a dog"]]


def test_chunks_may_come_from_an_iterator(table: Connection) -> None:
    upsert(table, iter(passages("a", "b", "c")), HashEmbedder(8), batch=2)
    assert count(table) == 3


def test_no_chunks_are_no_call_and_no_error(table: Connection) -> None:
    recorder = Recorder()
    upsert(table, [], recorder)
    assert recorder.calls == []


@pytest.mark.parametrize("batch", [0, -1])
def test_a_batch_below_one_is_refused(table: Connection, batch: int) -> None:
    with pytest.raises(InputError, match="batch"):
        upsert(table, passages("a"), HashEmbedder(8), batch=batch)


def test_an_embedder_of_another_dimension_is_a_value_error_before_any_write(table: Connection) -> None:
    recorder = Recorder(9)
    with pytest.raises(ValueError, match=r"\b8\b.*\b9\b|\b9\b.*\b8\b"):
        upsert(table, passages("a", "b"), recorder)
    assert count(table) == 0
    assert recorder.calls == []


def test_upsert_without_a_table_says_what_to_call(fresh: Connection) -> None:
    with pytest.raises(InputError, match=r"Schema\.create"):
        upsert(fresh, passages("a"), HashEmbedder(8))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_trap_16_nan_and_infinity_are_refused_by_chunk_id_and_their_batch_is_not_written(
    table: Connection, bad: float
) -> None:
    chunks = passages("a", "b", "good", "bad", "more")
    with pytest.raises(InputError, match="d#003"):
        upsert(table, chunks, Broken(bad), batch=2)
    assert [row[0] for row in rows(table)] == ["d#000", "d#001"]
    assert table.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_an_embedder_that_forgets_a_text_is_refused(table: Connection) -> None:
    class Forgetful(HashEmbedder):
        def embed(self, texts: Sequence[str]) -> Vector:
            return super().embed(texts[1:])

    with pytest.raises(InputError, match=r"\(2, 8\)"):
        upsert(table, passages("a", "b"), Forgetful(8))
    assert count(table) == 0


def test_an_embedder_that_fails_leaves_whole_batches_only(table: Connection) -> None:
    class Tired(Recorder):
        def embed(self, texts: Sequence[str]) -> Vector:
            if len(self.calls) == 2:
                raise RuntimeError("tired")
            return super().embed(texts)

    with pytest.raises(RuntimeError, match="tired"):
        upsert(table, passages(*"abcdef"), Tired(), batch=2)
    assert count(table) == 4
    upsert(table, passages(*"abcdef"), HashEmbedder(8), batch=2)
    assert count(table) == 6


@pytest.mark.parametrize("unstorable", ["a\x00b", "\ud800", "tail \udfff"])
@pytest.mark.parametrize("place", ["text", "heading_path"])
def test_characters_that_cannot_be_stored_are_refused_by_chunk_id(
    table: Connection, place: str, unstorable: str
) -> None:
    chunks = passages("a", "b", "c")
    edit: dict[str, Any] = {place: unstorable}
    chunks[1] = replace(chunks[1], **edit)
    with pytest.raises(InputError, match="d#001"):
        upsert(table, chunks, HashEmbedder(8))
    assert count(table) == 0


def test_a_text_that_full_text_cannot_index_is_refused_by_chunk_id(table: Connection) -> None:
    class Quick(HashEmbedder):
        def embed(self, texts: Sequence[str]) -> Vector:
            return np.ones((len(texts), self.dims), dtype=np.float32)

    # A tsvector holds one megabyte of lexemes.
    chunks = passages("a", "b", " ".join(f"word{i:06d}" for i in range(120_000)), "c")
    with pytest.raises(InputError, match="d#002"):
        upsert(table, chunks, Quick(8))
    assert count(table) == 0
    assert table.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


# --- reading -------------------------------------------------------------------------------------------------------


def test_chunks_of_a_document_come_in_their_order(table: Connection) -> None:
    chunks = [Chunk(f"{doc}#{i:03d}", doc, "", i, i + 1, "x") for doc in ("b", "a", "B") for i in (2, 0, 1)]
    upsert(table, chunks, HashEmbedder(8))
    assert chunks_of(table, ["a", "B", "gone"]) == [
        Chunk(f"{doc}#{i:03d}", doc, "", i, i + 1, "x") for doc in ("B", "a") for i in (0, 1, 2)
    ]
    assert chunks_of(table, []) == []


def test_without_a_transaction_of_the_callers_everything_is_durable_and_none_stays_open(
    database: Database, new_schema: Callable[[], str]
) -> None:
    name = new_schema()
    with database.connect(name) as conn, database.connect(name) as other:
        conn.autocommit = False
        Schema.create(conn, 8)
        upsert(conn, [Chunk("d#000", "d", "", 0, 5, "words")], HashEmbedder(8))
        assert count(conn) == 1
        assert [hit.chunk_id for hit in search(conn, HashEmbedder(8), "words")] == ["d#000"]
        assert list(fetch(conn, ["d#000"])) == ["d#000"]
        assert conn.info.transaction_status == TransactionStatus.IDLE
        assert count(other) == 1


def test_within_a_transaction_of_the_callers_nothing_is_committed(
    database: Database, new_schema: Callable[[], str]
) -> None:
    name = new_schema()
    with database.connect(name) as conn, database.connect(name) as other:
        conn.autocommit = False
        Schema.create(conn, 8)
        conn.execute("SELECT 1")
        upsert(conn, [Chunk("d#000", "d", "", 0, 5, "words")], HashEmbedder(8))
        assert (count(conn), count(other)) == (1, 0)
        conn.rollback()
        assert count(conn) == 0


@pytest.mark.parametrize("row_factory", [dict_row, namedtuple_row])
def test_the_row_factory_of_the_connection_does_not_matter(
    database: Database, new_schema: Callable[[], str], row_factory: Any
) -> None:
    with database.connect(new_schema()) as conn:
        conn.row_factory = row_factory
        Schema.create(conn, 8)
        upsert(conn, [Chunk("d#000", "d", "", 0, 5, "words")], HashEmbedder(8))
        assert count(conn) == 1
        assert [hit.chunk_id for hit in search(conn, HashEmbedder(8), "words")] == ["d#000"]
        assert list(fetch(conn, ["d#000"])) == ["d#000"]


@pytest.mark.parametrize("field", ["chunk_id", "doc_id", "heading_path", "text"])
def test_a_nul_in_any_field_is_refused_with_the_chunks_name(conn: Connection, field: str) -> None:
    chunk = replace(Chunk("d#000", "d", "", 0, 5, "words"), **{field: "d#000\0"})
    Schema.create(conn, 8)
    with pytest.raises(InputError, match="chunk d#000"):
        upsert(conn, [chunk], HashEmbedder(8))
