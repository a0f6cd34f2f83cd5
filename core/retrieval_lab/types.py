"""The values that every stage shares: documents, chunks, hits, golden queries, measures.

All of them are frozen. A stage never changes what an earlier one made; it returns new values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from retrieval_lab.errors import InputError


@dataclass(frozen=True, slots=True)
class Document:
    """One file of a corpus. `doc_id` is the file's stem, `text` its content with `\\n` line ends."""

    doc_id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage: `text` equals the document's text from `start_char` up to `end_char`, in code points."""

    chunk_id: str
    doc_id: str
    heading_path: str
    start_char: int
    end_char: int
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """One row of a retriever's list.

    `rank` counts from 1; `score` is the retriever's own and compares only within its list.
    """

    chunk_id: str
    score: float
    rank: int


@dataclass(frozen=True, slots=True)
class Ranked:
    """One row of a list made from other lists.

    `ranks` has one entry for each list that was fused, in their order: the chunk's rank there, or None where that
    list did not hold it. It stays as fusion made it through reranking and MMR; a reranker alone leaves it empty.
    """

    chunk_id: str
    score: float
    rank: int
    ranks: tuple[int | None, ...]


Level = Literal["chunk", "document", "none"]
"""What a golden query's labels are about: chunks, whole documents, or nothing, since nothing answers it."""


@dataclass(frozen=True, slots=True)
class GoldenQuery:
    """A question whose answer is known.

    Either the chunks of `doc_id` whose text holds `anchor` are the relevant ones; or `relevant` grades whole documents,
    by doc_id, and both are empty: a grade above 0 is relevant, 0 and below judged and not. A query with neither an
    anchor nor a relevant document has no answer in the corpus. `split` names the part of the golden set that it belongs
    to, `fields` are further properties to slice by.
    """

    query_id: str
    query: str
    kind: str
    doc_id: str
    anchor: str
    relevant: tuple[tuple[str, int], ...] = ()
    split: str = ""
    fields: tuple[tuple[str, str], ...] = ()

    @property
    def level(self) -> Level:
        """At what its labels are, and so at what it is scored."""
        if self.anchor:
            return "chunk"
        return "document" if self.doc_ids else "none"

    @property
    def doc_ids(self) -> tuple[str, ...]:
        """The documents that hold an answer."""
        return (self.doc_id,) if self.anchor else tuple(doc_id for doc_id, grade in self.relevant if grade > 0)

    @property
    def grades(self) -> dict[str, int]:
        """The grade of each judged document; 1 for that of an anchor."""
        return {self.doc_id: 1} if self.anchor else dict(self.relevant)

    def to_dict(self) -> dict[str, Any]:
        """The query as JSON has it; what is not there beyond the first five keys is left out."""
        more = {"relevant": dict(self.relevant), "split": self.split, "fields": dict(self.fields)}
        named = ("query_id", "query", "kind", "doc_id", "anchor")
        return {**{key: getattr(self, key) for key in named}, **{key: value for key, value in more.items() if value}}


@dataclass(frozen=True, slots=True)
class Filter:
    """Which chunks a search may return: those whose document each of the parts that are given lets through.

    `doc_ids` names documents, `sources` where they come from (`file` for those from disk). `paths` are patterns of
    their paths in the corpus, any of which fits: `*` stands for any characters but `/`, `**` for any at all, `?` for
    one that is no `/`. Raises InputError for a text where texts are expected.
    """

    doc_ids: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for part in fields(self):
            if isinstance(getattr(self, part.name), str):
                raise InputError(f"{part.name} is a text; expected a tuple of texts")
            object.__setattr__(self, part.name, tuple(dict.fromkeys(getattr(self, part.name))))

    def __bool__(self) -> bool:
        """Whether it holds anything back."""
        return bool(self.doc_ids or self.sources or self.paths)


EVERYTHING = Filter()


@dataclass(frozen=True, slots=True)
class TextQuery:
    """A query as full-text search reads it: `positive` terms to find, `excluded` terms to leave out.

    Terms are in tsquery text form (a quoted lexeme, or a phrase in parentheses), each once; `notes` says what was
    dropped. `stop_words` are the words of the query that the dictionaries drop; only a trace asks for them.
    """

    positive: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    stop_words: tuple[str, ...] = ()

    @property
    def terms(self) -> tuple[str, ...]:
        """The positive terms that are single lexemes."""
        return tuple(term for term in self.positive if not term.startswith("("))

    @property
    def phrases(self) -> tuple[str, ...]:
        """The positive terms that are phrases: lexemes that must follow each other."""
        return tuple(term for term in self.positive if term.startswith("("))

    @property
    def alternatives(self) -> str:
        """The tsquery that holds when any positive term matches; empty without positive terms."""
        return " | ".join(self.positive)

    @property
    def exclusions(self) -> str:
        """The tsquery that holds when any excluded term matches; empty without exclusions."""
        return " | ".join(self.excluded)


_NAMED_WORDS = 5


