"""An answer as it was given, kept in a file: what was asked and found, who answered what, at what cost.

It can be looked at again without a corpus, a database, a model or a login; its text is then checked by the rules of the
version that reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from retrieval_lab.answering import Grounds, Said, Source
from retrieval_lab.citations import cited_sentences
from retrieval_lab.errors import InputError
from retrieval_lab.evals.runs import versions
from retrieval_lab.paths import corpus_home
from retrieval_lab.stored import Stored, as_text, read_as, read_json, write_json
from retrieval_lab.support import Support
from retrieval_lab.trace import read_chunk, read_golden
from retrieval_lab.types import GoldenQuery

if TYPE_CHECKING:
    from retrieval_lab.lab import Lab

FORMAT: Final = 1
_FOLDER: Final = "answers"
# An id is text that came with a corpus: it must neither lead out of the folder nor be too long for a file's name.
_NOT_IN_NAMES: Final = re.compile(r"[^\w.-]|^\.+")
_NAME_CHARS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """One answer with all that it rests on.

    `created` is the UTC time in ISO form, `golden` the golden query that was asked, None for any other, and `relevant`
    the ids of its chunks. `config` is the pipeline as lab.yaml has it.
    """

    created: str
    corpus: str
    versions: Mapping[str, str]
    config: Mapping[str, Any]
    query: str
    golden: GoldenQuery | None
    relevant: tuple[str, ...]
    prompt: str
    said: Said

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON has it; `from_dict` makes an equal one of it."""
        return {
            "format": FORMAT,
            "created": self.created,
            "corpus": self.corpus,
            "versions": dict(self.versions),
            "config": dict(self.config),
            "query": self.query,
            "golden": None if self.golden is None else self.golden.to_dict(),
            "relevant": list(self.relevant),
            "prompt": self.prompt,
            "sources": [_source(one) for one in self.said.sources],
            "floor": self.said.floor,
            "answerer": self.said.answerer,
            "text": self.said.text,
            "cost_usd": self.said.cost_usd,
            "seconds": self.said.seconds,
        }

    @classmethod
    def from_dict(cls, data: Any) -> AnswerRecord:
        """The record that `to_dict` wrote. Raises InputError for another document and for a broken one."""
        return read_as("recorded answer", FORMAT, data, _read)

    def save(self, path: Path) -> None:
        """Write the record, whole or not at all. Raises InputError when it cannot be written."""
        write_json(path, self.to_dict())

    @classmethod
    def load(cls, path: Path) -> AnswerRecord:
        """The record in a file. Raises InputError with the path when there is none or it is broken."""
        try:
            return cls.from_dict(read_json(path))
        except FileNotFoundError as error:
            raise InputError(f"{path}: no such file; `retrieval-lab ask --golden ID --record` makes one") from error
        except InputError as error:
            raise error if str(error).startswith(str(path)) else InputError(f"{path}: {error}") from error


def record(lab: Lab, made: Grounds, said: Said) -> AnswerRecord:
    """What is to be kept of an answer. Raises as `Lab.server_versions` does."""
    trace = made.trace
    return AnswerRecord(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        corpus=lab.corpus.name,
        versions=versions(lab, trace.config),
        config=trace.config.to_dict(),
        query=trace.query,
        golden=trace.golden,
        relevant=trace.relevant,
        prompt=made.draft.prompt,
        said=said,
    )


def record_path(corpus: Path, query_id: str, created: str) -> Path:
    """Where the record of an answer to a golden query of the corpus is kept, whatever characters its id has."""
    time = created[:19].replace("-", "").replace(":", "").replace("T", "-")
    name = _NOT_IN_NAMES.sub("_", query_id)[:_NAME_CHARS]
    return corpus_home(corpus) / _FOLDER / f"{name}-{time}.json"


def _source(one: Source) -> dict[str, Any]:
    support = {"share": one.support.share, "terms": list(one.support.terms)}
    return {
        "number": one.number,
        "chunk": asdict(one.chunk),
        "rank": one.rank,
        "score": one.score,
        "support": support,
    }


def _read(data: Stored) -> AnswerRecord:
    sources = data.each("sources", _read_source)
    if [one.number for one in sources] != list(range(1, len(sources) + 1)):
        raise InputError("sources are not numbered from 1")
    text = data.text("text")
    said = Said(
        text=text,
        report=cited_sentences(text, [one.chunk.chunk_id for one in sources]),
        answerer=data.text("answerer"),
        sources=sources,
        floor=data.number("floor"),
        cost_usd=data.number("cost_usd"),
        seconds=data.number("seconds"),
    )
    return AnswerRecord(
        created=data.text("created"),
        corpus=data.text("corpus"),
        versions=data.named("versions", as_text),
        config=data.inner("config").values,
        query=data.text("query"),
        golden=read_golden(data.inner("golden")) if data.has("golden") else None,
        relevant=data.each("relevant", as_text),
        prompt=data.text("prompt"),
        said=said,
    )


def _read_source(value: Any, place: str) -> Source:
    data = Stored(value, place)
    support = data.inner("support")
    return Source(
        number=data.rank("number"),
        chunk=read_chunk(data.inner("chunk").values, f"{place}.chunk"),
        rank=data.rank("rank"),
        score=data.number("score"),
        support=Support(support.number("share"), support.each("terms", as_text)),
    )
