"""Optional libraries, imported at the moment of use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from retrieval_lab.errors import EnvironmentMissing


class MissingExtra(EnvironmentMissing, ImportError):
    """A library of an optional extra is not installed."""


def require(module: str, *, extra: str) -> Any:
    """The imported module. Raises MissingExtra, naming the extra that brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise MissingExtra(
            f"{library} is not installed ({error}); install it with: pip install 'retrieval-lab[{extra}]'"
        ) from error
