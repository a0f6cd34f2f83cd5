"""The parts of a run as values: what was searched, how, and what each query got, with reading them back from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast, get_args

from retrieval_lab.errors import InputError
from retrieval_lab.evals.resampling import DRAWS, RESAMPLES, SEED
from retrieval_lab.stored import Stored, as_number, as_rank, as_text, as_whole, shown
from retrieval_lab.types import Hit, Level

MIXED = "mixed"
"""The kind of document of a query whose relevant documents lie in several folders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusFacts:
    """What was searched and measured with.

    `folder` is the name of the corpus folder. `documents_hash` is that of the ids and texts of the indexed documents,
    however they were cut into chunks, `golden_hash` that of the queries and their labels; neither depends on the order
    or the layout of the files. `documents`, `chunks` and `queries` are their numbers. `split` is the part of the golden
    set that was evaluated, empty for all of it; `held_out_hash` is that of the `held_out` queries of its held-out
    split, evaluated or not, None where there are none.
    """

    folder: str
    documents_hash: str
    golden_hash: str
    documents: int
    chunks: int
    queries: int
    split: str = ""
    held_out: int = 0
    held_out_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What else the numbers depend on.

    `embedder` and `reranker` name the models, `scans` has the scan of each vector list by the list's name, `versions`
    those of the lab, Python, numpy, the PostgreSQL server, pgvector and what runs models. The rest is how intervals and
    p are drawn.
    """

    embedder: str
    reranker: str
    scans: Mapping[str, str]
    versions: Mapping[str, str]
    resamples: int = RESAMPLES
    bootstrap_seed: int = SEED
    draws: int = DRAWS
    permutation_seed: int = SEED


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRecord:
    """What one golden query got.

    `relevant` are the ids of its relevant chunks; where there are none, `undefined` says why and `measures` is empty.
    `level` is at what it was scored, `grades` are those of the documents that its labels judge. `document` is the
    folder of its relevant documents in the corpus, MIXED for those of several, empty where none is known. `ranks` is
    the rank of the first relevant chunk, or document, in each retriever's list, in `fused`, `reranked` and `final`,
    None where it is not there. `final` is the list that was measured, `measures` has a value for each of
    `measure_names`, `seconds` is what the query took. `support` is that of a query that nothing answers.
    """

    query_id: str
    query: str
    kind: str
    relevant: tuple[str, ...]
    undefined: str | None
    ranks: Mapping[str, int | None]
    final: tuple[Hit, ...]
    measures: Mapping[str, float]
    seconds: float
    level: Level = "chunk"
    grades: Mapping[str, int] = field(default_factory=dict)
    split: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    support: float | None = None
    document: str = ""

    @property
    def is_unlabelled(self) -> bool:
        """Whether its label finds no chunk, so that no measure is defined."""
        return not self.relevant and self.level != "none"

    @property
    def is_miss(self) -> bool:
        """Whether there are relevant chunks and none of them is in the final list."""
        return bool(self.relevant) and self.ranks["final"] is None

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON has it; `read_record` makes an equal one of it."""
        final = [{"chunk_id": hit.chunk_id, "score": hit.score} for hit in self.final]
        return {**asdict(self), "relevant": list(self.relevant), "final": final}


def read_facts(corpus: Stored) -> CorpusFacts:
    """The facts in a JSON object. Raises InputError when it is broken, as do the other two."""
    return CorpusFacts(
        folder=corpus.text("folder"),
        documents_hash=corpus.text("documents_hash"),
        golden_hash=corpus.text("golden_hash"),
        documents=corpus.count("documents"),
        chunks=corpus.count("chunks"),
        queries=corpus.count("queries"),
        # Runs of older versions know nothing of splits, and so below of grades.
        split=corpus.text("split") if corpus.has("split") else "",
        held_out=corpus.count("held_out") if corpus.has("held_out") else 0,
        held_out_hash=corpus.text("held_out_hash") if corpus.has("held_out_hash") else None,
    )


def read_fingerprint(fingerprint: Stored) -> Fingerprint:
    """The fingerprint in a JSON object."""
    return Fingerprint(
        embedder=fingerprint.text("embedder"),
        reranker=fingerprint.text("reranker"),
        scans=fingerprint.named("scans", as_text),
        versions=fingerprint.named("versions", as_text),
        **{key: fingerprint.count(key) for key in ("resamples", "bootstrap_seed", "draws", "permutation_seed")},
    )


def read_record(value: Any, place: str) -> QueryRecord:
    """The record in a JSON object, without the promises that a whole run makes."""
    data = Stored(value, place)
    rows = data.each("final", Stored)
    return QueryRecord(
        query_id=data.text("query_id"),
        query=data.text("query"),
        kind=data.text("kind"),
        relevant=data.each("relevant", as_text),
        undefined=data.text_or_none("undefined"),
        ranks=data.named("ranks", as_rank),
        final=tuple(Hit(row.text("chunk_id"), row.number("score"), rank) for rank, row in enumerate(rows, start=1)),
        measures=data.named("measures", as_number),
        seconds=data.number("seconds"),
        level=_read_level(data) if data.has("level") else "chunk",
        grades=data.named("grades", as_whole) if data.has("grades") else {},
        split=data.text("split") if data.has("split") else "",
        fields=data.named("fields", as_text) if data.has("fields") else {},
        support=data.number("support") if data.has("support") else None,
        document=data.text("document") if data.has("document") else "",
    )


def _read_level(data: Stored) -> Level:
    for level in get_args(Level):
        if data.text("level") == level:
            return cast("Level", level)
    raise InputError(f"{data.place}.level is {shown(data.values['level'])}; expected {', '.join(get_args(Level))}")
