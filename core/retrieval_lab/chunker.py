"""Cutting documents into chunks along their Markdown blocks.

A chunk is a run of whole blocks inside one section. Packing is greedy by the length of the slice, and a chunk repeats
the last `overlap` blocks of the one before where they leave room for something new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from retrieval_lab.corpus import load_documents
from retrieval_lab.errors import InputError
from retrieval_lab.markdown import Line, LineKind, lines
from retrieval_lab.types import Chunk, Document

__all__ = ["chunk", "load_documents"]

MAX_CHARS = 1200
OVERLAP = 1


@dataclass(frozen=True, slots=True)
class Block:
    """A heading line, or the lines up to the next blank line or heading outside a fence: text[start:end]."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what follows up to the next, or what is before the first; at least one block."""

    heading_path: str
    blocks: tuple[Block, ...]


def chunk(doc: Document, *, max_chars: int = MAX_CHARS, overlap: int = OVERLAP) -> list[Chunk]:
    """The chunks of a document in order, ids `doc_id#000` upwards.

    `max_chars` is the longest slice in characters, blank lines between the blocks included; one block that is
    longer is a chunk of its own. `overlap` is the number of blocks carried over from the chunk before, all or none.
    Raises InputError when max_chars is below 1 or overlap below 0.
    """
    if max_chars < 1:
        raise InputError(f"max_chars is {max_chars}; expected 1 or more characters")
    if overlap < 0:
        raise InputError(f"overlap is {overlap}; expected 0 or more blocks")
    return numbered(
        doc,
        (
            (section.heading_path, start, end)
            for section in sections(doc.text)
            for start, end in _pack(section.blocks, max_chars, overlap)
        ),
    )


def numbered(doc: Document, places: Iterable[tuple[str, int, int]]) -> list[Chunk]:
    """The chunks of a document, each given by its heading path, start and end, with ids in the order given."""
    return [
        Chunk(f"{doc.doc_id}#{number:03d}", doc.doc_id, path, start, end, doc.text[start:end])
        for number, (path, start, end) in enumerate(places)
    ]


def doc_id_of(chunk_id: str) -> str:
    """The doc_id of the document that the chunk of this id was cut from."""
    return chunk_id.rpartition("#")[0]


def crossed(chunks: Iterable[Chunk], start: int, end: int) -> list[Chunk]:
    """Those of a document's chunks that hold a part of its characters from `start` up to `end`, in their order."""
    return [chunk for chunk in chunks if chunk.start_char < end and chunk.end_char > start]


def _pack(blocks: tuple[Block, ...], max_chars: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Character ranges of the chunks of one section."""
    first = done = 0  # the chunk starts at block `first`; blocks before `done` are in an earlier chunk
    while done < len(blocks):
        stop = done + 1
        while stop < len(blocks) and blocks[stop].end - blocks[first].start <= max_chars:
            stop += 1
        yield blocks[first].start, blocks[stop - 1].end
        done = first = stop
        carried = stop - overlap
        if stop < len(blocks) and carried >= 0 and blocks[stop].end - blocks[carried].start <= max_chars:
            first = carried


def sections(text: str) -> Iterator[Section]:
    """The sections that hold at least one block; text before the first heading has the path ""."""
    open_headings: list[Line] = []
    blocks: list[Block] = []
    for group in _line_groups(text):
        if group[0].kind is LineKind.HEADING:
            if blocks:
                yield Section(_path(open_headings), tuple(blocks))
            heading = group[0]
            open_headings = [outer for outer in open_headings if outer.level < heading.level] + [heading]
            blocks = []
        blocks.append(Block(group[0].start, group[-1].end))
    if blocks:
        yield Section(_path(open_headings), tuple(blocks))


def _path(open_headings: list[Line]) -> str:
    return " > ".join(heading.title for heading in open_headings)


def _line_groups(text: str) -> Iterator[list[Line]]:
    """Runs of lines that form one block: a heading alone, or everything up to the next blank line or heading."""
    group: list[Line] = []
    for line in lines(text):
        if group and line.kind in (LineKind.BLANK, LineKind.HEADING):
            yield group
            group = []
        if line.kind is LineKind.HEADING:
            yield [line]
        elif line.kind is not LineKind.BLANK:
            group.append(line)
    if group:
        yield group
