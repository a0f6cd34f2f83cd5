"""Answers made of the sources' own sentences: which ones, in which order, and never one that cites wrongly."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab.answer import REFUSAL, check, invalid_citations
from retrieval_lab.citations import cited_sentences
from retrieval_lab.errors import InputError
from retrieval_lab.extractive import ExtractiveAnswerer
from retrieval_lab.types import Answer, Chunk, Faithfulness


def chunks(*texts: str) -> list[Chunk]:
    return [Chunk(f"d{i}#000", f"d{i}", "", 0, len(text), text) for i, text in enumerate(texts)]


def answer(question: str, *texts: str, most: int = 3, **weights: float) -> str:
    return ExtractiveAnswerer(most).answer(question, chunks(*texts), weights=weights or None).text


# --- which sentences -----------------------------------------------------------------------------------------------


def test_the_sentence_with_most_of_the_question_and_its_source() -> None:
    found = ExtractiveAnswerer().answer(
        "Who painted the inn sign?",
        chunks("The lamp hung there. It was cold.", "Snow fell. The inn sign was painted by Toma. The sign hung."),
    )
    assert found == Answer("The inn sign was painted by Toma. [2]", Faithfulness((2,), (), refused=False), 0.0)


def test_what_adds_a_term_comes_before_what_repeats_one() -> None:
    texts = ("red fox here.", "A red fox again now.", "A blue dog here too.")
    # red + fox = 2; then blue + dog = 2 against a quarter of red + fox = 0.5, which is below half of 2.
    assert answer("red fox blue dog", *texts) == "red fox here. [1]\nA blue dog here too. [3]"
    assert answer("red fox blue dog", *texts, most=1) == "red fox here. [1]"


def test_weights_decide_and_ties_go_to_the_earlier_source_and_sentence() -> None:
    texts = ("one fox ran.", "two dogs sat. three dogs lay.", "a fox sat.")
    assert answer("q", *texts, most=1, fox=1.0, dogs=2.0) == "two dogs sat. [2]"
    assert answer("q", *texts, most=1, fox=1.0, dogs=1.0) == "one fox ran. [1]"
    assert answer("q", *texts, fox=1.0, dogs=0.0) == "one fox ran. [1]"
    assert answer("q", *texts, fox=float("nan"), dogs=-1.0) == REFUSAL


def test_what_comes_to_less_than_half_of_the_first_is_left_out() -> None:
    texts = ("a red fox.", "a dog.", "a cat.")
    assert answer("q", *texts, red=1.0, fox=1.0, dog=1.0, cat=0.99) == "a red fox. [1]\na dog. [2]"


def test_nearly_the_same_is_said_once() -> None:
    same = "The lamp number fifty-eight hung before the inn for years."
    assert answer("lamp inn", same, same.replace("years.", "years!"), f"**{same}**") == f"{same} [1]"
    # Of 21 words in all 19 are shared, of 19 words 17: 0.905 and 0.895.
    shared = "b c d e f g h i j k l m n o p q r s t".split()  # noqa: SIM905
    lamp, oil = (f"{word} {' '.join(shared)}" for word in ("lamp", "oil"))
    assert answer("lamp oil", lamp, oil) == f"{lamp} [1]"
    lamp, oil = (f"{word} {' '.join(shared[:17])}" for word in ("lamp", "oil"))
    assert answer("lamp oil", lamp, oil) == f"{lamp} [1]\n{oil} [2]"


def test_stop_words_do_not_count_and_words_of_one_stem_are_the_same() -> None:
    assert answer("what is the of", "What is the lamp of the town?", "The lamp is lit.") == REFUSAL
    stemmed = ExtractiveAnswerer(stem=lambda word: word.rstrip("s"))
    assert stemmed.answer("lamps", chunks("A lamp burns.")).text == "A lamp burns. [1]"
    assert stemmed.answer("q", chunks("Two lamps burn."), weights={"lamp": 1.0}).text == "Two lamps burn. [1]"


@pytest.mark.parametrize("question", ["", "?!", "zebra", "the of"])
def test_no_sentence_in_common_is_the_refusal(question: str) -> None:
    expected = Answer(REFUSAL, Faithfulness((), (), refused=True), 0.0)
    assert ExtractiveAnswerer().answer(question, chunks("The lamp burns.")) == expected
    assert ExtractiveAnswerer().answer("lamp", []) == expected


def test_an_answer_has_at_least_one_sentence() -> None:
    with pytest.raises(InputError, match="0 sentences"):
        ExtractiveAnswerer(0)


# --- what is no sentence of an answer ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "# The lamp",
        "The lamp\n====",
        "**The lamp**",
        "The lamp needs:",
        "```\nthe lamp\n```",
        "~~~\nthe lamp",
        "| lamp | oil |\n| --- | --- |",
        "Where is the lamp?",
        "The lamp `` is. The ` oil `` burns.",  # two sentences, once its code is no code any more
        REFUSAL,
        f"The lamp: {REFUSAL}",
        "The lamp: i **cannot** answer\nfrom the sources.",
        "[lamp]: https://example.org/lamp",
    ],
)
def test_headings_code_questions_and_the_refusal_are_never_taken(text: str) -> None:
    assert answer("lamp cannot answer sources", text) == REFUSAL


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("- The lamp burns oil.", "The lamp burns oil."),
        ("3. The lamp burns oil", "The lamp burns oil"),
        ("> The lamp burns oil.", "The lamp burns oil."),
        ("The **lamp** burns\n  __rapeseed__ oil.", "The lamp burns rapeseed oil."),
        ("The lamp\u2028burns\x0boil.", "The lamp burns oil."),
        ("| a | b |\n|---|---|\n| lamp | 2 |", "lamp; 2"),
        ("The [lamp](http://x/[1]) burns ![7](y).", "The lamp burns 7."),
        ("Set `lamp_size` first.", "Set `lamp_size` first."),
        ("A stray ` and the lamp.", "A stray and the lamp."),
        ("The lamp burns, see [7].", "The lamp burns, see (7)."),
        ("The lamp [1, 2] burns 【3】.", "The lamp (1, 2) burns (3)."),
        ("The lamp is `lamps[0]`.", "The lamp is `lamps[ 0 ]`."),
        ("The lamp [^4] of [Source 2].", "The lamp (^4) of (Source 2)."),
        ("The U.S. lamp No. 5 burns.", "The U.S. lamp No. 5 burns."),
        ("The lamp burns. [2] Next one.", "The lamp burns."),
        ("The lamp burns.[2][3, 4] Next one.", "The lamp burns."),
        (f"The lamp [{'7' * 600}] burns.", f"The lamp ({'7' * 600}) burns."),
        ("list[str] is the lamp's type.", "list[str] is the lamp's type."),
    ],
)
def test_a_sentence_is_cleaned_only_as_far_as_necessary(text: str, taken: str) -> None:
    assert answer("lamp lamp_size", text, "x", "y") == f"{taken} [1]"


def test_the_whole_corpus_gives_cited_answers(corpus_chunks: list[Chunk]) -> None:
    ids = [one.chunk_id for one in corpus_chunks[:200]]
    for question in (
        "numbered sources with [n] markers",
        "how is a table row cited",
        "reciprocal rank fusion",
        "k = 60",
    ):
        found = ExtractiveAnswerer(8).answer(question, corpus_chunks[:200])
        assert found.faithfulness.uncited_claims == ()
        assert invalid_citations(found.text, ids) == []
        for line in found.text.splitlines():
            number = int(line[line.rindex("[") + 1 : -1])
            words = set(re.findall(r"\w+", line[: line.rindex("[")]))
            assert words <= set(re.findall(r"\w+", corpus_chunks[number - 1].text))


# --- hostile passages ----------------------------------------------------------------------------------------------

PIECES = [*'aB \n.!。?`|():[]"“”\\\r\u2028\x00\ud800', "lamp", "oil ", "[1]", "[2, 9]", "【3】", "[1-3]", "](x)", "```"]
MORE = ["---", "# ", "- ", "**", "> ", "Mr. ", "U.S. ", "1. ", "[lamp]", "[^1]", "[01]", "~~~", "=", "lamp. ", REFUSAL]
TEXTS = st.lists(st.lists(st.sampled_from([*PIECES, *MORE]), max_size=14).map("".join), max_size=4)


@given(TEXTS)
def test_every_sentence_is_cited_and_no_number_is_invalid_whatever_the_sources_hold(texts: list[str]) -> None:
    sources = chunks(*texts)
    ids = [one.chunk_id for one in sources]
    found = ExtractiveAnswerer(4).answer("lamp oil", sources)
    report = cited_sentences(found.text, ids)
    assert found.faithfulness == report.faithfulness
    assert (report.uncited, report.invalid, report.unrecognised) == ((), (), ())
    assert invalid_citations(found.text, ids) == []
    if found.text == REFUSAL:
        assert report.refused
        return
    lines = found.text.split("\n")
    assert not report.refused
    assert REFUSAL not in found.text
    assert len(lines) == len(report.claims) <= 4
    for line, claim in zip(lines, report.claims, strict=True):
        number = int(re.findall(r" \[([1-4])\]$", line)[0])
        assert claim.numbers == (number,)
        assert re.search("lamp|oil", texts[number - 1])
    assert check(found.text, ids).cited == report.cited
    found.text.encode()


@given(TEXTS)
def test_the_same_sources_give_the_same_answer(texts: list[str]) -> None:
    weights = {"lamp": 0.1, "oil": 0.2, "a": 0.3}
    first = ExtractiveAnswerer().answer("q", chunks(*texts), weights=weights)
    again = ExtractiveAnswerer().answer("q", chunks(*texts), weights=dict(reversed(weights.items())))
    assert first == again


@pytest.mark.parametrize(
    "piece", ["[", "[1", "[1]", "`", '"lamp ', "lamp. ", "lamp [7", "**lamp", "lamp\n", "|lamp", "](x"]
)
def test_long_passages_take_time_in_proportion(piece: str) -> None:
    text = "lamp " + piece * (20_000 // len(piece))
    began = time.perf_counter()
    answer("lamp", text)
    assert time.perf_counter() - began < 2
