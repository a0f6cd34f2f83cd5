"""The pipeline over a portable index: the parts that the index settles, and those that can be chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from retrieval_lab.config import Indexing, PipelineConfig
from retrieval_lab.config_file import DEFAULT, EffectiveConfig, Override, effective_config, parts_of
from retrieval_lab.errors import InputError
from retrieval_lab.portable import embedder_named
from retrieval_lab.ragindex import Meta
from retrieval_lab.retrievers.base import InMemorySettings
from retrieval_lab.retrievers.registry import RETRIEVERS
from retrieval_lab.settings import EmbedderSettings, ModelEmbedding

INDEX: Final = "--index"

_NO_MODEL = "none"
_SETTLED = ("chunker", "embedder", "contextual_headers")


def indexing_of(meta: Meta, chosen: EmbedderSettings | None = None) -> Indexing:
    """How the index was made, as far as it says so in words that the lab knows; the rest is as usual.

    `chosen` is the embedder of its queries, where one was chosen.
    """
    given: Mapping[str, Any] = meta.chunker if isinstance(meta.chunker, Mapping) else {}
    headers = given.get("contextual_headers") is True
    try:
        chunker = {key: value for key, value in given.items() if key != "contextual_headers"}
        known = PipelineConfig.from_dict({"chunker": chunker, "contextual_headers": headers})
    except InputError:
        known = PipelineConfig(contextual_headers=headers)
    try:
        named = embedder_named(meta.embedding_model)
    except InputError:
        named = None
    return replace(known.indexing, embedder=chosen or named or ModelEmbedding(meta.embedding_model or _NO_MODEL))


def index_config(
    indexing: Indexing, *, embeds: bool, path: Path | None = None, overrides: Sequence[str | Override] = ()
) -> PipelineConfig:
    """The pipeline over an index made so: a file and overrides over the defaults, as `effective_config` has them.

    By default BM25 and, where queries can be embedded (`embeds`), exact vector search. Raises InputError as that does,
    and when something is set that the index settles otherwise.
    """
    names: dict[str, Any] = {"bm25": {}, "flat": {}} if embeds else {"bm25": {}}
    usual = Override(INDEX, "retrievers", names)
    named = path is not None and "retrievers" in parts_of(path)
    given = effective_config(None, path=path, overrides=[*(() if named else (usual,)), *overrides])
    _require_settled(given, indexing)
    return replace(
        given.config,
        chunker=indexing.chunker,
        embedder=indexing.embedder,
        contextual_headers=indexing.contextual_headers,
    )


def _require_settled(given: EffectiveConfig, indexing: Indexing) -> None:
    for name in _SETTLED:
        origins = (origin for key, origin in given.origins.items() if key == name or key.startswith(f"{name}."))
        said = next((origin for origin in origins if origin != DEFAULT), None)
        wanted, found = getattr(given.config, name), getattr(indexing, name)
        if said is not None and wanted != found:
            made = _in_words(replace(given.config, **{name: found}).to_dict()[name])
            raise InputError(
                f"{said}: {name}: the index was made with {made}; leave it out, or open the corpus instead"
            )


def _in_words(part: Any) -> str:
    settings = part if isinstance(part, dict) else {"": part}
    return ", ".join(f"{key} {value}".strip() for key, value in settings.items())


def require_served(config: PipelineConfig, without_vectors: str | None) -> None:
    """Raises InputError for a retriever that an index does not serve, with the kinds that it does.

    `without_vectors` says why queries cannot be compared with vectors; None where they can.
    """
    kinds = {
        kind: settings
        for kind, settings in RETRIEVERS.items()
        if issubclass(settings, InMemorySettings) and not (settings.embeds and without_vectors)
    }
    for one in config.retrievers:
        if one.kind in kinds:
            continue
        needs = f"{without_vectors}" if isinstance(one, InMemorySettings) else "it searches PostgreSQL"
        raise InputError(
            f"the retriever {one.name} ({one.kind}) does not work on an index: {needs}; those of the kinds "
            f"{', '.join(kinds)} do"
        )
