"""Reading golden.yaml: what a good file gives, and every kind of fault with its line, all of them at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retrieval_lab.errors import FaultyInput
from retrieval_lab.golden import load_golden, read_golden
from retrieval_lab.types import GoldenQuery

GOOD = """\
- query_id: q1
  query: "who painted the inn sign?"
  kind: factual
  doc_id: story
  anchor: painted by the surveyor
"""


def golden(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "golden.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def faults(tmp_path: Path, content: str | bytes) -> list[tuple[int | None, str | None, str]]:
    """(line, query id, message) of every fault of a file with this content."""
    path = golden(tmp_path, content)
    with pytest.raises(FaultyInput) as raised:
        load_golden(path)
    assert all(fault.path == path for fault in raised.value.faults)
    return [(fault.line, fault.query_id, fault.message) for fault in raised.value.faults]


def only_fault(tmp_path: Path, content: str | bytes) -> tuple[int | None, str | None, str]:
    found = faults(tmp_path, content)
    assert len(found) == 1, found
    return found[0]


# --- good files ----------------------------------------------------------------------------------------------------


def test_a_good_file_gives_its_queries_in_order(tmp_path: Path) -> None:
    text = GOOD + GOOD.replace("q1", "a-first").replace("kind: factual", "kind: conceptual")
    assert load_golden(golden(tmp_path, text)) == [
        GoldenQuery("q1", "who painted the inn sign?", "factual", "story", "painted by the surveyor"),
        GoldenQuery("a-first", "who painted the inn sign?", "conceptual", "story", "painted by the surveyor"),
    ]


def test_the_order_of_keys_and_the_style_of_yaml_do_not_matter(tmp_path: Path) -> None:
    text = (
        "# a comment\n---\n"
        '- {anchor: "a\\u00e9", doc_id: d, kind: k, query: "on: off?", query_id: "007"}\n'
        "- query_id: q2\n  query: >-\n    folded\n    text\n  kind: k\n  doc_id: d\n  anchor: 'it''s'\n"
    )
    assert load_golden(golden(tmp_path, text)) == [
        GoldenQuery("007", "on: off?", "k", "d", "aé"),
        GoldenQuery("q2", "folded text", "k", "d", "it's"),
    ]


def test_an_empty_list_is_no_fault(tmp_path: Path) -> None:
    assert load_golden(golden(tmp_path, "[]\n")) == []


def test_a_byte_order_mark_and_windows_line_ends_are_no_fault(tmp_path: Path) -> None:
    windows = b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()
    assert load_golden(golden(tmp_path, windows))[0].anchor == "painted by the surveyor"


def test_the_path_may_be_a_string(tmp_path: Path) -> None:
    assert load_golden(str(golden(tmp_path, GOOD)))[0].query_id == "q1"


def test_the_bundled_golden_file_is_good(corpus_dir: Path) -> None:
    queries = load_golden(corpus_dir / "golden.yaml")
    assert len({query.query_id for query in queries}) == len(queries) > 0


# --- faults of the whole file --------------------------------------------------------------------------------------


def test_a_missing_file_is_a_fault_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FaultyInput, match=r"gone\.yaml: cannot be read"):
        load_golden(tmp_path / "gone.yaml")


def test_a_folder_instead_of_a_file_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "golden.yaml").mkdir()
    with pytest.raises(FaultyInput, match="cannot be read"):
        load_golden(tmp_path / "golden.yaml")


@pytest.mark.parametrize("content", ["", "\n\n", "# only a comment\n"])
def test_an_empty_file_is_a_fault(tmp_path: Path, content: str) -> None:
    assert "empty" in only_fault(tmp_path, content)[2]


def test_bytes_that_are_not_utf8_are_a_fault_with_their_line(tmp_path: Path) -> None:
    line, _, message = only_fault(tmp_path, GOOD.encode() + b"# caf\xe9\n")
    assert line == 6
    assert "UTF-8" in message


@pytest.mark.parametrize("character", ["\x00", "\x07", "\x1b", "\x7f", "\ufffe"])
def test_a_character_that_yaml_forbids_is_a_fault_with_its_line(tmp_path: Path, character: str) -> None:
    line, _, message = only_fault(tmp_path, GOOD + f"# bell {character}\n")
    assert line == 6
    assert f"U+{ord(character):04X}" in message


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (GOOD + "- query_id: 'open\n", 7),
        (GOOD + "   - x: [\n", 6),
        ("- a: b: c\n", 1),
        ("- *nowhere\n", 1),
        ("---\n- a\n---\n- b\n", 3),
        ("\t- tab\n", 1),
    ],
)
def test_broken_yaml_is_a_fault_with_its_line(tmp_path: Path, content: str, line: int) -> None:
    found, _, message = only_fault(tmp_path, content)
    assert found == line
    assert "YAML" in message
    assert "\n" not in message


def test_deep_nesting_is_a_fault_and_no_crash(tmp_path: Path) -> None:
    assert only_fault(tmp_path, "[" * 5000)


@pytest.mark.parametrize("content", ["queries: []\n", "just text\n", "42\n", "!!python/object:os.system x\n"])
def test_something_else_than_a_list_is_a_fault(tmp_path: Path, content: str) -> None:
    line, _, message = only_fault(tmp_path, content)
    assert line == 1
    assert "list" in message


# --- faults of one entry -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", ["- just text\n", "- [a, b]\n", "- 42\n", "-\n"])
def test_an_entry_that_is_no_mapping_is_a_fault(tmp_path: Path, entry: str) -> None:
    line, _, message = only_fault(tmp_path, GOOD + entry)
    assert line == 6
    assert "2" in message  # the second entry
    assert "mapping" in message


@pytest.mark.parametrize("key", ["query_id", "query", "kind", "doc_id", "anchor"])
def test_a_missing_key_is_a_fault_that_names_it(tmp_path: Path, key: str) -> None:
    # The first line carries the dash, so the entry is written as a flow mapping.
    values = {"query_id": "q2", "query": "x", "kind": "x", "doc_id": "x", "anchor": "x"}
    del values[key]
    entry = "- {" + ", ".join(f"{name}: {value}" for name, value in values.items()) + "}\n"
    line, query_id, message = only_fault(tmp_path, GOOD + entry)
    assert line == 6
    assert key in message
    assert query_id == ("entry 2" if key == "query_id" else "q2")


def test_an_unknown_key_is_a_fault_that_names_it_and_the_known_ones(tmp_path: Path) -> None:
    line, query_id, message = only_fault(tmp_path, GOOD + "  ancor: typo\n")
    assert (line, query_id) == (6, "q1")
    assert "ancor" in message
    assert "anchor" in message


def test_a_repeated_key_is_a_fault_with_both_lines(tmp_path: Path) -> None:
    line, query_id, message = only_fault(tmp_path, GOOD + "  kind: again\n")
    assert (line, query_id) == (6, "q1")
    assert "kind" in message
    assert "3" in message


@pytest.mark.parametrize("value", ["007", "1.5", "true", "no", "2024-01-01", "null", "~", "", "0x1F", "12_000"])
@pytest.mark.parametrize("key", ["anchor", "query_id"])
def test_a_value_that_yaml_reads_as_something_else_than_text_is_a_fault(tmp_path: Path, key: str, value: str) -> None:
    old = {"anchor": "painted by the surveyor", "query_id": "q1"}[key]
    line, _, message = only_fault(tmp_path, GOOD.replace(f"{key}: {old}", f"{key}: {value}"))
    assert line == {"anchor": 5, "query_id": 1}[key]
    assert key in message


@pytest.mark.parametrize("value", ["[a]", "{a: b}"])
def test_a_nested_value_is_a_fault(tmp_path: Path, value: str) -> None:
    line, query_id, message = only_fault(tmp_path, GOOD.replace("painted by the surveyor", value))
    assert (line, query_id) == (5, "q1")
    assert "anchor" in message


@pytest.mark.parametrize("key", ["query_id", "query", "kind", "doc_id", "anchor"])
@pytest.mark.parametrize("blank", ["''", '"  "', '"\\n\\t"'])
def test_trap_8_a_blank_value_is_a_fault(tmp_path: Path, key: str, blank: str) -> None:
    values = {"query_id": "q2", "query": "x", "kind": "x", "doc_id": "x", "anchor": "x", key: blank}
    entry = "- {" + ", ".join(f"{name}: {value}" for name, value in values.items()) + "}\n"
    line, _, message = only_fault(tmp_path, GOOD + entry)
    assert line == 6
    assert key in message
    assert "blank" in message


@pytest.mark.parametrize("other", ["another question?", "who painted the inn sign?"])
def test_trap_8_a_repeated_query_id_is_a_fault_with_both_lines(tmp_path: Path, other: str) -> None:
    line, query_id, message = only_fault(tmp_path, GOOD + GOOD.replace("who painted the inn sign?", other))
    assert (line, query_id) == (6, "q1")
    assert "repeated" in message
    assert "line 1" in message
    assert ("same content" if other == "who painted the inn sign?" else "other content") in message


def test_all_faults_come_at_once_in_the_order_of_the_lines(tmp_path: Path) -> None:
    content = (
        "- query_id: q1\n"  # 1: no query
        "  kind: 5\n"  # 2: a number
        "  doc_id: d\n"
        "  anchor: ''\n"  # 4: blank
        "- oops\n"  # 5: no mapping
        "- query_id: q1\n"  # 6: repeated
        "  query: x\n"
        "  kind: k\n"
        "  doc_id: d\n"
        "  anchor: a\n"
        "  colour: red\n"  # 11: unknown
    )
    found = faults(tmp_path, content)
    assert sorted(line for line, _, _ in found if line) == [1, 2, 4, 5, 6, 11]
    assert [query_id for line, query_id, _ in found if line in (1, 2, 4, 6, 11)] == ["q1"] * 5


def test_the_message_has_one_line_for_each_fault_with_file_line_and_query(tmp_path: Path) -> None:
    path = golden(tmp_path, GOOD + "  ancor: typo\n- oops\n")
    with pytest.raises(FaultyInput) as raised:
        load_golden(path)
    first, second = str(raised.value).splitlines()
    assert first.startswith(f"{path}:6: q1: ")
    assert second.startswith(f"{path}:7: ")
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("escape", [r"\U00110000", r"\UFFFFFFFF"])
def test_an_escape_that_is_no_character_is_a_fault(tmp_path: Path, escape: str) -> None:
    path = tmp_path / "golden.yaml"
    path.write_text(f'- query_id: "{escape}"\n', encoding="utf-8")
    with pytest.raises(FaultyInput, match="not YAML"):
        load_golden(path)


def test_a_surrogate_pair_as_json_writes_it_is_one_character(tmp_path: Path) -> None:
    path = tmp_path / "golden.yaml"
    path.write_text(r'- {query_id: q, query: "\ud83d\ude00", kind: k, doc_id: d, anchor: a}', encoding="utf-8")
    assert load_golden(path)[0].query == "😀"


@pytest.mark.parametrize("bad", [r"\0", r"\ud800"])
def test_what_no_text_can_hold_is_a_fault(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "golden.yaml"
    path.write_text(f'- {{query_id: q, query: "x{bad}", kind: k, doc_id: d, anchor: a}}', encoding="utf-8")
    with pytest.raises(FaultyInput, match="NUL or half a surrogate pair"):
        load_golden(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "golden.yaml")
    with pytest.raises(FaultyInput, match="not a file"):
        load_golden(tmp_path / "golden.yaml")


def test_an_endless_value_is_cut_in_its_fault(tmp_path: Path) -> None:
    path = tmp_path / "golden.yaml"
    path.write_text(f"- query_id: {'7' * 100_000}\n", encoding="utf-8")
    with pytest.raises(FaultyInput) as caught:
        load_golden(path)
    assert len(str(caught.value)) < 1000


# --- the rest of a faulty file, and lines ---------------------------------------------------------------------------


def test_lines_are_those_of_the_values(tmp_path: Path) -> None:
    path = tmp_path / "golden.yaml"
    path.write_text(
        "# one\n- query_id: q1\n  anchor: >-\n    folded\n  kind: k\n  doc_id: d\n  query: x\n- {bad: 1}\n"
        "- {query_id: q2, query: x, kind: k, doc_id: d, anchor: a}\n",
        encoding="utf-8",
    )
    read = read_golden(path)
    assert [query.query_id for query in read.queries] == ["q1", "q2"]
    assert read.lines["q1"] == {"query_id": 2, "anchor": 3, "kind": 5, "doc_id": 6, "query": 7}
    assert set(read.lines["q2"].values()) == {9}
    assert {fault.line for fault in read.faults} == {8}
    assert read.path == path
