"""The analysis of a corpus on disk: where it lies, reading it, and changing what is there at that moment."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from retrieval_lab.diagnosis.analysis_file import Document, parse, render
from retrieval_lab.errors import InputError
from retrieval_lab.guardian.locks import wait_lock
from retrieval_lab.paths import corpus_data, corpus_home
from retrieval_lab.whole_file import write_whole

ANALYSIS_FILE = "RETRIEVAL_ANALYSIS.md"

_TRIES = 5
_LOCK_SECONDS = 10.0


def analysis_path(corpus: Path) -> Path:
    """Where the analysis of a corpus lies, or would: beside it, or in the data directory if the corpus is read-only."""
    home, beside = corpus_home(corpus) / ANALYSIS_FILE, corpus / ANALYSIS_FILE
    return beside if beside.exists() and not home.exists() else home


def load_analysis(path: Path) -> Document:
    """The analysis in a file. Raises InputError when there is none or it cannot be read."""
    text = _read(path)
    if text is None:
        raise InputError(f"{path}: no analysis yet; `retrieval-lab analysis init` makes one")
    return parse(text)


def edit_analysis(corpus: Path, change: Callable[[Document], Document]) -> Document:
    """Apply a change to the analysis as it is on disk now, write it whole or not at all, and return it as it is then.

    `change` gets an empty document where there is no file yet, and may be called again when the file changes meanwhile,
    so nothing that another program wrote is lost. A file that the change leaves alone is not written.

    Raises InputError when the file cannot be read or written, and what `change` raises.
    """
    target = (corpus_home(corpus) / ANALYSIS_FILE).resolve()  # a link stays a link
    with _alone(corpus):
        for _ in range(_TRIES):
            path = analysis_path(corpus)
            before = _read(path)
            document = change(parse(before or ""))
            after = render(document)
            if after == (before or ""):
                return document
            if _read(path) == before:
                _write(target, after)
                return document
    raise InputError(f"{target}: changed again and again while it was to be written; try once more")


def _read(path: Path) -> str | None:
    """The text of a file, None when there is no file."""
    try:
        if path.exists() and not path.is_file():  # a pipe would keep us waiting
            raise InputError(f"{path}: cannot be read: it is not a file")
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}:{line}: not UTF-8: byte 0x{error.object[error.start]:02x}; save the file as UTF-8"
        ) from error


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}; nothing was changed") from error


@contextmanager
def _alone(corpus: Path) -> Iterator[None]:
    """Keeps other processes and threads of the lab from writing the analysis of this corpus meanwhile."""
    path = corpus_data(corpus) / "analysis.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = wait_lock(path, fcntl.LOCK_EX, _LOCK_SECONDS)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error
    if held is None:
        raise InputError(f"{path}: another process has been writing the analysis for {_LOCK_SECONDS:.0f} s; try again")
    try:
        yield
    finally:
        os.close(held)
