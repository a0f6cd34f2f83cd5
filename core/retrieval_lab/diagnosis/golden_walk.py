"""Looking at every golden query's trace in turn, over the connection for work, so that questions go on meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from retrieval_lab.assembly import Reading
from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import Cancelled
from retrieval_lab.metrics import labelled, why_undefined
from retrieval_lab.passages import Passages
from retrieval_lab.pipeline import Pipeline
from retrieval_lab.trace import Trace, beyond
from retrieval_lab.types import GoldenQuery, Stages

if TYPE_CHECKING:
    from retrieval_lab.lab import Lab

T = TypeVar("T")

Look = Callable[[Trace, Pipeline, Passages], T]
"""What is made of a golden query's trace, which this pipeline made over this corpus."""


def over_golden(
    lab: Lab,
    config: PipelineConfig | None,
    look: Look[T],
    *,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> tuple[T, ...]:
    """What `look` makes of each golden query that has an answer, in the order of the file.

    The traces have no plans and no stop words, and find ranks beyond the lists when they are asked for them.
    `progress` hears how many of how many queries are done, `cancelled` is asked before each. Raises as
    `Lab.evaluate_queries` does.
    """
    lab.require_golden()

    def work(reading: Reading) -> tuple[T, ...]:
        corpus, pipeline = reading.passages, reading.pipeline()
        answerable = [golden for golden in lab.golden if golden.level != "none"]
        labels = labelled(answerable, corpus.documents)
        found = []
        for done, (golden, relevant) in enumerate(labels):
            progress(done, len(labels))
            if cancelled():
                raise Cancelled(f"stopped after {done} of {len(labels)} queries")
            found.append(look(_traced(reading.config, pipeline, corpus, golden, relevant), pipeline, corpus))
        progress(len(labels), len(labels))
        return tuple(found)

    return lab.read(work, config, at_once=False)


def _traced(
    config: PipelineConfig, pipeline: Pipeline, corpus: Passages, golden: GoldenQuery, relevant: frozenset[str]
) -> Trace:
    made = pipeline.run(golden.query)
    return Trace(
        **{name: getattr(made, name) for name in Stages.__slots__},
        config=config,
        golden=golden,
        relevant=tuple(sorted(relevant)),
        unlabelled=None if relevant else why_undefined(corpus.documents(golden.doc_ids), golden),
        locate=lambda chunk_id: beyond(pipeline, made, [chunk_id]).get(chunk_id, {}),
    )
