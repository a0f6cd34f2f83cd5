"""Whether somebody seems to be logged in to Claude, for those who choose who answers and for the doctor."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

KEY_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
LOGIN_MEND = "set ANTHROPIC_API_KEY, or install the command claude and log in with it"


def has_login() -> bool:
    """Whether there is a key or a login that was written down; the command alone may never have been logged in."""
    return _written_login() is not None


def claude_login() -> str | None:
    """Where a login seems to be, in words, or None where there is none.

    No key is kept or shown, and the credentials file is not opened: whether Claude accepts them, only asking tells.
    """
    if (written := _written_login()) is not None:
        return written
    if shutil.which("claude") is not None:
        return "the command claude is there; whether it is logged in, it alone knows"
    return None


def _written_login() -> str | None:
    for variable in KEY_VARIABLES:
        if os.environ.get(variable):
            return f"{variable} is set"
    # Not Path.expanduser, which raises for a user without a home.
    settings = Path(os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude"))  # noqa: PTH111
    # Not Path.exists, which raises below a folder that this user may not enter.
    if os.path.exists(settings / ".credentials.json"):  # noqa: PTH110
        return f"the login of the command claude, in {settings}"
    return None
