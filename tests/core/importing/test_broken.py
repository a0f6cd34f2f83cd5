"""Broken labels in every format: `check` finds each planted fault, all at once, in its file and line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab import cli
from tests.core.importing.collections import FILLER, beir

Capture = pytest.CaptureFixture[str]
Planted = tuple[str, int | None, str]
"""The name of the file, the line, and a part of the message or the kind of the finding."""

OTHER = "A second text with other words altogether, so that nothing here is like the first one at all, not even nearly."


def corpus(folder: Path) -> tuple[Path, list[Planted]]:
    """A corpus folder; faults of the file itself and of its labels, which are looked for in the good part."""
    (folder / "docs").mkdir()
    third = "Yet another one, about cranes and harbours and the men who load ships there on cold and windy mornings."
    long = "\n\n".join(f"Paragraph {number} of many, filled up with some words. {FILLER[:60]}" for number in range(30))
    texts = {
        "bread": f"# How to bake bread\n\nThe dough rests overnight. {FILLER}",
        "twin": f"# How to bake bread\n\nThe dough rests overnight. {FILLER}",
        "short": "Few words.",
        "soup": f"# Soup\n\nSee **the leeks** here. {OTHER}\n\nleeks and leeks. {OTHER}",
        "long": f"# Long\n\n{long}\n\n{third}",
    }
    for name, text in texts.items():
        (folder / "docs" / f"{name}.md").write_text(f"{text}\n", encoding="utf-8")
    entries: list[tuple[str, str | None]] = [
        ("query: how to bake bread, doc_id: bread, anchor: dough rests", "query-like-title"),
        ("query: one question, doc_id: gone, anchor: x", "unknown-document"),
        ("query: two question, doc_id: soup, anchor: never there", "anchor-absent"),
        ("query: three question, doc_id: soup, anchor: see the leeks", "anchor-markdown"),
        ("query: four question, doc_id: long, anchor: 'Paragraph 9 of many'", None),
        ("query: five question, doc_id: bread, anchor: 'cranes and harbours'", "anchor-elsewhere"),
        ("query: '???', doc_id: bread, anchor: dough rests", "query-without-words"),
        ("query: one question, relevant: {bread: 1, lost: 1}", "label-unknown-document"),
        ("query: one question, relevant: {lost: 1}", "unknown-document"),
        ("query: few words, relevant: [short]", "query-is-passage"),
        ("query: four question, doc_id: long, anchor: 'Paragraph 9 of many'", "query-repeated"),
    ]
    lines = [f"- {{query_id: q{number}, kind: k, {text}}}" for number, (text, _) in enumerate(entries, start=1)]
    planted: list[Planted] = [("golden.yaml", at, kind) for at, (_, kind) in enumerate(entries, start=1) if kind]
    planted += [("short.md", None, "document-short"), ("bread.md", None, "documents-alike")]
    (folder / "golden.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder, planted


def golden(folder: Path) -> tuple[Path, list[Planted]]:
    """A golden.yaml whose entries cannot be read."""
    (folder / "docs").mkdir()
    (folder / "docs" / "d.md").write_text(f"{FILLER}\n", encoding="utf-8")
    entries = [
        ("query_id: a, query: x, kind: k, doc_id: d, anchor: plain", ""),
        ("query_id: a, query: x, kind: k, doc_id: d, anchor: plain", "query_id is repeated"),
        ("query_id: 7, query: x, kind: k, doc_id: d, anchor: plain", "query_id '7' is read as a number"),
        ("query_id: b, query: no, kind: k, doc_id: d, anchor: plain", "query 'no' is read as a boolean"),
        ("query_id: c, query: 2024-01-01, kind: k, doc_id: d, anchor: plain", "is read as a date"),
        ("query_id: d, query: ' ', kind: k, doc_id: d, anchor: plain", "query is blank"),
        ("query_id: e, query: x, kind: k, doc_id: d", "missing anchor"),
        ("query_id: f, query: x, kind: k, doc_id: d, anchor: plain, extra: 1", "unknown key 'extra'"),
        ("query_id: g, query: x, kind: k, relevant: {d: high}", "a grade is 'high'"),
        ("query_id: h, query: x, kind: k, relevant: {d: 1}, doc_id: d", "relevant stands beside doc_id"),
        ("query_id: i, query: x, kind: k, relevant: {1: 1}", "is read as a number"),
        ("query_id: j, query: x, kind: k, relevant: [d, d]", "relevant names 'd' twice"),
    ]
    lines = [f"- {{{text}}}" for text, _ in entries]
    (folder / "golden.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder, [("golden.yaml", at, text) for at, (_, text) in enumerate(entries, start=1) if text]


def beir_folder(folder: Path) -> tuple[Path, list[Planted]]:
    documents: list[tuple[dict[str, Any] | str, str]] = [
        ({"_id": "d1", "title": "Bread", "text": FILLER}, "documents-alike"),
        ({"_id": "d1", "title": "Bread", "text": "Another text."}, "stands in line 1 already, with another text"),
        ({"_id": "d1", "title": "Bread", "text": FILLER}, "stands in line 1 already, with the same text"),
        ({"_id": "d2", "title": "Bread", "text": FILLER}, ""),
        ({"_id": "d3", "text": "Few words."}, "document-short"),
        ("{broken", "not JSON"),
        ('["a list"]', "expected an object"),
        ({"title": "no id", "text": FILLER}, "_id is missing"),
        ({"_id": True, "text": FILLER}, "_id is True"),
        ({"_id": "d4"}, "text is missing"),
        ({"_id": " ", "text": FILLER}, "_id is blank"),
        ({"_id": "d5", "text": 5}, "text is 5"),
        ({"_id": "d6", "text": ""}, "document-short"),
    ]
    queries: list[tuple[dict[str, Any] | str, str]] = [
        ({"_id": "q1", "text": "bread"}, "query-like-title"),
        ({"_id": "q1", "text": "again"}, "query 'q1' stands in line 1 already"),
        ({"_id": "q2", "text": "  "}, "text is blank"),
        ({"_id": "q3", "text": None}, "text is null"),
        ({"_id": "q4", "text": "?!"}, "query-without-words"),
        ({"_id": "q5", "text": "who knows"}, ""),
    ]
    labels = [
        ("q1 d1 1", ""),
        ("q1 gone 1", "no document 'gone'"),
        ("q9 d1 1", "query 'q9' is not among the queries"),
        ("q1 d2 high", "the score is 'high'"),
        ("q1 d2", "2 columns"),
        ("q1 d1 2", "labelled twice, first with grade 1, now 2"),
        ("q1 d1 1", "labelled twice, first with the same grade"),
        ("q4 d1 1", ""),
        ("q5 d6 1", "no-text-relevant"),
        ("q4 d6 1", "label-without-text"),
        ("q1 d3 1.0", "the score is '1.0'"),
        ("q4 d5 99999999999", "expected a whole number of 32 bits"),
    ]
    beir(folder, [one for one, _ in documents], [one for one, _ in queries], test=[one for one, _ in labels])
    planted: list[Planted] = []
    for name, rows, above in (("corpus.jsonl", documents, 0), ("queries.jsonl", queries, 0), ("test.tsv", labels, 1)):
        planted += [(name, at, text) for at, (_, text) in enumerate(rows, start=1 + above) if text]
    return folder, planted


def trec_folder(folder: Path) -> tuple[Path, list[Planted]]:
    (folder / "topics.txt").write_text("301\tinn signs\n302 no tab\n301\tagain\n303\t \n", encoding="utf-8")
    (folder / "qrels.txt").write_text("301 0 d1 1\n301 0 d1 0\n301 0 d2 x\n301 0\n", encoding="utf-8")
    text = f"<DOC><DOCNO>d1</DOCNO>{FILLER}</DOC>\n<DOC>{OTHER}</DOC>\n<DOC><DOCNO>d1</DOCNO>again</DOC>\n<DOC>\n"
    (folder / "docs.sgml").write_text(text, encoding="utf-8")
    return folder, [
        ("topics.txt", 2, "no tab"),
        ("topics.txt", 3, "stands twice"),
        ("topics.txt", 4, "has no title"),
        ("qrels.txt", 2, "stands twice"),
        ("qrels.txt", 3, "the grade is 'x'"),
        ("qrels.txt", 4, "2 columns"),
        ("docs.sgml", 2, "no <DOCNO>"),
        ("docs.sgml", 3, "document 'd1' stands at docs.sgml:1 already"),
        ("docs.sgml", 4, "<DOC> has no </DOC>"),
    ]


def squad_file(folder: Path) -> tuple[Path, list[Planted]]:
    good = {"id": "a", "question": "what is plain?", "answers": [{"text": "plain", "answer_start": 7}]}
    questions: list[tuple[dict[str, Any], str]] = [
        (good, ""),
        ({**good, "question": "again?"}, "question 'a' stands twice"),
        ({**good, "id": "b", "answers": [{"text": "plain", "answer_start": 0}]}, "does not stand at 0"),
        ({**good, "id": "c", "answers": []}, "no answers, and is_impossible is not true"),
        ({**good, "id": "d", "is_impossible": True}, "is_impossible is true, and it has answers"),
        ({**good, "id": "e", "question": " "}, "question is ' '"),
        ({**good, "id": 7}, "id is 7"),
        ({**good, "id": "f", "answers": [{"text": "words", "answer_start": 13}]}, "query-repeated"),
    ]
    rows = [json.dumps(question) for question, _ in questions]
    lines = ['{"data": [{"title": "T", "paragraphs": [{"context":', f"{json.dumps(FILLER)},", '"qas": [']
    lines += [f"{row}{',' if row is not rows[-1] else ''}" for row in rows]
    lines += ["]},", '{"context": "", "qas": []}', "]},", '{"title": 5}', "]}"]
    path = folder / "squad.json"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    planted: list[Planted] = [("squad.json", at, text) for at, (_, text) in enumerate(questions, start=4) if text]
    planted += [("squad.json", len(rows) + 5, "context is ''"), ("squad.json", None, "data[1] has no title")]
    return path, planted


FORMATS: list[Callable[[Path], tuple[Path, list[Planted]]]] = [corpus, golden, beir_folder, trec_folder, squad_file]


@pytest.mark.parametrize("make", FORMATS)
def test_check_finds_every_planted_fault(
    make: Callable[[Path], tuple[Path, list[Planted]]], tmp_path: Path, capsys: Capture
) -> None:
    path, planted = make(tmp_path)
    code = cli.main(["check", str(path), "--json"])
    out, _ = capsys.readouterr()
    document = json.loads(out)
    assert code == (1 if make is corpus else 2)
    found = {(Path(one["file"]).name, one["line"], one["message"]) for one in document["faults"]}
    found |= {
        (Path(one["file"]).name, one["line"], f"[{one['kind']}] {one['message']}") for one in document["findings"]
    }
    for name, line, text in planted:
        assert any(one[0] == name and (line is None or one[1] == line) and text in one[2] for one in found), (
            name,
            line,
            text,
            sorted(found, key=str),
        )


def test_the_set_has_more_than_enough_faults(tmp_path: Path) -> None:
    number = 0
    for make in FORMATS:
        folder = tmp_path / make.__name__
        folder.mkdir()
        number += len(make(folder)[1])
    assert number >= 60


@pytest.mark.parametrize("make", [golden, beir_folder, trec_folder, squad_file])
def test_every_fault_is_in_the_text_with_its_place(
    make: Callable[[Path], tuple[Path, list[Planted]]], tmp_path: Path, capsys: Capture
) -> None:
    path, planted = make(tmp_path)
    cli.main(["check", str(path)])
    out, err = capsys.readouterr()
    shown = out.splitlines() + err.splitlines()
    for name, line, text in planted:
        place = name if line is None else f"{name}:{line}:"
        assert any(place in one and text in one for one in shown), (place, text)


def test_what_is_excluded_is_counted(tmp_path: Path, capsys: Capture) -> None:
    path, _ = beir_folder(tmp_path)
    cli.main(["check", str(path), "--json", "--split", "test"])
    document = json.loads(capsys.readouterr().out)
    assert document["excluded"] == ["q5"]
    assert document["queries"] == 3
    assert {one["what"]: one["count"] for one in document["left_out"]} == {"documents without a word, kept": 1}
