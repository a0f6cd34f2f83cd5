"""Qrels and runs in the files that trec_eval reads and writes, and ids that survive in them.

Fields are divided by blanks or tabs, lines that begin with `#` and blank lines are skipped, as in trec_eval 10. What
trec_eval rejects, or takes for 0 in silence, is a fault here: all faults of a file come in one error. A name that ends
in `.gz` is that of a gzip file; text is UTF-8.
"""

from __future__ import annotations

import gzip
import io
import math
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote_to_bytes

import numpy as np

from retrieval_lab.errors import Fault, FaultyInput, InputError
from retrieval_lab.whole_file import write_whole

T = TypeVar("T", int, float)

QRELS_COLUMNS = ("query", "iteration", "document", "grade")
RUN_COLUMNS = ("query", "Q0", "document", "rank", "score", "tag")
GRADE_LIMIT = 2**31 - 1

_GZIP = ".gz"
_SHOWN_CHARS = 60
# trec_eval 10 counts no line with a `#` anywhere, and then writes beyond the memory that it took for the others.
_UNSAFE = re.compile("[^!-~]|[%#]")
_EMPTY = "%"


@dataclass(frozen=True, slots=True)
class Qrels:
    """Labels: `grades` has the grade of each labelled document, by query and document id.

    A grade below 1 is not relevant; one below 0 says that the document was pooled and not judged.
    """

    grades: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class TrecRun:
    """What a system returned: `scores` has the score of each document, by query and document id.

    `tag` is the run's name. As in trec_eval it is that of the last line, and the rank column does not count.
    """

    tag: str
    scores: Mapping[str, Mapping[str, float]]

    def ranked(self) -> dict[str, list[str]]:
        """The ids of each query's documents, the best first: by score, those of one score by id, from the last."""
        return {query: ranked_ids(scores) for query, scores in self.scores.items()}


def ranked_ids(scores: Mapping[str, float]) -> list[str]:
    """The ids by score descending, then by id descending, byte for byte: trec_eval's order."""
    if len(set(scores.values())) == len(scores):
        return sorted(scores, key=scores.__getitem__, reverse=True)  # no ties, which cost most of the time
    return [key for _, key in sorted(((score, key) for key, score in scores.items()), reverse=True)]


# --- reading -------------------------------------------------------------------------------------------------------


def read_qrels(path: Path, *, encoded: bool = False) -> Qrels:
    """The labels in a file of four columns: query, iteration (not used), document, grade.

    `encoded` turns ids back into what they were before `write_qrels` made them safe; the ids of others stay as they
    are without it.

    Raises FaultyInput with every fault: another number of columns, a grade that is no whole number, a document that
    is labelled twice for a query, bytes that are not UTF-8, no line at all. Raises InputError when the file cannot be
    read.
    """
    table = _Table(path, encoded, _grade)
    for number, fields in table.rows(QRELS_COLUMNS, more=False):
        table.add(number, fields[0], fields[2], fields[3])
    return Qrels(table.done())


def read_run(path: Path, *, encoded: bool = False) -> TrecRun:
    """The run in a file of six columns: query, Q0, document, rank, score, tag; what follows them is not read.

    `encoded` is as for `read_qrels`. Tags may differ, since trec_eval allows it. Raises FaultyInput with every fault:
    fewer columns, a score that is no finite number, a document that stands twice for a query, bytes that are not UTF-8,
    no line at all. Raises InputError when the file cannot be read.
    """
    table = _Table(path, encoded, _score)
    tag = b""
    for number, fields in table.rows(RUN_COLUMNS, more=True):
        table.add(number, fields[0], fields[2], fields[4])
        tag = fields[5]
    return TrecRun(tag.decode(errors="replace"), table.done())


