"""The passages of an index in memory: what the stages ask of PostgreSQL, answered from the index alone.

Lexemes are the stems of `stems`, which are those of PostgreSQL's English dictionary for words of letters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from retrieval_lab.corpus_index import CorpusIndex, chunk_of
from retrieval_lab.diagnosis.displacement import Shared
from retrieval_lab.diagnosis.parse_view import MAX_TOKENS, ParseView, PassageView, Role, Token
from retrieval_lab.passages import passage
from retrieval_lab.pipeline import Stored
from retrieval_lab.ragindex import terms
from retrieval_lab.retrievers.bm25 import stem_index
from retrieval_lab.stems import stemmed
from retrieval_lab.support import Support, Terms
from retrieval_lab.text import WORD
from retrieval_lab.types import Chunk, TextQuery

READ_AS = "the terms of the index"
"""What stands in the place of a text search configuration."""


class IndexPassages:
    """The passages of one index (`passages.Passages`); any thread."""

    def __init__(self, corpus: CorpusIndex) -> None:
        self.corpus = corpus

    def fetch(self, chunk_ids: Sequence[str]) -> Stored:
        index, rows = self.corpus.index, self.corpus.rows
        return {
            chunk_id: (chunk_of(index.chunks[rows[chunk_id]]), np.asarray(index.vecs[rows[chunk_id]]))
            for chunk_id in chunk_ids
            if chunk_id in rows
        }

    def documents(self, doc_ids: Sequence[str]) -> list[Chunk]:
        by_document = self.corpus.once("documents", self._by_document)
        return [chunk for doc_id in sorted(set(doc_ids)) for chunk in by_document.get(doc_id, ())]

    def _by_document(self) -> dict[str, list[Chunk]]:
        found: dict[str, list[Chunk]] = {}
        for chunk in map(chunk_of, self.corpus.index.chunks):
            found.setdefault(chunk.doc_id, []).append(chunk)
        for chunks in found.values():
            chunks.sort(key=lambda chunk: (chunk.start_char, chunk.chunk_id))
        return found

    @property
    def doc_ids(self) -> Collection[str]:
        """The documents that have a chunk."""
        return self.corpus.once("documents", self._by_document).keys()

    def indexed(self, chunk: Chunk) -> str:
        return self.corpus.indexed(chunk)

    def indexed_texts(self, chunk_ids: Sequence[str]) -> dict[str, str]:
        """What of each of the chunks is searched for words."""
        return {chunk.chunk_id: self.indexed(chunk) for chunk, _ in self.fetch(chunk_ids).values()}

    def question_terms(self, query: str, parsed: TextQuery) -> Terms:  # noqa: ARG002 - no operator excludes anything
        stems = stem_index(self.corpus)
        return Terms({stem: stems.idf(stem) for stem in sorted(set(stemmed(terms(query))))}, stems.n)

    def supports(self, terms: Terms, chunk_ids: Sequence[str]) -> Mapping[str, Support]:
        held = self._held(chunk_ids)
        return {chunk_id: terms.support(held.get(chunk_id, ())) for chunk_id in chunk_ids}

    def lexemes(self, words: Collection[str]) -> Mapping[str, str]:
        return {word: stem for word in words for stem in stemmed([word])}

    def shared_words(self, sentence: str, chunk_ids: Sequence[str]) -> Shared:
        wanted = tuple(sorted(set(stemmed(terms(sentence)))))
        held = self._held(chunk_ids)
        return wanted, {chunk_id: tuple(word for word in wanted if word in words) for chunk_id, words in held.items()}

    def _held(self, chunk_ids: Sequence[str]) -> dict[str, frozenset[str]]:
        """The stems of each of the chunks that are there."""
        texts = self.indexed_texts(chunk_ids)
        return {chunk_id: frozenset(stemmed(terms(text))) for chunk_id, text in texts.items()}

    # How a text is read.

    def parse_query(self, query: str) -> ParseView:
        """The terms of a query, which has no operators and no stop words here."""
        tokens, notes = _tokens(query, "term")
        found = tuple(terms(query))
        return ParseView(
            query=query,
            text=query,
            text_config=READ_AS,
            operators=False,
            tokens=tokens,
            terms=found,
            phrases=(),
            excluded=(),
            plain=found,
            dashes=(),
            meant=None,
            meant_terms=(),
            notes=notes,
        )

    def parse_passage(self, chunk_id: str) -> PassageView:
        """The terms of a passage as they are indexed. Raises InputError when there is no such chunk."""
        text = self.indexed(passage(self, chunk_id))
        tokens, notes = _tokens(text, "indexed")
        return PassageView(chunk_id=chunk_id, text=text, text_config=READ_AS, tokens=tokens, notes=notes)


def _tokens(text: str, role: Role) -> tuple[tuple[Token, ...], tuple[str, ...]]:
    """The first words of the text, and what is said about the others."""
    found = list(_words(text, role))
    notes = (f"the first {MAX_TOKENS:,} tokens are shown",) if len(found) > MAX_TOKENS else ()
    return tuple(found[:MAX_TOKENS]), notes


def _words(text: str, role: Role) -> Iterator[Token]:
    for match in WORD.finditer(text):
        what = "letters, digits and _"
        yield Token(match.start(), match[0], "word", what, "lower case", tuple(terms(match[0])), role)
