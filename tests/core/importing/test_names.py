"""File names for ids: safe, distinct whatever the file system, readable where the id is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab.importing.names import MAX_CHARS, file_stems

SAFE = re.compile(r"[A-Za-z0-9_%~-](?:[A-Za-z0-9_.%~-]*[A-Za-z0-9_%~-])?")


@pytest.mark.parametrize(
    ("doc_id", "stem"),
    [
        ("31715818", "31715818"),
        ("MED-10", "MED-10"),
        ("a.b.c", "a.b.c"),
        ("..", "%2E%2E"),
        (".", "%2E"),
        (".hidden", "%2Ehidden"),
        ("end.", "end%2E"),
        ("a/b", "a%2Fb"),
        ("a#000", "a%23000"),
        ("50%", "50%25"),
        ("~x", "%7Ex"),
        ("two words\n", "two%20words%0A"),
        ("é", "%C3%A9"),
        ("e\u0301", "e%CC%81"),
        ("con", "%63on"),
        ("NUL.txt", "%4EUL.txt"),
    ],
)
def test_what_is_not_safe_is_percent_encoded(doc_id: str, stem: str) -> None:
    assert file_stems([doc_id]) == {doc_id: stem}


def test_ids_that_differ_in_case_alone_have_names_that_differ_otherwise() -> None:
    assert list(file_stems(["Doc", "doc", "DOC", "other"]).values()) == ["Doc", "doc~2", "DOC~3", "other"]


def test_a_long_id_is_cut_and_stays_its_own() -> None:
    stems = file_stems(["x" * 300, "x" * 301, "é" * 50])
    assert len(set(stems.values())) == 3
    assert all(len(stem) <= MAX_CHARS for stem in stems.values())
    assert stems["x" * 300].startswith("xxxx")


@given(st.lists(st.text(alphabet="aAbB.~%#/é \x00\ud800", max_size=8), max_size=20))
def test_all_names_are_safe_and_distinct_without_case(ids: list[str]) -> None:
    stems = file_stems(ids)
    assert stems.keys() == set(ids)
    assert all(SAFE.fullmatch(stem) for stem in stems.values()), stems
    assert len({stem.lower() for stem in stems.values()}) == len(set(ids))


def test_names_do_not_depend_on_what_comes_after() -> None:
    ids = ["B", "a", "b", "x" * 200]
    first = file_stems(ids)
    assert {key: file_stems([*ids, "A", "c"])[key] for key in ids} == first
