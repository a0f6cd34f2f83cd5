"""Checking a golden set against the corpus that it is about: what would make its measures wrong or flattering.

Nothing here needs a database: documents, chunks and vectors are what the caller has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from retrieval_lab.chunker import MAX_CHARS
from retrieval_lab.embed import Vectors
from retrieval_lab.errors import InputError
from retrieval_lab.evals.anchors import AnchorFault, Passages, anchor_fault, unknown_document
from retrieval_lab.evals.findings import Finding, Kind, Severity, excerpt, listed, quoted
from retrieval_lab.evals.graded import graded_faults
from retrieval_lab.evals.loose import place
from retrieval_lab.golden import GoldenFile
from retrieval_lab.markdown import LineKind, lines
from retrieval_lab.metrics import relevant
from retrieval_lab.similar import near_duplicates
from retrieval_lab.text import folded, has_words, words
from retrieval_lab.types import Chunk, Document, GoldenQuery, Truncation

TITLE_OVERLAP = 0.5
SHORT_DOCUMENT = 20

_BLANK_LINE = re.compile(r"\n\s*\n")
# Letters of scripts that write no space between words: Han and kana, then Thai, Lao, Burmese and Khmer, whose words
# are longer. Katakana alone is left out: it spells one foreign word.
_HAN_KANA = "\u3005\u3041-\u3096\u30a1-\u30fa\u30fc-\u30fe\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WITHOUT_SPACES = re.compile(
    f"(?![\u30a1-\u30fe]+(?![{_HAN_KANA}]))[{_HAN_KANA}]{{5,}}"
    "|[\u0e01-\u0e2e\u0e30-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u1049\u1780-\u17d3]{10,}"
)


@dataclass(frozen=True, slots=True)
class _Corpus:
    """What is checked, and where it was read from."""

    golden: GoldenFile
    documents: Mapping[str, Document]
    chunks: Sequence[Chunk]
    paths: Mapping[str, Path]
    lines: Mapping[str, int]

    def about_query(self, query: GoldenQuery, key: str, severity: Severity, fault: AnchorFault) -> Finding:
        where = (*self.golden.place(query.query_id, key), query.query_id)
        return Finding(severity, fault.kind, fault.message, *where, fault.chunk_ids, fault.text)

    def warn(self, query: GoldenQuery, kind: Kind, message: str, chunk_ids: tuple[str, ...] = ()) -> Finding:
        return self.about_query(query, "query", Severity.WARNING, AnchorFault(kind, message, chunk_ids))

    def about_document(self, doc_id: str, kind: Kind, message: str, offset: int | None = None) -> Finding:
        return Finding(Severity.WARNING, kind, message, self.paths.get(doc_id), self._line(doc_id, offset))

    def about_chunk(
        self, chunk: Chunk, kind: Kind, message: str, severity: Severity = Severity.WARNING, also: Sequence[str] = ()
    ) -> Finding:
        line, ids = self._line(chunk.doc_id, chunk.start_char), (chunk.chunk_id, *also)
        return Finding(severity, kind, message, self.paths.get(chunk.doc_id), line, chunk_ids=ids)

    def _line(self, doc_id: str, offset: int | None) -> int | None:
        """The line of a place in a document; of one that is itself a line of a larger file, that line."""
        document = self.documents.get(doc_id)
        if doc_id in self.lines or document is None or offset is None:
            return self.lines.get(doc_id)
        return document.text.count("\n", 0, offset) + 1


def check_labels(
    golden: GoldenFile,
    documents: Sequence[Document],
    chunks: Sequence[Chunk],
    *,
    embeddings: Vectors | None = None,
    truncated: Mapping[str, Sequence[Truncation]] | None = None,
    paths: Mapping[str, Path] | None = None,
    lines: Mapping[str, int] | None = None,
    max_chars: int | None = MAX_CHARS,
    allow_missing: bool = False,
) -> list[Finding]:
    """All findings about the queries, in the order of the file, then those about the corpus, in its order.

    `embeddings` has row i for `chunks[i]`; without it vectors are not looked at. `truncated` are the
    chunks that a model does not read to their end, by id. `paths` has the file of each
    document by its id, `lines` the line of those that stand in a file with others. `max_chars` is what the chunks were
    cut to, None where they were not cut by their characters. Raises InputError when there is not one row of
    `embeddings` for each chunk. The faults of `golden` itself are not repeated here.

    Errors. No chunk is relevant for the query (as `metrics.relevant` has it), so that no measure is defined:

    - `unknown-document`: no document has this doc_id, or none of the relevant ones. A warning with `allow_missing`.
    - `no-text-relevant`: none of the relevant documents has a word in it.
    - `anchor-cut`: the document holds the anchor, perhaps in another spelling, but no single chunk does.
    - `anchor-white-space`: a chunk holds it without the white space around it.
    - `anchor-markdown`: a chunk holds it once Markdown marks are left out (links, emphasis, code, escapes, table bars,
      what opens a heading, list or quote), perhaps with what the next two do.
    - `anchor-quotes`: once typographic quotes, dashes and the ellipsis are made plain, perhaps with the next.
    - `anchor-unicode`: in the form NFC or NFKC or without invisible characters. A no-break space is white space to
      `metrics.relevant` and no fault.
    - `anchor-elsewhere`: only other documents hold it.
    - `anchor-absent`: none of these.

    `vector-not-finite`, a vector with NaN or infinity, and `label-unknown-document`, a graded document that the corpus
    does not have beside others that it has, are errors too, the latter a warning with `allow_missing`. Warnings:

    - `label-without-text`: a relevant document without a word beside others, which no search can find.
    - `anchor-repeated`: several chunks hold the anchor, which stands in the document more than once.
    - `anchor-shared`: several chunks hold it through their overlap; it stands in the document once.
    - `query-without-words`: there is nothing to search for.
    - `query-like-title`: the words in both the query and its document's title are more than TITLE_OVERLAP of those in
      either (Jaccard over sets of words).
    - `query-is-passage`: a chunk, or one of its paragraphs, has the same words in the same order.
    - `query-repeated`: an earlier query has the same text, but for case and white space.
    - `document-short`: fewer than SHORT_DOCUMENT words.
    - `documents-alike`, `passages-alike`: near-duplicates as `similar.near_duplicates` finds them with its defaults.
      Passages that overlap, those of documents that are alike, and chunks of headings alone are not named.
    - `text-without-spaces`: a run of five or more Han or kana letters (not katakana alone), or of ten or more Thai,
      Lao, Burmese or Khmer ones, which full-text search takes for one word.
    - `chunk-long`: longer than `max_chars`, since a single block is not cut. One finding for each chunk in which an
      anchor ends behind that, and one for all the others, with their ids.
    - `chunk-truncated`: longer than the window of the embedder or the reranker; one finding for each of the two.
    - `vector-zero`: all zero, so that no vector search returns the chunk.
    """
    if embeddings is not None and (embeddings.ndim != 2 or len(embeddings) != len(chunks)):
        raise InputError(f"embeddings have the shape {embeddings.shape}; expected one row for each of {len(chunks)}")
    by_id = {document.doc_id: document for document in documents}
    corpus = _Corpus(golden, by_id, chunks, paths or {}, lines or {})
    by_query: dict[str, list[Finding]] = {query.query_id: [] for query in golden.queries}
    for finding in (*_anchors(corpus, allow_missing), *_queries(corpus)):
        by_query[finding.query_id or ""].append(finding)
    return [
        *(finding for found in by_query.values() for finding in found),
        *_documents(corpus),
        *_alike(corpus),
        *(_chunks(corpus, max_chars) if max_chars is not None else ()),
        *_truncated(corpus, truncated or {}),
        *(() if embeddings is None else _vectors(corpus, embeddings)),
    ]


def excluded(findings: Sequence[Finding]) -> list[str]:
    """The ids of the queries that no measure counts, since no chunk is relevant for them; in order, each once."""
    return list(dict.fromkeys(one.query_id for one in findings if one.kind.excludes and one.query_id is not None))


# --- queries -------------------------------------------------------------------------------------------------------


def _anchors(corpus: _Corpus, allow_missing: bool) -> Iterator[Finding]:
    by_document: dict[str, list[Chunk]] = {}
    for chunk in corpus.chunks:
        by_document.setdefault(chunk.doc_id, []).append(chunk)
    passages = Passages(corpus.documents, by_document)
    missing = Severity.WARNING if allow_missing else Severity.ERROR
    for query in corpus.golden.queries:
        if query.level != "chunk":
            for key, found in graded_faults(query, passages):
                yield corpus.about_query(query, key, _severity(found.kind, missing), found)
        elif query.doc_id not in corpus.documents:
            yield corpus.about_query(query, "doc_id", missing, unknown_document(query, passages))
        elif (fault := anchor_fault(query, passages)) is not None:
            severity = Severity.ERROR if fault.kind.excludes else Severity.WARNING
            yield corpus.about_query(query, "anchor", severity, fault)


def _severity(kind: Kind, missing: Severity) -> Severity:
    """That of a fault of graded documents; `missing` is that of documents which are not there."""
    if kind in (Kind.UNKNOWN_DOCUMENT, Kind.LABEL_UNKNOWN_DOCUMENT):
        return missing
    return Severity.ERROR if kind.excludes else Severity.WARNING


def _queries(corpus: _Corpus) -> Iterator[Finding]:
    passages = _passages_with_words_of(corpus.golden.queries, corpus.chunks)
    first: dict[str, GoldenQuery] = {}
    for query in corpus.golden.queries:
        if not has_words(query.query):
            yield corpus.warn(query, Kind.QUERY_WITHOUT_WORDS, _NO_WORDS)
            continue
        titles = [corpus.documents[doc_id].title for doc_id in query.doc_ids if doc_id in corpus.documents]
        overlap, closest = max(((_jaccard(query.query, title), title) for title in titles), default=(0.0, ""))
        if overlap > TITLE_OVERLAP:
            message = (
                f"the query has {overlap:.0%} of its words in common with the title {excerpt(closest)} (Jaccard,"
                f" over {TITLE_OVERLAP:.0%}): any search finds it; ask as somebody would who does not know the title"
            )
            yield corpus.warn(query, Kind.QUERY_LIKE_TITLE, message)
        if chunk_ids := passages.get(_word_string(query.query)):
            message = (
                f"the query stands in the corpus as a passage of its own ({listed(chunk_ids)}): any search finds it; "
                "put it in other words, or take the passage out"
            )
            yield corpus.warn(query, Kind.QUERY_IS_PASSAGE, message, tuple(chunk_ids))
        earlier = first.setdefault(folded(query.query).strip(), query)
        if earlier is not query:
            yield corpus.warn(query, Kind.QUERY_REPEATED, _repeated(earlier, query))


_NO_WORDS = "the query has no words, so every search gives an empty list; write a question"


def _repeated(earlier: GoldenQuery, query: GoldenQuery) -> str:
    labels = [(one.doc_id, folded(one.anchor), one.relevant) for one in (earlier, query)]
    same = labels[0] == labels[1]
    what = "the same answer, so it counts twice; delete one" if same else "another answer; make them differ"
    return f"the query is the same as that of {quoted(earlier.query_id)} with {what}"


def _jaccard(first: str, second: str) -> float:
    left, right = set(words(first)), set(words(second))
    return len(left & right) / len(left | right) if left | right else 0.0


def _word_string(text: str) -> str:
    return " ".join(words(text))


def _passages_with_words_of(queries: Collection[GoldenQuery], chunks: Sequence[Chunk]) -> dict[str, list[str]]:
    """The chunks that are, or have a paragraph that is, one of the queries, by the words of it."""
    wanted = {_word_string(query.query) for query in queries}
    longest = max((len(query.query) for query in queries), default=0)
    found: dict[str, list[str]] = {}
    for chunk in chunks:
        # Punctuation may make a passage longer than its query, but not by much.
        parts = {part for part in (chunk.text, *_BLANK_LINE.split(chunk.text)) if len(part) <= 2 * longest + 20}
        for string in {_word_string(part) for part in parts} & wanted:
            found.setdefault(string, []).append(chunk.chunk_id)
    return found


# --- the corpus ----------------------------------------------------------------------------------------------------


def _documents(corpus: _Corpus) -> Iterator[Finding]:
    for document in corpus.documents.values():
        size = len(words(document.text))
        if size < SHORT_DOCUMENT:
            message = (
                f"{quoted(document.doc_id)} has {size} words, fewer than {SHORT_DOCUMENT}: there is hardly anything to"
                " find; complete it or take it out"
            )
            yield corpus.about_document(document.doc_id, Kind.DOCUMENT_SHORT, message)
        runs = list(_WITHOUT_SPACES.finditer(document.text))
        if runs:
            message = (
                f"{len(runs)} runs of letters without spaces, such as {excerpt(runs[0][0])}: full-text search takes "
                "each for one word and does not find the words in it; the vector side has to"
            )
            yield corpus.about_document(document.doc_id, Kind.TEXT_WITHOUT_SPACES, message, runs[0].start())


def _alike(corpus: _Corpus) -> Iterator[Finding]:
    documents = list(corpus.documents.values())
    group_of: dict[str, int] = {}
    for number, group in enumerate(near_duplicates(document.text for document in documents)):
        ids = [documents[place].doc_id for place in group.members]
        group_of |= dict.fromkeys(ids, number)
        message = (
            f"{listed(ids)} are nearly the same (TF-IDF cosine {group.cosine:.2f}): only one of them counts as "
            "the answer to a query; keep one"
        )
        yield corpus.about_document(ids[0], Kind.DOCUMENTS_ALIKE, message)
    chunks = corpus.chunks

    def expected(first: int, second: int) -> bool:
        one, other = chunks[first], chunks[second]
        if one.doc_id == other.doc_id:
            return one.start_char < other.end_char and other.start_char < one.end_char
        return group_of.get(one.doc_id, -1) == group_of.get(other.doc_id, -2)

    for group in near_duplicates(map(_body, chunks), ignore=expected):
        ids = [chunks[place].chunk_id for place in group.members]
        message = (
            f"the passages {listed(ids)} are nearly the same (TF-IDF cosine {group.cosine:.2f}): a search may return "
            "the one that holds no anchor; keep one, or label both"
        )
        yield corpus.about_chunk(chunks[group.members[0]], Kind.PASSAGES_ALIKE, message, also=ids[1:])


def _body(chunk: Chunk) -> str:
    """The chunk's text, empty if it is headings alone: the same heading may stand over different answers."""
    kinds = {line.kind for line in lines(chunk.text)}
    return "" if kinds <= {LineKind.HEADING, LineKind.BLANK} else chunk.text


