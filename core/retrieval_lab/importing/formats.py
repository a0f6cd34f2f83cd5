"""The formats by name: which one a path holds, and how it is read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from retrieval_lab.corpus import GOLDEN_FILE
from retrieval_lab.errors import InputError
from retrieval_lab.importing.beir import read_beir
from retrieval_lab.importing.records import existing
from retrieval_lab.importing.source import Source
from retrieval_lab.importing.squad import read_squad
from retrieval_lab.importing.trec_source import find_files, read_trec


class Format(StrEnum):
    """What labels can be imported from and checked in."""

    BEIR = "beir"
    TREC = "trec"
    SQUAD = "squad"
    GOLDEN = "golden"


@dataclass(frozen=True, slots=True)
class Options:
    """What only some formats take: the split of BEIR, the files of TREC."""

    split: str | None = None
    topics: Path | None = None
    qrels: Path | None = None
    documents: Path | None = None


NO_OPTIONS = Options()


def read_source(form: Format, path: Path, options: Options = NO_OPTIONS) -> Source:
    """The collection at the path. Raises InputError when it cannot be read or an option is not for this format."""
    trec = (options.topics, options.qrels, options.documents)
    if options.split is not None and form is not Format.BEIR:
        raise InputError(f"--split has no effect on {form}; it names a file of a BEIR folder's qrels")
    if any(trec) and form is not Format.TREC:
        raise InputError(f"--topics, --qrels and --documents have no effect on {form}; they are for trec")
    if form is Format.BEIR:
        return read_beir(path, options.split)
    if form is Format.SQUAD:
        return read_squad(path)
    if form is Format.TREC:
        return read_trec(path, find_files(path, *trec))
    raise InputError(f"{form} is the lab's own format and no source; `retrieval-lab check` reads it as it is")


def format_of(path: Path) -> Format:
    """The format that the path seems to hold: a corpus folder of the lab where nothing else is recognised."""
    if path.is_file():
        return Format.SQUAD
    if (path / GOLDEN_FILE).exists():
        return Format.GOLDEN
    if existing(path, "corpus.jsonl") and (path / "qrels").is_dir():
        return Format.BEIR
    names = [one.name.lower() for one in path.glob("[!.]*") if one.is_file()] if path.is_dir() else []
    if all(any(part in name for name in names) for part in ("topics", "qrels")):
        return Format.TREC
    return Format.GOLDEN