class _Table(dict[str, dict[str, T]]):
    """The numbers of a file by query and document, and the faults that were met on the way."""

    def __init__(self, path: Path, encoded: bool, number: Callable[[bytes], T]) -> None:
        super().__init__()
        self.path = path
        self.faults: list[Fault] = []
        self._number: Callable[[bytes], T] = number
        self._query = b""
        self._documents: dict[str, T] = {}
        self._id: Callable[[bytes], str] = _decoded if encoded else bytes.decode

    def rows(self, columns: Sequence[str], *, more: bool) -> Iterator[tuple[int, list[bytes]]]:
        """Each line that has the columns, or more where they may be, with its number from 1."""
        least, most = len(columns), sys.maxsize if more else len(columns)
        wrong: list[tuple[int, int]] = []
        good = 0
        for number, line in enumerate(read_bytes(self.path).split(b"\n"), start=1):
            fields = line.split()  # at ASCII white space alone, as C's isspace
            if not fields or fields[0].startswith(b"#"):
                continue
            if least <= len(fields) <= most:
                good += 1
                yield number, fields
            else:
                wrong.append((number, len(fields)))
        self._note_columns(wrong, good, f"{least}: {', '.join(columns)}")

    def _note_columns(self, wrong: Sequence[tuple[int, int]], good: int, form: str) -> None:
        """The faults of lines with another number of columns; of a file of another kind one for all of them."""
        if not wrong and not good:
            self._fault(None, f"the file has no lines; expected lines of {form}")
        elif not good and len(wrong) > 1 and len({found for _, found in wrong}) == 1:
            self._fault(None, f"every line has {_columns(wrong[0][1])}; expected {form}")
        else:
            for number, found in wrong:
                self._fault(number, f"{_columns(found)}; expected {form}")

    def add(self, line: int, query: bytes, document: bytes, value: bytes) -> None:
        """Enter a line, or note what is wrong with it."""
        try:
            if query != self._query:  # lines of one query mostly stand together
                self._documents = self.setdefault(self._id(query), {})
                self._query = query
            key = self._id(document)
        except UnicodeDecodeError:
            self._fault(line, f"{_shown(query)} {_shown(document)} is not UTF-8; write the file in UTF-8")
            return
        if key in self._documents:
            self._fault(line, f"document {_shown(document)} stands twice for query {_shown(query)}; keep one line")
            return
        try:
            self._documents[key] = self._number(value)
        except ValueError as error:
            self._fault(line, str(error))

    def done(self) -> dict[str, dict[str, T]]:
        """What was read. Raises FaultyInput when anything is wrong."""
        if self.faults:
            raise FaultyInput(sorted(self.faults, key=lambda fault: fault.line or 0))
        return dict(self)

    def _fault(self, line: int | None, message: str) -> None:
        self.faults.append(Fault(self.path, line, message))


def _grade(field: bytes) -> int:
    try:
        value = int(field)
    except ValueError:
        value = GRADE_LIMIT + 1
    if abs(value) > GRADE_LIMIT or b"_" in field:
        raise ValueError(f"the grade is {_shown(field)}; expected a whole number of 32 bits")
    return value


def _score(field: bytes) -> float:
    try:
        value = float(field)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or b"_" in field:  # Python takes 1_0 for 10
        raise ValueError(f"the score is {_shown(field)}; expected a finite number")
    return value


def _decoded(field: bytes) -> str:
    return decode_id(field.decode())


def _columns(number: int) -> str:
    return f"{number} column{'' if number == 1 else 's'}"


def _shown(field: bytes) -> str:
    return repr(field[:_SHOWN_CHARS].decode(errors="backslashreplace"))


def read_bytes(path: Path) -> bytes:
    """What is in a file, unpacked when its name ends in `.gz`, without a byte order mark.

    Raises InputError when there is none, it cannot be read, or it is no whole gzip file.
    """
    try:
        if path.is_fifo():  # it would keep us waiting
            raise InputError(f"{path}: cannot be read: it is not a file")
        content = path.read_bytes()
        if path.suffix == _GZIP:
            content = gzip.decompress(content)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: not gzip, or only the beginning of it ({error}); pack it again") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    return content.removeprefix(b"\xef\xbb\xbf")


