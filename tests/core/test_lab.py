"""A corpus opened for questions: what it answers, in which words it matched, and what happens when the server goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from retrieval_lab import Lab
from retrieval_lab.config import PipelineConfig
from retrieval_lab.database import Database
from retrieval_lab.embed import HashEmbedder, Vectors
from retrieval_lab.errors import Cancelled, EnvironmentMissing, FaultyInput, InputError, LabError
from retrieval_lab.rerank import LexicalReranker, pipeline
from retrieval_lab.types import Filter

QUESTION = "How many milliseconds does reranking 40 pairs take?"


@pytest.fixture(scope="module")
def lab(database: Database) -> Iterator[Lab]:  # noqa: ARG001 - keeps the server up
    with Lab.open() as opened:
        yield opened


def test_a_trace_ends_in_what_the_pipeline_returns(lab: Lab, database: Database) -> None:
    with database.connect(lab.schema) as conn:
        expected = pipeline(conn, HashEmbedder(), LexicalReranker(), QUESTION, scan="exact")
    assert list(lab.trace(QUESTION).final) == expected


def test_the_fate_of_a_passage_is_its_rank_at_every_stage(lab: Lab) -> None:
    query = next(query for query in lab.golden if query.query_id == "q08")
    fate = lab.trace(query).fate()
    assert {stage: (place.rank, place.listed) for stage, place in fate.items()} == {
        "vector": (4, True),
        "text": (4, True),
        "fused": (1, True),
        "reranked": (14, True),
        "final": (None, False),
    }


def test_a_passage_beyond_the_pool_is_in_no_later_stage(lab: Lab) -> None:
    made = lab.trace(QUESTION)
    beyond = made.fused[len(made.reranked)]
    places = made.ranks_of(beyond.chunk_id)
    assert (places["fused"].rank, places["fused"].listed) == (beyond.rank, False)
    assert [places[stage].rank for stage in ("reranked", "final")] == [None, None]


def test_matched_words_include_stemmed_forms_and_no_stop_words(lab: Lab) -> None:
    trace = lab.trace("the running of tests")
    assert lab.matched_words(trace, ["Runs and ran, a test tested the Testing of runners"]) == {
        "runs",
        "test",
        "tested",
        "testing",
    }


def test_words_inside_a_phrase_are_matched(lab: Lab) -> None:
    trace = lab.trace('"reciprocal rank"')
    assert lab.matched_words(trace, ["rank reciprocal ranks others"]) == {"rank", "reciprocal", "ranks"}


def test_opening_again_indexes_nothing(lab: Lab) -> None:
    with Lab.open() as again:
        assert again.index.indexed == ()
        assert again.index.unchanged == 32
        assert again.schema == lab.schema


def test_a_folder_that_is_no_corpus_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no documents"):
        Lab.open(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        Lab.open(tmp_path / "gone")


def test_a_running_question_can_be_cancelled_and_the_next_one_is_answered(lab: Lab) -> None:
    """A backend that sleeps under the question's lock stands for a slow query."""
    lab.trace(QUESTION)
    failures: list[BaseException] = []

    def slow() -> None:
        try:
            lab._questions.ask(lambda conn: conn.execute("SELECT pg_sleep(30)"))
        except Cancelled as error:
            failures.append(error)

    thread = threading.Thread(target=slow)
    thread.start()
    while thread.is_alive():
        lab.cancel()
        thread.join(0.05)
    assert len(failures) == 1
    assert len(lab.trace(QUESTION).final) == 10


def test_a_question_between_two_statements_is_cancelled_too(lab: Lab) -> None:
    """The cancel comes while Python works; the statement that follows is hit all the same."""
    running, stopped = threading.Event(), threading.Event()

    def many(conn: psycopg.Connection[Any]) -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            running.set()
            time.sleep(0.1)
            conn.execute("SELECT pg_sleep(0.1)")

    def ask() -> None:
        with pytest.raises(Cancelled, match="stopped"):
            lab._questions.ask(many)
        stopped.set()

    threading.Thread(target=ask, daemon=True).start()
    assert running.wait(5)
    began = time.monotonic()
    lab.cancel()
    assert stopped.wait(1)
    assert time.monotonic() - began < 2


