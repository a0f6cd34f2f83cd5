"""The explorer's own two themes: quiet grounds, one accent, and the colours of found and missed apart for all eyes.

Green and red are told apart by lightness too, and nothing on the screen is said by colour alone.
"""

from __future__ import annotations

from typing import Final

from textual.theme import Theme

DARK: Final = Theme(
    name="lab-dark",
    dark=True,
    primary="#7aa2f7",
    secondary="#9aa5ce",
    accent="#e0af68",
    foreground="#c8d0e0",
    background="#14171f",
    surface="#1a1e29",
    panel="#232939",
    success="#7fd88f",
    warning="#f0b95a",
    error="#f0616d",
)

LIGHT: Final = Theme(
    name="lab-light",
    dark=False,
    primary="#2f5fb3",
    secondary="#5a6478",
    accent="#9a5b00",
    foreground="#20242e",
    background="#fbfaf6",
    surface="#f3f1ea",
    panel="#e6e2d6",
    success="#1d7a3a",
    warning="#8a5a00",
    error="#b3202c",
)

THEMES: Final = (DARK, LIGHT)


def opposite(name: str, *, dark: bool) -> str:
    """The theme to go to from one of this name: its light or dark counterpart, else ours."""
    stem, _, ending = name.rpartition("-")
    pairs = {"textual", "lab", "solarized", "atom-one", "ansi"}
    if stem in pairs and ending in ("dark", "light"):
        return f"{stem}-{'light' if dark else 'dark'}"
    return (LIGHT if dark else DARK).name
