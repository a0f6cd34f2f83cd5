"""What an analysis must have: every fault with its line, all at once, and the agreement with a key."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from retrieval_lab.diagnosis.analysis_check import (
    Agreement,
    Key,
    Misses,
    agreement,
    check_analysis,
    read_key,
    status,
    unknown_ids,
)
from retrieval_lab.diagnosis.analysis_file import Document, parse
from retrieval_lab.diagnosis.kinds import Failure, Fix

FILE = Path("corpus/RETRIEVAL_ANALYSIS.md")
WORDS = " ".join(["word"] * 24)
MISSES = Misses(("q1", "q2", "q3"), ("q8",), {one: f"what is {one}?" for one in ("q1", "q2", "q3", "q4", "q8")})
HEAD = "| query_id | failure | fix |\n| --- | --- | --- |\n"
ROWS = (
    "| q1 | ranking | hybrid-weights |\n| q2 | vocabulary-gap | better-embedder |\n| q3 | ranking | query-rewrite |\n"
)
PARAGRAPHS = f"\nranking {WORDS}\n\n## Vocabulary gap\n\nplain {WORDS}\n"
GOOD = HEAD + ROWS + PARAGRAPHS


def faults(text: str, misses: Misses = MISSES, key: Key | None = None) -> list[tuple[int | None, str | None, str]]:
    return [(one.line, one.query_id, one.message) for one in check_analysis(parse(text), FILE, misses, key)]


def without(*words: str) -> str:
    return "".join(line for line in GOOD.splitlines(keepends=True) if not any(word in line for word in words))


def test_a_complete_analysis_has_no_fault() -> None:
    assert faults(GOOD) == []
    assert faults(GOOD.replace("\n", "\r\n")) == []
    assert faults(f"\ufeff{GOOD}".rstrip("\n")) == []


def test_each_fault_has_its_line_and_says_what_was_expected() -> None:
    text = (
        "# Mine\n\n"
        "| query_id | failure | fix |\n"  # line 3
        "| --- | --- | --- |\n"
        "| q1 | todo | |\n"
        "| q2 | Ranking | better embedder |\n"
        "| q2 | ranking | todo |\n"
        "| q4 | ranking | query-rewrite |\n"
        "| q8 | chunk-boundary | smaller-chunks |\n"
        "| q9 | vocabulary-gap | hybrid-weights |\n"
        "| | ranking | query-rewrite |\n"
        "\n"
        "Too short on ranking.\n"  # line 13
        "\n"
        f"- The chunk-boundary {WORDS}\n"
    )
    found = faults(text)
    assert [(line, query_id) for line, query_id, _ in found] == [
        (3, "q3"),
        (5, "q1"),
        (6, "q2"),
        (6, "q2"),
        (7, "q2"),
        (7, "q2"),
        (8, "q4"),
        (9, "q8"),
        (10, "q9"),
        (10, None),
        (11, None),
        (13, None),
    ]
    messages = {(line, query_id): message for line, query_id, message in reversed(found)}
    assert "a miss without a row" in messages[3, "q3"]
    assert "not judged yet" in messages[5, "q1"]
    assert [message.partition(";")[0] for line, _, message in found if line == 6] == [
        "failure is 'Ranking'",
        "fix is 'better embedder'",
    ]
    assert "did you mean ranking?" in messages[6, "q2"]
    assert [message.partition(";")[0] for line, _, message in found if line == 7] == [
        "a second row",
        "no fix is chosen yet",
    ]
    assert "in the final list" in messages[8, "q4"]
    assert "no chunk is relevant" in messages[9, "q8"]
    assert "no such query" in messages[10, "q9"]
    assert "no paragraph below the table names vocabulary-gap" in messages[10, None]
    assert "no query_id" in messages[11, None]
    assert messages[13, None] == "the paragraph on ranking has 4 words; expected at least 25"


@pytest.mark.parametrize(
    ("paragraph", "is_enough"),
    [
        (f"ranking {WORDS}", True),
        (f"ranking {WORDS[5:]}", False),  # 24 words
        (f"Ranking:\n{WORDS}", True),
        (f"> it is `ranking` {WORDS}", True),
        (f"1. ranking {WORDS}", True),
        (f"ranking\n\n{WORDS} more", False),
        (f"# Ranking\n\nmore {WORDS}", True),
        (f"# On the ranking\n\nmore {WORDS}", False),
        (f"reranking {WORDS}", False),
        (f"```\nranking {WORDS}\n```", False),
        (f"<!-- ranking {WORDS} -->", False),
        (f"| ranking | {WORDS} |\n| --- | --- |\n| ranking | {WORDS} |", False),
        (f"- ranking\n- {WORDS} word", False),
        (f"ranking {'- ' * 30}", False),
    ],
)
def test_what_counts_as_a_paragraph(paragraph: str, is_enough: bool) -> None:
    text = f"{HEAD}{ROWS}\nvocabulary-gap {WORDS}\n\n{paragraph}\n"
    assert (faults(text) == []) is is_enough


def test_a_paragraph_above_the_table_does_not_count() -> None:
    (fault,) = faults(f"ranking {WORDS}\n\n{HEAD}{ROWS}\nvocabulary-gap {WORDS}\n")
    assert (fault[0], fault[2].partition(";")[0]) == (5, "no paragraph below the table names ranking")


def test_one_failure_on_every_row_is_a_fault_but_not_on_the_only_row() -> None:
    text = HEAD + ROWS.replace("vocabulary-gap", "ranking") + f"\nranking {WORDS}\n"
    assert [(line, message.partition(";")[0]) for line, _, message in faults(text)] == [
        (3, "all 3 rows have the failure ranking")
    ]
    one = Misses(("q1",), (), {"q1": "?"})
    assert faults(f"{HEAD}| q1 | ranking | query-rewrite |\n\nranking {WORDS}\n", one) == []


def test_rows_that_are_all_to_do_are_not_the_same_failure() -> None:
    text = HEAD + "".join(f"| {one} | todo | todo |\n" for one in MISSES.ids)
    assert [(line, query_id) for line, query_id, _ in faults(text)] == [(3, "q1"), (4, "q2"), (5, "q3")]


def test_a_file_without_the_table_says_so_and_names_the_misses() -> None:
    found = faults("# Nothing here\n")
    assert [(line, query_id) for line, query_id, _ in found] == [(None, None), (None, "q1"), (None, "q2"), (None, "q3")]
    assert "no table with the columns" in found[0][2]


def test_without_misses_an_empty_table_is_complete() -> None:
    assert faults(HEAD, Misses((), (), {})) == []


# --- status --------------------------------------------------------------------------------------------------------


def test_status_counts_what_is_judged_and_what_is_left() -> None:
    text = (
        HEAD + "| q1 | ranking | hybrid-weights |\n| q3 | ranking | todo |\n| q4 | chunk-boundary | smaller-chunks |\n"
    )
    found = status(parse(f"{text}\nchunk-boundary {WORDS}\n"), MISSES)
    assert (found.judged, found.todo, found.absent, found.stale) == (("q1",), ("q3",), ("q2",), ("q4",))
    assert {kind: number for kind, number in found.failures.items() if number} == {Failure.RANKING: 2}
    assert {kind: number for kind, number in found.fixes.items() if number} == {Fix.HYBRID_WEIGHTS: 1}
    assert (found.lacking, found.unlabelled, found.misses) == ((Failure.RANKING,), ("q8",), 3)
    assert list(found.failures) == list(Failure)


# --- the key -------------------------------------------------------------------------------------------------------


def key(tmp_path: Path, text: str | bytes) -> Key:
    path = tmp_path / "key.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_key(path)


def test_a_key_accepts_several_failures_or_one(tmp_path: Path) -> None:
    found = key(tmp_path, "q1: [ranking, vocabulary-gap]\n'q2':\n  - chunk-boundary\n03: ranking\n")
    assert found.faults == ()
    assert found.accepted == {
        "q1": (Failure.RANKING, Failure.VOCABULARY_GAP),
        "q2": (Failure.CHUNK_BOUNDARY,),
        "03": (Failure.RANKING,),
    }
    assert found.lines == {"q1": 1, "q2": 2, "03": 4}


def test_all_faults_of_a_key_come_at_once_with_their_lines(tmp_path: Path) -> None:
    text = "q1: [ranking,\n  rankin]\nq2: []\nq1: [ranking]\nq3: {a: b}\nq4:\n- [x]\n- nothing\n"
    found = key(tmp_path, text)
    assert [(one.line, one.query_id) for one in found.faults] == [
        (2, "q1"),
        (3, "q2"),
        (4, "q1"),
        (5, "q3"),
        (7, "q4"),
        (8, "q4"),
    ]
    assert "did you mean ranking?" in found.faults[0].message
    assert found.accepted == {}


@pytest.mark.parametrize(
    ("text", "line"),
    [("", None), ("- q1\n", 1), ("\n\nq1\n", 3), ("q1: [\n", 2), (b"q1: [ranking]\n\xff", 2), ("# nothing\n", None)],
)
def test_what_is_no_mapping_is_a_fault_of_the_file(tmp_path: Path, text: str | bytes, line: int | None) -> None:
    (fault,) = key(tmp_path, text).faults
    assert (fault.line, fault.query_id) == (line, None)


def test_a_key_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    (fault,) = read_key(tmp_path / "none.yaml").faults
    assert fault.message == "no such file"
    (tmp_path / "folder").mkdir()
    assert "cannot be read" in read_key(tmp_path / "folder").faults[0].message


def test_a_key_is_held_against_the_golden_set(tmp_path: Path) -> None:
    found = key(tmp_path, "q1: [ranking]\nq4: [ranking]\nq8: [ranking]\nq99: [ranking]\n")
    assert [(one.line, one.query_id) for one in unknown_ids(found, MISSES)] == [(4, "q99")]
    (fault,) = unknown_ids(key(tmp_path, "q4: [ranking]\n"), MISSES)
    assert "covers none of the misses" in fault.message


def ten_rows(agreed: int) -> tuple[Document, Misses]:
    ids = tuple(f"q{number}" for number in range(10))
    rows = "".join(
        f"| {one} | {'ranking' if number < agreed else 'chunk-boundary'} | query-rewrite |\n"
        for number, one in enumerate(ids)
    )
    text = f"{HEAD}{rows}\nranking {WORDS}\n\nchunk-boundary {WORDS}\n"
    return parse(text), Misses(ids, (), dict.fromkeys((*ids, "hit"), "?"))


@pytest.mark.parametrize(("agreed", "passes"), [(6, False), (7, True), (9, True)])
def test_seven_of_ten_must_agree(tmp_path: Path, agreed: int, passes: bool) -> None:
    document, misses = ten_rows(agreed)
    accepted = "".join(f"q{number}: [vocabulary-gap, ranking]\n" for number in range(10))
    found = key(tmp_path, f"{accepted}hit: [anchor-ambiguity]\n")
    assert agreement(document, misses, found) == Agreement(agreed, 10)
    messages = [one.message for one in check_analysis(document, FILE, misses, found)]
    assert messages == ([] if passes else [f"{agreed} of 10 judgments agree with the key; expected at least 70%"])


def test_a_miss_without_a_row_does_not_agree_and_one_that_the_key_leaves_out_does_not_count(tmp_path: Path) -> None:
    document = parse(without("| q1 "))
    found = key(tmp_path, "q1: [ranking]\nq2: [vocabulary-gap]\n")
    assert agreement(document, MISSES, found) == Agreement(1, 2)
    assert agreement(document, MISSES, key(tmp_path, "q4: [ranking]\n")) is None


def test_ten_thousand_rows_are_checked_quickly() -> None:
    ids = tuple(f"q{number}" for number in range(10_000))
    misses = Misses(ids[:5_000], (), dict.fromkeys(ids, "?"))
    document = parse(HEAD + "".join(f"| {one} | ranking | query-rewrit |\n" for one in ids))
    began = time.perf_counter()
    assert len(check_analysis(document, FILE, misses)) == 10_000 + 5_000 + 2
    assert status(document, misses).stale == ids[5_000:]
    assert time.perf_counter() - began < 5
