"""What can be wrong with a stored index."""

from __future__ import annotations

from retrieval_lab.errors import InputError


class IndexError_(InputError):  # noqa: N801 - the name is part of the contract
    """The folder is no index, or its files do not belong together. A ValueError; exit code 2."""


class FormatError(IndexError_):
    """A file is not what the format says: damaged, cut short, or of another version."""
