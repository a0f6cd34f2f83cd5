"""Which full stops end a sentence of running text: abbreviations, initials, quotations and ideographic stops."""

# The characters that look like others are what this module is about.
# ruff: noqa: RUF001

from __future__ import annotations

import re
from bisect import bisect_right

_CLOSERS = "\"'”’»›)\\]*_~」』）】》"
_MARKER = r"[\[【][0-9０-９,;，、 –—―-]{1,40}[\]】](?!\()"
_END = re.compile(
    rf"(?:(?P<stop>[.!?…]+)(?P<close>[{_CLOSERS}]*)(?P<marks>(?:[^\S\n]*{_MARKER})*)(?=\s|$))"
    rf"|(?:(?P<wide>[。！？｡]+)(?P<wide_close>[{_CLOSERS}]*)(?P<wide_marks>(?:[^\S\n]*{_MARKER})*))"
)
_QUOTATION = re.compile(
    r"(?<![\w\"])\"(?=[^\s\"])[^\"]{1,2000}\"(?!\w)|“[^“”]{1,2000}”|„[^„“”]{1,2000}[“”]"
    r"|«[^«»]{1,2000}»|「[^「」]{1,2000}」|『[^『』]{1,2000}』"
)
_OPENERS = " \t\n\"'“‘„«‹([*_~「『（"
_LAST_WORD = re.compile(r"[^\s(\[\"“‘'*_]+$")
_NEXT_WORD = re.compile(r"[^\W\d_]+(?!\.)")
_ENUMERATOR = re.compile(r"\W*(?:\d{1,3}|[A-Za-z])$")
_ACRONYM = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}$")
_REFERENCE = re.compile(r"[#§(]?\d")
_LETTERED = re.compile(r"[A-Z]\d+\b|[B-HJ-Z]\b|[IVXLC]{2,}\b")  # `A` and `I` are words, too


def _set(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


# Never the end: something must follow. The first are case-sensitive, since `ms` is a unit.
_TITLES = _set("Mr Mrs Ms Mme Mlle Dr St Prof Gen Col Maj Capt Lt Sgt Rev Hon Sen Rep Gov Pres Messrs Mt")
_FORWARD = _set("e.g i.e eg ie vs cf viz ca approx incl excl resp esp fig figs eq eqs")
# Not the end before a number; those of the second set not before a letter or a Roman number either.
_NUMBERED = _set("no nos nr p pp v ver art par sec secs ch chap vol app pt tab ref refs")
_LETTERED_TOO = _NUMBERED - {"no", "nos", "nr", "p", "pp", "v", "ver"}
# The end only before a word that hardly stands in a name.
_EITHER = _set("etc al inc ltd co corp jr sr bros dept est ed eds ave jan feb mar apr jun jul aug sept sep oct nov dec")
_STARTERS = _set(
    "The A An It He She They We You I This That These Those There Then Thus In On At By For From With Without But And "
    "Or So Yet If When While After Before Because Since Although Though However Its His Her Their Our Your My As Both "
    "Each Every Not No Only Also Another Other Others Most Many Some Such To Here Once One Two What Who Where Why How "
    "Which Now Later Today Instead Therefore Moreover Finally First Second Is Are Was Were Do Does Did Use See"
)


def sentence_ends(text: str) -> list[int]:
    """The offsets behind the sentences of a paragraph that end before its own end, with their markers.

    Ideographic stops need no white space behind them. A quotation that holds several sentences is one with what
    surrounds it.
    """
    quotations = [match.span() for match in _QUOTATION.finditer(text)]
    starts = [start for start, _ in quotations]
    ends: list[int] = []
    for match in _END.finditer(text):
        wide = match["wide"] is not None
        closed = match.end("wide_close" if wide else "close")
        place = bisect_right(starts, match.start()) - 1
        if place >= 0 and closed < quotations[place][1]:
            continue
        if _ends_wide(text, match) if wide else _ends(text, ends[-1] if ends else 0, match):
            ends.append(match.end())
    return ends


def _ends_wide(text: str, match: re.Match[str]) -> bool:
    """Whether a quotation's own stop ends the sentence around it: `「はい。」と言った。` is one."""
    after = text[match.end() : match.end() + 1]
    return not ("」" in match["wide_close"] or "』" in match["wide_close"]) or after not in tuple(
        "とっのはがをにもで、，"
    )


def _ends(text: str, begin: int, match: re.Match[str]) -> bool:
    after = text[match.end() : match.end() + 60].lstrip(_OPENERS)
    if not after:
        return True
    goes_on = after[0].islower()
    stop = match["stop"]
    if match["close"].strip("*_~") or "!" in stop or "?" in stop or len(stop) > 1 or stop == "…":
        return not goes_on
    abbreviated = _is_abbreviated(text[max(begin, match.start() - 60) : match.start()], after)
    return not (abbreviated and goes_on) if match["marks"] else not abbreviated


def _is_abbreviated(before: str, after: str) -> bool:
    """Whether the full stop between the two belongs to the word before it and ends nothing."""
    last = _LAST_WORD.search(before)
    if last is None:
        return False
    word = last[0]
    small = word.casefold()
    if word in _TITLES or small in _FORWARD or _ENUMERATOR.fullmatch(before):
        return True
    if small in _NUMBERED:
        return bool(_REFERENCE.match(after) or (small in _LETTERED_TOO and _LETTERED.match(after)))
    initial = len(word) == 1 and word.isupper()
    if initial or small in _EITHER or _ACRONYM.fullmatch(word):
        following = _NEXT_WORD.match(after)
        return following is None or following[0] not in _STARTERS
    return False
