"""Where the lab keeps what it makes, and where the corpus and the configurations that come with it lie."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import platformdirs

from retrieval_lab.errors import EnvironmentMissing

_INDEX_FILE = "bm25.idx"
DATA_DIR_VARIABLE = "RETRIEVAL_LAB_DATA_DIR"


def data_dir() -> Path:
    """Return the absolute folder for all that the lab stores; it need not exist yet.

    `$RETRIEVAL_LAB_DATA_DIR` when set, else /var/lib/retrieval-lab for root (whose home the server's user cannot
    enter), else the platform's data folder of the user.
    """
    chosen = os.environ.get(DATA_DIR_VARIABLE)
    if chosen:
        try:
            return Path(chosen).expanduser().absolute()
        except RuntimeError as error:
            raise EnvironmentMissing(f"{DATA_DIR_VARIABLE} is {chosen!r}, and {error}: set it to a folder") from error
    if os.geteuid() == 0:
        return Path("/var/lib/retrieval-lab")
    return platformdirs.user_data_path("retrieval-lab", appauthor=False)


def bundled_corpus() -> Path:
    """Return the corpus that comes with the lab: the clone's `fixtures/corpus`, else the one inside the package.

    Raises EnvironmentMissing when neither is there.
    """
    return _bundled("corpus", "golden.yaml", "the bundled corpus is", "or name a corpus")


def bundled_configs() -> Path:
    """Return the folder of the configurations that come with the lab, in `fixtures/configs` or inside the package.

    Raises EnvironmentMissing when neither is there.
    """
    return _bundled("configs", "default.yaml", "the shipped configurations are", "or name a file")


def _bundled(name: str, file: str, what: str, otherwise: str) -> Path:
    """The folder of this name that has the file: the clone's, else the package's."""
    here = Path(__file__).resolve()
    candidates = (here.parents[2] / "fixtures" / name, here.parent / name)
    for candidate in candidates:
        if (candidate / file).is_file():
            return candidate
    places = " nor ".join(str(candidate) for candidate in candidates)
    raise EnvironmentMissing(f"{what} neither in {places}: install retrieval-lab again, {otherwise}")


def indexes_folder() -> Path:
    """Return the folder around all that `index_folder` returns; it need not exist yet."""
    return data_dir() / "indexes"


def index_folder(schema: str) -> Path:
    """Return the folder for the index in memory of what this schema holds; it need not exist yet."""
    return indexes_folder() / schema


def corpus_home(corpus: Path) -> Path:
    """Return the folder for what the lab keeps about a corpus (lab.yaml, runs); it need not exist yet.

    The corpus itself where it can be written, else a folder of its own in the data directory. The corpus inside an
    installed package counts as read-only: it would be lost with the next installation. So does a portable index, which
    may hold nothing else.
    """
    folder = corpus.resolve()
    packaged = Path(__file__).resolve().parent / "corpus"
    is_ours = folder != packaged and not (folder / _INDEX_FILE).is_file()
    return folder if is_ours and os.access(folder, os.W_OK) else corpus_data(folder)


def corpus_data(corpus: Path) -> Path:
    """Return the folder in the data directory for what is kept about a corpus; it need not exist yet."""
    folder = corpus.resolve()
    digest = sha256(os.fsencode(folder)).hexdigest()[:12]
    return data_dir() / "corpora" / f"{folder.name}-{digest}"
