"""Writing a collection as a corpus folder, whole or not at all, and finding the collection's own ids in one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from retrieval_lab.corpus import GOLDEN_FILE
from retrieval_lab.errors import InputError
from retrieval_lab.golden import load_golden
from retrieval_lab.golden_write import golden_yaml
from retrieval_lab.importing.build import Built
from retrieval_lab.stored import as_text, read_as, read_json, write_json

SOURCE_FILE: Final = "source.json"
FORMAT: Final = 1


def write_corpus(
    built: Built, target: Path, origin: str, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> None:
    """Write the documents, golden.yaml and, where the collection's ids are others, source.json, which has them.

    `origin` says what was imported. `progress` hears how many of how many files are written. Raises InputError when
    the target is there already and not an empty folder, or something cannot be written; nothing is left then.
    """
    with new_folder(target) as folder:
        docs = folder / "docs"
        docs.mkdir()
        for done, document in enumerate(built.documents):
            progress(done, len(built.documents))
            (docs / f"{document.doc_id}.md").write_text(document.text, encoding="utf-8", newline="")
        progress(len(built.documents), len(built.documents))
        (folder / GOLDEN_FILE).write_text(golden_yaml(built.golden.queries), encoding="utf-8", newline="")
        write_json(folder / SOURCE_FILE, {"format": FORMAT, "origin": origin, "ids": dict(built.ids)})
        if load_golden(folder / GOLDEN_FILE) != list(built.golden.queries):
            raise InputError(f"{target}: the labels do not read back as they are; please report this collection")


def require_new(target: Path) -> None:
    """Raises InputError when there is something in the target."""
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise InputError(f"{target}: there is something already; name a folder that is new or empty")


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder to fill, which becomes the target at the end; after an error it is gone. Raises InputError."""
    target = target.absolute()
    require_new(target)
    folder = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        folder.mkdir(parents=True)
        yield folder
        require_new(target)  # much may have happened since
        folder.rename(target)
    except OSError as error:
        raise InputError(f"{error.filename or target}: cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def original_ids(corpus: Path) -> Mapping[str, str]:
    """The collection's own id of each document that is called otherwise here, by doc_id; empty for other corpora.

    Raises InputError when source.json is broken.
    """
    path = corpus / SOURCE_FILE
    if not path.exists():
        return {}
    try:
        return read_as("source of a corpus", FORMAT, read_json(path), lambda data: data.named("ids", as_text))
    except InputError as error:
        raise error if str(error).startswith(str(path)) else InputError(f"{path}: {error}") from error
