"""Where the anchor of a golden query stands, and why no chunk holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import PurePath

from retrieval_lab.chunker import crossed
from retrieval_lab.evals.findings import Kind, excerpt, listed, quoted
from retrieval_lab.evals.loose import Form, Forms, forms_that_find, place
from retrieval_lab.metrics import relevant
from retrieval_lab.text import folded, words
from retrieval_lab.types import Chunk, Document, GoldenQuery

# Comparing an id with all others takes a while in a large corpus; whoever has more unknown ids has one reason for all.
_SUGGESTIONS = 50


@dataclass(frozen=True, slots=True)
class AnchorFault:
    """What is wrong with one anchor or its doc_id; the fields are those of a Finding."""

    kind: Kind
    message: str
    chunk_ids: tuple[str, ...] = ()
    text: str | None = None


@dataclass(slots=True)
class Passages:
    """The documents and chunks of a corpus, for looking up anchors; what is costly is made once, when needed."""

    documents: Mapping[str, Document]
    chunks: Mapping[str, Sequence[Chunk]]
    """The chunks of each document, by its id."""
    _folded: dict[str, str] = field(default_factory=dict)
    _suggested: dict[str, str] = field(default_factory=dict)

    def folded(self, doc_id: str) -> str:
        """The whole document as anchors are compared with it."""
        if doc_id not in self._folded:
            self._folded[doc_id] = folded(self.documents[doc_id].text)
        return self._folded[doc_id]

    def holding(self, anchor: str, *, but: str) -> list[str]:
        """The ids of the other documents that hold the anchor."""
        sought = folded(anchor).strip()
        return [doc_id for doc_id in self.documents if doc_id != but and sought and sought in self.folded(doc_id)]

    def suggestion(self, doc_id: str) -> str:
        """What an unknown doc_id could have meant, as the end of a message."""
        if doc_id not in self._suggested:
            few = len(self._suggested) < _SUGGESTIONS
            self._suggested[doc_id] = _suggestion(doc_id, list(self.documents), few)
        return self._suggested[doc_id]


def _suggestion(doc_id: str, known: Sequence[str], compare: bool) -> str:
    stem = PurePath(doc_id).stem
    if stem != doc_id and stem in known:
        return f"doc_id has no folder and no file ending: write {quoted(stem)}"
    same = [other for other in known if other.lower() == doc_id.lower()]
    close = same or (get_close_matches(doc_id, known, n=3) if compare else [])
    if close:
        return f"did you mean {' or '.join(map(quoted, close))}?"
    return "doc_id is a file's name without its folder and ending"


def unknown_document(query: GoldenQuery, passages: Passages) -> AnchorFault:
    """The fault of a query whose document is not in the corpus."""
    message = f"the corpus has no document {excerpt(query.doc_id)}; {passages.suggestion(query.doc_id)}"
    if holding := passages.holding(query.anchor, but=query.doc_id):
        message += f" The anchor stands in {listed(holding)}"
    return AnchorFault(Kind.UNKNOWN_DOCUMENT, message)


def anchor_fault(query: GoldenQuery, passages: Passages) -> AnchorFault | None:
    """What is wrong with the anchor of a query whose document is known; None when exactly one chunk holds it."""
    chunks = passages.chunks.get(query.doc_id, ())
    holding = relevant(chunks, query)
    if not holding:
        return next(_reasons(query, chunks, passages))
    if len(holding) == 1:
        return None
    return _several([chunk.chunk_id for chunk in chunks if chunk.chunk_id in holding], query, passages)


def _several(holding: Sequence[str], query: GoldenQuery, passages: Passages) -> AnchorFault:
    places = passages.folded(query.doc_id).count(folded(query.anchor))
    found = f"{len(holding)} chunks hold the anchor"
    if places < 2:
        message = (
            f"{found}, which stands in the document once, in the part that they share ({listed(holding)}): each of "
            "them counts as relevant; take an anchor outside the overlap if one is meant"
        )
        return AnchorFault(Kind.ANCHOR_SHARED, message, tuple(holding))
    message = (
        f"{found}, which stands in the document {places} times ({listed(holding)}): each of them counts as relevant; "
        "lengthen the anchor until it stands only where the answer is"
    )
    return AnchorFault(Kind.ANCHOR_REPEATED, message, tuple(holding))


def _reasons(query: GoldenQuery, chunks: Sequence[Chunk], passages: Passages) -> Iterator[AnchorFault]:
    """Why no chunk holds the anchor, the best reason first; the last one is always there."""
    document = passages.documents[query.doc_id]
    whole = forms_that_find(query.anchor, document.text)
    if whole == ():
        yield from _respaced(query.anchor, chunks)
        yield _cut(query.anchor, document, chunks, whole)
    yield from _respelled(query.anchor, chunks)
    if whole is not None:
        yield _cut(query.anchor, document, chunks, whole)
    if holding := passages.holding(query.anchor, but=query.doc_id):
        message = f"the anchor is not in {quoted(query.doc_id)} but in {listed(holding)}; correct doc_id or the anchor"
        yield AnchorFault(Kind.ANCHOR_ELSEWHERE, message)
    yield _absent(query, chunks)


def _respaced(anchor: str, chunks: Sequence[Chunk]) -> Iterator[AnchorFault]:
    bare = folded(anchor).strip()
    for chunk in chunks:
        if bare in folded(chunk.text):
            message = (
                "the anchor begins or ends with white space that no chunk has there; found without it in "
                f"{chunk.chunk_id}: write {quoted(anchor)}"
            )
            yield AnchorFault(Kind.ANCHOR_WHITE_SPACE, message, (chunk.chunk_id,), anchor.strip())


def _respelled(anchor: str, chunks: Sequence[Chunk]) -> Iterator[AnchorFault]:
    """The chunk that holds the anchor under the fewest forms."""
    found = [(forms, chunk) for chunk in chunks if (forms := forms_that_find(anchor, chunk.text))]
    if not found:
        return
    forms, chunk = min(found, key=lambda one: len(one[0]))
    span = place(anchor, chunk.text, forms)
    text = chunk.text[slice(*span)] if span else None
    message = f"no chunk holds the anchor; {chunk.chunk_id} does when {_and(forms)}"
    if text is not None:
        message += f": write it as it stands there, {quoted(text)}"
    yield AnchorFault(_kind(forms), message, (chunk.chunk_id,), text)


def _kind(forms: Forms) -> Kind:
    if Form.MARKDOWN in forms:
        return Kind.ANCHOR_MARKDOWN
    return Kind.ANCHOR_QUOTES if Form.QUOTES in forms else Kind.ANCHOR_UNICODE


def _and(forms: Forms) -> str:
    return " and ".join(form.value for form in forms)


def _cut(anchor: str, document: Document, chunks: Sequence[Chunk], forms: Forms) -> AnchorFault:
    start, end = place(anchor, document.text, forms) or (0, 0)
    parted = crossed(chunks, start, end)
    ids = tuple(chunk.chunk_id for chunk in parted)
    line = document.text.count("\n", 0, start) + 1
    message = f"the border of the chunks {listed(ids)} cuts the anchor (line {line} of {quoted(document.doc_id)})"
    if forms:
        message += f", which is found when {_and(forms)}"
    parts = [document.text[max(start, chunk.start_char) : min(end, chunk.end_char)].strip() for chunk in parted]
    longest = max(parts, key=len, default="")
    if longest:
        message += f"; shorten it to what stands in one of them, for example {quoted(longest)}"
    return AnchorFault(Kind.ANCHOR_CUT, message, ids, longest or None)


def _absent(query: GoldenQuery, chunks: Sequence[Chunk]) -> AnchorFault:
    message = f"the anchor {excerpt(query.anchor)} stands nowhere in the corpus"
    wanted = set(words(query.anchor))
    closest = max(chunks, key=lambda chunk: len(wanted.intersection(words(chunk.text))), default=None)
    ids: tuple[str, ...] = ()
    if closest is not None and (shared := len(wanted.intersection(words(closest.text)))) * 2 >= len(wanted) > 0:
        message += f"; {closest.chunk_id} comes closest with {shared} of its {len(wanted)} words"
        ids = (closest.chunk_id,)
    return AnchorFault(Kind.ANCHOR_ABSENT, f"{message}; copy the anchor from the document again", ids)
