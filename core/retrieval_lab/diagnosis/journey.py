"""One passage's way through every stage of one query, as data: what `Lab.explain` returns and JSON keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeVar, get_args

from retrieval_lab.diagnosis.displacement import Displacement
from retrieval_lab.diagnosis.nearby import Nearby
from retrieval_lab.errors import InputError
from retrieval_lab.learned import FeatureScore, FeatureScores
from retrieval_lab.mmr import Pick
from retrieval_lab.rerankers import TermScore
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.stored import Stored, as_number, as_text, read_as
from retrieval_lab.trace import read_chunk, read_golden
from retrieval_lab.types import Chunk, GoldenQuery

FORMAT: Final = 1

LostAt = Literal["chunking", "pool", "index", "fusion", "reranker", "mmr"]
"""The stage that lost a passage.

`chunking`: no chunk holds the anchor, because a cut parts it or it is not there. `pool`: it is on no list. `index`: it
is on no list, but the exact scan has it within n where the HNSW index's list, or the inverted file's, lacks it.
`fusion`: it is on a list and cut by the fused top n, or only on lists of weight 0; without a reranker also by the first
top_k of the fused order, which is then the last. `reranker`: it is in the pool, and the reranked order has it beyond
top_k, whether fusion had it within or left it to the reranker to lift it. `mmr`: within top_k of the reranked order,
and not picked.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnList:
    """A passage and one retriever. `kind` is that of its settings, `n` the depth and `weight` the weight of its list.

    `listed` is its rank in the list that the pipeline used, None where that does not hold it. `rank` counts over the
    whole corpus by exact order (score descending, then chunk_id), listed or not; without one `reason` says why.
    """

    name: str
    kind: str
    n: int
    weight: float
    listed: int | None
    rank: int | None
    score: float | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnVectorList(OnList):
    """`score` is the cosine. `index_rank` is its rank in the HNSW index's list, None where that lacks it.

    That list is `index_depth` long: n, or as deep as the exact rank where that is beyond (1000 at most, as far as such
    a scan goes), so that the exact scan would hold the passage, and what is missing is the index's loss.
    """

    scan: str | None
    index_rank: int | None
    index_depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTextList(OnList):
    """`score` is ts_rank_cd. Of the query's terms `matched` and `absent` are those that the passage has and lacks.

    `excluded` are the exclusions that hit it, `stop_words` the words of the query that it holds and that search drops.
    A term is a lexeme, or a phrase as PostgreSQL prints it; `apart` are the lexemes of absent phrases that the passage
    holds all the same, only not as the phrase wants them.
    """

    matched: tuple[str, ...]
    absent: tuple[str, ...]
    apart: tuple[str, ...]
    excluded: tuple[str, ...]
    stop_words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fused:
    """Its place in the whole union of the lists, of which the first `n` are the pool.

    `parts` is what each list adds to the score, by name: weight / (k + rank) of RRF, weight * scaled score of min-max
    fusion; 0 for a list that does not hold it.
    """

    rank: int
    score: float
    parts: Mapping[str, float]
    n: int


@dataclass(frozen=True, slots=True)
class Reranked:
    """Its place in the whole reranked pool; `kind` is the reranker's.

    `terms` are the parts of a BM25 score, which they sum to, `learned` those of a learned score; None for a reranker
    whose score has no such parts.
    """

    rank: int
    score: float
    kind: str
    terms: tuple[TermScore, ...] | None
    learned: FeatureScores | None = None


