"""A run: one evaluation of a golden set under one configuration, as a value that can be kept and compared."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import InputError
from retrieval_lab.evals.kept import other_runs, require_free
from retrieval_lab.evals.measures import AT_CUT
from retrieval_lab.evals.records import (
    MIXED,
    CorpusFacts,
    Fingerprint,
    QueryRecord,
    read_facts,
    read_fingerprint,
    read_record,
)
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.settings import ModelEmbedding, ModelReranker, RerankerSettings, TrainedReranker
from retrieval_lab.stored import Stored, read_json, shown, write_json
from retrieval_lab.types import Document, GoldenQuery, Hit

if TYPE_CHECKING:
    from retrieval_lab.lab import Lab
    from retrieval_lab.metrics import QueryResult

FORMAT = 1

HELD_OUT = ("held-out", "test")
"""The splits that nothing is chosen by: that which `retrieval-lab split` makes, and that which data sets come with."""

_KEYS = ("name", "created", "corpus", "config", "fingerprint", "queries")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One evaluation, made by `run`, with the results of the golden queries in the order of their file.

    `name` is what it is kept under, `created` the UTC time in ISO form. The cut of the final list is `config.top_k`.
    """

    name: str
    created: str
    corpus: CorpusFacts
    config: PipelineConfig
    fingerprint: Fingerprint
    queries: tuple[QueryRecord, ...]

    @property
    def k(self) -> int:
        """The cut of the final list."""
        return self.config.top_k

    @property
    def defined(self) -> tuple[QueryRecord, ...]:
        """The queries that measures count: those with a relevant chunk."""
        return tuple(record for record in self.queries if record.measures)

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON has it, with `"format": 1`; `from_dict` makes an equal run of it."""
        return {
            "format": FORMAT,
            "name": self.name,
            "created": self.created,
            "corpus": asdict(self.corpus),
            "config": self.config.to_dict(),
            "fingerprint": asdict(self.fingerprint),
            "queries": [record.to_dict() for record in self.queries],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Run:
        """The run that `to_dict` wrote. Raises InputError for another format, another document or a broken run."""
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            found = (
                f"its format is {shown(data.get('format'))}" if isinstance(data, Mapping) else f"it is {shown(data)}"
            )
            raise InputError(f"this is no run of format {FORMAT}: {found}; `retrieval-lab eval --save` makes one")
        missing = [key for key in _KEYS if key not in data]
        if missing:
            raise InputError(f"this is no run: it has no {', '.join(missing)}; `retrieval-lab eval --save` makes one")
        try:
            return _read(Stored(data, ""))
        except InputError as error:
            faults = "; ".join(str(error).splitlines())
            raise InputError(f"this run is broken: {faults}; evaluate again to replace it") from error

    def save(self, path: Path, *, overwrite: bool = False) -> None:
        """Write the run as JSON, whole or not at all. Missing folders are made.

        Raises InputError when there is something at the path already, unless `overwrite`, or it cannot be written.
        """
        if not overwrite:
            require_free(path)
        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: Path) -> Run:
        """The run in a file. Raises InputError when there is none, or the file holds none, with the path."""
        try:
            data = read_json(path)
        except FileNotFoundError as error:
            raise InputError(f"{path}: no such run; {other_runs(path)}") from error
        try:
            return cls.from_dict(data)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


# --- making one ----------------------------------------------------------------------------------------------------


def run(
    lab: Lab,
    config: PipelineConfig | None = None,
    *,
    k: int | None = None,
    split: str | None = None,
    golden: Sequence[GoldenQuery] | None = None,
    documents: Searched | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Run:
    """Evaluate the golden set of the lab's corpus under a configuration, by default the lab's own, cut at k.

    With `split` only the queries of that split are evaluated, with `golden` these queries instead of the golden set's.
    `documents` is what `searched` returned for the lab, for who makes several runs of one.
    The run's name is made from its time. `progress` and `cancelled` are as for `Lab.evaluate_queries`.

    Raises as that does, and InputError when files changed after they were indexed, since then nobody could say what
    was searched, or when the pool cannot fill k.
    """
    config = config or lab.config
    if k is not None:
        config = replace(config, top_k=k)
    documents = searched(lab) if documents is None else documents
    began = datetime.now(UTC)
    results = lab.evaluate_queries(config, split=split, golden=golden, progress=progress, cancelled=cancelled)
    asked = [result.query for result in results]
    held_out = [query for query in lab.golden if query.split in HELD_OUT]
    return Run(
        name=began.strftime("%Y%m%d-%H%M%S"),
        created=began.isoformat(timespec="seconds"),
        corpus=CorpusFacts(
            folder=lab.corpus.name,
            documents_hash=documents.hash,
            golden_hash=hash_of_golden(asked),
            documents=documents.number,
            chunks=lab.index.chunks,
            queries=len(asked),
            split=split or "",
            held_out=len(held_out),
            held_out_hash=hash_of_golden(held_out) if held_out else None,
        ),
        config=config,
        fingerprint=_fingerprint(lab, config),
        queries=tuple(_record(lab, config, result, documents.folders) for result in results),
    )


def measure_names(config: PipelineConfig) -> tuple[str, ...]:
    """The measures of a run under this configuration, such as `recall@10`.

    Those of the final list at its cut come first, then recall of the fused pool and of each list alone at its depth,
    such as `fused recall@50`.
    """
    at_cut = [f"{name}@{config.top_k}" for name in AT_CUT]
    return (
        *at_cut,
        f"fused recall@{config.fusion.n}",
        *(f"{retriever.name} recall@{retriever.n}" for retriever in config.retrievers),
    )


def measures_of(result: QueryResult, config: PipelineConfig) -> dict[str, float]:
    """The value of each of `measure_names` for one query; empty where nothing is relevant."""
    if not result.relevant_ids:
        return {}
    values = [getattr(result, name) for name in AT_CUT]
    values += [result.pool[name] for name in ("fused", *(retriever.name for retriever in config.retrievers))]
    return dict(zip(measure_names(config), values, strict=True))


def hash_of_documents(documents: Iterable[Document]) -> str:
    """A hash of the ids and texts, whatever their order."""
    return _hash((one.doc_id, one.text) for one in sorted(documents, key=lambda one: one.doc_id))


def hash_of_golden(golden: Iterable[GoldenQuery]) -> str:
    """A hash of the queries and their labels, whatever their order, their split and their fields."""
    return _hash(_label(one) for one in sorted(golden, key=lambda one: one.query_id))


def _label(query: GoldenQuery) -> tuple[object, ...]:
    anchored = (query.query_id, query.query, query.kind, query.doc_id, query.anchor)
    return (*anchored, query.relevant) if query.relevant else anchored


def _hash(rows: Iterable[tuple[object, ...]]) -> str:
    digest = sha256()
    for row in rows:
        digest.update(json.dumps(row).encode() + b"\n")  # as JSON, so that no two rows read alike
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Searched:
    """The documents that an index has: their number, the hash of their ids and texts, and the folder of each."""

    number: int
    hash: str
    folders: Mapping[str, str]


def searched(lab: Lab) -> Searched:
    """The documents of the lab's index, as `Lab.searched` finds them. Raises as that does."""
    found = lab.searched()
    folders = {document.doc_id: folder for document, folder in found}
    return Searched(len(found), hash_of_documents(document for document, _ in found), folders)


