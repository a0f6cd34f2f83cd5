"""What can go wrong, in the words of the person who has to mend it.

Each class carries the exit code that the command line gives for it. The message is one line, or one a fault: what was
wrong, where, what was expected, what to do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class LabError(Exception):
    """The base of every error that the lab raises on purpose."""

    exit_code = 1


class InputError(LabError, ValueError):
    """What was given cannot be used: a file, an option, a value. Exit code 2."""

    exit_code = 2


class SettingError(InputError):
    """A setting has a value that it cannot have; `key` names it, and `also` another that it does not fit."""

    def __init__(self, key: str, found: object, expected: str, *, also: str | None = None) -> None:
        self.key = key
        self.also = also
        super().__init__(f"{key} is {found}; expected {expected}")


class EnvironmentMissing(LabError, RuntimeError):
    """This machine lacks something: a server, an extension, a model. Exit code 3; the message ends with the mend."""

    exit_code = 3


class AnswerError(LabError):
    """No answer came, or none that is whole; the message ends with what to do."""


class AnswererMissing(AnswerError, EnvironmentMissing):
    """This machine cannot ask for answers: no login, no extra, no program. Exit code 3."""

    exit_code = 3


class Cancelled(LabError):
    """Work was told to stop before it was done."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong in one file. `line` counts from 1 and is None where the whole file is meant."""

    path: Path
    line: int | None
    message: str
    query_id: str | None = None

    def __str__(self) -> str:
        path = os.fsencode(self.path).decode(errors="backslashreplace")  # a name that is not UTF-8 can be printed too
        place = f"{path}:{self.line}" if self.line is not None else path
        return ": ".join(part for part in (place, self.query_id, self.message) if part)

    def to_dict(self) -> dict[str, Any]:
        """The fault as JSON has it."""
        path = os.fspath(self.path)
        return {"file": path, "line": self.line, "query_id": self.query_id, "message": self.message}


class FaultyInput(InputError):
    """Files with faults; `faults` holds all of them, in the order of the files and lines."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))

    @classmethod
    def of(cls, path: Path, line: int | None, message: str) -> FaultyInput:
        """The error of one fault alone."""
        return cls([Fault(path, line, message)])
