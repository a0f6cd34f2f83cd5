"""TREC files: what is read, every fault at once, and that what is written means the same to every reader."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab.errors import FaultyInput, InputError
from retrieval_lab.trec import Qrels, decode_id, encode_id, falling, read_qrels, read_run, write_qrels, write_run
from retrieval_lab.trec_topics import Topic, read_topics, write_topics

TREC = Path(__file__).parents[3] / "shared" / "data" / "trec_eval"
needs_trec_eval = pytest.mark.skipif(not TREC.is_dir(), reason="trec_eval's test files are not here")


def put(folder: Path, content: str | bytes, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def faults(read: Callable[[Path], object], path: Path) -> list[tuple[int | None, str]]:
    with pytest.raises(FaultyInput) as caught:
        read(path)
    assert {fault.path for fault in caught.value.faults} == {path}
    return [(fault.line, fault.message) for fault in caught.value.faults]


# --- reading -------------------------------------------------------------------------------------------------------


def test_qrels_of_every_layout(tmp_path: Path) -> None:
    expected = {"1": {"a": 1, "b": 0}, "é": {"c\xa0d": -1}}
    rows = ["1 0 a 1", "# a comment", "1\t0\tb\t0", "", "  é  0  c\xa0d  -1"]
    for number, end in enumerate(("\n", "\r\n")):
        text = end.join(rows)
        for prefix in ("", "\ufeff"):
            assert read_qrels(put(tmp_path, prefix + text, f"{number}")).grades == expected
    assert read_qrels(put(tmp_path, gzip.compress(text.encode()), "qrels.gz")).grades == expected


def test_a_run_is_ordered_by_score_then_by_id_from_the_last(tmp_path: Path) -> None:
    lines = ["1 Q0 b 1 2.5 first", "1 Q0 é 2 2.5 first", "1 Q0 a 3 9 first", "2 Q0 x 9 -1e-3 last and more"]
    run = read_run(put(tmp_path, "\n".join(lines)))
    assert run.tag == "last"
    assert run.scores == {"1": {"b": 2.5, "é": 2.5, "a": 9.0}, "2": {"x": -0.001}}
    assert run.ranked() == {"1": ["a", "é", "b"], "2": ["x"]}


def test_all_faults_of_qrels_come_at_once(tmp_path: Path) -> None:
    lines = ["1 0 a 1", "1 0 a", "1 0 a 0", "1 0 b 1.5", "1 0 c 1 x", "1 0 d nan", f"1 0 e {2**31}", "2 0 a 1"]
    content = "\n".join(lines).encode() + b"\n1 0 \xff 1\n1 0 f 1_0\n"
    found = faults(read_qrels, put(tmp_path, content))
    assert [line for line, _ in found] == [2, 3, 4, 5, 6, 7, 9, 10]
    assert "3 columns; expected 4: query, iteration, document, grade" in found[0][1]
    assert "'a' stands twice for query '1'" in found[1][1]
    assert "the grade is '1.5'" in found[2][1]
    assert "not UTF-8" in found[6][1]


def test_all_faults_of_a_run_come_at_once(tmp_path: Path) -> None:
    bad = ["nan", "inf", "-Infinity", "1e999", "1_0", "x", "0x10", "１"]
    lines = ["1 Q0 a 1 1.0 t", *(f"1 Q0 {number} 1 {score} t" for number, score in enumerate(bad)), "1 Q0 a 2 0.5 t"]
    found = faults(read_run, put(tmp_path, "\n".join([*lines, "1 Q0 z 1 0.5"])))
    assert [line for line, _ in found] == list(range(2, 12))
    assert all("expected a finite number" in message for _, message in found[:8])
    assert "'a' stands twice" in found[8][1]
    assert "5 columns" in found[9][1]


def test_a_file_of_another_kind_is_one_fault(tmp_path: Path) -> None:
    [(line, message)] = faults(read_run, put(tmp_path, "1 0 a 1\n1 0 b 1\n"))
    assert line is None
    assert "every line has 4 columns; expected 6" in message
    assert "no lines" in faults(read_qrels, put(tmp_path, "# nothing\n\n"))[0][1]


@pytest.mark.parametrize("content", [b"1 0 a 1\n", gzip.compress(b"1 0 a 1\n" * 99)[:-9]], ids=["plain", "cut"])
def test_what_is_no_whole_gzip_file(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match="not gzip"):
        read_qrels(put(tmp_path, content, "qrels.gz"))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_run(tmp_path / "none")


@needs_trec_eval
def test_trec_evals_own_files() -> None:
    plain, commented = (read_qrels(TREC / name).grades for name in ("qrels.test", "qrels.test.with-comments"))
    assert sum(map(len, plain.values())) == len((TREC / "qrels.test").read_text().splitlines())
    assert {key.replace("#", "") for key in commented["301"]} == plain["301"].keys()
    run = read_run(TREC / "results.trunc")
    assert run.tag == "STANDARD"
    assert sum(map(len, run.scores.values())) == len((TREC / "results.trunc").read_text().splitlines())


# --- writing -------------------------------------------------------------------------------------------------------

ids = st.text(max_size=6) | st.text("a%# \t\u3000é\x00\u2028", max_size=6)
scores = st.floats(
    width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**100), max_value=2.0**100
) | st.integers(0, 2)


@given(ids, ids)
def test_an_id_is_one_ascii_field_and_comes_back(one: str, other: str) -> None:
    written = encode_id(one)
    assert written.isascii()
    assert written.isprintable()
    assert written.split() == [written]
    assert "#" not in written
    assert decode_id(written) == one
    assert (written == encode_id(other)) == (one == other)


def test_ids_of_letters_digits_and_marks_stay() -> None:
    assert encode_id("WSJ870108-0012_a/b.c:d|é") == "WSJ870108-0012_a/b.c:d|%C3%A9"
    assert encode_id("") == "%"


@given(st.lists(scores, max_size=8))
def test_written_scores_fall_in_double_and_in_single_precision(given_scores: list[float]) -> None:
    found = falling(given_scores, "q")
    for kind in (np.float64, np.float32):
        assert (np.diff(np.array(found, dtype=kind)) < 0).all()
    falls = (np.diff(np.array(given_scores, dtype=np.float32)) < 0).all()
    if falls:
        assert found == given_scores


def test_scores_closer_than_single_precision_are_moved_apart() -> None:
    assert falling([0.5, 0.5, 0.5 - 1e-12, 0.25], "q") == [
        0.5,
        float(np.nextafter(np.float32(0.5), np.float32(0))),
        float(np.nextafter(np.nextafter(np.float32(0.5), np.float32(0)), np.float32(0))),
        0.25,
    ]


@pytest.mark.parametrize("score", [float("nan"), float("inf"), 1e39])
def test_a_score_that_no_file_holds(tmp_path: Path, score: float) -> None:
    with pytest.raises(InputError, match="single precision"):
        write_run(tmp_path / "run", "t", {"1": [("a", score)]})
    assert list(tmp_path.iterdir()) == []


@given(st.dictionaries(ids, st.dictionaries(ids, scores, min_size=1, max_size=5), min_size=1, max_size=3), ids)
def test_a_written_run_means_the_order_that_was_meant(
    tmp_path_factory: pytest.TempPathFactory, lists: dict[str, dict[str, float]], tag: str
) -> None:
    path = tmp_path_factory.mktemp("runs") / "run.gz"
    write_run(path, tag, {query: list(found.items()) for query, found in lists.items()})
    assert read_run(path, encoded=True).ranked() == {query: list(found) for query, found in lists.items()}
    ranks = [line.split()[3] for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    assert ranks == [str(rank) for found in lists.values() for rank in range(1, len(found) + 1)]


def test_a_document_twice_in_a_list_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="query '1': a document stands twice"):
        write_run(tmp_path / "run", "t", {"1": [("a", 1.0), ("a", 0.5)]})


def test_written_qrels_come_back(tmp_path: Path) -> None:
    grades = {"a b": {"c#0": 2, "%": 0, "": -1}, "é": {"x": 1}}
    write_qrels(tmp_path / "qrels", Qrels(grades))
    assert read_qrels(tmp_path / "qrels", encoded=True).grades == grades
    assert read_qrels(tmp_path / "qrels").grades.keys() == {"a%20b", "%C3%A9"}


def test_the_same_labels_make_the_same_packed_file(tmp_path: Path) -> None:
    for name in ("one.gz", "two.gz"):
        write_qrels(tmp_path / name, Qrels({"1": {"a": 1}}))
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "two.gz").read_bytes()


# --- topics --------------------------------------------------------------------------------------------------------

CLASSIC = """
<top>
<num> Number: 301
<title> International
  Organized Crime

