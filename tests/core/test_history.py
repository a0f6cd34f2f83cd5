"""Questions kept between runs: in order, each once, a bounded number, and never a reason to stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval_lab.history import KEPT, History
from retrieval_lab.paths import corpus_data


@pytest.fixture(autouse=True)
def _data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(tmp_path / "data"))


def test_questions_are_kept_between_runs_in_order_each_once(tmp_path: Path) -> None:
    first = History(tmp_path)
    for question in ("one", "two", "one", "one", "  "):
        first.add(question)
    assert History(tmp_path).questions == ("two", "one")


def test_two_windows_keep_the_questions_of_both(tmp_path: Path) -> None:
    first, second = History(tmp_path), History(tmp_path)
    first.add("from the first")
    second.add("from the second")
    assert History(tmp_path).questions == ("from the first", "from the second")


def test_odd_questions_are_kept_as_they_are(tmp_path: Path) -> None:
    odd = ["two\nlines", "\x1b[31m", "\ud800", "日本語", "\x00"]
    history = History(tmp_path)
    for question in odd:
        history.add(question)
    assert list(History(tmp_path).questions) == odd


def test_the_oldest_go_when_there_are_too_many(tmp_path: Path) -> None:
    history = History(tmp_path)
    for number in range(KEPT + 3):
        history.add(f"question {number}")
    assert History(tmp_path).questions[0] == "question 3"
    assert len(History(tmp_path).questions) == KEPT


@pytest.mark.parametrize("content", [b"\xff", b"not JSON\n", b"5\n[]\n"])
def test_a_broken_file_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    path = corpus_data(tmp_path) / "history.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    history = History(tmp_path)
    assert history.questions == ()
    history.add("one")
    assert History(tmp_path).questions == ("one",)


def test_a_place_that_cannot_be_written_keeps_them_for_the_process(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("", encoding="utf-8")
    history = History(tmp_path)
    history.add("one")
    history.add("two")
    assert history.questions == ("one", "two")
