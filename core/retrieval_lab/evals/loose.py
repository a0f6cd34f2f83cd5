"""Finding a text in another one that writes it differently: with Markdown marks, other quotes, another Unicode form.

What is found this way is reported to a person and never taken for a match.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from functools import lru_cache
from itertools import combinations

from retrieval_lab.highlight import Span
from retrieval_lab.text import folded


class Form(StrEnum):
    """One way to make two spellings equal; the value says it to people."""

    NFC = "accents are composed (Unicode NFC)"
    NFKC = "ligatures and other compatibility characters are resolved (Unicode NFKC)"
    INVISIBLE = "invisible characters (soft hyphen, zero-width space) are left out"
    QUOTES = "quotes and dashes are made plain"
    MARKDOWN = "Markdown marks are left out"


Forms = tuple[Form, ...]

# Markdown goes first: it needs the lines as they are. Quotes go before NFKC, which rewrites some of them.
_ORDER = (Form.MARKDOWN, Form.INVISIBLE, Form.QUOTES, Form.NFC, Form.NFKC)
# () is case, white space and what surrounds the text. One form alone is the likeliest, all together the widest.
_FIRST: tuple[Forms, ...] = ((), (Form.NFC,), (Form.INVISIBLE,), (Form.NFKC,), (Form.QUOTES,), (Form.MARKDOWN,))
_WIDEST: Forms = (Form.INVISIBLE, Form.NFKC, Form.QUOTES, Form.MARKDOWN)

_PLAIN = str.maketrans(
    dict.fromkeys("‘’‚‛′´", "'") | dict.fromkeys("“”„‟″«»", '"') | dict.fromkeys("‐‑‒–—―−", "-") | {"…": "..."}  # noqa: RUF001
)
_Rule = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]

# A character with the marks (neither letters nor space) and the Hangul vowels and finals that compose with it.
_COMPOSING = re.compile(r"[\s\S](?:[^\w\s\x00-\x7f]|[\u1160-\u11ff])+|[^\x00-\x7f]")


def _rule(pattern: str, replacement: str | Callable[[re.Match[str]], str]) -> _Rule:
    compiled = re.compile(pattern, re.MULTILINE)
    return compiled, (lambda match: match.expand(replacement)) if isinstance(replacement, str) else replacement


_RULES: dict[Form, tuple[_Rule, ...]] = {
    Form.MARKDOWN: (
        _rule(r"!?\[([^\]\n]*)\](?:\([^)\n]*\)|\[[^\]\n]*\])", r"\1"),  # links and images
        _rule(r"^[ \t]*>+", ""),
        # What opens a heading, a list or a quote, also where an anchor has lost its line breaks.
        _rule(r"(?<!\S)(?:#{1,6}|[-*+>]|\d{1,9}[.)])(?=\s)", ""),
        _rule(r"\\([!-/:-@\[-`{-~])", r"\1"),  # escapes
        _rule(r"\|", " "),  # cells of a table
        _rule(r"[*`]+|~~+|\b_+|_+\b", ""),  # emphasis and code; ef_search keeps its underscore
    ),
    Form.INVISIBLE: (_rule("[\u00ad\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]+", ""),),
    Form.QUOTES: (
        _rule("[" + "".join(map(chr, _PLAIN)) + "]", lambda match: match[0].translate(_PLAIN)),
        _rule("--+", "-"),  # typed for a long dash
    ),
    Form.NFC: ((_COMPOSING, lambda match: unicodedata.normalize("NFC", match[0])),),
    Form.NFKC: ((_COMPOSING, lambda match: unicodedata.normalize("NFKC", match[0])),),
}
# The one character whose lower case is longer.
_DOTTED_I = _rule("İ", lambda match: match[0].lower())
_WHITE_SPACE = _rule(r"\s+", " ")


def _rules(forms: Forms) -> Iterator[_Rule]:
    return (rule for form in _ORDER if form in forms for rule in _RULES[form])


@lru_cache(maxsize=1024)
def _loosened(text: str, forms: Forms) -> str:
    """The text as it is compared: the forms applied, then folded."""
    for pattern, replacement in _rules(forms):
        text = pattern.sub(replacement, text)
    return folded(text)


def _sought(text: str, forms: Forms) -> str:
    return _loosened(text, forms).strip()


def forms_that_find(sought: str, text: str) -> Forms | None:
    """The fewest forms under which `text` holds `sought`; None when there are none.

    Always in lower case, with runs of white space made one space and none around `sought`, which is all that () does.
    """
    for forms in _FIRST:
        if _holds(sought, text, forms):
            return forms
    if not _holds(sought, text, _WIDEST):
        return None
    return next(forms for forms in _combinations() if _holds(sought, text, forms))


def _holds(sought: str, text: str, forms: Forms) -> bool:
    wanted = _sought(sought, forms)
    return bool(wanted) and wanted in _loosened(text, forms)


def _combinations() -> Iterable[Forms]:
    return (forms for size in range(2, len(_WIDEST) + 1) for forms in combinations(_WIDEST, size))


def place(sought: str, text: str, forms: Forms) -> Span | None:
    """The first place (start, end) of `sought` in `text` under the forms, as offsets into `text`; None without one.

    Where a form turned several characters into others, as with a link, the place takes in all of them.
    """
    shown, spans = text, [(offset, offset + 1) for offset in range(len(text))]
    for rule in (*_rules(forms), _DOTTED_I):
        shown, spans = _replaced(rule, shown, spans)
    shown, spans = _replaced(_WHITE_SPACE, shown.lower(), spans)
    wanted = _sought(sought, forms)
    start = shown.find(wanted) if wanted else -1
    return None if start < 0 else (spans[start][0], spans[start + len(wanted) - 1][1])


def _replaced(rule: _Rule, text: str, spans: list[Span]) -> tuple[str, list[Span]]:
    """`pattern.sub(replacement, text)` with the original range of each character."""
    pattern, replacement = rule
    pieces: list[str] = []
    kept: list[Span] = []
    done = 0
    for match in pattern.finditer(text):
        new = replacement(match)
        if new != match[0]:
            pieces += text[done : match.start()], new
            kept += spans[done : match.start()]
            kept += [(spans[match.start()][0], spans[match.end() - 1][1])] * len(new)
            done = match.end()
    return "".join([*pieces, text[done:]]), kept + spans[done:]