<desc> Description:
Identify organizations.

<narr> Narrative:
<x> Any.
</top>
<top><num>302</num><title>Topic: Polio &amp; é</title></top>
"""


def test_topics_of_the_tagged_form(tmp_path: Path) -> None:
    expected = (Topic("301", "International Organized Crime"), Topic("302", "Polio &amp; é"))
    assert read_topics(put(tmp_path, CLASSIC)) == expected
    assert read_topics(put(tmp_path, "\ufeff" + CLASSIC.replace("\n", "\r\n"))) == expected


def test_topics_as_lines(tmp_path: Path) -> None:
    path = put(tmp_path, gzip.compress("q1\tTopic: what  is\r\n\r\nq2\té\n".encode()), "topics.tsv.gz")
    assert read_topics(path) == (Topic("q1", "Topic: what is"), Topic("q2", "é"))


def test_all_faults_of_lines_come_at_once(tmp_path: Path) -> None:
    found = faults(read_topics, put(tmp_path, "1\ta\nno tab\n1\tb\n2\t \n\tc\n3\ta\tb\n4 5\tx\n"))
    assert [line for line, _ in found] == [2, 3, 4, 5, 6, 7]
    assert "first in line 1" in found[1][1]


def test_all_faults_of_the_tagged_form_come_at_once(tmp_path: Path) -> None:
    text = "<top>\n<num> 1\n</top>\nstray\n<top>\n<title> a\n</top>\n</top>\n<top>\n<num> 2\n<title> x\n"
    text += "<top>\n<num> 2\n<title> y\n</top>\n<top>\n<num> 3 <title> z\n"
    found = faults(read_topics, put(tmp_path, text))
    assert sorted(found, key=lambda one: one[0] or 0) == [
        (1, "topic '1' has no title; expected the text of the query"),
        (4, "'stray' stands outside of <top>; expected nothing there"),
        (5, "the id of a topic is ''; expected one word"),
        (8, "</top> has no <top>"),
        (9, "<top> has no </top>"),
        (12, "topic '2' stands twice; it stands first in line 9"),
        (16, "<top> has no </top>"),
    ]


def test_topics_that_are_no_topics(tmp_path: Path) -> None:
    assert faults(read_topics, put(tmp_path, b"1\ta\n2\t\xff"))[0] == (2, "not UTF-8; write the file in UTF-8")
    assert "no topics" in faults(read_topics, put(tmp_path, "\n"))[0][1]


@pytest.mark.parametrize("form", ["tsv", "tagged"])
def test_written_topics_come_back(tmp_path: Path, form: str) -> None:
    topics = (Topic("a b", "what\nis <b>it</b>? &amp;"), Topic("Number:é#", "ß"), Topic("", "x"))
    write_topics(tmp_path / "topics", topics, form=form)  # type: ignore[arg-type]
    expected = (Topic("a b", "what is <b>it</b>? &amp;"), *topics[1:])
    assert read_topics(tmp_path / "topics", encoded=True) == expected


@pytest.mark.parametrize("text", [" ", "a <title> b", "Topic: x", "</top>"])
def test_a_text_that_no_reader_gets_back(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="no reader gets its text"):
        write_topics(tmp_path / "topics", [Topic("1", text)], form="tagged")
