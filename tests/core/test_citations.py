"""Sentences and markers: the pinned rules, what models really write, and offsets that fit the answer."""

from __future__ import annotations

import re
import time
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab.answer import REFUSAL, check, invalid_citations
from retrieval_lab.citations import CitationReport, cited_sentences

IDS = ("a#000", "b#001", "c#002")
Rules = Literal["pinned", "full"]


def report(text: str, rules: Rules = "full", ids: tuple[str, ...] = IDS) -> CitationReport:
    return cited_sentences(text, ids, rules=rules)


def claims(text: str, rules: Rules = "full") -> list[str]:
    return [claim.text for claim in report(text, rules).claims]


def uncited(text: str, rules: Rules = "full") -> list[str]:
    return [claim.text for claim in report(text, rules).uncited]


# --- the pinned rules ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cited", "left"),
    [
        ("One [1]. Two [2].", (1, 2), ()),
        ("Two [2]. One [1]. Two again [2].", (1, 2), ()),
        ("One. Two [2]! Three? Four [1]", (1, 2), ("One.", "Three?")),
        ("One [1][2].", (1, 2), ()),
        ("One [1]\nTwo\r\nThree [3].", (1, 3), ("Two",)),
        ("One. [1] Two. [2]", (1, 2), ()),
        ("One. [1] [2] Two.", (1, 2), ("Two.",)),
        ("One.\n[1] Two.", (1,), ("Two.",)),
        ("[1] says so. Two.", (1,), ("Two.",)),
        ("One.[1] Two [2].", (1, 2), ()),
        ("One [4]. Two [0].", (), ("One [4].", "Two [0].")),
        ("One. [9] Two [1].", (1,), ("One. [9]",)),
        ("One [1, 2]. Two [1-3].", (), ("One [1, 2].", "Two [1-3].")),
        ("", (), ()),
        ("  \n\n ", (), ()),
    ],
)
def test_pinned_sentences_and_markers(text: str, cited: tuple[int, ...], left: tuple[str, ...]) -> None:
    found = check(text, IDS)
    assert (found.cited, found.uncited_claims, found.refused) == (cited, left, False)


@pytest.mark.parametrize("word", ["Mr.", "Mrs.", "Ms.", "Mme.", "Dr.", "St.", "vs.", "e.g.", "i.e.", "etc."])
def test_pinned_abbreviations_end_no_sentence(word: str) -> None:
    assert claims(f"He met ({word} Lott) {word} Lott [1]. Next.", "pinned") == [
        f"He met ({word} Lott) {word} Lott [1].",
        "Next.",
    ]


@pytest.mark.parametrize("word", ["LLMs.", "TVs.", "Best.", "U.S.", "Fig.", "x.Mr", "Mr!"])
def test_pinned_rules_know_whole_words_and_no_other_abbreviations(word: str) -> None:
    first = f"He met {word}" if word[-1] in ".!" else f"He met {word} now."
    assert claims(f"{first} Next.", "pinned") == [first, "Next."]


@pytest.mark.parametrize(
    ("text", "refused", "left"),
    [
        (REFUSAL, True, ()),
        (f"One [1]. {REFUSAL}", True, ()),
        (f"One. {REFUSAL} Two.", True, ("One.", "Two.")),
        (f"- {REFUSAL}", True, ()),
        (f'The text says "{REFUSAL}" [1]', True, ()),
        (REFUSAL[:-1], False, (REFUSAL[:-1],)),
        ("I cannot answer from the source.", False, ("I cannot answer from the source.",)),
    ],
)
def test_pinned_refusal(text: str, refused: bool, left: tuple[str, ...]) -> None:
    found = check(text, IDS)
    assert (found.refused, found.uncited_claims) == (refused, left)


