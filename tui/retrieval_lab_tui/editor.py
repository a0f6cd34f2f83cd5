"""Opening a file at a line in the editor that a person prefers."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from retrieval_lab.errors import EnvironmentMissing

_OWN_WINDOW = {"code", "codium", "cursor", "windsurf", "zed", "subl", "atom", "mate", "gedit", "kate", "gvim", "idea"}
_GOTO = {"code", "codium", "cursor", "windsurf"}
_COLON = {"subl", "zed", "atom", "hx", "helix", "micro"}
_LINE_OPTION = {"idea", "kate", "mate"}


@dataclass(frozen=True, slots=True)
class Editor:
    """The command that opens the file; `own_window` when it does not need the terminal."""

    command: tuple[str, ...]
    own_window: bool


def editor_for(path: Path, line: int, environment: Mapping[str, str] = os.environ) -> Editor:
    """The editor of $VISUAL, else $EDITOR, at a line that counts from 1.

    Raises EnvironmentMissing when neither is set or the value is no command.
    """
    chosen = environment.get("VISUAL") or environment.get("EDITOR") or ""
    try:
        words = shlex.split(chosen)
    except ValueError as error:
        raise EnvironmentMissing(f"$VISUAL or $EDITOR is {chosen!r}, and {error}: set it to a command") from error
    if not words:
        raise EnvironmentMissing("neither $VISUAL nor $EDITOR is set: set EDITOR to a command, for example to nano")
    name = Path(words[0]).name
    return Editor((*words, *_place(name, path, line)), own_window=name in _OWN_WINDOW)


def _place(name: str, path: Path, line: int) -> tuple[str, ...]:
    """The arguments that most editors take, and those that want it otherwise."""
    if name in _GOTO:
        return ("--goto", f"{path}:{line}")
    if name in _COLON:
        return (f"{path}:{line}",)
    if name in _LINE_OPTION:
        return ("--line", str(line), str(path))
    return (f"+{line}", str(path))
