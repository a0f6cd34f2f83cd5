"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Put the content, text in UTF-8, into the file, which until then stays as it was; missing folders are made.

    Line ends are written as they are, and the file keeps its permissions. Raises OSError, and leaves nothing beside the
    file then.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())  # else a machine that fails may have the new name before the text
        with suppress(FileNotFoundError):
            shutil.copymode(path, temporary)
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
