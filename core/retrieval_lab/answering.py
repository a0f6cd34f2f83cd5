"""From a question to its answer: the passages to answer from, how well they support it, and who answers.

The passages are the first of the final list, and with them the one of the reranked pool that supports the question
best, if it stands further down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from retrieval_lab import claude
from retrieval_lab.answer import assemble, run
from retrieval_lab.assembly import Reading
from retrieval_lab.citations import CitationReport, cited_sentences
from retrieval_lab.claude_login import has_login
from retrieval_lab.extractive import ExtractiveAnswerer
from retrieval_lab.support import SOURCES, Support, Terms, looked_at
from retrieval_lab.text import words
from retrieval_lab.trace import Trace
from retrieval_lab.types import Answer, Chunk, Draft, GoldenQuery

if TYPE_CHECKING:
    from retrieval_lab.config import PipelineConfig
    from retrieval_lab.lab import Lab


@dataclass(frozen=True, slots=True)
class Source:
    """A passage to answer from: its number in the prompt, from 1, its rank and score in the reranked pool."""

    number: int
    chunk: Chunk
    rank: int
    score: float
    support: Support


@dataclass(frozen=True, slots=True)
class Grounds:
    """All that a question can be answered from.

    `draft` is the prompt, or refused where no source's support reaches the `floor`. `lexemes` has that of each word of
    the question and the sources.
    """

    trace: Trace
    terms: Terms
    sources: tuple[Source, ...]
    floor: float
    draft: Draft
    lexemes: Mapping[str, str]

    @property
    def support(self) -> float:
        """The support of the question: the best that a source gives, 0 without sources."""
        return best_share(self.sources)


def best_share(sources: Sequence[Source]) -> float:
    """The best support that one of the sources gives, 0 without sources."""
    return max((source.support.share for source in sources), default=0.0)


class Answerer(Protocol):
    """Whoever answers from grounds."""

    @property
    def name(self) -> str:
        """Who speaks, as the answer says it."""

    def answer(self, grounds: Grounds, heard: Callable[[str], None], cancelled: Callable[[], bool]) -> Answer:
        """The answer, or the refusal; `heard` gets what there is of it so far.

        Raises LabError, and Cancelled once `cancelled` holds; half an answer is never returned.
        """


def grounds(
    lab: Lab,
    query: str | GoldenQuery | Trace,
    config: PipelineConfig | None = None,
    *,
    top_k: int = SOURCES,
    cancelled: Callable[[], bool] = lambda: False,
) -> Grounds:
    """What a question, or one that is traced already, can be answered from: `top_k` passages or one more.

    Raises as `Lab.trace` does.
    """
    trace = query if isinstance(query, Trace) else lab.trace(query, config, cancelled=cancelled)
    return lab.read(partial(_grounds, trace, top_k), trace.config, at_once=True)


def _grounds(trace: Trace, top_k: int, reading: Reading) -> Grounds:
    passages = reading.passages
    terms = passages.question_terms(trace.query, trace.parsed)
    chosen = [row.chunk_id for row in trace.final[:top_k]]
    found = passages.supports(terms, looked_at(trace, top_k))
    best = max(found, key=lambda one: found[one].share, default=None)  # the first of equals: sources come first
    if best is not None and best not in chosen and found[best].share > 0:
        chosen.append(best)
    sources = tuple(_sources(trace, chosen, found))
    spoken = {word for text in (trace.query, *(one.chunk.text for one in sources)) for word in words(text)}
    return Grounds(
        trace=trace,
        terms=terms,
        sources=sources,
        floor=trace.config.support_floor,
        draft=assemble(
            trace.query,
            [one.chunk for one in sources],
            scores=[one.support.share for one in sources],
            floor=trace.config.support_floor,
        ),
        lexemes=passages.lexemes(spoken),
    )


def _sources(trace: Trace, chosen: list[str], found: Mapping[str, Support]) -> Iterator[Source]:
    rows = {row.chunk_id: row for row in trace.reranked}
    for number, chunk_id in enumerate(chosen, start=1):
        row = rows[chunk_id]
        yield Source(number, trace.chunks[chunk_id], row.rank, row.score, found[chunk_id])


@dataclass(frozen=True, slots=True)
class Extractive:
    """Answers with the sources' own sentences; needs no account and no model."""

    sentences: int = 3
    name: str = "extractive"

    def answer(
        self,
        grounds: Grounds,
        heard: Callable[[str], None],
        cancelled: Callable[[], bool],  # noqa: ARG002 - it takes milliseconds
    ) -> Answer:
        """The best sentences of the sources, each cited."""
        answerer = ExtractiveAnswerer(self.sentences, stem=lambda word: grounds.lexemes.get(word, word))
        chunks = [] if grounds.draft.refused else [source.chunk for source in grounds.sources]
        made = answerer.answer(grounds.trace.query, chunks, weights=grounds.terms.weights)
        heard(made.text)
        return made


@dataclass(frozen=True, slots=True)
class Claude:
    """Answers through the Claude Agent SDK (extra `claude`); `model` None is the default of `answer.run`."""

    model: str | None = None
    query_fn: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        """Claude with the model that answers."""
        return f"claude ({self.model or claude.MODEL})"

    def answer(self, grounds: Grounds, heard: Callable[[str], None], cancelled: Callable[[], bool]) -> Answer:
        """What the model answers to the prompt. Raises AnswerError, and Cancelled once `cancelled` holds."""
        return run(
            grounds.trace.query,
            grounds.draft,
            query_fn=self.query_fn,
            model=self.model,
            heard=heard,
            cancelled=cancelled,
        )


def usual_answerer() -> Answerer:
    """Claude where there is a login and the extra `claude`, else the sources' own sentences."""
    return Claude() if has_login() and find_spec("claude_agent_sdk") is not None else Extractive()


@dataclass(frozen=True, slots=True)
class Said:
    """An answer and what it rests on: `report` is how it cites by the full rules, `seconds` the time it took to say."""

    text: str
    report: CitationReport
    answerer: str
    sources: tuple[Source, ...]
    floor: float
    cost_usd: float
    seconds: float

    @property
    def support(self) -> float:
        """The support of the question: the best that a source gives, 0 without sources."""
        return best_share(self.sources)

    def to_dict(self) -> dict[str, Any]:
        """The answer as JSON has it; `citations` are the sources that it cites."""
        return {
            "text": self.text,
            "refused": self.report.refused,
            "answerer": self.answerer,
            "citations": [
                {"n": number, "chunk_id": self.sources[number - 1].chunk.chunk_id} for number in self.report.cited
            ],
            "support": self.support,
            "floor": self.floor,
            "cost_usd": self.cost_usd,
        }


def say(
    made: Grounds,
    answerer: Answerer,
    *,
    heard: Callable[[str], None] = lambda _text: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Said:
    """What the answerer says on these grounds, checked. Raises as `Answerer.answer` does."""
    began = perf_counter()
    answer = answerer.answer(made, heard, cancelled)
    return Said(
        text=answer.text,
        report=cited_sentences(answer.text, made.draft.citations),
        answerer=answerer.name,
        sources=made.sources,
        floor=made.floor,
        cost_usd=answer.cost_usd,
        seconds=perf_counter() - began,
    )
