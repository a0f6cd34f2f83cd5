"""Everything about one question in one file, to be looked at elsewhere, without a database and without models.

What a file says is not to be trusted: every value is checked for its kind, and the parts for what they promise each
other, so that whoever shows a bundle need not expect rows without a passage. Its texts are texts of a stranger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from retrieval_lab.config import PipelineConfig
from retrieval_lab.diagnosis.bundle_check import require_whole
from retrieval_lab.diagnosis.journey import Journey
from retrieval_lab.diagnosis.parse_view import ParseView
from retrieval_lab.diagnosis.proposal import Proposal, propose
from retrieval_lab.diagnosis.rescue import Rescues
from retrieval_lab.diagnosis.rescues import rescues as find_rescues
from retrieval_lab.errors import InputError
from retrieval_lab.evals.runs import versions
from retrieval_lab.stored import Stored, as_text, read_json, shown, write_json
from retrieval_lab.trace import Trace, read_chunk
from retrieval_lab.types import Chunk, GoldenQuery

if TYPE_CHECKING:
    from retrieval_lab.lab import Lab

FORMAT: Final = 1
KIND: Final = "retrieval-lab bundle"
"""What a bundle calls itself, so that another JSON file is not taken for a broken one."""

MAX_BYTES: Final = 64 * 2**20
"""A larger file is not read: a bundle of the deepest lists of long passages stays far below."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """One question with all that the lab knows about its passage.

    `corpus` is the name of the corpus folder, `versions` those of the lab, Python, numpy, the server and pgvector.
    `rescues` is None where they were left out, `proposal` where there is none. `passages` are the passages that the
    trace names without their texts, the wanted ones and the neighbours, by id; `before` and `after` are the chunks
    beside the passage of the journey. `matched_words` are the words, lower case, of all passages that full-text search
    matched.
    """

    corpus: str
    versions: Mapping[str, str]
    trace: Trace
    journey: Journey
    parse: ParseView
    proposal: Proposal | None
    rescues: Rescues | None
    before: str | None
    after: str | None
    passages: Mapping[str, Chunk]
    matched_words: frozenset[str]

    @property
    def config(self) -> PipelineConfig:
        """The pipeline that the question went through."""
        return self.trace.config

    @property
    def neighbours(self) -> tuple[Chunk | None, Chunk | None]:
        """The chunks before and after the passage in its document, None at its ends, as `Lab.neighbours` gives them."""
        before, after = (None if one is None else self.passages[one] for one in (self.before, self.after))
        return before, after

    def chunks(self, chunk_ids: Sequence[str]) -> dict[str, Chunk]:
        """The chunks with these ids, in their order; unknown ids are left out, as `Lab.chunks` does."""
        known = {**self.trace.chunks, **self.passages}
        return {chunk_id: known[chunk_id] for chunk_id in chunk_ids if chunk_id in known}

    def to_dict(self) -> dict[str, Any]:
        """The bundle as JSON has it; `from_dict` makes an equal one of it."""
        return {
            "kind": KIND,
            "format": FORMAT,
            "corpus": self.corpus,
            "versions": dict(self.versions),
            "trace": self.trace.to_dict(),
            "journey": self.journey.to_dict(),
            "parse": self.parse.to_dict(),
            "proposal": None if self.proposal is None else self.proposal.to_dict(),
            "rescues": None if self.rescues is None else self.rescues.to_dict(),
            "neighbours": {"before": self.before, "after": self.after},
            "passages": {chunk_id: asdict(chunk) for chunk_id, chunk in self.passages.items()},
            "matched_words": sorted(self.matched_words),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Bundle:
        """The bundle that `to_dict` wrote. Raises InputError for another document, another format or a broken one."""
        if not isinstance(data, Mapping) or data.get("kind") != KIND:
            raise InputError("this is no bundle; `retrieval-lab trace --golden ID --bundle FILE` makes one")
        if data.get("format") != FORMAT:
            raise InputError(
                f"this is a bundle of format {shown(data.get('format'))}; this version reads format {FORMAT}, so make"
                " the bundle again, or open it with the version that made it"
            )
        try:
            found = _read(Stored(data, ""))
            require_whole(found.trace, found.journey, found.parse, found.rescues, found.passages)
        except InputError as error:
            raise InputError(f"this bundle is broken: {'; '.join(str(error).splitlines())}") from error
        return found


def make_bundle(
    lab: Lab,
    query: str | GoldenQuery,
    chunk_id: str | None = None,
    config: PipelineConfig | None = None,
    *,
    rescues: bool = True,
    progress: Callable[[int, int, str], None] = lambda _done, _total, _what: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Bundle:
    """Everything about a golden query, or about a question and the chunk that it should find.

    With `rescues` those that need no other index are searched, which takes seconds; `progress` and `cancelled` are
    theirs. Raises as `Lab.explain` and `rescues` do.
    """
    trace = lab.trace(query, config, cancelled=cancelled)
    journey = lab.explain(trace, chunk_id)
    found = find_rescues(lab, query, chunk_id, config, progress=progress, cancelled=cancelled) if rescues else None
    before, after = (None, None) if journey.chunk_id is None else lab.neighbours(journey.chunk_id)
    passages = lab.chunks(list(_without_text(trace, journey)))
    passages |= {chunk.chunk_id: chunk for chunk in (journey.chunk, before, after) if chunk is not None}
    texts = [chunk.text for chunk in (*trace.chunks.values(), *passages.values())]
    return Bundle(
        corpus=lab.corpus.name,
        versions=versions(lab),
        trace=trace,
        journey=journey,
        parse=lab.parse_view(trace.query, trace.config),
        proposal=propose(journey, found),
        rescues=found,
        before=None if before is None else before.chunk_id,
        after=None if after is None else after.chunk_id,
        passages=passages,
        matched_words=lab.matched_words(trace, texts),
    )


def write_bundle(path: Path, bundle: Bundle) -> None:
    """Write the bundle as JSON, whole or not at all, over what is there. Missing folders are made.

    Raises InputError when it cannot be written.
    """
    write_json(path, bundle.to_dict())


def read_bundle(path: Path) -> Bundle:
    """The bundle in a file. Raises InputError, which names the file and what is wrong with it."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path}: larger than {MAX_BYTES // 2**20} MiB, which no bundle is")
        data = read_json(path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; `retrieval-lab trace --golden ID --bundle FILE` makes one") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return Bundle.from_dict(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _without_text(trace: Trace, journey: Journey) -> Iterable[str]:
    """The ids that are shown and whose chunks the trace does not have, each once."""
    named = [hit.chunk_id for hits in trace.lists.values() for hit in hits]
    parts = [part.chunk_id for part in journey.anchor.parts] if journey.anchor is not None else []
    return (one for one in dict.fromkeys([*named, *trace.relevant, *parts]) if one not in trace.chunks)


# --- reading -------------------------------------------------------------------------------------------------------


def _read(data: Stored) -> Bundle:
    neighbours = data.inner("neighbours")
    passages = data.named("passages", read_chunk)
    before, after = (_neighbour(neighbours, key, passages) for key in ("before", "after"))
    return Bundle(
        corpus=data.text("corpus"),
        versions=data.named("versions", as_text),
        trace=_part(data, "trace", Trace.from_dict),
        journey=_part(data, "journey", Journey.from_dict),
        parse=_part(data, "parse", ParseView.from_dict),
        proposal=Proposal.from_stored(data.inner("proposal")) if data.has("proposal") else None,
        rescues=_part(data, "rescues", Rescues.from_dict) if data.has("rescues") else None,
        before=before,
        after=after,
        passages=passages,
        matched_words=frozenset(data.each("matched_words", as_text)),
    )


def _part(data: Stored, key: str, read: Callable[[Mapping[str, Any]], T]) -> T:
    """One of the documents in it; what is wrong with it is told with its name."""
    values = data.inner(key).values
    try:
        return read(values)
    except InputError as error:
        raise InputError(f"{key}: {'; '.join(str(error).splitlines())}") from error


def _neighbour(data: Stored, key: str, passages: Mapping[str, Chunk]) -> str | None:
    chunk_id = data.text_or_none(key)
    if chunk_id is not None and chunk_id not in passages:
        raise InputError(f"neighbours.{key} is {shown(chunk_id)}, which is not among the passages")
    return chunk_id