def _chunks(corpus: _Corpus, max_chars: int) -> Iterator[Finding]:
    queries: dict[str, list[GoldenQuery]] = {}
    for query in corpus.golden.queries:
        if query.level == "chunk":
            queries.setdefault(query.doc_id, []).append(query)
    harmless = []
    for chunk in corpus.chunks:
        if len(chunk.text) <= max_chars:
            continue
        behind = [query.query_id for query in queries.get(chunk.doc_id, ()) if _ends_behind(query, chunk, max_chars)]
        if not behind:
            harmless.append(chunk)
            continue
        message = (
            f"{chunk.chunk_id} is a single block of {len(chunk.text)} characters, more than {max_chars}, and the answer"
            f" to {listed(behind)} lies behind that, where a model with a small window does not read; divide the block"
        )
        yield corpus.about_chunk(chunk, Kind.CHUNK_LONG, message)
    if harmless:
        # One finding for all: code and lists make many of them, and no query is about their ends.
        longest = max(harmless, key=lambda chunk: len(chunk.text))
        ids = [chunk.chunk_id for chunk in harmless if chunk is not longest]
        others = f", others {listed(ids)}" if ids else ""
        message = (
            f"{len(harmless)} of {len(corpus.chunks)} chunks are single blocks of more than {max_chars} characters, "
            f"the longest {longest.chunk_id} with {len(longest.text)}{others}: a model with a small window does not "
            "read their ends; divide those that matter"
        )
        yield corpus.about_chunk(longest, Kind.CHUNK_LONG, message, also=ids)


