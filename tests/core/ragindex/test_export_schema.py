"""`retrieval-lab export-index --schema`: what PostgreSQL holds already, as a portable index."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from retrieval_lab import cli
from retrieval_lab.config import Indexing
from retrieval_lab.database import Database
from retrieval_lab.embed import HashEmbedder
from retrieval_lab.errors import InputError
from retrieval_lab.index import schema_name
from retrieval_lab.lab import Lab
from retrieval_lab.portable import export_index, export_schema
from retrieval_lab.ragindex import Index
from retrieval_lab.settings import EmbedderSettings, HashEmbedding, MarkdownChunker
from retrieval_lab.store import CHUNKS, Schema, upsert
from retrieval_lab.types import Chunk
from tests.core.ragindex import plain

Capture = pytest.CaptureFixture[str]
Connection = psycopg.Connection[Any]

CUT = [
    Chunk("b#000", "b", "Bread", 0, 14, "Bake the loaf."),
    Chunk("a#001", "a", "", 20, 36, "Boil the leeks."),
    Chunk("a#000", "a", "Soup", 0, 3, "?!"),
]


def indexing(embedder: EmbedderSettings, *, headers: bool = False) -> Indexing:
    return Indexing(MarkdownChunker(), embedder, contextual_headers=headers)


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def test_a_schema_of_the_lab_is_exported_as_the_corpus_is(
    corpus_dir: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lab.open(corpus_dir) as lab:
        schema = lab.schema
    embedded: list[int] = []
    embed = HashEmbedder.embed
    monkeypatch.setattr(HashEmbedder, "embed", lambda self, texts: (embedded.append(len(texts)), embed(self, texts))[1])
    assert run("export-index", tmp_path / "index", "--schema", schema, "--corpus", corpus_dir, "--json") == 0
    assert sum(embedded) <= 10  # a few, to be compared
    described = json.loads(capsys.readouterr().out)
    stored, made = Index.open(tmp_path / "index"), export_index(corpus_dir, indexing(HashEmbedding())).index
    made = made.by_id()
    assert [(one.chunk_id, one.text, one.source, one.uri, one.extra) for one in stored.chunks] == [
        (one.chunk_id, one.text, one.source, one.uri, one.extra) for one in made.chunks
    ]
    np.testing.assert_allclose(stored.vecs, made.vecs, atol=1e-7)
    assert stored.bm25.to_bytes() == made.bm25.to_bytes()
    assert (stored.meta.embedding_model, stored.meta.chunker) == ("hash-256", made.meta.chunker)
    assert (described["n_chunks"], described["faults"]) == (687, [])


def test_a_table_that_somebody_else_filled_is_exported_too(fresh: Connection, new_schema: Callable[[], str]) -> None:  # noqa: ARG001
    Schema.create(fresh, 16)
    upsert(fresh, CUT, HashEmbedder(16))
    fresh.execute(
        "INSERT INTO chunks (chunk_id, doc_id, heading_path, start_char, end_char, text) "
        "VALUES ('c#000', 'c', '', 0, 3, 'tea')"
    )
    schema = str(fresh.execute("SELECT current_schema()").fetchone()[0])  # type: ignore[index]
    index = export_schema(fresh, schema, indexing(HashEmbedding(16)))
    assert [one.chunk_id for one in index.chunks] == ["a#000", "a#001", "b#000", "c#000"]
    expected = HashEmbedder(16).embed(["?!", "Boil the leeks.", "Bake the loaf."])
    np.testing.assert_allclose(index.vecs[:3], expected, atol=1e-7)
    assert not index.vecs[0].any()
    assert not index.vecs[3].any()  # it has no vector there either
    assert index.meta.chunker == {"contextual_headers": False}  # nobody knows more


def test_whether_headings_are_indexed_is_read_from_the_table(fresh: Connection) -> None:
    table = replace(CHUNKS, contextual_headers=True)
    Schema.create(fresh, 16, table=table)
    upsert(fresh, CUT, HashEmbedder(16), table=table)
    schema = str(fresh.execute("SELECT current_schema()").fetchone()[0])  # type: ignore[index]
    index = export_schema(fresh, schema, indexing(HashEmbedding(16)))
    assert index.meta.chunker == {"contextual_headers": True}
    assert index.bm25.to_bytes() == plain.bm25_file(["Soup\n\n?!", "Boil the leeks.", "Bread\n\nBake the loaf."])


def test_the_embedder_has_to_be_the_one_that_made_the_vectors(fresh: Connection) -> None:
    Schema.create(fresh, 16)
    upsert(fresh, CUT, Turned())
    schema = str(fresh.execute("SELECT current_schema()").fetchone()[0])  # type: ignore[index]
    with pytest.raises(InputError, match="have 16 dimensions, those of hash-32 have 32"):
        export_schema(fresh, schema, indexing(HashEmbedding(32)))
    with pytest.raises(InputError, match=r"hash-16 makes another vector of a#001"):
        export_schema(fresh, schema, indexing(HashEmbedding(16)))


class Turned:
    """Makes vectors of the same length in another direction."""

    dims = 16
    name = "turned"

    def embed(self, texts: Any) -> Any:
        return np.roll(HashEmbedder(16).embed(texts), 1, axis=1)


def test_a_schema_without_such_a_table_is_an_error(tmp_path: Path, capsys: Capture) -> None:
    assert run("export-index", tmp_path / "index", "--schema", "nowhere") == 2
    assert "no table chunks with vectors in the schema nowhere" in capsys.readouterr().err
    assert not (tmp_path / "index").exists()


def test_a_dsn_is_of_use_for_a_schema_alone(tmp_path: Path, capsys: Capture) -> None:
    assert run("export-index", tmp_path / "index", "--dsn", "x") == 2
    assert "--dsn goes with --schema" in capsys.readouterr().err


def test_the_settings_of_the_chunker_are_told_where_the_schema_is_the_corpus_s_own(
    database: Database, corpus_dir: Path
) -> None:
    known = indexing(HashEmbedding())
    with Lab.open(corpus_dir) as lab, database.connect() as conn:
        assert lab.schema == schema_name(corpus_dir, known)
        assert export_schema(conn, lab.schema, known, corpus_dir).meta.chunker == known.chunking
        other = replace(known, chunker=MarkdownChunker(800))
        assert export_schema(conn, lab.schema, other, corpus_dir).meta.chunker == {"contextual_headers": False}
