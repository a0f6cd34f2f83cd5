"""A portable index in the place of a lab: every question answered from a folder, without any server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Never, TypeVar

import numpy as np

from retrieval_lab.assembly import Reading, bound, composed, refuse_empty
from retrieval_lab.config import PipelineConfig
from retrieval_lab.config_file import Override
from retrieval_lab.configurations import Configuration
from retrieval_lab.corpus import GOLDEN_FILE, file_stamps
from retrieval_lab.corpus_index import CorpusIndex
from retrieval_lab.diagnosis.parse_view import ParseView, PassageView
from retrieval_lab.embed import Embedder, QueryVectors, Vectors
from retrieval_lab.errors import Cancelled, InputError, LabError
from retrieval_lab.golden_set import GoldenSet
from retrieval_lab.index import IndexReport
from retrieval_lab.index_config import index_config, indexing_of, require_served
from retrieval_lab.index_passages import IndexPassages
from retrieval_lab.lab import Lab
from retrieval_lab.pipeline import Pipeline
from retrieval_lab.portable import query_embedder
from retrieval_lab.ragindex import Index, terms
from retrieval_lab.ragindex.files import FILES
from retrieval_lab.retrievers.base import InMemorySettings
from retrieval_lab.retrievers.bm25 import StemmedBm25Search
from retrieval_lab.settings import EmbedderSettings
from retrieval_lab.stems import stemmed
from retrieval_lab.store import CHUNKS
from retrieval_lab.text import words
from retrieval_lab.trace import Trace
from retrieval_lab.types import Chunk, Document, GoldenQuery, Stages

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class IndexSource:
    """An index to be opened, and what goes with it.

    `corpus` is the folder that the index was made of, whose golden.yaml has the labels and whose files can be looked
    at; `golden` is a file of labels instead. `embedder` makes the vectors of queries; else the one that the index names
    does. `path` and `overrides` describe the pipeline, as for `index_config`.
    """

    folder: Path
    corpus: Path | None = None
    golden: Path | None = None
    embedder: EmbedderSettings | None = None
    path: Path | None = None
    overrides: tuple[str | Override, ...] = ()

    def open(self, config: PipelineConfig | None = None) -> IndexLab:
        """The index, ready for questions, under a configuration that is given whole, or else as described.

        Raises FormatError and IndexError_ as `Index.open` does, InputError when the file of labels is missing or the
        pipeline is none that an index serves, and as `portable.query_embedder` does.
        """
        for named, is_there in ((self.corpus, Path.is_dir), (self.golden, Path.is_file)):
            if named is not None and not is_there(named):
                raise InputError(f"{named}: not there; expected the folder of the corpus, or a file of golden queries")
        stamps = self.stamps()  # taken first: a file that changes while others are read counts as changed
        index = Index.open(self.folder).by_id()
        embedder, notes = query_embedder(index.meta, self.embedder)
        indexing = indexing_of(index.meta, self.embedder)
        usual = index_config(indexing, embeds=embedder is not None, path=self.path, overrides=self.overrides)
        corpus = CorpusIndex(index, replace(CHUNKS, contextual_headers=indexing.contextual_headers))
        lab = IndexLab(self, corpus, usual, embedder, notes, stamps)
        lab.config = lab.fitting(config)
        return lab

    @property
    def labels(self) -> Path:
        """Where the golden queries are, or would be."""
        return self.golden or (self.corpus or self.folder) / GOLDEN_FILE

    def stamps(self) -> Mapping[Path, tuple[int, int]]:
        """What `corpus.file_stamps` has of the files of the index, of the labels and of the corpus."""
        return file_stamps(self.corpus or self.folder, *(self.folder / name for name in FILES), self.labels)


class IndexLab(Lab):
    """A lab over an index in memory; make it with `IndexSource.open`.

    What only PostgreSQL or the files of the corpus can do is refused with an InputError. `corpus` is the folder of the
    corpus where that is named, else that of the index. A trace's notes say why the vectors of the index are of no use,
    where they are not.
    """

    def __init__(
        self,
        source: IndexSource,
        index: CorpusIndex,
        config: PipelineConfig,
        embedder: Embedder | None,
        notes: tuple[str, ...],
        stamps: Mapping[Path, tuple[int, int]],
    ) -> None:
        self.folder = source.folder
        self.corpus = (source.corpus or source.folder).absolute()
        self.config = config
        self.passages = IndexPassages(index)
        self.index = IndexReport((), len(self.passages.doc_ids), (), index.index.meta.n_chunks, ())
        self.embedder = embedder or _NoEmbedder(index.index.meta.dim)
        self._source = source
        self._notes = notes
        self._stamps = stamps
        self._golden_set = GoldenSet.open(source.labels)
        self.golden, self.golden_faults = self._golden_set.queries, self._golden_set.faults
        self._rerankers = {}
        self._turns, self._background_turns = _Turns(), _Turns()

    @property
    def embedded(self) -> bool:
        return False

    @property
    def serves_one_index(self) -> bool:
        return True

    def offered(self, named: Sequence[Configuration]) -> tuple[Configuration, ...]:
        """The configurations over this index; those that it does not serve say so as a fault."""
        return tuple(self._offered(one) for one in named)

    def _offered(self, one: Configuration) -> Configuration:
        if one.config is None:
            return one
        try:
            config = index_config(self.config.indexing, embeds=self.can_embed, path=one.path)
            return replace(one, config=self.fitting(config))
        except InputError as error:
            return replace(one, config=None, faults=(str(error),))

    @property
    def server(self) -> str:
        return "no server"

    @property
    def can_embed(self) -> bool:
        """Whether queries have vectors."""
        return not isinstance(self.embedder, _NoEmbedder)

    def fitting(self, config: PipelineConfig | None) -> PipelineConfig:
        """The configuration, or that of the lab, once it is sure that the index serves it. Raises InputError."""
        config = config or self.config
        if config.indexing != self.config.indexing:
            raise InputError("an index is cut and embedded in one way: another one needs the corpus, opened without it")
        require_served(config, None if self.can_embed else "; ".join(self._notes))
        return config

    def _fitting(self, config: PipelineConfig | None) -> PipelineConfig:
        return self.fitting(config)

    def read(
        self,
        work: Callable[[Reading], T],
        config: PipelineConfig | None = None,
        *,
        at_once: bool = True,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> T:
        config = self.fitting(config)
        on = self._turns if at_once else self._background_turns
        return on.ask(lambda: work(Reading(self.passages, config, lambda: self._over_index(config))), cancelled)

    def _over_index(self, config: PipelineConfig) -> Pipeline:
        on = _InMemory(QueryVectors(self.embedder), self.passages.corpus)
        unknown = [doc_id for doc_id in config.filter.doc_ids if doc_id not in self.passages.doc_ids]
        mask = self.passages.corpus.index.mask(config.filter)
        refuse_empty(config.filter, unknown, lambda: mask is None or bool(mask.any()))
        built = [one.build(on) for one in config.retrievers if isinstance(one, InMemorySettings)]
        retrievers = [config.expansion.around(one, self.passages.indexed_texts) for one in built]
        return composed(config, retrievers, self.passages.fetch, on.vectors, bound(self._reranker(config.reranker), on))

    def _trace(self, reading: Reading, pipeline: Pipeline, query: str | GoldenQuery) -> Trace:
        made = super()._trace(reading, pipeline, query)
        return replace(made, notes=(*self._notes, *made.notes))

    def _stopping(self) -> bool:
        return self._turns.stopping

    def parse_view(self, query: str, config: PipelineConfig | None = None) -> ParseView:
        """The terms of a query; an index knows no operators."""
        self.fitting(config)
        return self.passages.parse_query(query)

    def parse_passage(self, chunk_id: str) -> PassageView:
        return self.passages.parse_passage(chunk_id)

    def matched_words(self, made: Stages, texts: Iterable[str]) -> frozenset[str]:
        """The words of the texts, lower case, that are terms of the query, or have their stems where BM25 has stems."""
        asked = set(terms(made.query))
        stems: set[str] = set()
        if isinstance(made, Trace) and any(isinstance(one, StemmedBm25Search) for one in made.config.retrievers):
            stems = set(stemmed(asked))
        found = {word for text in texts for word in words(text)}
        return frozenset(word for word in found if not asked.isdisjoint(terms(word)) or stems & set(stemmed([word])))

    def changed_files(self) -> tuple[Path, ...]:
        now = self._source.stamps()
        return tuple(
            sorted(path for path in now.keys() | self._stamps.keys() if now.get(path) != self._stamps.get(path))
        )

    def searched(self) -> list[tuple[Document, str]]:
        """As `Lab.searched`; without the corpus's folder its documents are what their chunks have of them."""
        if self._source.corpus is not None:
            return super().searched()
        folders = {chunk.doc_id: chunk.uri.rpartition("/")[0] for chunk in self.passages.corpus.index.chunks}
        return [(self._document(doc_id), folders[doc_id]) for doc_id in sorted(self.passages.doc_ids)]

    def _document(self, doc_id: str) -> Document:
        chunks = self.passages.documents([doc_id])
        return Document(doc_id, doc_id, "\n\n".join(chunk.text for chunk in chunks))

    def source(self, chunk: Chunk) -> tuple[Path, int]:
        if self._source.corpus is None:
            self._refuse("files to open: name the folder of its corpus, too")
        return super().source(chunk)

    def require_golden(self) -> None:
        if not self.golden and not self._golden_set.faults and self._source.labels.parent == self._source.folder:
            self._refuse("golden queries: name the folder of its corpus, too, or a file of them")
        super().require_golden()

    def save_config(self, config: PipelineConfig) -> Never:  # noqa: ARG002
        self._refuse("settings to save: give a file of settings with --config")

    def work(self, *_: Any, **__: Any) -> Never:
        self._refuse("PostgreSQL, which this needs: open the corpus for it")

    def connect(self) -> Never:
        self._refuse("PostgreSQL, which this needs: open the corpus for it")

    def server_versions(self) -> dict[str, str]:
        return {}

    def cancel(self) -> None:
        self._turns.cancel()

    def close(self) -> None:
        """Stop what is running. A second call does nothing."""
        for turns in (self._turns, self._background_turns):
            turns.close()

    def _refuse(self, what: str) -> Never:
        raise InputError(f"an index has no {what}")


