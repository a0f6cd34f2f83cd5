"""From a corpus to a portable index, and from an index to the embedder that its queries need."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from psycopg import Connection

from retrieval_lab.config import Indexing
from retrieval_lab.corpus import CorpusFiles, read_corpus
from retrieval_lab.corpus_index import Origin, chunk_of, index_of_table, indexed_chunk
from retrieval_lab.embed import Embedder, Vectors, embed_checked
from retrieval_lab.errors import EnvironmentMissing, Fault, InputError
from retrieval_lab.index import FROM_DISK, schema_name
from retrieval_lab.paths import bundled_corpus
from retrieval_lab.ragindex import Index, IndexedChunk, Meta
from retrieval_lab.ragindex.chunks import WORDS
from retrieval_lab.settings import EmbedderSettings, HashEmbedding, ModelEmbedding
from retrieval_lab.store import CHUNKS, Table, has_headers, table_dims
from retrieval_lab.types import Chunk
from retrieval_lab.windows import Windowed

_BATCH = 64
_PROBES = 8
_ALIKE = 0.99
"""A model gives one text nearly the same vector on every machine, so a cosine below this is another model's."""

_HASH_NAME = re.compile(r"hash-([1-9][0-9]{0,8})")
_MODEL_NAME = re.compile(r"fastembed-(.+)")


@dataclass(frozen=True, slots=True)
class Export:
    """An index made of a corpus, and a fault for every file that was left out."""

    index: Index
    faults: tuple[Fault, ...]


