"""Queries with typos, synonyms and reversed words: by hand, and what holds of any text."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab.errors import InputError
from retrieval_lab.evals.perturb import (
    PERTURBATIONS,
    groups,
    perturbed,
    synonyms,
    with_synonyms,
    with_typos,
    with_words_reversed,
)
from retrieval_lab.stems import stemmed
from retrieval_lab.types import GoldenQuery

WORDS = re.compile(r"\w+")


def asked(text: str, query_id: str = "q1") -> GoldenQuery:
    return GoldenQuery(
        query_id, text, "factual", "bread", "bake the loaf", split="dev", fields=(("asked", "2024-05-01"),)
    )


texts = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(
            ["Make", "document", "ÉCOLE", "aaaa", "ef_search", "p95", "ßss", "to", "日本語文", "?", "Large."]
        )
    ).map(" ".join),
)

# --- all of them ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PERTURBATIONS)
@given(text=texts, query_id=st.text())
def test_all_but_the_text_stays_and_the_change_is_always_the_same(kind: str, text: str, query_id: str) -> None:
    query = asked(text, query_id)
    after = PERTURBATIONS[kind](query)
    assert replace(after, query=text) == query
    assert after == PERTURBATIONS[kind](query)


def test_what_a_perturbation_leaves_alone_is_named() -> None:
    golden = [asked("make bread", "q1"), asked("bread", "q2"), asked("BREAD, Made well", "q3")]
    found = perturbed(golden, "synonyms")
    assert [one.query for one in found.queries] == ["create bread", "BREAD, Created well"]
    assert found.unchanged == ("q2",)
    assert perturbed(golden, "reversed").unchanged == ("q2",)
    with pytest.raises(InputError, match="'shout' is unknown; there is typos, synonyms, reversed"):
        perturbed(golden, "shout")


# --- typos ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abbbc", "abbcb"),  # the one pair that differs and leaves the first letter
        ("axyyyy, then bxyyy or cxyyy!", "ayxyyy, then byxyy or cxyyy!"),  # the two longest; of equal ones the earlier
        ("abbbb", "abbbb"),  # a swap would show nowhere, or change the first letter
        ("abBb aBbb", "abBb aBbb"),  # nor where letters differ in case alone
        ("abc axb", "abc axb"),  # too short
        ("abb9c a1bc2b3", "abb9c a1cb2b3"),  # letters that stand beside each other, and length in letters
        ("_abbbc 1234567", "_abbcb 1234567"),
        ("aaaaaaa abbbc cdddde abbc", "aaaaaaa abbcb cddded abbc"),  # the longest cannot change, so the next two do
        ("", ""),
        ("?!", "?!"),
    ],
)
def test_typos_by_hand(text: str, expected: str) -> None:
    assert with_typos(asked(text)).query == expected


def test_which_letters_depends_on_the_query_and_on_the_word() -> None:
    by_query = {with_typos(asked("retrieval", f"q{number}")).query for number in range(60)}
    # Every pair but the first two letters can be swapped; all seven are met in sixty draws.
    word = "retrieval"
    assert by_query == {word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(1, 8)}
    twice = with_typos(asked("retrieval and retrieval")).query.split()
    assert twice[0] == twice[2]


@given(text=texts, query_id=st.text())
def test_at_most_two_words_change_by_one_swap_each(text: str, query_id: str) -> None:
    after = with_typos(asked(text, query_id)).query
    assert len(after) == len(text)
    changed = 0
    for match in WORDS.finditer(text):
        before, now = match[0], after[match.start() : match.end()]
        if now == before:
            continue
        changed += 1
        places = [at for at in range(len(before)) if before[at] != now[at]]
        assert places == [places[0], places[0] + 1]
        assert now[places[0]] + now[places[1]] == before[places[1]] + before[places[0]]
        assert now.lower() != before.lower()
        letters = [at for at, char in enumerate(before) if char.isalpha()]
        assert len(letters) >= 4
        assert places[0] > letters[0]
    between = [char for char in text if not WORDS.match(char)]
    assert [char for char in after if not WORDS.match(char)] == between
    assert changed <= 2


@given(st.lists(st.text("abcdefghij", min_size=1, max_size=9), max_size=6))
def test_the_words_that_change_are_the_longest(words: list[str]) -> None:
    def can_change(word: str) -> bool:
        return len(word) >= 4 and len(set(word[1:])) > 1

    after = with_typos(asked(" ".join(words))).query.split()
    order = sorted((at for at, word in enumerate(words) if can_change(word)), key=lambda at: (-len(words[at]), at))
    assert [at for at, word in enumerate(words) if after[at] != word] == sorted(order[:2])


# --- synonyms ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Make a document.", "Create a file."),
        ("create the DOCUMENT", "make the File"),
        ("The sickness of the road", "The illness of the street"),
        ("illness, disease", "disease, sickness"),
        ("the maker documented", "the maker documented"),
    ],
)
def test_words_become_the_next_of_their_group(text: str, expected: str) -> None:
    assert with_synonyms(asked(text)).query == expected


@given(st.lists(st.sampled_from([*sorted(synonyms()), "bread", "ef_search", "?"])))
def test_swapped_once_round_the_longest_group_every_word_is_back(words: list[str]) -> None:
    query = asked(" ".join(words))
    longest = 6  # groups have two or three words
    for _ in range(longest):
        query = with_synonyms(query)
    assert query.query == " ".join(words)


def test_no_word_stands_in_two_groups_so_that_there_are_no_chains() -> None:
    counts = Counter(word for group in groups() for word in group)
    assert [word for word, count in counts.items() if count > 1] == []
    assert len(groups()) >= 150


def test_every_group_is_of_several_words_that_search_can_tell_apart() -> None:
    for group in groups():
        assert 2 <= len(group) <= 3, group
        for word in group:
            assert WORDS.fullmatch(word), word
            assert word == word.lower(), word
        # A stop word is dropped, and a shared stem would be found all the same: neither would change a thing.
        assert len(set(stemmed(group))) == len(group), group


# --- the order of words --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("who baked the loaf?", "loaf the baked who?"),
        ("  who\tbaked?!  ", "baked who?!"),
        ("Stop. Then go", "go Then Stop."),
        ("is it so ?", "so it is?"),
        ("bread", "bread"),
        ("bread ?", "bread ?"),
        ("bread and bread", "bread and bread"),
        ("誰が 焼いた。", "焼いた 誰が。"),
        ("...", "..."),
        ("", ""),
    ],
)
def test_words_are_reversed_and_the_end_stays(text: str, expected: str) -> None:
    assert with_words_reversed(asked(text)).query == expected


@given(st.lists(st.text("ab,'-", min_size=1)), st.sampled_from(["", "?", "...", "?!"]))
def test_reversed_twice_is_the_query_again(words: list[str], end: str) -> None:
    text = " ".join(words) + end
    once = with_words_reversed(asked(text)).query
    assert Counter(once.removesuffix(end).split()) == Counter(words)
    assert with_words_reversed(asked(once)).query == text
