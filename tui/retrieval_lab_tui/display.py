"""The one way in which text from a corpus, a query or an error reaches the screen.

Such text is data. It is never parsed as markup, and nothing in it can reach the terminal as a control sequence: every
character that could is replaced one for one, so that offsets into the text stay true.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual.content import Content
from textual.content import Span as ContentSpan

from retrieval_lab.highlight import Span

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_BIDI_CONTROLS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_C1_CONTROLS = range(0x80, 0xA0)
# Terminals disagree on the width of these, and whoever debugs a search wants to see them.
_INVISIBLE = (0x00AD, 0x180E, 0x200B, *range(0x2060, 0x2065), 0xFEFF)
_SURROGATES = range(0xD800, 0xE000)
_LINE_SEPARATORS = (0x2028, 0x2029)

_SAFE: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\N{SYMBOL FOR DELETE}",
    **dict.fromkeys((*_C1_CONTROLS, *_INVISIBLE, *_BIDI_CONTROLS, *_SURROGATES), _REPLACEMENT),
    **dict.fromkeys(_LINE_SEPARATORS, " "),
}
_ONE_LINE = {**_SAFE, ord("\n"): " ", ord("\t"): " "}

TERM_STYLE = "bold underline"
ANCHOR_STYLE = "reverse"


def safe(text: str) -> str:
    """The text with every control and invisible character as a symbol; line ends, tabs and the length stay."""
    return text.translate(_SAFE)


def one_line(text: str) -> str:
    """`safe`, with line ends and tabs as spaces. Same length as before."""
    return text.translate(_ONE_LINE)


def marked(text: str, terms: Iterable[Span] = (), anchors: Iterable[Span] = ()) -> Content:
    """Safe text with query terms underlined and the anchor reversed."""
    # All at once: each call of `stylize` would copy the spans before it.
    spans = [ContentSpan(start, end, ANCHOR_STYLE) for start, end in anchors]
    spans += [ContentSpan(start, end, TERM_STYLE) for start, end in terms]
    return Content(text).add_spans(spans)