def export_index(
    corpus: Path | str | None,
    indexing: Indexing,
    *,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Export:
    """The corpus (the bundled one unless given) cut and embedded as `indexing` says; no server is needed.

    `source` is `file`, `uri` the path in the corpus; further keys of a chunk are its heading path, its place in the
    document and the title of that. `progress` hears how many of how many chunks are embedded.

    Raises InputError when the folder is no corpus, and as the embedder does.
    """
    folder = Path(corpus if corpus is not None else bundled_corpus())
    files = read_corpus(folder)
    chunks = [chunk for document in files.documents for chunk in indexing.chunker.chunks(document)]
    embedder = indexing.embedder.build()
    table = replace(CHUNKS, contextual_headers=indexing.contextual_headers)
    texts = [table.indexed(chunk) for chunk in chunks]
    tokenizer, counts = _token_counts(embedder, chunks)
    index = Index.build(
        list(_indexed(chunks, counts, files, folder)),
        _embedded(embedder, texts, chunks, progress),
        embedding_model=embedder.name,
        tokenizer=tokenizer,
        chunker=indexing.chunking,
        texts=texts,
    )
    return Export(index, files.faults)


def _token_counts(embedder: Embedder, chunks: Sequence[Chunk]) -> tuple[str, Sequence[int | None]]:
    """The tokenizer's name and the tokens of each chunk; words are counted where the embedder has no tokens."""
    if isinstance(embedder, Windowed):
        return embedder.name, embedder.token_counts([chunk.text for chunk in chunks])
    return WORDS, [None] * len(chunks)


def _indexed(
    chunks: Sequence[Chunk], counts: Sequence[int | None], files: CorpusFiles, folder: Path
) -> Iterator[IndexedChunk]:
    titles = {document.doc_id: document.title for document in files.documents}
    for chunk, n_tokens in zip(chunks, counts, strict=True):
        uri = files.paths[chunk.doc_id].relative_to(folder).as_posix()
        yield indexed_chunk(chunk, source=FROM_DISK, uri=uri, title=titles[chunk.doc_id], n_tokens=n_tokens)


def _embedded(
    embedder: Embedder, texts: Sequence[str], chunks: Sequence[Chunk], progress: Callable[[int, int], None]
) -> Vectors:
    vectors = np.zeros((len(texts), embedder.dims), dtype=np.float32)
    for start in range(0, len(texts), _BATCH):
        part = slice(start, start + _BATCH)
        labels = [f"chunk {chunk.chunk_id}" for chunk in chunks[part]]
        vectors[part] = embed_checked(embedder, texts[part], labels)
        progress(min(start + _BATCH, len(texts)), len(texts))
    return vectors


def export_schema(conn: Connection[Any], schema: str, indexing: Indexing, corpus: Path | str | None = None) -> Index:
    """What the schema's table of chunks holds, whoever made it as `store.Schema.create` does; nothing is embedded.

    `indexing` names the embedder that made the vectors, since a table does not say: its dimension is checked, and some
    chunks are embedded again and compared. The settings of the chunker are those of `indexing` where the schema is the
    one that the lab makes of this corpus (the bundled one unless given) so, else they are not known.

    Raises InputError when there is no such table, and when the vectors are another embedder's; and as the embedder
    does.
    """
    table = replace(CHUNKS, schema=schema)
    dims, embedder = table_dims(conn, table), indexing.embedder.build()
    if dims is None:
        raise InputError(
            f"there is no table {table.name} with vectors in the schema {schema}; `db status` lists schemas"
        )
    if dims != embedder.dims:
        raise InputError(
            f"the vectors in {schema} have {dims} dimensions, those of {embedder.name} have {embedder.dims}; name the "
            "embedder that made them"
        )
    table = replace(table, contextual_headers=has_headers(conn, table))
    is_of_corpus = schema == schema_name(Path(corpus if corpus is not None else bundled_corpus()).absolute(), indexing)
    chunking = indexing.chunking if is_of_corpus else {"contextual_headers": table.contextual_headers}
    index = index_of_table(conn, table, Origin(embedder.name, chunking))
    _require_made_by(embedder, index, table)
    return index


def _require_made_by(embedder: Embedder, index: Index, table: Table) -> None:
    """Embed some of the chunks again, spread over the index, and compare."""
    rows = np.flatnonzero(index.vecs.any(axis=1)).tolist()
    rows = rows[:: max(1, len(rows) // _PROBES)][:_PROBES]
    chunks = [chunk_of(index.chunks[row]) for row in rows]
    found = embed_checked(embedder, [table.indexed(chunk) for chunk in chunks])
    for chunk, vector, stored in zip(chunks, found, index.vecs[rows], strict=True):
        length = float(np.linalg.norm(vector))
        if length == 0 or float(vector @ stored) / length < _ALIKE:
            raise InputError(
                f"{embedder.name} makes another vector of {chunk.chunk_id} than the one stored; name the embedder that "
                "made them, by --embedder or in the corpus's lab.yaml"
            )


def query_embedder(meta: Meta, chosen: EmbedderSettings | None = None) -> tuple[Embedder | None, tuple[str, ...]]:
    """The embedder of an index's queries, ready to be used, or None and a note why it is not to be had.

    It is found by the name in the index; a model in a folder has to be `chosen`. Raises InputError when the one chosen
    is not the one of the index, and EnvironmentMissing when it cannot be loaded.
    """
    if chosen is not None:
        embedder = chosen.build()
        if embedder.name != meta.embedding_model:
            raise InputError(
                f"the index was embedded by {meta.embedding_model}, not by {embedder.name}; choose that one"
            )
        return _tried(embedder, meta), ()
    if meta.dim == 0:
        return None, ("the index has no vectors: BM25 alone",)
    try:
        named = embedder_named(meta.embedding_model)
        if named is not None:
            return _tried(named.build(), meta), ()
        problem = "no name of an embedder here; if it is a model of your own, name its folder by --embedder"
    except (EnvironmentMissing, InputError) as error:
        problem = str(error)
    return None, (f"BM25 alone: the index was embedded by {meta.embedding_model!r}: {problem}",)


def embedder_named(name: str) -> EmbedderSettings | None:
    """The settings of the embedder that an index calls by this name; None where the name does not tell them.

    Raises SettingError where they cannot be.
    """
    if match := _HASH_NAME.fullmatch(name):
        return HashEmbedding(int(match[1]))
    if match := _MODEL_NAME.fullmatch(name):
        return ModelEmbedding(match[1])
    return None


def _tried(embedder: Embedder, meta: Meta) -> Embedder:
    """The embedder once it has worked: a model is loaded when it is first used."""
    if embedder.dims != meta.dim:
        raise InputError(f"{embedder.name} makes vectors of {embedder.dims} dimensions, the index has {meta.dim}")
    embed_checked(embedder, ["a"])
    return embedder
