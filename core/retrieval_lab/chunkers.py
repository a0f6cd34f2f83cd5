"""Chunkers that know no sections: windows of words, windows of sentences, and the document as a whole.

A window may run over headings. It has the path of the headings that are open where it begins, so that contextual
headers mean the same with every chunker. Between two chunks that follow each other there is only white space, if that.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from retrieval_lab.chunker import numbered, sections
from retrieval_lab.errors import InputError
from retrieval_lab.markdown import LineKind, lines
from retrieval_lab.sentences import sentences
from retrieval_lab.text import has_words, trimmed
from retrieval_lab.types import Chunk, Document

WORDS_SIZE = 240
WORDS_OVERLAP = 60
SENTENCES_SIZE = 5
SENTENCES_OVERLAP = 1

_WORD = re.compile(r"\S+")

Span = tuple[int, int]
"""Start and end in code points of the document's text."""


def word_windows(doc: Document, *, size: int = WORDS_SIZE, overlap: int = WORDS_OVERLAP) -> list[Chunk]:
    """Windows of `size` words, of which each begins with the last `overlap` words of the one before.

    A word is a run of anything but white space. The last window may be shorter, and has a word that no other has.
    Raises InputError unless 0 <= overlap < size.
    """
    return _windows(doc, [match.span() for match in _WORD.finditer(doc.text)], size, overlap)


def sentence_windows(doc: Document, *, size: int = SENTENCES_SIZE, overlap: int = SENTENCES_OVERLAP) -> list[Chunk]:
    """Windows of `size` sentences as `sentence_spans` has them, otherwise as those of `word_windows`."""
    return _windows(doc, sentence_spans(doc.text), size, overlap)


def whole_document(doc: Document) -> list[Chunk]:
    """The document without the white space at its ends as one chunk; none when there is nothing else."""
    span = trimmed(doc.text, 0, len(doc.text))
    return _with_paths(doc, [span] if span else [])


def sentence_spans(text: str) -> list[Span]:
    """The sentences of a Markdown text in order; all that is not white space is in exactly one.

    They end where `sentences.sentences` ends them in wrapped text, at the latest with the paragraph. A heading, a
    table row, and fenced code from the first fence to the last line before other text are one each; the mark of a list
    item belongs to what it stands before. What has no word, such as a rule, belongs to the sentence before it, or to
    the first.
    """
    found: list[Span] = []
    leading: int | None = None  # where text without a word begins that no sentence precedes
    for start, end in _pieces(text):
        if has_words(text[start:end]):
            found.append((start if leading is None else leading, end))
            leading = None
        elif found:
            found[-1] = (found[-1][0], end)
        elif leading is None:
            leading = start
    if leading is not None:
        found += [span for span in (trimmed(text, leading, len(text)),) if span]
    return found


def _pieces(text: str) -> Iterator[Span]:
    """Sentences, headings and fenced code, and whatever of a block is none of them."""
    for section in sections(text):
        for block in section.blocks:
            inside = lines(text[block.start : block.end])
            for _, run in groupby(inside, key=lambda line: line.kind is LineKind.FENCED):
                of_run = list(run)
                start, end = block.start + of_run[0].start, block.start + of_run[-1].end
                cuts = [start, *_cuts(text, start, end), end]
                yield from (span for begin, stop in pairwise(cuts) if (span := trimmed(text, begin, stop)))


def _cuts(text: str, start: int, end: int) -> Iterator[int]:
    """Where the lines text[start:end], all or none of them fenced, are to be cut between their sentences.

    In a fence there are none. A sentence that is the first in its line has all that stands before it there; what lies
    between two sentences on lines of its own, as a table's rule, stays with the first.
    """
    for before, after in pairwise(sentences(text[start:end], wrapped=True)):
        yield max(text.rfind("\n", start + before.end, start + after.start) + 1, start + before.end)


def _windows(doc: Document, units: Sequence[Span], size: int, overlap: int) -> list[Chunk]:
    """Each window begins `size - overlap` units after the one before, which did not reach the last unit."""
    if not 0 <= overlap < size:
        raise InputError(f"overlap is {overlap} and size {size}; expected an overlap of 0 or more, below the size")
    firsts = range(0, max(len(units) - overlap, 1), size - overlap) if units else ()
    return _with_paths(doc, [(units[first][0], units[min(first + size, len(units)) - 1][1]) for first in firsts])


def _with_paths(doc: Document, spans: Iterable[Span]) -> list[Chunk]:
    """The chunks at these places, each with the path of the section in which it begins."""
    starts, paths = [], []
    for section in sections(doc.text):
        starts.append(section.blocks[0].start)
        paths.append(section.heading_path)
    return numbered(doc, ((paths[bisect_right(starts, start) - 1], start, end) for start, end in spans))