@dataclass(frozen=True, slots=True)
class Expansion:
    """How a query was expanded for one list, by the chunks `feedback` that it found first.

    `terms` are the words that were searched with the share of each, those of the query first; the shares sum to 1.
    `new` are the words among them that the query does not have, the heaviest first. `weighted` says whether the
    retriever used the shares, or else searched the query with the new words behind it.
    """

    terms: tuple[tuple[str, float], ...]
    new: tuple[str, ...]
    feedback: tuple[str, ...]
    weighted: bool

    def __str__(self) -> str:
        share = dict(self.terms)
        words = ", ".join(f"{word} {share[word]:.3f}" for word in self.new[:_NAMED_WORDS])
        more = f" and {len(self.new) - _NAMED_WORDS} more" if len(self.new) > _NAMED_WORDS else ""
        how = "" if self.weighted else ", without the weights"
        passages = "1 passage" if len(self.feedback) == 1 else f"{len(self.feedback)} passages"
        return f"with {words or 'no word'}{more}; from {passages}{how}"


@dataclass(frozen=True, slots=True)
class Search:
    """How one list was made: how many rows were asked for, and the server's plan for it, a line each.

    `plan` is empty where no server was asked or nobody wanted to know. `matching` is how many chunks the list would
    have without a cut: those that the filter lets through and the retriever can find for this query; None where nobody
    counted. `expansion` is what was searched in the place of the query, None where that was the query itself.
    """

    asked: int
    plan: tuple[str, ...] = ()
    matching: int | None = None
    expansion: Expansion | None = None

    @property
    def how(self) -> str:
        """How the rows were read, in a few words: the scan of the server's plan, or the whole of a plan of one line."""
        scans = (line.strip(" ->") for line in self.plan if "Scan" in line and "Subquery" not in line)
        return next(scans, self.plan[0] if len(self.plan) == 1 else "")


@dataclass(frozen=True, slots=True)
class Stages:
    """All that one query left behind, stage by stage, in the order of the pipeline.

    `parsed` is the query, expanded where it is, as full-text search read it, empty in a pipeline without it. `lists`
    holds each retriever's candidates by name, `searches` how each was made. `fused` is the whole union of them by fused
    score, uncut; `reranked` is the pool (its first n) in the reranker's order, `final` what is shown. `chunks` has
    every chunk of the pool. `notes` says what a stage left out or could not do; `timings` is wall time in seconds, by
    stage.
    """

    query: str
    parsed: TextQuery
    lists: Mapping[str, tuple[Hit, ...]]
    searches: Mapping[str, Search]
    fused: tuple[Ranked, ...]
    reranked: tuple[Ranked, ...]
    final: tuple[Ranked, ...]
    chunks: Mapping[str, Chunk]
    notes: tuple[str, ...]
    timings: Mapping[str, float]

    @property
    def vector(self) -> tuple[Hit, ...]:
        """The list named `vector`, empty in a pipeline without it."""
        return self.lists.get("vector", ())

    @property
    def text(self) -> tuple[Hit, ...]:
        """The list named `text`, empty in a pipeline without it."""
        return self.lists.get("text", ())


@dataclass(frozen=True, slots=True)
class Place:
    """Where one chunk stands at one stage: `rank` from 1, with the stage's score, or None and the `reason` in words.

    `listed` says whether the stage's list, as the pipeline uses it, holds it. Beyond a retriever's list the rank counts
    over the whole corpus.
    """

    rank: int | None
    score: float | None = None
    listed: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Truncation:
    """That a model reads a chunk only up to its window.

    `by` is `embedder` or `reranker`; `tokens` are those of what it is given, special ones included, for a reranker
    those of the query too; it reads the first `window` of them.
    """

    by: str
    tokens: int
    window: int

    def __str__(self) -> str:
        return f"the {self.by} reads {self.window} of its {self.tokens} tokens"


@dataclass(frozen=True, slots=True)
class Metrics:
    """Means over `queries` golden queries at cut `k`; `by_kind` holds the same for each kind of query.

    `pool` is recall before the cut to k: of the fused pool under `"fused"` and of each list alone under its name, at
    depth `n`. `undefined` names the queries whose label finds no chunk, `no_answer` those that nothing answers; no mean
    counts either.
    """

    k: int
    queries: int
    recall: float
    precision: float
    mrr: float
    ndcg: float
    by_kind: Mapping[str, Metrics]
    n: int = 0
    pool: Mapping[str, float] = field(default_factory=dict)
    undefined: tuple[str, ...] = ()
    no_answer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """What is put to a model, or that nothing is.

    `citations` are the chunk_ids of the sources in the order of their numbers, which count from 1. A refused draft has
    neither prompt nor citations: too little supports an answer.
    """

    prompt: str
    citations: tuple[str, ...]
    refused: bool


@dataclass(frozen=True, slots=True)
class Faithfulness:
    """How an answer cites its sources, which says nothing about whether they bear it out.

    `cited` are the valid source numbers used, ascending; `uncited_claims` the sentences without any, as they stand in
    the answer; `refused` says that the answer is, or holds, the refusal.
    """

    cited: tuple[int, ...]
    uncited_claims: tuple[str, ...]
    refused: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, how it cites, and what it cost in US dollars."""

    text: str
    faithfulness: Faithfulness
    cost_usd: float
