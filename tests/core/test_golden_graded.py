"""golden.yaml with graded documents, questions without an answer, splits and fields, and writing it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab import yaml_nodes
from retrieval_lab.errors import FaultyInput, InputError
from retrieval_lab.golden import load_golden, parse_golden, read_golden
from retrieval_lab.golden_write import golden_yaml, write_splits
from retrieval_lab.types import GoldenQuery

HEAD = "- query_id: q1\n  query: what is bread\n  kind: k\n"


def load(tmp_path: Path, text: str) -> GoldenQuery:
    path = tmp_path / "golden.yaml"
    path.write_text(text, encoding="utf-8")
    (query,) = load_golden(path)
    return query


def faults(tmp_path: Path, text: str) -> list[tuple[int | None, str]]:
    path = tmp_path / "golden.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FaultyInput) as raised:
        load_golden(path)
    assert all(fault.query_id == "q1" for fault in raised.value.faults)
    return [(fault.line, fault.message) for fault in raised.value.faults]


def test_grades_are_read_sorted_by_document(tmp_path: Path) -> None:
    query = load(tmp_path, HEAD + '  relevant: {b: 2, a: 0, "7": -1, c: 1}\n')
    assert query.relevant == (("7", -1), ("a", 0), ("b", 2), ("c", 1))
    assert (query.level, query.doc_ids, query.doc_id, query.anchor) == ("document", ("b", "c"), "", "")


def test_a_list_of_documents_has_grade_one(tmp_path: Path) -> None:
    assert load(tmp_path, HEAD + "  relevant:\n  - b\n  - a\n").relevant == (("a", 1), ("b", 1))


@pytest.mark.parametrize("label", ["{}", "[]", "{a: 0}", "{a: -1}"])
def test_without_a_positive_grade_nothing_answers(tmp_path: Path, label: str) -> None:
    query = load(tmp_path, f"{HEAD}  relevant: {label}\n")
    assert (query.level, query.doc_ids) == ("none", ())


def test_split_and_fields(tmp_path: Path) -> None:
    query = load(tmp_path, HEAD + "  doc_id: d\n  anchor: loaf\n  split: dev\n  fields: {topic: food, by: ann}\n")
    assert (query.level, query.split, query.fields) == ("chunk", "dev", (("topic", "food"), ("by", "ann")))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("  relevant: {a: 1}\n  doc_id: d\n  anchor: x\n", 4, "relevant stands beside doc_id and anchor"),
        ("  relevant: {a: 1}\n  anchor: x\n", 4, "relevant stands beside anchor"),
        ("  relevant: {a: 1, a: 2}\n", 4, "relevant names 'a' twice"),
        ("  relevant: {184: 1}\n", 4, "a doc_id of relevant '184' is read as a number; put it in quotes"),
        ("  relevant: [no]\n", 4, "a doc_id of relevant 'no' is read as a boolean"),
        ("  relevant: {a: yes}\n", 4, "a grade is 'yes'; expected a whole number"),
        ("  relevant: {a: 1.5}\n", 4, "a grade is '1.5'"),
        ("  relevant: {a: '1'}\n", 4, "a grade is '1'"),
        ("  relevant:\n    a: 1\n    b: [1]\n", 6, "a grade is a list"),
        ("  relevant: a\n", 4, "relevant is 'a'; expected doc_ids with grades"),
        ("  relevant:\n", 4, "relevant is ''; expected doc_ids with grades"),
        ("  relevant: !!set {a, b}\n", 4, "relevant is a mapping; expected doc_ids with grades"),
        ("  relevant: {a: 1}\n  split: 2024-01-01\n", 5, "split '2024-01-01' is read as a date"),
        ("  relevant: {a: 1}\n  split: ''\n", 5, "split is blank"),
        ("  relevant: {a: 1}\n  fields: [x]\n", 5, "fields is a list; expected names with texts"),
        ("  relevant: {a: 1}\n  fields: {year: 1999}\n", 5, "a value of fields '1999' is read as a number"),
        ("  relevant: {a: 1}\n  fields: {x: a, x: b}\n", 5, "fields has 'x' twice"),
        ("  split: dev\n", 1, "missing doc_id, anchor"),
        ("  relevent: {a: 1}\n", 4, "unknown key 'relevent'"),
    ],
)
def test_every_fault_has_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    found = faults(tmp_path, HEAD + text)
    assert found[0][0] == line
    assert found[0][1].startswith(message), found


def test_a_missing_kind_is_told_beside_relevant(tmp_path: Path) -> None:
    assert faults(tmp_path, "- query_id: q1\n  query: x\n  relevant: {a: 1}\n") == [(1, "missing kind")]


def test_the_line_of_each_document_is_known(tmp_path: Path) -> None:
    path = tmp_path / "golden.yaml"
    path.write_text(HEAD + "  relevant:\n    a: 1\n    b: 1\n", encoding="utf-8")
    golden = read_golden(path)
    assert golden.place("q1", "relevant.b") == (path, 6)
    assert golden.place("q1", "relevant.missing") == (path, 5)
    assert golden.place("q1", "kind") == (path, 3)


TEXT = st.text(min_size=1, max_size=20).filter(
    lambda text: bool(text.strip()) and not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text)
)


@given(
    st.lists(
        st.builds(
            lambda key, query, label, split, fields: GoldenQuery(
                key,
                query,
                "k: [",
                *(label if isinstance(label, tuple) else ("", "")),
                relevant=tuple(sorted(label.items())) if isinstance(label, dict) else (),
                split=split,
                fields=tuple(fields.items()),
            ),
            TEXT,
            TEXT,
            st.tuples(TEXT, TEXT) | st.dictionaries(TEXT, st.integers(-2, 9), max_size=12),
            st.just("") | TEXT,
            st.dictionaries(TEXT, TEXT, max_size=3),
        ),
        max_size=4,
        unique_by=lambda query: query.query_id,
    )
)
def test_what_is_written_reads_back(queries: list[GoldenQuery]) -> None:
    golden = parse_golden(golden_yaml(queries), Path("golden.yaml"))
    assert golden.faults == ()
    assert list(golden.queries) == queries


def test_a_name_that_is_long_for_a_key_reads_back() -> None:
    query = GoldenQuery("q", "x", "k", "", "", fields=(("n" * 2000, "t"), ("m", "u" * 2000)))
    assert parse_golden(golden_yaml([query]), Path("g")).queries == (query,)


# --- large files ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="this PyYAML is without libyaml")
def test_a_large_file_reads_the_same_with_and_without_libyaml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corpus_dir: Path
) -> None:
    path = tmp_path / "golden.yaml"
    text = (corpus_dir / "golden.yaml").read_text(encoding="utf-8")
    path.write_text(text + HEAD + "  relevant:\n    a: 1\n    'é😀': 2\n  fields: {bad: 1}\n", encoding="utf-8")
    slow = read_golden(path)
    monkeypatch.setattr(yaml_nodes, "_LARGE", 0)
    assert read_golden(path) == slow
    assert len(slow.queries) == 48
    assert len(slow.faults) == 1


def test_what_libyaml_refuses_and_pyyaml_takes_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_nodes, "_LARGE", 0)
    assert load(tmp_path, '- {query_id: a, query: "\\ud83d\\ude00", kind: k, relevant: []}\n').query == "😀"
    path = tmp_path / "golden.yaml"
    path.write_text("- query_id: a\n  query: [\n", encoding="utf-8")
    assert [(fault.line, fault.message[:8]) for fault in read_golden(path).faults] == [(3, "not YAML")]


# --- splits --------------------------------------------------------------------------------------------------------

COMMENTED = """\
# the golden set of the kitchen
- query_id: q1   # the first
  query: "what is bread"
  kind: known
  doc_id: bread
  anchor: >-
    the loaf
    is baked