def test_a_question_stops_before_its_next_stage(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """A slow model makes no statement that could be cancelled."""
    with Lab.open() as lab:
        embed = lab.embedder.embed

        def slow(texts: Sequence[str]) -> Vectors:
            threading.Thread(target=lab.cancel).start()
            time.sleep(0.1)
            return embed(texts)

        monkeypatch.setattr(lab.embedder, "embed", slow)
        with pytest.raises(Cancelled, match="stopped before the text stage"):
            lab.trace(QUESTION)


def test_a_cancel_that_comes_too_late_does_not_stop_the_next_question(lab: Lab) -> None:
    """As when the server handles it after the statement that it was meant for."""
    times = []

    def cancelled_once(conn: psycopg.Connection[Any]) -> str:
        times.append(1)
        if len(times) == 1:
            raise psycopg.errors.QueryCanceled("canceling statement due to user request")
        return str(conn.execute("SELECT 'answered'").fetchone()[0])  # type: ignore[index]

    assert lab._questions.ask(cancelled_once) == "answered"


def test_a_transaction_that_a_cancel_left_open_is_not_met_by_the_next_question(lab: Lab) -> None:
    """As when the cancel hits the rollback of a question that was cancelled before."""

    def left_open(conn: psycopg.Connection[Any]) -> None:
        conn.execute("BEGIN")
        conn.execute("SELECT 1 / 0")

    with pytest.raises(psycopg.errors.DivisionByZero):
        lab._questions.ask(left_open)
    assert len(lab.trace(QUESTION).final) == 10


def test_a_statement_timeout_of_the_server_is_told_as_such(lab: Lab) -> None:
    def slow(conn: psycopg.Connection[Any]) -> None:
        conn.execute("SET statement_timeout = 20")
        try:
            conn.execute("SELECT pg_sleep(5)")
        finally:
            conn.execute("RESET statement_timeout")

    with pytest.raises(LabError, match="the server stopped the query: canceling statement due to statement timeout"):
        lab._questions.ask(slow)


def test_a_question_that_nobody_wants_any_more_is_not_asked(lab: Lab) -> None:
    with pytest.raises(Cancelled, match="before it began"):
        lab.trace(QUESTION, cancelled=lambda: True)


def test_a_server_that_goes_away_is_named_with_the_stage(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any, **__: Any) -> Any:
        raise psycopg.OperationalError("the connection is lost\nand more")

    monkeypatch.setattr("retrieval_lab.retrievers.text.TextRetriever.find", gone)
    with pytest.raises(EnvironmentMissing, match=r"the server is gone in the text stage \(the connection is lost\)"):
        lab.trace(QUESTION)
    monkeypatch.undo()
    assert len(lab.trace(QUESTION).final) == 10


def test_questions_from_many_threads_are_answered_one_after_another(lab: Lab) -> None:
    expected = lab.trace(QUESTION).final
    answers: list[object] = []
    threads = [threading.Thread(target=lambda: answers.append(lab.trace(QUESTION).final)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answers == [expected] * 6


def test_when_the_connection_dies_the_error_says_so_and_the_next_question_reconnects(
    lab: Lab, database: Database
) -> None:
    lab.trace(QUESTION)
    with database.connect() as conn:
        conn.execute("SELECT pg_terminate_backend(%s)", (lab._questions._conn.info.backend_pid,))
    with pytest.raises(EnvironmentMissing, match="ask again to reconnect"):
        lab.trace(QUESTION)
    assert len(lab.trace(QUESTION).final) == 10


def test_cancelling_when_the_server_does_not_answer_does_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.trace(QUESTION)

    def no_answer(*_: object, **__: object) -> None:
        raise psycopg.errors.CancellationTimeout("nobody there")

    monkeypatch.setattr(type(lab._questions._conn), "cancel_safe", no_answer)
    with lab._questions._turn:
        lab.cancel()


def test_an_index_that_was_dropped_is_never_replaced_by_a_table_of_its_name(tmp_path: Path, database: Database) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "bread.md").write_text("# Bread\n\nBake the loaf.\n", encoding="utf-8")
    with Lab.open(tmp_path) as own, database.connect() as conn:
        assert len(own.trace("loaf").final) == 1
        conn.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(own.schema)))
        with pytest.raises(EnvironmentMissing, match="open the corpus again"):
            own.trace("loaf")
    with Lab.open(tmp_path) as again:
        assert len(again.trace("loaf").final) == 1


def test_a_closed_lab_says_so(tmp_path: Path, database: Database) -> None:  # noqa: ARG001 - keeps the server up
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "bread.md").write_text("Bake the loaf.\n", encoding="utf-8")
    lab = Lab.open(tmp_path)
    lab.close()
    with pytest.raises(LabError, match="this lab is closed"):
        lab.trace("loaf")


def test_measuring_without_a_golden_set_or_with_a_faulty_one_is_refused(
    tmp_path: Path,
    database: Database,  # noqa: ARG001 - keeps the server up
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "bread.md").write_text("Bake the loaf.\n", encoding="utf-8")
    with Lab.open(tmp_path) as lab, pytest.raises(InputError, match="no golden queries"):
        lab.evaluate()
    (tmp_path / "golden.yaml").write_text("- {query_id: 1}\n", encoding="utf-8")
    with Lab.open(tmp_path) as lab, pytest.raises(FaultyInput, match=r"golden\.yaml:1"):
        lab.evaluate()


def test_a_filter_that_names_a_document_which_is_not_there_is_refused(lab: Lab) -> None:
    with pytest.raises(InputError, match="the corpus has no document 'hybrid'"):
        lab.trace(QUESTION, PipelineConfig(filter=Filter(("hybrid-search", "hybrid"))))
    assert lab.trace(QUESTION, PipelineConfig(filter=Filter(("hybrid-search",)))).final
