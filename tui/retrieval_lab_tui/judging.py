"""Error analysis: the misses with the stage that lost each, what is proposed, and the judgments kept in the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from retrieval_lab.config import PipelineConfig
from retrieval_lab.diagnosis.analysis_edits import add_rows, set_paragraph, set_row
from retrieval_lab.diagnosis.analysis_file import Document, Row
from retrieval_lab.diagnosis.analysis_store import analysis_path, edit_analysis, load_analysis
from retrieval_lab.diagnosis.funnel import Fate, Funnel, funnel
from retrieval_lab.diagnosis.kinds import Failure, Fix
from retrieval_lab.diagnosis.proposal import Proposal, diagnoses
from retrieval_lab.errors import InputError
from retrieval_lab.lab import Lab
from retrieval_lab.trace import Trace
from retrieval_lab.types import Chunk
from retrieval_lab_tui.jobs import Cancelled, Failed, Jobs


@dataclass(frozen=True, slots=True)
class Miss:
    """A golden query whose passage is not in the final list, by its place in the golden set."""

    place: int
    fate: Fate
    proposal: Proposal | None


@dataclass(frozen=True, slots=True)
class Looked:
    """Where the passages of the golden set are lost, and the misses among them."""

    funnel: Funnel
    misses: tuple[Miss, ...]


@dataclass(frozen=True, slots=True)
class Detail:
    """A miss to be read: its passage, and the trace with the final list."""

    passage: Chunk | None
    trace: Trace


class Judging:
    """Starts the jobs `look`, `detail` and `judge`. The misses are those of one configuration."""

    def __init__(self, jobs: Jobs, lab: Lab, config: PipelineConfig) -> None:
        self.lab = lab
        self.config = config
        self._jobs = jobs

    def look(self, done: Callable[[Looked], None], failed: Failed) -> None:
        """Find the misses, where each was lost, and what is proposed for it."""

        def work(cancelled: Cancelled) -> Looked:
            found = funnel(self.lab, self.config, cancelled=cancelled)
            proposed = {one.query_id: one for one in diagnoses(self.lab, self.config, cancelled=cancelled)}
            places = {query.query_id: place for place, query in enumerate(self.lab.golden)}
            lost = [fate for fate in found.fates if fate.lost_at is not None and fate.chunk_id is not None]
            return Looked(found, tuple(Miss(places[fate.query_id], fate, proposed.get(fate.query_id)) for fate in lost))

        self._jobs.start("look", work, done, failed)

    def detail(self, miss: Miss, done: Callable[[Detail], None], failed: Failed) -> None:
        """Ask the query, so that its passage and its final list can be read."""

        def work(cancelled: Cancelled) -> Detail:
            trace = self.lab.trace(self.lab.golden[miss.place], self.config, cancelled=cancelled)
            wanted = miss.fate.chunk_id or ""
            # A passage that is in no pool is not among the trace's own.
            return Detail(trace.chunks.get(wanted) or self.lab.chunks([wanted]).get(wanted), trace)

        self._jobs.start("detail", work, done, failed)

    def document(self) -> Document:
        """The analysis as it is on disk, empty without a file. Raises InputError when it cannot be read."""
        path = analysis_path(self.lab.corpus)
        return load_analysis(path) if path.exists() else Document((), (), (), (), ())

    def judge(
        self,
        miss: Miss,
        done: Callable[[Document], None],
        failed: Failed,
        *,
        failure: Failure | None = None,
        fix: Fix | None = None,
        notes: str | None = None,
    ) -> None:
        """Write what is given into the row of the miss, which is made where it is missing."""
        fate = miss.fate

        def change(document: Document) -> Document:
            document = add_rows(document, [Row(fate.query_id)], queries={fate.query_id: fate.query})
            return set_row(document, fate.query_id, failure=failure, fix=fix, notes=notes)

        self._jobs.start("judge", lambda _: edit_analysis(self.lab.corpus, change), done, failed)

    def explain(self, kind: Failure, text: str, done: Callable[[Document], None], failed: Failed) -> None:
        """Write the paragraph of a failure kind."""

        def work(_: Cancelled) -> Document:
            if not text.strip():
                raise InputError(f"an empty paragraph says nothing about {kind}; write at least 25 words")
            return edit_analysis(self.lab.corpus, lambda document: set_paragraph(document, kind, text))

        self._jobs.start("judge", work, done, failed)
