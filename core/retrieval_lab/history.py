"""The questions that were asked of a corpus, kept between runs."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from retrieval_lab.paths import corpus_data
from retrieval_lab.whole_file import write_whole

KEPT = 500
"""So many questions are kept, the newest."""

_FILE = "history.jsonl"


class History:
    """The questions of one corpus, the oldest first, each once.

    They are a person's own and so lie in the data directory, never beside the corpus. A file that cannot be read or
    written is no reason to stop: then they last as long as the process.
    """

    def __init__(self, corpus: Path) -> None:
        self._path = corpus_data(corpus) / _FILE
        self._questions = _read(self._path)

    @property
    def questions(self) -> tuple[str, ...]:
        """All that are kept."""
        return tuple(self._questions)

    def add(self, question: str) -> None:
        """Put the question at the end, wherever it was before."""
        if not question.strip() or (self._questions and self._questions[-1] == question):
            return
        # Read again: another window may have added some.
        before = _read(self._path) or self._questions
        self._questions = [*(one for one in before if one != question), question][-KEPT:]
        _write(self._path, self._questions)


def _read(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
        found = [json.loads(line) for line in lines]
    except (OSError, ValueError):
        return []
    return [one for one in found if isinstance(one, str)]


def _write(path: Path, questions: list[str]) -> None:
    with suppress(OSError):
        write_whole(path, "".join(f"{json.dumps(one)}\n" for one in questions))
