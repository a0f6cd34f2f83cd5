"""Answers from passages: which passages, the prompt, the call, and whether every sentence cites a source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from psycopg import Connection

from retrieval_lab import claude
from retrieval_lab.citations import REFUSAL, CitationReport, Rules, cited_sentences
from retrieval_lab.embed import Embedder
from retrieval_lab.errors import AnswererMissing, AnswerError, InputError
from retrieval_lab.prompt import prompt_text
from retrieval_lab.rerank import Reranker, default_pipeline
from retrieval_lab.types import Answer, Chunk, Draft, Faithfulness

__all__ = [
    "REFUSAL",
    "SUPPORT_FLOOR",
    "AnswerError",
    "AnswererMissing",
    "CitationReport",
    "assemble",
    "check",
    "cited_sentences",
    "invalid_citations",
    "run",
    "sources",
]

SUPPORT_FLOOR = 4.0


def sources(
    conn: Connection[Any], embedder: Embedder, reranker: Reranker | None, query: str, *, top_k: int = 5
) -> tuple[list[Chunk], list[float]]:
    """The final chunks of the default pipeline, best first, and the reranker's score of each.

    Without a reranker the scores are those of fusion. Raises InputError for a negative top_k.
    """
    stages = default_pipeline(conn, embedder, reranker, top_k=top_k).run(query)
    return [stages.chunks[row.chunk_id] for row in stages.final], [row.score for row in stages.final]


def assemble(
    query: str,
    chunks: Sequence[Chunk],
    *,
    scores: Sequence[float] | None = None,
    min_support: int = 1,
    floor: float = SUPPORT_FLOOR,
) -> Draft:
    """The prompt and the chunk_ids of its sources, all chunks in the order given, those below the floor too.

    Refused when there are no chunks, or fewer than `min_support` of them score at least `floor`; without scores every
    chunk counts. Raises InputError unless there is one score for each chunk.
    """
    if scores is not None and len(scores) != len(chunks):
        raise InputError(f"{len(scores)} scores for {len(chunks)} chunks; expected one for each")
    support = len(chunks) if scores is None else sum(float(score) >= floor for score in scores)
    if not chunks or support < min_support:
        return Draft("", (), refused=True)
    return Draft(prompt_text(query, chunks), tuple(chunk.chunk_id for chunk in chunks), refused=False)


def check(text: str, citations: Sequence[str], *, rules: Rules = "pinned") -> Faithfulness:
    """How the answer `text` cites the sources `citations`, the first of which is number 1.

    By the pinned rules sentences end after `.`, `!` or `?` followed by white space, or at a line's end, but not after
    Mr., Mrs., Ms., Mme., Dr., St., vs., e.g., i.e. and etc.; a marker is `[n]`, and one that opens a sentence belongs
    to the one before; the answer is refused when it holds the refusal anywhere. `citations.cited_sentences` says what
    the full rules add, and where everything stands.
    """
    return cited_sentences(text, citations, rules=rules).faithfulness


def invalid_citations(text: str, citations: Sequence[str], *, rules: Rules = "pinned") -> list[int]:
    """The numbers that the answer cites and that no source has, ascending, each once."""
    return sorted({span.number for span in cited_sentences(text, citations, rules=rules).invalid})


def run(
    query: str,
    draft: Draft,
    *,
    query_fn: Callable[..., Any] | None = None,
    model: str | None = None,
    heard: Callable[[str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Answer:
    """Claude's answer to the draft, checked by the pinned rules; the refusal, without a call, for a refused draft.

    `query_fn` takes the place of `claude_agent_sdk.query`: an async generator function of `prompt` and `options`.
    `heard` gets the text so far whenever there is more of it, in the thread that runs the call. `cancelled` is asked
    about ten times a second. Where this thread already runs an event loop, the call has a thread of its own.
    `query` is part of the draft's prompt already and names the question in errors. The cost is what the SDK reports,
    and 0.0 where it reports none: a call that is part of a subscription has no price.

    Raises AnswerError when no whole answer came, saying what to do (AnswererMissing, exit code 3, where the extra
    `claude`, its program or a login is missing), and Cancelled.
    """
    if draft.refused:
        return Answer(REFUSAL, check(REFUSAL, draft.citations), 0.0)
    try:
        reply = claude.ask(draft.prompt, query_fn=query_fn, model=model, heard=heard, cancelled=cancelled)
    except AnswerError as error:
        error.add_note(f"for the question {query!r}")
        raise
    return Answer(reply.text, check(reply.text, draft.citations), reply.cost_usd)
