"""`retrieval-lab rescue`: what people and programs get, and what bad input gets."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab import cli
from retrieval_lab.database import Database
from retrieval_lab.diagnosis.rescue import Rescues

Capture = pytest.CaptureFixture[str]

LAB = """\
retrievers: {text: {n: 2}}
reranker: none
top_k: 1
"""
# q2 is found, and lost without the operators.
GOLDEN = """\
- {query_id: q1, query: apple cherry, kind: k, doc_id: b, anchor: cherry}
- {query_id: q2, query: cherry -pie, kind: k, doc_id: b, anchor: cherry}
- {query_id: q3, query: apple, kind: k, doc_id: a, anchor: apple}
- {query_id: q4, query: cherry -cake -only, kind: k, doc_id: d, anchor: pie}
"""
STORIES = {"a": "apple", "b": "cherry [bold]\x1b[31m", "c": "cherry cake", "d": "cherry pie crust"}


@pytest.fixture(autouse=True)
def _wide_and_served(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - keeps the server up
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "stories").mkdir()
    for name, text in STORIES.items():
        (tmp_path / "stories" / f"{name}.txt").write_text(f"{text}\n", encoding="utf-8")
    (tmp_path / "golden.yaml").write_text(GOLDEN, encoding="utf-8")
    (tmp_path / "lab.yaml").write_text(LAB, encoding="utf-8")
    return tmp_path


def rescue(capsys: Capture, corpus: Path, *arguments: str) -> tuple[int, str, str]:
    code = cli.main(["rescue", "--corpus", str(corpus), *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: Capture, corpus: Path, *arguments: str) -> dict[str, Any]:
    code, out, err = rescue(capsys, corpus, *arguments, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def test_the_rescues_stand_above_what_was_tried_in_vain(corpus: Path, capsys: Capture) -> None:
    code, out, err = rescue(capsys, corpus, "--golden", "q1")
    assert (code, err) == (0, "")
    assert out.splitlines()[:3] == [
        "apple cherry",
        "wanted: b#000",
        "a miss: rank 2 in the final order without its cut, the final list has 1",
    ]
    table, _, tried = out.partition("Tried in vain")
    assert re.search(r"^without apple +1 +–", table, re.MULTILINE)
    assert re.search(r"^fusion\.k +59 to 0 +60", tried, re.MULTILINE)
    assert out.endswith("--reindex tries other ways of indexing, too\n")


def test_of_a_setting_the_others_that_it_gains_and_loses_are_named(corpus: Path, capsys: Capture) -> None:
    code, out, _ = rescue(capsys, corpus, "cherry -pie", "--chunk", "d#000")
    assert code == 0
    # Without operators q2 finds the pie that it excludes.
    row = next(line for line in out.splitlines() if line.startswith("text.operators true → false"))
    assert re.search(r" 1  -q2 +recall +-0\.250", row)
    assert re.search(r"^ +MRR +-0\.250 ", out, re.MULTILINE)
    assert "means at 1: over 4 other golden queries" in out


def test_as_json_it_is_one_document_that_reads_back(corpus: Path, capsys: Capture) -> None:
    found = document(capsys, corpus, "--golden", "q1")
    assert found["is_miss"] is True
    assert (found["rescues"][0]["cost"], found["rescues"][0]["edit"]["term"]) == ("query", "apple")
    assert found["rescues"][0]["effect"] is None
    assert found["rescues"][0]["no_effect"] == "an edit of this query changes no other"
    assert Rescues.from_dict(found).to_dict() == found


def test_reindexing_is_tried_when_asked_for(corpus: Path, capsys: Capture) -> None:
    settings = {row["setting"] for row in document(capsys, corpus, "--golden", "q1", "--reindex")["tried"]}
    assert {"contextual_headers", "chunker.max_chars", "chunker.overlap"} <= settings
    _, out, _ = rescue(capsys, corpus, "--golden", "q1", "--reindex")
    assert "chunker.max_chars 600" in out
    assert "--reindex" not in out


def test_a_query_that_is_no_miss_is_told_so(corpus: Path, capsys: Capture) -> None:
    code, out, _ = rescue(capsys, corpus, "--golden", "q3")
    assert code == 0
    assert "no miss: the passage stands at rank 1 of the final 1, nothing needs to rescue it" in out
    assert "Tried" not in out


def test_when_nothing_helps_that_is_said(corpus: Path, capsys: Capture) -> None:
    """The same text in two documents ties wherever it stands, and the id decides."""
    (corpus / "stories" / "e.txt").write_text("cherry cake\n", encoding="utf-8")
    code, out, _ = rescue(capsys, corpus, "cherry cake", "--chunk", "e#000")
    assert code == 0
    assert "Nothing that was tried rescues it." in out
    assert "a miss: rank 2" in out


def test_texts_of_the_corpus_and_the_question_cannot_steer_the_terminal(corpus: Path, capsys: Capture) -> None:
    code, out, err = rescue(capsys, corpus, "apple \x1b[2J[red]", "--chunk", "b#000")
    assert code == 0
    assert "\x1b" not in out + err
    assert "[red]" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a passage"),
        (["a question"], "name a passage"),
        (["--chunk", "a#000"], "name a passage"),
        (["a question", "--golden", "q1"], "name one question"),
        (["--golden", "gone"], "no query 'gone'"),
        (["a question", "--chunk", "gone#000"], "no chunk 'gone#000'"),
    ],
)
def test_bad_input_is_exit_code_2(arguments: list[str], message: str, corpus: Path, capsys: Capture) -> None:
    code, out, err = rescue(capsys, corpus, *arguments)
    assert (code, out) == (2, "")
    assert message in err