def test_invalid_citations_are_the_numbers_outside_ascending_each_once() -> None:
    assert invalid_citations("A [9]. B [1]. C [0]. D [9]. E [4].", IDS) == [0, 4, 9]
    assert invalid_citations("A [1].", ()) == [1]
    assert invalid_citations(f"A [{'9' * 600}].", IDS) == [int("9" * 600)]
    assert invalid_citations(f"A [{'9' * 9000}].", IDS) == []


WORDS = st.lists(
    st.sampled_from(["Lamp", "oil", "Mr.", "e.g.", "etc.", "lit.", "why?", "no!", "[1]", "[2]", "[7]", "\n", "LLMs."]),
    max_size=14,
)


def plain_pinned(text: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The pinned rules once more, word by word. The words are parted by single blanks, line breaks words too."""
    sentences: list[list[str]] = [[]]
    for word in text.split(" "):
        if word == "\n":
            sentences.append([])
        elif re.fullmatch(r"\[\d\]", word) and not sentences[-1] and any(sentences):
            next(s for s in reversed(sentences) if s).append(word)
        elif word:
            sentences[-1].append(word)
            if word[-1] in ".?!" and word not in ("Mr.", "e.g.", "etc."):
                sentences.append([])
    numbers = {int(n) for n in re.findall(r"\[(\d)\]", text)} & {1, 2, 3}
    left = [s for s in sentences if s and not {"[1]", "[2]"} & set(s)]
    return tuple(sorted(numbers)), tuple("".join(" ".join(s).split()) for s in left)


@given(WORDS)
def test_the_pinned_rules_equal_plain_ones(words: list[str]) -> None:
    text = " ".join(words)
    found = check(text, IDS)
    assert (found.cited, tuple("".join(one.split()) for one in found.uncited_claims)) == plain_pinned(text)


# --- the full rules: markers ---------------------------------------------------------------------------------------


def test_trap_13_forms_of_citations() -> None:
    text = (
        "A [1][2]. B [1,2]. C [1-3]. D [1–3]. E 【1】. F [^1]. G [01]. H [0]. I [7]. J arr[1]. K [1](http://x). "
        "L [Source 1]."
    )
    found = report(text)
    numbers = {claim.text[0]: claim.numbers for claim in found.claims}
    assert numbers == {"A": (1, 2), "B": (1, 2), "C": (1, 2, 3), "D": (1, 2, 3), "E": (1,)} | dict.fromkeys(
        "FGHIJKL", ()
    )
    assert [span.number for span in found.invalid] == [0, 7]
    assert [one.text for one in found.unrecognised] == ["[^1]", "[01]", "[Source 1]"]


@pytest.mark.parametrize(
    ("marker", "numbers", "spans"),
    [
        ("[1]", (1,), ["[1]"]),
        ("【2】", (2,), ["【2】"]),
        ("[3, 1]", (3, 1), ["3", "1"]),
        ("[1;2]", (1, 2), ["1", "2"]),
        ("[1-3]", (1, 2, 3), ["1", "3"]),
        ("[1 — 2, 3]", (1, 2, 3), ["1", "2", "3"]),
        ("[１，２]", (1, 2), ["１", "２"]),
        ("[2, 9]", (2,), ["2"]),
        ("[2-9]", (2, 3), ["2"]),
        ("[0-2]", (1, 2), ["2"]),
        ("[0-99999999999999999]", (1, 2, 3), []),
    ],
)
def test_accepted_markers_and_their_places(marker: str, numbers: tuple[int, ...], spans: list[str]) -> None:
    text = f"The lamp was lit {marker}."
    found = report(text)
    assert found.claims[0].numbers == numbers
    assert found.cited == tuple(sorted(numbers))
    assert [text[span.start : span.end] for span in found.numbers] == spans
    assert found.unrecognised == ()


@pytest.mark.parametrize(
    "marker",
    [
        "[^2]",
        "[02]",
        "[3-1]",
        "[1-]",
        "[1 and 2]",
        "[1.2]",
        "[source: 2]",
        "[Doc 1, p. 3]",
        "[#1]",
        "[1†source]",
        "[1a]",
        "[ 1 ]",
        "[b#001]",
        "[B#001]",
        "[S1]",
        "[p. 12]",
        "[1: b#001]",
        "【1†L2-L4】",
    ],
)
def test_markers_in_no_accepted_form_are_reported(marker: str) -> None:
    found = report(f"The lamp was lit {marker}.")
    assert [(one.text, one.start) for one in found.unrecognised] == [(marker, 17)]
    assert found.cited == ()
    assert len(found.uncited) == 1


@pytest.mark.parametrize(
    "text",
    [
        "`x [1]` is so",
        "``a ` [1]`` b",
        "[1](http://x) is so",
        "![1](x.png) is so",
        '[1](<a b> "t") is so',
        "arr[1] is so",
        "arr[1][2] is so",
        "x_[1] is so",
        "\\[1\\] is so",
        "[sic] and [x] and [/etc/passwd]",
        "a[0:3] is so",
    ],
)
def test_code_links_subscripts_and_words_in_brackets_are_no_citations(text: str) -> None:
    found = report(text)
    assert (found.cited, found.invalid, found.unrecognised) == ((), (), ())
    assert len(found.uncited) == 1


def test_what_looks_like_code_or_a_link_and_is_none() -> None:
    assert report("An open ` tick and a marker [1].").cited == (1,)
    assert report("The `rows`[1] and (as he said)[2].").cited == (1, 2)
    assert report("The lamp [1] (see the note).").cited == (1,)
    assert report("他点灯[1]。").cited == (1,)
    assert report("~~~\nx [1]\n~~~\nThe lamp [2].").cited == (2,)
    assert report("The lamp [1].\n\n[1]: https://example.org\n").claims[0].numbers == (1,)


# --- the full rules: sentences -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sentence",
    [
        "The U.S. Army came.",
        "It came, e.g. by night, i.e. late, vs. Dr. Lott and Mrs. Ploner.",
        "See Fig. 3, Eq. 2, Sec. IV, Vol. B2 and pp. 3 to 5.",
        "Lamp No. 58 hung there.",
        "J. K. Rowling and J. A. Smith wrote.",
        "It is 3.5 km by v1.2.3 of node.js at 5 p.m. sharp.",
        'The inn "Sofronie." stood there.',
        "He cried “Fire!” and ran.",
        "Yahoo! is a company.",
        "He waited... and went.",
        "Smith et al. found it on Jan. 5.",
        "Oak, lime, etc. were used.",
        'He wrote: "It was dark. Nobody came. I left."',
        "「はい。」と言った。",
        "Run `a. B` first.",
    ],
)
def test_one_sentence(sentence: str) -> None:
    assert claims(f"{sentence} [1]") == [f"{sentence} [1]"]
    assert claims(f"Before. {sentence} After.") == ["Before.", sentence, "After."]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("He lived in the U.S. The end.", ["He lived in the U.S.", "The end."]),
        ("Did he? No. He slept.", ["Did he?", "No.", "He slept."]),
        ("It takes 5 ms. Nothing else.", ["It takes 5 ms.", "Nothing else."]),
        ("An index. pgvector builds it.", ["An index.", "pgvector builds it."]),
        ('It said "Sofronie." Then it fell.', ['It said "Sofronie."', "Then it fell."]),
        ("(He left.) Then night.", ["(He left.)", "Then night."]),
        ("Wait... What?", ["Wait...", "What?"]),
        ("In 1844. Then 1869.", ["In 1844.", "Then 1869."]),
        ("他点灯[1]。他走了！对吗？是。", ["他点灯[1]。", "他走了！", "对吗？", "是。"]),
        ("他走。[1]他来。", ["他走。[1]", "他来。"]),
        ("One. [1] Two.[2] Three. [1, 2] Four", ["One. [1]", "Two.[2]", "Three. [1, 2]", "Four"]),
        ("One.\n[1]\nTwo.", ["One.\n[1]", "Two."]),
        ("One\n[1] Two.", ["One", "[1] Two."]),
        ("One.\n[He left.]\n[Source 1]", ["One.", "[He left.]\n[Source 1]"]),
        ("One\u2028Two\x85Three\rFour", ["One", "Two", "Three", "Four"]),
    ],
)
def test_several_sentences(text: str, parts: list[str]) -> None:
    assert claims(text) == parts


MARKDOWN = """\
# What it takes

**The parts**

The lamp takes:

- oil [1]
* a wick
1. a ladder [2].
2) a man
> a quoted line

