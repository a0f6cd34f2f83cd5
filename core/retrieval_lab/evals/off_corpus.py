"""Questions that a corpus cannot answer: reading them from a text file, one a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from retrieval_lab.corpus import OFF_CORPUS_FILE
from retrieval_lab.errors import Fault, FaultyInput, InputError
from retrieval_lab.paths import bundled_corpus
from retrieval_lab.text import folded, has_words


def off_corpus_path(corpus: Path) -> Path:
    """The file beside the corpus, else the one that comes with the lab."""
    beside = corpus / OFF_CORPUS_FILE
    return beside if beside.exists() else bundled_corpus() / OFF_CORPUS_FILE


def read_questions(path: Path) -> list[str]:
    """The questions of a file; blank lines and lines that begin with # are none.

    Raises FaultyInput with every line that holds no word or repeats another, InputError when the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: byte 0x{error.object[error.start]:02x}") from error
    lines: dict[str, int] = {}
    questions, faults = [], []
    for number, question in _written(text):
        first = lines.setdefault(folded(question), number)
        if not has_words(question):
            faults.append(Fault(path, number, "a question without words"))
        elif first != number:
            faults.append(Fault(path, number, f"the question of line {first} again"))
        questions.append(question)
    if faults:
        raise FaultyInput(faults)
    return questions


def _written(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        question = line.strip()
        if question and not question.startswith("#"):
            yield number, question