@dataclass(frozen=True, slots=True)
class _InMemory:
    """What the retrievers are built on (`retrievers.base.Indexed`)."""

    vectors: QueryVectors
    index: CorpusIndex

    def corpus_index(self) -> CorpusIndex:
        return self.index


class _NoEmbedder:
    """In the place of an embedder that is not to be had: it makes zero vectors, which nothing is compared with."""

    name = "none"

    def __init__(self, dims: int) -> None:
        self.dims = dims

    def embed(self, texts: Sequence[str]) -> Vectors:
        return np.zeros((len(texts), self.dims), dtype=np.float32)


class _Turns:
    """One question after another, as `session.Session` asks them, of what needs no connection."""

    def __init__(self) -> None:
        self.stopping = False
        self._turn = threading.Lock()
        self._closed = False

    def ask(self, question: Callable[[], T], cancelled: Callable[[], bool] = lambda: False) -> T:
        """What `question` returns. Raises LabError after `close`, Cancelled where `cancelled` holds."""
        with self._turn:
            if self._closed:
                raise LabError("this lab is closed; open the index again")
            if cancelled():
                raise Cancelled("stopped before it began")
            self.stopping = False
            return question()

    def cancel(self) -> None:
        """Have the question that is asked at the moment end before its next stage; any thread."""
        self.stopping = self._turn.locked()

    def close(self) -> None:
        self._closed = True
        self.cancel()
