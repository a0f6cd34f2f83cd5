"""A corpus opened for questions: its configuration, its index and its golden set in one object."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import psycopg
from psycopg import Connection

from retrieval_lab.assembly import Bench, Reading, assembled
from retrieval_lab.config import PipelineConfig
from retrieval_lab.config_file import config_path, effective_config, save_config
from retrieval_lab.configurations import Configuration
from retrieval_lab.corpus import GOLDEN_FILE, file_stamps, place_in_file
from retrieval_lab.corpus_index import IndexKeeper, Origin
from retrieval_lab.database import Database
from retrieval_lab.diagnosis.follow import follow
from retrieval_lab.diagnosis.journey import Journey
from retrieval_lab.diagnosis.parse_view import ParseView, PassageView, parse_passage, parse_query
from retrieval_lab.embed import QueryVectors
from retrieval_lab.errors import EnvironmentMissing, InputError
from retrieval_lab.golden_set import GoldenSet
from retrieval_lab.index import IndexReport, Progress, index_corpus, schema_name, searched_documents
from retrieval_lab.lexemes import Lexemes
from retrieval_lab.metrics import QueryResult, relevant, summarise, why_undefined
from retrieval_lab.passages import StoredPassages, passage
from retrieval_lab.paths import bundled_corpus, index_folder
from retrieval_lab.pipeline import Pipeline
from retrieval_lab.rerankers import CorpusReranker, Reranker
from retrieval_lab.retrievers.base import Surroundings
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.session import Session, first_line
from retrieval_lab.settings import RerankerSettings
from retrieval_lab.store import CHUNKS
from retrieval_lab.text import words
from retrieval_lab.trace import Trace, beyond
from retrieval_lab.types import Chunk, Document, GoldenQuery, Metrics, Place, Stages
from retrieval_lab.windows import truncations

T = TypeVar("T")


class Lab:
    """One corpus, indexed and ready; make it with `Lab.open` and close it, or use it in a `with` block.

    Methods may be called from any thread. Questions are answered one after another over one connection, and
    evaluations over another, so that neither waits for the other. `golden` is empty where golden.yaml is missing or
    faulty, and `golden_faults` says why.
    """

    def __init__(
        self,
        corpus: Path,
        config: PipelineConfig,
        database: Database,
        schema: str,
        index: IndexReport,
        stamps: Mapping[Path, tuple[int, int]] | None = None,
    ) -> None:
        self.corpus = corpus
        self.config = config
        self.schema = schema
        self.index = index
        self.embedder = config.embedder.build()
        self._stamps = file_stamps(corpus, config_path(corpus)) if stamps is None else stamps
        self._golden_set = GoldenSet.open(corpus / GOLDEN_FILE)
        self.golden, self.golden_faults = self._golden_set.queries, self._golden_set.faults
        self._database = database
        self._rerankers: dict[RerankerSettings, Reranker | CorpusReranker | None] = {}
        self._lexemes = Lexemes()
        self._plans: dict[Hashable, tuple[str, ...]] = {}
        origin = Origin(self.embedder.name, config.indexing.chunking)
        self._keeper = IndexKeeper(index_folder(schema), origin)
        # Named with its schema: a search path would fall back on a table of that name in `public`.
        self._table = replace(CHUNKS, schema=schema, contextual_headers=config.contextual_headers)
        self._questions = Session(partial(database.connect, schema))
        self._background = Session(partial(database.connect, schema))

    @classmethod
    def open(
        cls,
        corpus: Path | str | None = None,
        config: PipelineConfig | None = None,
        dsn: str | None = None,
        *,
        progress: Callable[[Progress], None] = lambda _: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Self:
        """Open a corpus folder (the bundled one unless given) and bring its index in step with its files.

        `config` is the pipeline, by default that of the corpus's lab.yaml. Each way of indexing has an index of its
        own, which stays when another is opened. `dsn` names a PostgreSQL server; without it $RETRIEVAL_LAB_DSN does,
        and without that the embedded server is used. `progress` hears of every document indexed, `cancelled` is asked
        between documents.

        Raises InputError when the folder is no corpus or its lab.yaml has faults, EnvironmentMissing when there is no
        usable server, and IndexingCancelled.
        """
        folder = Path(corpus if corpus is not None else bundled_corpus()).absolute()
        # Taken first: a file that changes while others are read counts as changed.
        stamps = file_stamps(folder, config_path(folder))
        if config is None:
            config = effective_config(folder).config
        schema = schema_name(folder, config.indexing)
        database = Database.open(dsn)
        try:
            with database.connect() as conn:
                index = index_corpus(conn, folder, config.indexing, schema, progress=progress, cancelled=cancelled)
            return cls(folder, config, database, schema, index, stamps)
        except psycopg.OperationalError as error:
            database.close()
            raise EnvironmentMissing(f"the server went away ({first_line(error)}); open the corpus again") from error
        except BaseException:
            database.close()
            raise

    @property
    def replayed(self) -> bool:
        """Whether it answers from a bundle alone, and so no other question."""
        return False

    @property
    def serves_one_index(self) -> bool:
        """Whether it cannot be opened in another way of indexing."""
        return False

    def offered(self, named: Sequence[Configuration]) -> tuple[Configuration, ...]:
        """The configurations as they work here; those that do not say why as a fault."""
        return tuple(named)

    @property
    def server(self) -> str:
        """What answers, in a word or two."""
        return "embedded" if self.embedded else "own server"

    @property
    def embedded(self) -> bool:
        """Whether the lab runs on the embedded server."""
        return self._database.embedded

    def trace(
        self,
        query: str | GoldenQuery,
        config: PipelineConfig | None = None,
        *,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Trace:
        """Run one question through every stage and keep all of them; of a golden query the relevant chunks are known.

        `config` is another pipeline over the same index. `cancelled` is asked once the questions before are answered.

        Raises InputError when `config` needs another index, EnvironmentMissing when the server is gone (the next call
        connects again), Cancelled after `cancel` or where `cancelled` holds, and LabError when the server stopped the
        query of itself, as it does after its statement_timeout.
        """
        return self.read(lambda reading: self._trace(reading, reading.pipeline(), query), config, cancelled=cancelled)

    def _trace(self, reading: Reading, pipeline: Pipeline, query: str | GoldenQuery) -> Trace:
        golden = query if isinstance(query, GoldenQuery) else None
        made = pipeline.run(golden.query if golden else str(query), explain=True, cancelled=self._stopping)
        chunks = reading.passages.documents(golden.doc_ids) if golden else []
        wanted = sorted(relevant(chunks, golden)) if golden else []
        read = {**made.chunks, **{chunk.chunk_id: chunk for chunk in chunks if chunk.chunk_id in wanted}}
        return Trace(
            **{name: getattr(made, name) for name in Stages.__slots__},
            config=reading.config,
            golden=golden,
            relevant=tuple(wanted),
            unlabelled=why_undefined(chunks, golden) if golden and not wanted else None,
            beyond=beyond(pipeline, made, wanted),
            truncated=truncations(
                read.values(), self.embedder, reading.passages.indexed, pipeline.reranker, made.query
            ),
            locate=partial(self._locate, made, reading.config),
        )

    def _locate(self, made: Stages, config: PipelineConfig, chunk_id: str) -> Mapping[str, Place]:
        """Where a chunk stands beyond the lists of a trace, asked later."""
        return self.read(lambda reading: beyond(reading.pipeline(), made, [chunk_id]).get(chunk_id, {}), config)

    def _stopping(self) -> bool:
        """Whether the question that is asked at the moment is to end."""
        return self._questions.stopping

    def changed_files(self) -> tuple[Path, ...]:
        """The files of the corpus that are new, gone or changed since it was opened, by time and size; any thread."""
        now, then = file_stamps(self.corpus, config_path(self.corpus)), self._stamps
        return tuple(sorted(path for path in now.keys() | then.keys() if now.get(path) != then.get(path)))

    def save_config(self, config: PipelineConfig) -> Path:
        """Write the configuration as the corpus's own, use it from now on, and return the file.

        Raises InputError when it needs another index or the file cannot be written.
        """
        path = config_path(self.corpus)
        save_config(self._fitting(config), path)
        self.config = config
        self.read_config()
        return path

    def read_config(self) -> None:
        """Count the corpus's lab.yaml as it is now as the one that was there when the corpus was opened.

        For another lab of the corpus, which wrote it.
        """
        path = config_path(self.corpus)
        now = file_stamps(self.corpus, path)
        others = {one: stamp for one, stamp in self._stamps.items() if one != path}
        self._stamps = others | ({path: now[path]} if path in now else {})

    def source(self, chunk: Chunk) -> tuple[Path, int]:
        """The file of a chunk and the line at which it begins, from 1. Raises InputError when the file is gone."""
        return place_in_file(self.corpus, chunk.doc_id, chunk.start_char)

    def explain(
        self, query: str | GoldenQuery | Trace, chunk_id: str | None = None, config: PipelineConfig | None = None
    ) -> Journey:
        """What happened to one passage at every stage of a question, and why it was lost.

        The passage is the chunk named, or else, of a golden query, the chunk that holds its anchor: the best placed one
        of several. A trace that was made already is not made again, and brings its configuration. Raises InputError
        when no passage is named, when there is no such chunk and when a trace is given another configuration, and as
        `trace` does.
        """
        if isinstance(query, Trace):
            if config not in (None, query.config):
                raise InputError("this trace was made with another configuration; give the question instead of it")
            config = query.config
        return self.read(lambda reading: self._explain(reading, query, chunk_id), config)

    def _explain(self, reading: Reading, query: str | GoldenQuery | Trace, chunk_id: str | None) -> Journey:
        pipeline = reading.pipeline()
        made = query if isinstance(query, Trace) else self._trace(reading, pipeline, query)
        return follow(made, pipeline, reading.passages, chunk_id)

    def parse_view(self, query: str, config: PipelineConfig | None = None) -> ParseView:
        """What full-text search makes of a query, with the operators of the configuration's retriever of that kind.

        Raises as `trace` does.
        """
        searches = [one for one in self._fitting(config).retrievers if isinstance(one, TextSearch)]
        operators = next((one.operators for one in sorted(searches, key=lambda one: one.name != "text")), True)
        text_config = self._table.text_config
        return self._questions.ask(lambda conn: parse_query(conn, query, text_config, operators=operators))

    def parse_passage(self, chunk_id: str) -> PassageView:
        """What full-text search made of a passage when it was indexed.

        Raises InputError when there is no such chunk, and as `trace` does.
        """

        def parsed(conn: Connection[Any]) -> PassageView:
            text = self._table.indexed(passage(StoredPassages(conn, self._table), chunk_id))
            return parse_passage(conn, chunk_id, text, self._table.text_config)

        return self._questions.ask(parsed)

    def golden_query(self, query_id: str) -> GoldenQuery:
        """The golden query of this id.

        Raises InputError when there is none of this id or no golden.yaml, FaultyInput when that has faults.
        """
        return self._golden_set.query(query_id)

    def why_undefined(self, query: GoldenQuery) -> str | None:
        """Why no chunk is relevant for the query; None when one is. Raises as `trace` does."""
        return why_undefined(self.read(lambda reading: reading.passages.documents(query.doc_ids)), query)

    def chunks(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """The chunks with these ids, in their order; unknown ids are left out. Raises as `trace` does."""
        found = self.read(lambda reading: reading.passages.fetch(chunk_ids))
        return {chunk_id: chunk for chunk_id, (chunk, _) in found.items()}

    def neighbours(self, chunk_id: str) -> tuple[Chunk | None, Chunk | None]:
        """The chunks before and after this one in its document, None at its ends. Raises as `trace` does."""
        doc_ids = [chunk.doc_id for chunk in self.chunks([chunk_id]).values()]
        chunks = self.read(lambda reading: reading.passages.documents(doc_ids))
        place = next((place for place, chunk in enumerate(chunks) if chunk.chunk_id == chunk_id), None)
        if place is None:
            return None, None
        before = chunks[place - 1] if place else None
        return before, chunks[place + 1] if place + 1 < len(chunks) else None

    def matched_words(self, made: Stages, texts: Iterable[str]) -> frozenset[str]:
        """The words of the texts, lower case, that full-text search matched for the traced query.

        Raises as `trace` does.
        """
        found = {word for text in texts for word in words(text)}
        return self._questions.ask(lambda conn: self._lexemes.matching(conn, found, made.parsed))

    def split(self, name: str) -> tuple[GoldenQuery, ...]:
        """The golden queries of this split, in the order of the file.

        Raises InputError when there are none, FaultyInput when golden.yaml has faults.
        """
        return self._golden_set.split(name)

    def evaluate(
        self, k: int | None = None, config: PipelineConfig | None = None, *, split: str | None = None
    ) -> Metrics:
        """Means over the golden set, or a split of it, at cut k (the configuration's `top_k` unless given).

        Raises as `evaluate_queries` does.
        """
        config = self._fitting(config)
        if k is not None:
            config = replace(config, top_k=k)
        return summarise(self.evaluate_queries(config, split=split), k=config.top_k, n=config.fusion.n)

    def evaluate_queries(
        self,
        config: PipelineConfig | None = None,
        *,
        split: str | None = None,
        golden: Sequence[GoldenQuery] | None = None,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> list[QueryResult]:
        """The result of each golden query, or of each of a split, in the order of the file.

        `golden` are other queries to ask instead of those of golden.yaml. `progress` hears how many of how many queries
        are done, `cancelled` is asked before each.

        Raises FaultyInput when golden.yaml has faults, InputError when it is missing or empty or when both a split and
        queries are given, Cancelled, and as `trace` does.
        """
        config = self._fitting(config)
        if golden is not None and split is not None:
            raise InputError("a split is one of golden.yaml; leave it out, or the other queries")
        if golden is None:
            self.require_golden()
            golden = self.golden if split is None else self.split(split)
        return self.read(lambda reading: reading.evaluate(golden, progress, cancelled), config, at_once=False)

    def searched(self) -> list[tuple[Document, str]]:
        """The documents of the corpus whose chunks are in the index as their text gives them, each with its folder.

        Files that were left out or came later are not among them. Raises InputError when others changed after they were
        indexed.
        """
        return searched_documents(self.corpus, self.config.chunker, self.chunks, self.index.chunks)

    def server_versions(self) -> dict[str, str]:
        """The versions of the server and its vector extension: `postgresql`, `pgvector`. Raises as `trace` does."""
        return self._background.ask(_server_versions)

    def cancel(self) -> None:
        """Stop the question that is running, from any thread; its caller gets Cancelled.

        Waits up to a second for the server. Nothing happens when nothing runs or the server does not answer.
        Evaluations go on.
        """
        self._questions.cancel()

    def close(self) -> None:
        """Stop what is running, close the connections and let go of the server. A second call does nothing."""
        for session in (self._questions, self._background):
            session.cancel()
            session.close()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def require_golden(self) -> None:
        """Raises FaultyInput when golden.yaml has faults, InputError when it is missing or empty."""
        self._golden_set.require()

    def _fitting(self, config: PipelineConfig | None) -> PipelineConfig:
        """The configuration, once it is sure that this lab's index serves it."""
        if config is None or config.indexing == self.config.indexing:
            return config or self.config
        other = [
            f"{name} {getattr(config.indexing, name)}"
            for name in ("chunker", "embedder", "contextual_headers")
            if getattr(config.indexing, name) != getattr(self.config.indexing, name)
        ]
        raise InputError(
            f"this configuration needs another index ({', '.join(other)}): open it with Lab.open(corpus, config)"
        )

    def work(self, work: Callable[[Bench], T], config: PipelineConfig | None = None, *, at_once: bool = False) -> T:
        """What `work`, which only reads, makes of the index. Raises as `trace` does.

        Evaluations wait meanwhile; or, `at_once`, questions do.
        """
        config = self._fitting(config)
        on = self._questions if at_once else self._background
        return on.ask(lambda conn: work(Bench(conn, self._table, self.embedder, config, self._reranker, self._keeper)))

    def read(
        self,
        work: Callable[[Reading], T],
        config: PipelineConfig | None = None,
        *,
        at_once: bool = True,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> T:
        """What `work`, which only reads, makes of the passages and the pipeline of a configuration over them.

        Questions wait meanwhile, or evaluations where it is not `at_once`. Raises as `trace` does.
        """
        config = self._fitting(config)
        on = self._questions if at_once else self._background

        def reading(conn: Connection[Any]) -> T:
            passages = StoredPassages(conn, self._table, self._lexemes)
            return work(Reading(passages, config, lambda: self._pipeline(conn, config)))

        return on.ask(reading, cancelled)

    def connect(self) -> Connection[Any]:
        """A new connection to the lab's database, for the caller to close. Raises EnvironmentMissing."""
        return self._database.connect()

    def _pipeline(self, conn: Connection[Any], config: PipelineConfig) -> Pipeline:
        on = Surroundings(conn, QueryVectors(self.embedder), self._table, self._plans, self._keeper)
        return assembled(config, on, self._reranker(config.reranker))

    def _reranker(self, settings: RerankerSettings) -> Reranker | CorpusReranker | None:
        """One for each settings, so that a model is loaded once."""
        if settings not in self._rerankers:
            self._rerankers[settings] = settings.build()
        return self._rerankers[settings]


def _server_versions(conn: Connection[Any]) -> dict[str, str]:
    statement = "SELECT current_setting('server_version'), extversion FROM pg_extension WHERE extname = 'vector'"
    row = conn.execute(statement).fetchone()
    return {} if row is None else {"postgresql": str(row[0]), "pgvector": str(row[1])}