@dataclass(frozen=True, slots=True)
class AnchorPart:
    """The part of an anchor, as it is written there, that one chunk holds."""

    chunk_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where the anchor of a golden query stands: in the chunks `chunk_ids`, the followed one among them.

    When no chunk holds it, `parts` are those of an anchor that a cut parts, in order, empty where the document does not
    have it.
    """

    chunk_ids: tuple[str, ...]
    parts: tuple[AnchorPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Journey:
    """What happened to one passage at every stage, None where a stage never saw it or there is no such stage.

    `chunk` is the passage, None when no chunk holds the anchor. `lists` has each retriever by name; `vector` and `text`
    are those of the two kinds. `mmr.rank` goes on beyond the cut, and `final_rank` is its rank in the final list.
    `reason` says in one line why it was lost at `lost_at`. `nearby` says where the words that full text missed in
    it stand beside it.
    """

    query: str
    top_k: int
    golden: GoldenQuery | None
    anchor: Anchor | None
    chunk: Chunk | None
    lists: Mapping[str, OnList]
    fused: Fused | None
    reranked: Reranked | None
    mmr: Pick | None
    final_rank: int | None
    lost_at: LostAt | None
    reason: str | None
    displacement: Displacement
    nearby: Nearby | None = None

    @property
    def chunk_id(self) -> str | None:
        """The id of the passage."""
        return None if self.chunk is None else self.chunk.chunk_id

    @property
    def vector(self) -> OnVectorList | None:
        """The list named `vector`, or the first of vector search; None in a pipeline without one."""
        return _main(self.lists, "vector", OnVectorList)

    @property
    def text(self) -> OnTextList | None:
        """The list named `text`, or the first of full-text search; None in a pipeline without one."""
        return _main(self.lists, "text", OnTextList)

    @property
    def in_prompt(self) -> bool:
        """Whether it reaches the prompt: whether it is in the final list."""
        return self.final_rank is not None

    def to_dict(self) -> dict[str, Any]:
        """The journey as JSON has it, with `"format": 1`; `from_dict` makes an equal journey of it."""
        return {
            "format": FORMAT,
            "query": self.query,
            "top_k": self.top_k,
            "golden": None if self.golden is None else self.golden.to_dict(),
            "anchor": None if self.anchor is None else _listed(asdict(self.anchor)),
            "chunk_id": self.chunk_id,
            "chunk": None if self.chunk is None else asdict(self.chunk),
            "vector": None if self.vector is None else _listed(asdict(self.vector)),
            "text": None if self.text is None else _listed(asdict(self.text)),
            "lists": {name: _listed(asdict(one)) for name, one in self.lists.items()},
            "fused": None if self.fused is None else asdict(self.fused),
            "reranked": None if self.reranked is None else _listed(asdict(self.reranked)),
            "mmr": None if self.mmr is None else _pick(self.mmr),
            "final_rank": self.final_rank,
            "in_prompt": self.in_prompt,
            "lost_at": self.lost_at,
            "reason": self.reason,
            "displacement": self.displacement.to_dict(),
            "nearby": None if self.nearby is None else self.nearby.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Journey:
        """The journey that `to_dict` wrote. Raises InputError for another format or a broken one."""
        return read_as("journey", FORMAT, data, _read)


L = TypeVar("L", bound=OnList)


def _main(lists: Mapping[str, OnList], name: str, kind: type[L]) -> L | None:
    found = [one for one in lists.values() if isinstance(one, kind)]
    return next((one for one in found if one.name == name), found[0] if found else None)


def _listed(data: dict[str, Any]) -> dict[str, Any]:
    """The tuples as lists, as JSON has them, those of inner objects too."""
    plain = {key: _listed(value) if isinstance(value, dict) else value for key, value in data.items()}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in plain.items()}


def _pick(pick: Pick) -> dict[str, Any]:
    because = None if pick.because is None else {"chunk_id": pick.because, "cosine": pick.cosine}
    return {
        "rank": pick.rank,
        "relevance": pick.relevance,
        "penalty": pick.penalty,
        "value": pick.value,
        "because": because,
    }


# --- reading -------------------------------------------------------------------------------------------------------


def _read(data: Stored) -> Journey:
    return Journey(
        query=data.text("query"),
        top_k=data.count("top_k"),
        golden=read_golden(data.inner("golden")) if data.has("golden") else None,
        anchor=_read_anchor(data.inner("anchor")) if data.has("anchor") else None,
        chunk=read_chunk(data.inner("chunk").values, "chunk") if data.has("chunk") else None,
        lists=data.named("lists", _read_list),
        fused=_read_fused(data.inner("fused")) if data.has("fused") else None,
        reranked=_read_reranked(data.inner("reranked")) if data.has("reranked") else None,
        mmr=_read_pick(data.inner("mmr")) if data.has("mmr") else None,
        final_rank=data.rank_or_none("final_rank"),
        lost_at=read_lost_at(data.text_or_none("lost_at")),
        reason=data.text_or_none("reason"),
        displacement=Displacement.from_stored(data.inner("displacement")),
        nearby=Nearby.from_stored(data.inner("nearby")) if data.has("nearby") else None,
    )


def read_lost_at(found: str | None) -> LostAt | None:
    """The stage of that name, None for None. Raises InputError for anything else."""
    for stage in get_args(LostAt):
        if found == stage:
            return stage  # type: ignore[no-any-return]
    if found is not None:
        raise InputError(f"lost_at is {found!r}; expected {', '.join(get_args(LostAt))} or null")
    return None


def _read_anchor(data: Stored) -> Anchor:
    return Anchor(data.each("chunk_ids", as_text), data.each("parts", _read_part))


def _read_part(value: Any, place: str) -> AnchorPart:
    data = Stored(value, place)
    return AnchorPart(data.text("chunk_id"), data.text("text"))


def _read_list(value: Any, place: str) -> OnList:
    data = Stored(value, place)
    common: dict[str, Any] = {
        "name": data.text("name"),
        "kind": data.text("kind"),
        "n": data.count("n"),
        "weight": data.number("weight"),
        "listed": data.rank_or_none("listed"),
        "rank": data.rank_or_none("rank"),
        "score": data.number_or_none("score"),
        "reason": data.text_or_none("reason"),
    }
    if common["kind"] == VectorSearch.kind:
        depth = data.count("index_depth")
        index_rank = data.rank_or_none("index_rank")
        return OnVectorList(**common, scan=data.text_or_none("scan"), index_rank=index_rank, index_depth=depth)
    if common["kind"] == TextSearch.kind:
        terms: dict[str, Any] = {
            key: data.each(key, as_text) for key in ("matched", "absent", "apart", "excluded", "stop_words")
        }
        return OnTextList(**common, **terms)
    return OnList(**common)


def _read_fused(data: Stored) -> Fused:
    return Fused(data.rank("rank"), data.number("score"), data.named("parts", as_number), data.count("n"))


def _read_reranked(data: Stored) -> Reranked:
    terms = data.each("terms", _read_term) if data.has("terms") else None
    learned = _read_learned(data.inner("learned")) if data.has("learned") else None
    return Reranked(data.rank("rank"), data.number("score"), data.text("kind"), terms, learned)


def _read_learned(data: Stored) -> FeatureScores:
    return FeatureScores(data.number("intercept"), data.each("features", _read_feature))


def _read_feature(value: Any, place: str) -> FeatureScore:
    data = Stored(value, place)
    numbers = {key: data.number(key) for key in ("value", "standardised", "coefficient", "contribution")}
    return FeatureScore(feature=data.text("feature"), **numbers)


def _read_term(value: Any, place: str) -> TermScore:
    data = Stored(value, place)
    numbers = {key: data.number(key) for key in ("idf", "length_factor", "contribution")}
    return TermScore(term=data.text("term"), tf=data.count("tf"), df=data.count("df"), **numbers)


def _read_pick(data: Stored) -> Pick:
    because = data.inner("because") if data.has("because") else None
    return Pick(
        rank=data.rank("rank"),
        relevance=data.number("relevance"),
        penalty=data.number("penalty"),
        value=data.number("value"),
        because=None if because is None else because.text("chunk_id"),
        cosine=0.0 if because is None else because.number("cosine"),
    )
