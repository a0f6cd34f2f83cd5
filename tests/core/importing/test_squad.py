"""SQuAD files: paragraphs once, answers as anchors, questions without an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab import Lab, cli
from retrieval_lab.corpus import read_corpus
from retrieval_lab.database import Database
from retrieval_lab.errors import FaultyInput
from retrieval_lab.golden import load_golden
from retrieval_lab.importing.folder import original_ids
from retrieval_lab.importing.squad import read_squad

CONTEXT = "The inn sign was painted in 1871.\r\n# It hangs by the door.\nNobody knows who paid the painter."


def asked(query_id: str, question: str, *answers: tuple[str, int], **more: Any) -> dict[str, Any]:
    return {
        "id": query_id,
        "question": question,
        "answers": [{"text": text, "answer_start": start} for text, start in answers],
        **more,
    }


def squad(path: Path, *articles: tuple[str, list[tuple[str, list[dict[str, Any]]]]]) -> Path:
    data = [
        {"title": title, "paragraphs": [{"context": context, "qas": qas} for context, qas in paragraphs]}
        for title, paragraphs in articles
    ]
    path.write_text(json.dumps({"version": "v2.0", "data": data}, indent=1), encoding="utf-8")
    return path


@pytest.fixture
def inn(tmp_path: Path) -> Path:
    when, hangs = CONTEXT.index("1871"), CONTEXT.index("1871.\r\n# It")
    return squad(
        tmp_path / "inn.json",
        (
            "The Inn/Sign",
            [
                (
                    CONTEXT,
                    [
                        asked("a", "when was it painted?", ("1871", when), ("in 1871", when - 3)),
                        asked("b", "where does it hang?", ("1871.\r\n# It hangs", hangs)),
                        asked("c", "who paid?", is_impossible=True, plausible_answers=[]),
                    ],
                ),
                ("A second paragraph.", [asked("d", "which is it?", (" second ", 1))]),
            ],
        ),
        ("Another", [(CONTEXT, [asked("e", "who knows?", ("Nobody", CONTEXT.index("Nobody")))])]),
        ("The Inn/Sign", [("A third paragraph.", [asked("f", "which?", ("third", 2))])]),
    )


def test_paragraphs_are_documents_at_their_first_occurrence(inn: Path, tmp_path: Path) -> None:
    assert cli.main(["import", "squad", str(inn), str(tmp_path / "corpus")]) == 0
    documents = {one.doc_id: one for one in read_corpus(tmp_path / "corpus").documents}
    assert list(documents) == [f"The%20Inn%2FSign_00{number}" for number in range(3)]
    assert original_ids(tmp_path / "corpus")["The%20Inn%2FSign_002"] == "The Inn/Sign_002"
    first = documents["The%20Inn%2FSign_000"]
    assert first.title == "The Inn/Sign"
    assert first.text == "# The Inn/Sign\n\n" + CONTEXT.replace("\r\n#", "\n\\#") + "\n"


def test_answers_are_anchors_as_they_stand_in_the_file(
    inn: Path,
    tmp_path: Path,
    database: Database,  # noqa: ARG001
) -> None:
    assert cli.main(["import", "squad", str(inn), str(tmp_path / "corpus")]) == 0
    golden = {query.query_id: query for query in load_golden(tmp_path / "corpus" / "golden.yaml")}
    assert {key: query.anchor for key, query in golden.items()} == {
        "a": "1871",
        "b": "1871.\n\\# It hangs",
        "c": "",
        "d": "second",
        "e": "Nobody",
        "f": "third",
    }
    assert golden["e"].doc_id == golden["a"].doc_id == "The%20Inn%2FSign_000"
    assert (golden["c"].level, golden["c"].kind, golden["a"].kind) == ("none", "no-answer", "squad")
    assert golden["e"].fields == (("title", "Another"),)
    with Lab.open(tmp_path / "corpus") as lab:
        metrics = lab.evaluate()
    assert (metrics.queries, metrics.undefined, metrics.no_answer) == (5, (), ("c",))


def test_a_file_of_one_line_and_a_text_like_a_key_keep_their_lines(tmp_path: Path) -> None:
    context = 'He wrote "id": 7 and {"context": "x"}.'
    path = squad(tmp_path / "s.json", ("T", [(context, [asked("q", 'what is "id":?', ("7", 15))])]))
    (query,) = read_squad(path).queries
    lines = path.read_text(encoding="utf-8").splitlines()
    assert query.lines["query"] == next(number for number, line in enumerate(lines, 1) if '"id": "q"' in line)
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")
    assert read_squad(path).queries[0].lines["query"] == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "s.json:1: not JSON: "),
        (b"\n\n[1,]", "s.json:3: not JSON: "),
        (b"[]", 's.json: no list "data"'),
        (b'{"data": {}}', 's.json: no list "data"'),
        (b"\n\xff", "s.json:2: not UTF-8"),
    ],
)
def test_what_is_no_squad_is_told_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "s.json").write_bytes(content)
    with pytest.raises(FaultyInput) as raised:
        read_squad(tmp_path / "s.json")
    assert message in str(raised.value)


def test_the_first_answer_that_stands_where_it_says_is_taken(tmp_path: Path) -> None:
    path = squad(
        tmp_path / "s.json",
        ("T", [("one two", [asked("q", "?", ("two", 0), ("two", 4)), asked("r", "?", ("", 0))])]),
    )
    source = read_squad(path)
    assert [one.query_id for one in source.queries] == ["q"]
    assert [(fault.query_id, fault.message.partition(";")[0]) for fault in source.notes.faults] == [
        ("q", "the answer 'two' does not stand at 0 of its paragraph"),
        ("r", "the answer '' does not stand at 0 of its paragraph"),
    ]
