"""Near-duplicates against all pairs, spellings and their places, and how texts are shown in findings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from retrieval_lab.evals.findings import excerpt, listed, quoted
from retrieval_lab.evals.loose import forms_that_find, place
from retrieval_lab.similar import near_duplicates


def cosines(texts: list[str]) -> NDArray[np.float64]:
    """TF-IDF as a dense matrix, straight from the definition."""
    split = [text.split() for text in texts]
    vocabulary = sorted({word for found in split for word in found})
    counts_ = np.array([[found.count(word) for word in vocabulary] for found in split], dtype=float)
    weights = counts_ * (np.log((1 + len(texts)) / (1 + (counts_ > 0).sum(axis=0))) + 1)
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    product: NDArray[np.float64] = weights @ weights.T
    return product


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=12).map(" ".join), max_size=14), st.integers(1, 6))
def test_near_duplicates_are_those_of_all_pairs(texts: list[str], min_words: int) -> None:
    kept = [place for place, text in enumerate(texts) if len(text.split()) >= min_words]
    matrix = cosines([texts[place] for place in kept]) if kept else np.zeros((0, 0))
    close = matrix >= 0.9 - 1e-9
    pairs = {(kept[i], kept[j]) for i, j in itertools.combinations(range(len(kept)), 2) if close[i, j]}
    groups = near_duplicates(texts, min_words=min_words)
    together = {place: number for number, group in enumerate(groups) for place in group.members}
    assert set(together) == {place for pair in pairs for place in pair}
    assert all(together[first] == together[second] for first, second in pairs)
    for group in groups:  # each group hangs together by pairs
        reached, size = {group.members[0]}, 0
        while len(reached) > size:
            size = len(reached)
            reached |= {place for pair in pairs if reached & set(pair) for place in pair}
        assert reached == set(group.members)


def test_a_pair_has_its_cosine_and_ignored_pairs_join_nothing() -> None:
    texts = ["a b c d e f g h i j", "a b c d e f g h i j", "other words than those five"]
    assert near_duplicates(texts)[0].members == (0, 1)
    assert near_duplicates(texts)[0].cosine == pytest.approx(1)
    assert near_duplicates(texts, ignore=lambda i, j: (i, j) == (0, 1)) == []


SPELLED = st.text("ab İΣς’'*_`|[](). \n\u00a0\u00ad\u200bé\u0301ﬁ…–-", max_size=24)


@given(SPELLED, SPELLED)
def test_what_a_form_finds_has_a_place(text: str, sought: str) -> None:
    for wanted in (sought, text[3:9]):
        forms = forms_that_find(wanted, text)
        if forms is None:
            continue
        span = place(wanted, text, forms)
        assert span is not None
        assert 0 <= span[0] < span[1] <= len(text)


@given(st.text(max_size=30))
def test_quoted_text_reads_back_as_the_same_anchor(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    shown = quoted(text)
    assert shown.isprintable()
    assert yaml.safe_load(shown) == " ".join(text.split())


def test_what_is_long_is_cut_in_messages() -> None:
    assert len(excerpt("x" * 500)) < 130
    assert listed([str(number) for number in range(9)]) == "0, 1, 2, 3, 4, 5, 6, 7 and 1 more"