# --- writing -------------------------------------------------------------------------------------------------------


def write_qrels(path: Path, qrels: Qrels) -> None:
    """Write labels as a qrels file, whole or not at all, in the order of the mappings.

    Raises InputError when it cannot be written.
    """
    write_bytes(
        path,
        (
            f"{encode_id(query)} 0 {encode_id(key)} {grade}\n"
            for query, grades in qrels.grades.items()
            for key, grade in grades.items()
        ),
    )


def write_run(path: Path, tag: str, lists: Mapping[str, Sequence[tuple[str, float]]]) -> None:
    """Write ranked lists as a run, whole or not at all: for each query its (document id, score), the best first.

    The order of the lists is the one that every reader makes of the scores: each is strictly below the one before,
    also where scores are read in single precision. One that is not is written as the next smaller number; a list that
    is not ordered by score, such as that of MMR, keeps its order and loses its scores. Raises InputError for a
    document that stands twice for a query, a score that is no finite number of single precision, and when the file
    cannot be written.
    """
    name = encode_id(tag)
    write_bytes(path, (line for query, found in lists.items() for line in _run_lines(query, found, name)))


def _run_lines(query: str, found: Sequence[tuple[str, float]], tag: str) -> Iterator[str]:
    if len({key for key, _ in found}) < len(found):
        raise InputError(f"query {query!r}: a document stands twice in its list; expected each once")
    scores = falling([score for _, score in found], f"query {query!r}")
    for rank, ((key, _), score) in enumerate(zip(found, scores, strict=True), start=1):
        yield f"{encode_id(query)} Q0 {encode_id(key)} {rank} {score!r} {tag}\n"


def falling(scores: Sequence[float], name: str) -> list[float]:
    """The scores, each lowered as far as it has to be to lie below the one before in single precision.

    Raises InputError, which begins with `name`, for one that is no finite number of single precision.
    """
    with np.errstate(over="ignore"):
        single = np.asarray(scores, dtype=np.float64).astype(np.float32)
    if not np.isfinite(single).all():
        worst = scores[int(np.argmin(np.isfinite(single)))]
        raise InputError(f"{name}: the score {worst} is no finite number of single precision")
    if (np.diff(single) < 0).all():
        return [float(score) for score in scores]
    lowered: list[float] = []
    bound = np.float32(np.inf)
    for score, rounded in zip(scores, single, strict=True):
        if rounded < bound:
            bound = rounded
            lowered.append(float(score))
        else:
            bound = np.nextafter(bound, np.float32(-np.inf))
            lowered.append(float(bound))
    if not math.isfinite(float(bound)):
        raise InputError(f"{name}: no number of single precision is left below the lowest score")
    return lowered


def write_bytes(path: Path, lines: Iterator[str]) -> None:
    """Write the lines, whole or not at all, packed when the name ends in `.gz`. Raises InputError when it cannot be."""
    content = "".join(lines).encode()
    if path.suffix == _GZIP:
        packed = io.BytesIO()
        # Without a time and a name the same lines make the same file.
        with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as file:
            file.write(content)
        content = packed.getvalue()
    try:
        write_whole(path, content)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


# --- ids -----------------------------------------------------------------------------------------------------------


def encode_id(text: str) -> str:
    """The id as one field that every parser of these files survives; `decode_id` gives the id back.

    White space, control characters, what is not ASCII, `#` and `%` become the percent-encoded bytes of UTF-8 (RFC
    3986, section 2.1); the empty id is a single `%`.
    """
    return _UNSAFE.sub(_percent, text) or _EMPTY


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode(errors="surrogatepass"))


def decode_id(text: str) -> str:
    """The id that `encode_id` made safe. Raises UnicodeDecodeError when its bytes are not UTF-8."""
    return "" if text == _EMPTY else unquote_to_bytes(text).decode(errors="surrogatepass")
