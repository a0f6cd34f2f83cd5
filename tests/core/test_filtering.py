"""Filters by document, source and path: one meaning in SQL and in memory, applied before the cut of every list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.database import Database
from retrieval_lab.errors import InputError
from retrieval_lab.filtering import path_regex
from retrieval_lab.hybrid import MAX_EF_SEARCH
from retrieval_lab.ragindex import Index, IndexedChunk
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.settings import NoReranker
from retrieval_lab.trace import Trace
from retrieval_lab.types import Filter

Connection = psycopg.Connection[Any]

# What fits and what does not, written down by hand.
PATTERNS = [
    ("docs/*.md", ["docs/a.md", "docs/.md", "docs/ö b.md"], ["docs/a/b.md", "docs/a.mdx", "xdocs/a.md", "docs/amd"]),
    ("**", ["", "a", "docs/a/b.md", "a\nb"], []),
    ("**/b.md", ["docs/b.md", "docs/a/b.md", "/b.md"], ["b.md"]),
    ("docs/?.md", ["docs/a.md"], ["docs/ab.md", "docs//.md"]),
    ("a+b(c)[d].{e}|^$\\.md", ["a+b(c)[d].{e}|^$\\.md"], ["aab(c)[d].{e}|^$\\.md", ""]),
    ("", [""], ["a"]),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, database: Database) -> Iterator[Lab]:
    """120 documents of one chunk about tea and 6 stories about tea among other things."""
    assert database.embedded
    folder = tmp_path_factory.mktemp("filtered")
    for name, suffix, number, text in (
        ("docs", "md", 120, "tea in cup {}"),
        ("stories", "txt", 6, "A long tale of ships and harbours where once, in chapter {}, somebody drank tea"),
    ):
        (folder / name).mkdir()
        for one in range(number):
            (folder / name / f"{name}-{one:03}.{suffix}").write_text(text.format(one), encoding="utf-8")
    with Lab.open(folder) as opened:
        yield opened


def config(*retrievers: Any, filter: Filter) -> PipelineConfig:
    return PipelineConfig(
        retrievers=retrievers or (VectorSearch(), VectorSearch(name="graph", scan="hnsw"), TextSearch()),
        reranker=NoReranker(),
        mmr_lambda=None,
        filter=filter,
    )


def listed(trace: Trace, name: str) -> list[str]:
    return [hit.chunk_id for hit in trace.lists[name]]


# --- patterns ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pattern", "fit", "not_fit"), PATTERNS, ids=[repr(one[0]) for one in PATTERNS])
def test_python_and_postgresql_read_a_pattern_alike(
    conn: Connection, pattern: str, fit: list[str], not_fit: list[str]
) -> None:
    for path in [*fit, *not_fit]:
        assert (re.fullmatch(path_regex(pattern), path, re.DOTALL) is not None) == (path in fit), path
        row = conn.execute("SELECT %s ~ %s", (path, f"^(?:{path_regex(pattern)})$")).fetchone()
        assert row == (path in fit,), path


ALPHABET = st.text("ab/.*?\\[](){}|+^$- _ö", max_size=8)


@given(ALPHABET, ALPHABET)
@settings(max_examples=300)
def test_they_agree_on_whatever_stands_in_it(schema_conn: Connection, pattern: str, path: str) -> None:
    row = schema_conn.execute("SELECT %s ~ %s", (path, f"^(?:{path_regex(pattern)})$")).fetchone()
    assert row == (re.fullmatch(path_regex(pattern), path, re.DOTALL) is not None,)


@pytest.fixture(scope="module")
def schema_conn(database: Database) -> Iterator[Connection]:
    with database.connect() as connection:
        yield connection


# --- lists ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filter", "wanted"),
    [
        (Filter(paths=("stories/*",)), [f"stories-{one:03}#000" for one in range(6)]),
        (
            Filter(paths=("stories/*2.txt", "docs/docs-00?.md"), doc_ids=("stories-002", "docs-119")),
            ["stories-002#000"],
        ),
        (Filter(doc_ids=("stories-001", "docs-007")), ["docs-007#000", "stories-001#000"]),
        (Filter(sources=("file",), paths=("**/stories-005.txt",)), ["stories-005#000"]),
    ],
    ids=["path", "paths and documents", "documents", "source and path"],
)
def test_every_list_has_all_that_the_filter_lets_through(lab: Lab, filter: Filter, wanted: list[str]) -> None:
    trace = lab.trace("tea", config(filter=filter))
    for name in trace.lists:
        assert sorted(listed(trace, name)) == wanted, name
        assert (trace.searches[name].asked, trace.searches[name].matching) == (50, len(wanted))
        searched = trace.to_dict()["searches"][name]
        assert (searched["asked"], searched["returned"], searched["matching"]) == (50, len(wanted), len(wanted))
    assert sorted(row.chunk_id for row in trace.fused) == wanted
    assert trace.notes == ()
    assert Trace.from_dict(trace.to_dict()) == trace


def test_a_filtered_index_scan_is_as_long_as_it_can_be_though_the_rows_lie_far_from_the_query(lab: Lab) -> None:
    """The stories are the last of 126 for "tea in cup": 40 rows of an index scan hold none of them."""
    shallow = VectorSearch(name="graph", scan="hnsw", n=4)
    trace = lab.trace("tea in cup", config(shallow, VectorSearch(n=126), filter=Filter()))
    assert all(one.startswith("stories") for one in listed(trace, "vector")[-6:])
    filtered = lab.trace("tea in cup", config(shallow, VectorSearch(n=4), filter=Filter(paths=("stories/*",))))
    assert len(filtered.lists["graph"]) == 4
    assert listed(filtered, "graph") == listed(filtered, "vector")
    assert filtered.searches["graph"].matching == 6


def test_a_list_says_how_many_match_beyond_its_cut(lab: Lab) -> None:
    trace = lab.trace("harbours tea", config(VectorSearch(n=3), TextSearch(n=5), filter=Filter()))
    assert [trace.searches[name].matching for name in trace.lists] == [126, 126]
    one = lab.trace("harbours", config(VectorSearch(n=3), TextSearch(n=5), filter=Filter()))
    assert one.searches["text"].matching == 6
    nothing = lab.trace("the", config(VectorSearch(n=MAX_EF_SEARCH), TextSearch(), filter=Filter()))
    assert nothing.searches["text"].matching == 0


def test_where_a_passage_stands_counts_only_what_the_filter_lets_through(lab: Lab) -> None:
    trace = lab.trace("tea", config(filter=Filter(paths=("stories/*",))))
    assert trace.ranks_of("docs-000#000")["vector"].reason == "left out by the filter"
    assert trace.ranks_of("docs-000#000")["text"].reason == "left out by the filter"


@pytest.mark.parametrize(
    ("filter", "told"),
    [
        (Filter(paths=("tales/*",)), "the paths tales/*"),
        (Filter(sources=("web",)), "the sources web"),
        (Filter(sources=("file",), paths=("none",)), "the sources file and the paths none"),
        (Filter(doc_ids=("gone",)), "'gone'"),
    ],
)
def test_a_filter_that_lets_nothing_through_is_told(lab: Lab, filter: Filter, told: str) -> None:
    with pytest.raises(InputError, match=re.escape(told)):
        lab.trace("tea", config(filter=filter))


def test_a_text_is_no_list_of_texts() -> None:
    with pytest.raises(InputError, match="paths is a text"):
        Filter(paths="docs/*")  # type: ignore[arg-type]


# --- the portable index --------------------------------------------------------------------------------------------


def test_an_index_in_memory_filters_by_path_too() -> None:
    uris = ["docs/a.md", "stories/b.txt", "docs/deep/c.md"]
    chunks = [IndexedChunk.of(f"{uri}#000", uri, "tea", uri=uri) for uri in uris]
    index = Index.build(chunks, np.eye(3, dtype=np.float32), embedding_model="none")
    assert index.mask(Filter()) is None
    for patterns, wanted in [(("docs/*",), [0]), (("docs/**",), [0, 2]), (("*/b.txt", "**c.md"), [1, 2])]:
        mask = index.mask(Filter(paths=patterns))
        assert mask is not None
        assert np.flatnonzero(mask).tolist() == wanted


def test_the_path_of_a_document_follows_its_file(tmp_path: Path, database: Database) -> None:
    assert database.embedded
    (tmp_path / "docs").mkdir()
    (tmp_path / "stories").mkdir()
    (tmp_path / "docs" / "one.md").write_text("tea", encoding="utf-8")
    with Lab.open(tmp_path) as opened:
        assert opened.trace("tea", config(filter=Filter(paths=("docs/*",)))).final
    (tmp_path / "docs" / "one.md").rename(tmp_path / "stories" / "one.txt")
    with Lab.open(tmp_path) as opened:
        assert opened.trace("tea", config(filter=Filter(paths=("stories/*",)))).final
