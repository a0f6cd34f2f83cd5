"""What a reader of a report should know of the golden set behind it, in words."""

from __future__ import annotations

from collections.abc import Iterator

from retrieval_lab.evals.runs import Run
from retrieval_lab.evals.summary import Summary

_HASH_CHARS = 12


def golden_lines(run: Run, summary: Summary) -> Iterator[str]:
    """How graded documents were scored, which split was, the held-out list, and the queries that nothing answers."""
    corpus, no_answer = run.corpus, summary.no_answer
    graded = sum(record.level == "document" for record in run.defined)
    if graded:
        yield f"{graded} queries with graded documents, each document scored by its best chunk"
    if corpus.split:
        yield f"the split {corpus.split} alone, {corpus.queries} queries"
    if corpus.held_out_hash:
        yield f"held out are {corpus.held_out} queries, hash {corpus.held_out_hash[:_HASH_CHARS]}"
    if no_answer is not None:
        yield (
            f"{no_answer.share.count} of {no_answer.share.of} queries that nothing answers found a passage all the"
            f" same, with a support of {no_answer.floor:g} or more"
        )