# about soup
- {query_id: q2, query: "what: soup?", kind: known, relevant: {a: 1},}

- kind: other
  split: old   # was dealt before
  query_id: 'q3'
  query: x
  relevant:
  - a
"""


def test_splits_are_written_between_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "golden.yaml"
    path.write_text(COMMENTED, encoding="utf-8")
    before = load_golden(path)
    write_splits(path, {"q1": "dev", "q2": "held-out", "q3": "dev"})
    after = load_golden(path)
    assert [query.split for query in after] == ["dev", "held-out", "dev"]
    assert [(one.query, one.doc_id, one.anchor, one.relevant) for one in after] == [
        (one.query, one.doc_id, one.anchor, one.relevant) for one in before
    ]
    text = path.read_text(encoding="utf-8")
    for kept in ("# the golden set", "# the first", "# about soup", "# was dealt before", "    is baked\n"):
        assert kept in text
    assert len(text.splitlines()) == len(COMMENTED.splitlines()) + 1


def test_writing_the_same_splits_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "golden.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + COMMENTED.replace("\n", "\r\n").encode())
    splits = {"q1": "dev", "q2": "held-out", "q3": "dev"}
    write_splits(path, splits)
    first = path.read_bytes()
    write_splits(path, splits)
    assert path.read_bytes() == first
    assert first.startswith(b"\xef\xbb\xbf")
    assert first.count(b"\n") == first.count(b"\r\n")


def test_a_faulty_file_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "golden.yaml"
    path.write_text("- query_id: q1\n", encoding="utf-8")
    with pytest.raises(InputError, match="missing query, kind"):
        write_splits(path, {"q1": "dev"})
    assert path.read_text(encoding="utf-8") == "- query_id: q1\n"