def _record(lab: Lab, config: PipelineConfig, result: QueryResult, folders: Mapping[str, str]) -> QueryRecord:
    relevant, golden = tuple(sorted(result.relevant_ids)), result.query
    of_documents = sorted({folders[doc_id] for doc_id in golden.doc_ids if doc_id in folders})
    return QueryRecord(
        query_id=golden.query_id,
        query=golden.query,
        kind=golden.kind,
        relevant=relevant,
        undefined=None if relevant else lab.why_undefined(golden) or "no chunk is relevant",
        ranks=dict(result.ranks),
        final=tuple(Hit(row.chunk_id, row.score, row.rank) for row in result.final),
        measures=measures_of(result, config),
        seconds=result.seconds,
        level=golden.level,
        grades=dict(golden.relevant),
        split=golden.split,
        fields=dict(golden.fields),
        support=result.support,
        document="".join(of_documents) if len(of_documents) < 2 else MIXED,
    )


def versions(lab: Lab, config: PipelineConfig | None = None) -> dict[str, str]:
    """The versions of the lab, Python, numpy, the PostgreSQL server and pgvector.

    Also those of what runs models, where the configuration, by default the lab's, has one.
    """
    try:
        version = metadata.version("retrieval-lab")
    except metadata.PackageNotFoundError:
        version = "not installed"
    ours = {"retrieval-lab": version, "python": platform.python_version(), "numpy": np.__version__}
    return {**ours, **lab.server_versions(), **_of_models(config or lab.config)}


def _of_models(config: PipelineConfig) -> dict[str, str]:
    packages: tuple[str, ...] = ()
    if isinstance(config.embedder, ModelEmbedding) or isinstance(config.reranker, ModelReranker):
        packages += ("fastembed", "onnxruntime")
    if isinstance(config.reranker, TrainedReranker):
        packages += ("scikit-learn",)
    found = {}
    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def _fingerprint(lab: Lab, config: PipelineConfig) -> Fingerprint:
    return Fingerprint(
        embedder=lab.embedder.name,
        reranker=_name(config.reranker),
        scans={one.name: one.scan for one in config.retrievers if isinstance(one, VectorSearch)},
        versions=versions(lab, config),
    )


def _name(reranker: RerankerSettings) -> str:
    if isinstance(reranker, ModelReranker | TrainedReranker):
        return f"{reranker.kind} {reranker.label()}"
    return reranker.kind


# --- reading one ---------------------------------------------------------------------------------------------------


def _read(data: Stored) -> Run:
    found = Run(
        name=data.text("name"),
        created=data.text("created"),
        corpus=read_facts(data.inner("corpus")),
        config=PipelineConfig.from_dict(data.inner("config").values),
        fingerprint=read_fingerprint(data.inner("fingerprint")),
        queries=data.each("queries", read_record),
    )
    _check(found)
    return found


def _check(found: Run) -> None:
    """What the parts of a run promise each other."""
    names, seen = set(measure_names(found.config)), set()
    for record in found.queries:
        if record.query_id in seen:
            raise InputError(f"query id {record.query_id!r} stands twice")
        seen.add(record.query_id)
        if record.measures.keys() != (names if record.relevant else set()):
            held = ", ".join(record.measures) or "none"
            raise InputError(f"the measures of {record.query_id!r} are {held}; its configuration promises others")
        if "final" not in record.ranks or "reranked" not in record.ranks:
            raise InputError(f"the ranks of {record.query_id!r} lack the stage 'final' or 'reranked'")
