"""Where the runs of a corpus are kept, and under which names."""

from __future__ import annotations

import os
from pathlib import Path

from retrieval_lab.errors import InputError
from retrieval_lab.paths import corpus_home

SUFFIX = ".json"

_SHOWN_RUNS = 8


def resolve_run(name_or_path: str, corpus: Path) -> Path:
    """Where the run of this name of the corpus lies, or would; a text with a slash or ending in .json is a path.

    Raises InputError for a blank name.
    """
    if not name_or_path.strip():
        raise InputError("the name of a run is blank; expected a name, or a path that ends in .json")
    if os.sep in name_or_path or name_or_path.endswith(SUFFIX):
        return Path(name_or_path)
    return corpus_home(corpus) / "runs" / f"{name_or_path}{SUFFIX}"


def stored_runs(corpus: Path) -> list[str]:
    """The names of the runs that are kept of a corpus, sorted."""
    return _names(corpus_home(corpus) / "runs")


def require_free(path: Path) -> None:
    """Raises InputError when there is something at the path already, or nothing could be."""
    try:
        taken = path.exists()
    except OSError as error:
        raise InputError(f"{path}: no run can lie there: {error.strerror}") from error
    if taken:
        raise InputError(f"{path}: there already; choose another name, or overwrite it (--force)")


def _names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob(f"[!.]*{SUFFIX}"))


def other_runs(path: Path) -> str:
    """What lies beside a run that is not there, in words."""
    names = _names(path.parent)
    if not names:
        return "there are none in that folder; `retrieval-lab eval --save` makes one"
    more = f" and {len(names) - _SHOWN_RUNS} more" if len(names) > _SHOWN_RUNS else ""
    return f"in that folder are {', '.join(names[-_SHOWN_RUNS:])}{more}"
