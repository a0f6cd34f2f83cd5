"""Copying a corpus folder of the lab, with its labels checked on the way."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from retrieval_lab.corpus import GOLDEN_FILE, read_corpus
from retrieval_lab.errors import Fault
from retrieval_lab.golden import load_golden
from retrieval_lab.importing.folder import SOURCE_FILE, new_folder


@dataclass(frozen=True, slots=True)
class Copied:
    """How many documents and queries were copied, and the files that were not, with the reason."""

    documents: int
    queries: int
    faults: tuple[Fault, ...]


def copy_corpus(
    origin: Path, target: Path, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> Copied:
    """Copy the documents that can be read, golden.yaml and source.json, byte for byte.

    Raises FaultyInput with all faults of golden.yaml, InputError when the origin is no corpus or the target is there
    already, and nothing is left then.
    """
    golden, files = load_golden(origin / GOLDEN_FILE), read_corpus(origin)
    with new_folder(target) as folder:
        for done, path in enumerate(files.paths.values()):
            progress(done, len(files.paths))
            (folder / path.parent.name).mkdir(exist_ok=True)
            shutil.copyfile(path, folder / path.parent.name / path.name)
        for name in (GOLDEN_FILE, SOURCE_FILE):
            if (origin / name).exists():
                shutil.copyfile(origin / name, folder / name)
        progress(len(files.paths), len(files.paths))
    return Copied(len(files.documents), len(golden), files.faults)
