"""A bundle in the place of a lab: the same question, read again without a database, a model or the corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Never

from retrieval_lab.config import PipelineConfig
from retrieval_lab.diagnosis.bundle import Bundle
from retrieval_lab.diagnosis.journey import Journey
from retrieval_lab.diagnosis.parse_view import ParseView
from retrieval_lab.errors import InputError
from retrieval_lab.index import IndexReport
from retrieval_lab.lab import Lab
from retrieval_lab.text import words
from retrieval_lab.trace import Trace
from retrieval_lab.types import Chunk, GoldenQuery, Stages


class Replay(Lab):
    """Answers what the bundle holds, and says of all else that only the corpus can tell.

    Nothing is opened, so nothing needs to be closed. `index` counts nothing: a bundle does not know its corpus.
    """

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.corpus = Path(bundle.corpus)
        self.config = bundle.config
        self.index = IndexReport((), 0, (), 0, ())
        self.golden = () if bundle.trace.golden is None else (bundle.trace.golden,)
        self.golden_faults = ()

    @property
    def replayed(self) -> bool:
        return True

    @property
    def serves_one_index(self) -> bool:
        return True

    @property
    def server(self) -> str:
        return "no server"

    @property
    def embedded(self) -> bool:
        return False

    def trace(
        self,
        query: str | GoldenQuery,
        config: PipelineConfig | None = None,
        *,
        cancelled: Callable[[], bool] = lambda: False,  # noqa: ARG002 - it takes no time
    ) -> Trace:
        """The bundle's trace. Raises InputError for another question or other settings."""
        text = query.query if isinstance(query, GoldenQuery) else query
        if text != self.bundle.trace.query or config not in (None, self.config):
            self._refuse("another question or other settings")
        return self.bundle.trace

    def explain(
        self, query: str | GoldenQuery | Trace, chunk_id: str | None = None, config: PipelineConfig | None = None
    ) -> Journey:
        """The bundle's journey. Raises InputError for another passage."""
        if not isinstance(query, Trace):
            self.trace(query, config)
        if chunk_id not in (None, self.bundle.journey.chunk_id):
            self._refuse("another passage")
        return self.bundle.journey

    def parse_view(self, query: str, config: PipelineConfig | None = None) -> ParseView:
        """How the bundle's question was read. Raises InputError for another one."""
        self.trace(query, config)
        return self.bundle.parse

    def chunks(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        return self.bundle.chunks(chunk_ids)

    def neighbours(self, chunk_id: str) -> tuple[Chunk | None, Chunk | None]:
        """The chunks beside the bundle's passage. Raises InputError for another passage."""
        if chunk_id != self.bundle.journey.chunk_id:
            self._refuse("the neighbours of another passage")
        return self.bundle.neighbours

    def matched_words(self, made: Stages, texts: Iterable[str]) -> frozenset[str]:  # noqa: ARG002 - there is one only
        return self.bundle.matched_words & {word for text in texts for word in words(text)}

    def changed_files(self) -> tuple[Path, ...]:
        return ()

    def parse_passage(self, chunk_id: str) -> Never:  # noqa: ARG002
        self._refuse("how a passage was indexed")

    def save_config(self, config: PipelineConfig) -> Never:  # noqa: ARG002
        self._refuse("settings to save")

    def source(self, chunk: Chunk) -> Never:  # noqa: ARG002
        self._refuse("the files")

    def work(self, *_: Any, **__: Any) -> Never:
        self._refuse("searches over the corpus")

    def evaluate_queries(self, *_: Any, **__: Any) -> Never:
        self._refuse("other golden queries")

    def server_versions(self) -> dict[str, str]:
        return {name: self.bundle.versions[name] for name in ("postgresql", "pgvector") if name in self.bundle.versions}

    def cancel(self) -> None:
        """Nothing ever runs."""

    def close(self) -> None:
        """Nothing is open."""

    def _refuse(self, what: str) -> Never:
        raise InputError(f"a bundle holds one question only, not {what}: open the corpus {self.corpus} for that")