| part | price |
| --- | ---: |
| oil [1] | 2 |
| wick | 3 |

Above
=====

---

```text
no claim here [3].
```
"""


def test_list_items_and_rows_are_claims_and_headings_and_lead_ins_are_none() -> None:
    found = report(MARKDOWN)
    assert [claim.text for claim in found.claims if not claim.needs_citation] == [
        "What it takes",
        "**The parts**",
        "The lamp takes:",
        "| part | price |",
        "Above",
    ]
    assert [(claim.text, claim.numbers) for claim in found.claims if claim.needs_citation] == [
        ("oil [1]", (1,)),
        ("a wick", ()),
        ("a ladder [2].", (2,)),
        ("a man", ()),
        ("a quoted line", ()),
        ("| oil [1] | 2 |", (1,)),
        ("| wick | 3 |", ()),
    ]
    assert found.cited == (1, 2)


def test_a_heading_that_cites_counts_for_the_answer() -> None:
    assert report("# Oil [2]\nIt burns.").cited == (2,)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (REFUSAL, True),
        (f"**{REFUSAL}** [1]", True),
        (f"- {REFUSAL}", True),
        (f"Sorry. {REFUSAL}", True),
        (f'"{REFUSAL}"', False),
        (f'The text says "{REFUSAL}" [1]', False),
        (f'He wrote: "It was dark. {REFUSAL} Go." [1]', False),
        (f"> {REFUSAL}", False),
        (f"`{REFUSAL}`", False),
        (f"So {REFUSAL}", False),
    ],
)
def test_the_answer_is_refused_when_a_sentence_is_the_refusal(text: str, refused: bool) -> None:
    found = report(text)
    assert found.refused is refused
    assert any(not claim.needs_citation for claim in found.claims) is refused


PIECES = [*'aB \n.!。?`|():[]"“”\\\r\u2028', "[1]", "[2, 9]", "【3】", "[1-3]", "](x)", "```", "---", "# ", "- ", "**"]
HOSTILE = st.lists(st.sampled_from([*PIECES, "> ", "Mr.", "U.S.", "1.", " ", REFUSAL]), max_size=25).map("".join)


@given(HOSTILE, st.sampled_from(["pinned", "full"]))
def test_offsets_fit_the_answer_whatever_it_holds(text: str, rules: Rules) -> None:
    found = report(text, rules)
    last = 0
    for claim in found.claims:
        assert text[claim.start : claim.end] == claim.text == claim.text.strip()
        assert last <= claim.start < claim.end
        last = claim.end
    for span in (*found.numbers, *found.invalid):
        assert text[span.start : span.end].strip("[]【】") == str(span.number)
    assert all(text[one.start : one.end] == one.text for one in found.unrecognised)
    assert {number for claim in found.claims for number in claim.numbers} <= set(found.cited) <= {1, 2, 3}
    assert {span.number for span in found.numbers} <= set(found.cited)


@pytest.mark.parametrize(
    "piece", ["`" * 3 + "a`", "[", "[1](", '"a', "a. ", "|", "1,", "[1 ", "(", "**", "> ", "J. ", "“", "A [1]. ", "A。"]
)
def test_long_answers_take_time_in_proportion(piece: str) -> None:
    text = piece * (20_000 // len(piece))
    began = time.perf_counter()
    report(text)
    assert time.perf_counter() - began < 2
