"""Reading a corpus from disk: `docs/*.md`, then `stories/*.txt`, each group sorted by file name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from retrieval_lab.errors import Fault, FaultyInput, InputError
from retrieval_lab.markdown import headings
from retrieval_lab.text import sendable
from retrieval_lab.types import Document

GOLDEN_FILE = "golden.yaml"
OFF_CORPUS_FILE = "off_corpus.txt"
_GROUPS = (("docs", ".md"), ("stories", ".txt"))


@dataclass(frozen=True, slots=True)
class CorpusFiles:
    """The documents that could be read, the file of each by doc_id, and a fault for every file that was left out."""

    documents: tuple[Document, ...]
    paths: Mapping[str, Path]
    faults: tuple[Fault, ...]


def read_corpus(corpus_dir: Path | str) -> CorpusFiles:
    """All readable documents of the folder together with what is wrong with the others.

    Raises InputError when there is no such folder or when it has no document files at all.
    """
    root = Path(corpus_dir)
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; a corpus is a folder with docs/*.md and stories/*.txt")
    documents: dict[str, Document] = {}
    paths: dict[str, Path] = {}
    faults: list[Fault] = []
    for path in _document_files(root):
        content = _read_text(path)
        if isinstance(content, Fault):
            faults.append(content)
        elif (first := paths.get(path.stem)) is not None:
            message = f"doc_id {path.stem!r} is already taken by {first}; rename one of the two files"
            faults.append(Fault(path, None, message))
        else:
            paths[path.stem] = path
            documents[path.stem] = Document(path.stem, _title(path, content), content)
    if not documents and not faults:
        raise InputError(f"{root}: no documents; expected Markdown files in docs/ or text files in stories/")
    return CorpusFiles(tuple(documents.values()), paths, tuple(faults))


def load_documents(corpus_dir: Path | str) -> list[Document]:
    """The documents of the folder: `docs/*.md`, then `stories/*.txt`, each group sorted by file name.

    `doc_id` is the file's stem. `title` is the first level-1 heading of a Markdown file and the first non-blank line
    of a story; without one it is the doc_id. A byte order mark is dropped, line ends become `\\n`.

    Raises FaultyInput with every file that cannot be read, is not UTF-8 (its name too), holds a NUL or repeats a
    doc_id, and InputError when there is no document at all. `read_corpus` gives the rest in spite of faults.
    """
    files = read_corpus(corpus_dir)
    if files.faults:
        raise FaultyInput(files.faults)
    return list(files.documents)


def place_in_file(corpus_dir: Path | str, doc_id: str, offset: int) -> tuple[Path, int]:
    """The file of a document, and the line, from 1, of an offset into its text.

    Raises InputError when the corpus has no such file any more, or it cannot be read.
    """
    for path in _document_files(Path(corpus_dir)):
        if path.stem == doc_id:
            text = _read_text(path)
            if isinstance(text, Fault):
                raise InputError(str(text))
            return path, text.count("\n", 0, offset) + 1
    raise InputError(f"{corpus_dir}: no file of the document {doc_id!r} any more; open the corpus again")


def file_stamps(corpus_dir: Path | str, *others: Path) -> dict[Path, tuple[int, int]]:
    """When each file of the corpus, golden.yaml and `others` was changed last (ns), and its size; cheap to ask.

    Files that are not there, or cannot be asked, are left out.
    """
    root = Path(corpus_dir)
    found: dict[Path, tuple[int, int]] = {}
    with suppress(OSError):  # a folder that went away has no files
        for path in (*_document_files(root), root / GOLDEN_FILE, *others):
            with suppress(OSError):
                status = path.stat()
                found[path] = (status.st_mtime_ns, status.st_size)
    return found


def _document_files(root: Path) -> Iterator[Path]:
    for folder, suffix in _GROUPS:
        parent = root / folder
        if parent.is_dir():
            named = (path for path in parent.iterdir() if path.suffix == suffix and not path.name.startswith("."))
            yield from sorted(named, key=lambda path: path.name)


def _read_text(path: Path) -> str | Fault:
    if not _is_text(path.name):
        return Fault(path, None, "its name is not UTF-8; rename the file")
    if path.exists() and not path.is_file():  # a folder; a pipe would keep us waiting
        return Fault(path, None, "cannot be read: it is not a file")
    try:
        data = path.read_bytes()
    except OSError as error:
        return Fault(path, None, f"cannot be read: {error.strerror}")
    if (nul := data.find(b"\0")) >= 0:
        return Fault(path, _line_of(data, nul), f"a NUL byte at offset {nul}; text files hold none")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}; save the file as UTF-8"
        return Fault(path, _line_of(data, error.start), message)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _is_text(name: str) -> bool:
    """Whether a name from the file system could be decoded: what could not stands in it as lone surrogates."""
    return sendable(name)[1] == 0


def _line_of(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1


def _title(path: Path, text: str) -> str:
    if path.suffix == ".md":
        return next((heading.title for heading in headings(text) if heading.level == 1 and heading.title), path.stem)
    return next((line.strip() for line in text.split("\n") if line.strip()), path.stem)
