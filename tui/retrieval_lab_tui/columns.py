"""Which lists the screen shows for a configuration, left to right, and what it calls them."""

from __future__ import annotations

from dataclasses import dataclass

from retrieval_lab.config import PipelineConfig
from retrieval_lab.many_lists import EACH
from retrieval_lab.retrievers.base import RetrieverSettings
from retrieval_lab.retrievers.dense import IvfSearch
from retrieval_lab.retrievers.vector import VectorSearch

_TITLES = {
    "vector": "Vector",
    "text": "Full text",
    "bm25": "BM25",
    "bm25-stemmed": "BM25 of stems",
    "tfidf": "TF-IDF",
    "lsa": "LSA",
    "flat": "Flat",
    "ivf": "IVF",
}
_FUSIONS = {"rrf": "RRF", "minmax": "min-max sum"}
_RERANKER_SCORES = {"lexical": "BM25", "cross-encoder": "logit", "learned": "probability"}


@dataclass(frozen=True, slots=True)
class Column:
    """One list: the stage it shows, its title, and what its numbers are."""

    stage: str
    title: str
    numbers: str


def columns(config: PipelineConfig) -> tuple[Column, ...]:
    """The list of each retriever, then the fused and the final one."""
    is_told_each = len(config.retrievers) <= EACH
    ranks = f"{'·'.join(one.name for one in config.retrievers)} ranks" if is_told_each else "in lists, best rank"
    fusion = _FUSIONS[config.fusion.kind]
    order = "" if config.mmr_lambda is None else "order MMR · "
    return (
        *(Column(one.name, _title(one), _numbers(one)) for one in config.retrievers),
        Column("fused", "Fused", f"{fusion} · {ranks}"),
        Column("final", "Final", f"{order}score {_RERANKER_SCORES.get(config.reranker.kind, fusion)} · move"),
    )


def _title(retriever: RetrieverSettings) -> str:
    """The list's name; one that is that of its kind in words."""
    return _TITLES.get(retriever.name, retriever.name) if retriever.name == retriever.kind else retriever.name


def _numbers(retriever: RetrieverSettings) -> str:
    if isinstance(retriever, IvfSearch):
        return f"{retriever.score_name} · IVF"
    approximate = isinstance(retriever, VectorSearch) and retriever.scan == "hnsw"
    return f"{retriever.score_name} · HNSW" if approximate else retriever.score_name