def _ends_behind(query: GoldenQuery, chunk: Chunk, max_chars: int) -> bool:
    span = place(query.anchor, chunk.text, ()) if relevant([chunk], query) else None
    return span is not None and span[1] > max_chars


def _truncated(corpus: _Corpus, truncated: Mapping[str, Sequence[Truncation]]) -> Iterator[Finding]:
    for chunk in corpus.chunks:
        for one in truncated.get(chunk.chunk_id, ()):
            message = f"{chunk.chunk_id}: {one}, so that it knows nothing of the end; divide it, or cut shorter chunks"
            yield corpus.about_chunk(chunk, Kind.CHUNK_TRUNCATED, message)


def _vectors(corpus: _Corpus, embeddings: Vectors) -> Iterator[Finding]:
    finite = np.asarray(np.isfinite(embeddings).all(axis=1))
    for row in np.flatnonzero(~finite | ~embeddings.any(axis=1)).tolist():
        chunk = corpus.chunks[row]
        if not finite[row]:
            message = f"the vector of {chunk.chunk_id} holds NaN or infinity; vectors must be finite"
            yield corpus.about_chunk(chunk, Kind.VECTOR_NOT_FINITE, message, Severity.ERROR)
        else:
            what = "" if has_words(chunk.text) else " since it has no words"
            message = f"{chunk.chunk_id} has a zero vector{what}: no vector search returns it; put words into it"
            yield corpus.about_chunk(chunk, Kind.VECTOR_ZERO, message)


def counts(findings: Sequence[Finding]) -> tuple[int, int]:
    """How many errors and how many warnings there are."""
    found = Counter(finding.severity for finding in findings)
    return found[Severity.ERROR], found[Severity.WARNING]
