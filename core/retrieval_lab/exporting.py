"""A corpus's labels and a pipeline's lists as TREC has them: qrels and runs.

Graded documents are called by the collection's own ids, where the corpus was imported; labels by an anchor are of
chunks, which are called by their chunk ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from retrieval_lab.chunker import doc_id_of
from retrieval_lab.importing.folder import original_ids
from retrieval_lab.metrics import QueryResult, labelled
from retrieval_lab.trec import Qrels

if TYPE_CHECKING:
    from retrieval_lab.config import PipelineConfig
    from retrieval_lab.lab import Lab

RunLists = dict[str, list[tuple[str, float]]]
"""For each query its (id, score), the best first."""


def qrels(lab: Lab) -> Qrels:
    """The labels of the golden set, in its order; a query that nothing answers has its judged documents, if any.

    Raises FaultyInput and InputError when there is no golden set to use, and as `Lab.trace` does.
    """
    lab.require_golden()
    known = original_ids(lab.corpus)
    labels = lab.read(lambda reading: labelled(lab.golden, reading.passages.documents), at_once=False)
    return Qrels(
        {
            query.query_id: dict.fromkeys(sorted(relevant), 1)
            if query.level == "chunk"
            else {known.get(doc_id, doc_id): grade for doc_id, grade in query.relevant}
            for query, relevant in labels
        }
    )


def run_lists(
    lab: Lab,
    config: PipelineConfig | None = None,
    *,
    split: str | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> RunLists:
    """What the pipeline returns for each golden query, or each of a split: documents, or chunks for an anchor.

    A document has the score of its best chunk. Lists are as long as the pool allows, at most `fusion.n`. Raises as
    `Lab.evaluate_queries` does.
    """
    config = config or lab.config
    uncut = replace(config, top_k=config.fusion.n)
    known = original_ids(lab.corpus)
    results = lab.evaluate_queries(uncut, split=split, progress=progress)
    return {result.query.query_id: _rows(result, known) for result in results}


def _rows(result: QueryResult, known: Mapping[str, str]) -> list[tuple[str, float]]:
    if result.query.level == "chunk":
        return [(row.chunk_id, row.score) for row in result.final]
    best: dict[str, float] = {}
    for row in result.final:
        doc_id = doc_id_of(row.chunk_id)
        best.setdefault(known.get(doc_id, doc_id), row.score)
    return list(best.items())
