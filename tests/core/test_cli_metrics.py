"""`python -m retrieval_lab.metrics`: its report, its list of misses, and what bad input gets."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retrieval_lab import cli_metrics
from retrieval_lab.database import Database

CORPUS = Path(__file__).parents[2] / "fixtures" / "corpus"


@pytest.fixture
def corpus(tmp_path: Path, database: Database) -> Path:  # noqa: ARG001 - keeps the server up
    """Three one-chunk documents; q1 is found first, q2 never, q3 has an anchor that no chunk holds."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for name, text in (("bread", "Bake the loaf."), ("soup", "Boil the leeks."), ("tea", "Steep the leaves.")):
        (docs / f"{name}.md").write_text(f"# {name}\n\n{text}\n", encoding="utf-8")
    (tmp_path / "golden.yaml").write_text(
        """\
- {query_id: q1, query: the loaf, kind: known, doc_id: bread, anchor: bake the loaf}
- {query_id: q2, query: "!!!", kind: unknown, doc_id: soup, anchor: leeks}
- {query_id: q3, query: milk, kind: unknown, doc_id: tea, anchor: with milk}
""",
        encoding="utf-8",
    )
    return tmp_path


def test_as_a_module_it_prints_a_row_for_all_and_for_each_kind(corpus: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "retrieval_lab.metrics", "--corpus", str(corpus), "--k", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == f"error: {corpus / 'golden.yaml'}: q3: no chunk of 'tea' holds the anchor 'with milk'\n"
    header, *rows, note = done.stdout.splitlines()
    assert header.split()[:5] == ["queries", "recall@2", "precision@2", "mrr@2", "ndcg@2"]
    assert [row.split()[:6] for row in rows] == [
        ["all", "2", "0.500", "0.250", "0.500", "0.500"],
        ["known", "1", "1.000", "0.500", "1.000", "1.000"],
        ["unknown", "1", "0.000", "0.000", "0.000", "0.000"],
    ]
    assert note.endswith("q3")


def test_failures_lists_the_misses_with_their_rank_in_the_pool(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli_metrics.main(["--corpus", str(corpus), "--failures"]) == 2
    assert capsys.readouterr().out == "q2, unknown, none\nq3, unknown, none\n"


def test_without_failures_nothing_is_printed(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = "- {query_id: q1, query: the loaf, kind: known, doc_id: bread, anchor: bake the loaf}\n"
    (corpus / "golden.yaml").write_text(golden, encoding="utf-8")
    assert cli_metrics.main(["--corpus", str(corpus), "--failures"]) == 0
    assert capsys.readouterr() == ("", "")


def test_a_document_that_is_not_there_is_told_from_an_anchor_that_is_not(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = "- {query_id: q1, query: the loaf, kind: known, doc_id: bread.md, anchor: bake the loaf}\n"
    (corpus / "golden.yaml").write_text(golden, encoding="utf-8")
    assert cli_metrics.main(["--corpus", str(corpus)]) == 2
    assert "q1: the corpus has no document 'bread.md'" in capsys.readouterr().err


def test_a_schema_that_cannot_be_used_is_named(
    corpus: Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli_metrics.main(["--corpus", str(corpus), "--schema", "pg_mine"]) == 2
    assert "'pg_mine' cannot be a schema" in capsys.readouterr().err
    with database.connect() as conn:
        conn.execute("CREATE SCHEMA lab_test_taken CREATE TABLE indexed_documents (other int)")
        assert cli_metrics.main(["--corpus", str(corpus), "--schema", "lab_test_taken"]) == 2
        assert "the schema lab_test_taken cannot be used" in capsys.readouterr().err
        conn.execute("DROP SCHEMA lab_test_taken CASCADE")


def test_a_role_that_may_not_make_schemas_gets_the_mend(
    corpus: Path, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    with database.connect() as conn:
        conn.execute("CREATE ROLE lab_test_reader")
        dsn = f"{database.dsn}&options=-crole%3Dlab_test_reader"
        assert cli_metrics.main(["--corpus", str(corpus), "--dsn", dsn]) == 3
        assert "GRANT CREATE ON DATABASE" in capsys.readouterr().err
        conn.execute("DROP ROLE lab_test_reader")


def test_failures_of_the_bundled_corpus_have_ranks_beyond_k(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli_metrics.main(["--corpus", str(CORPUS), "--failures"]) == 0
    rows = [line.split(", ") for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 13
    assert ["q08", "factual", "14"] in rows
    assert all(rank == "none" or int(rank) > 10 for _, _, rank in rows)


def test_a_schema_of_ones_own_is_used(corpus: Path, database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli_metrics.main(["--corpus", str(corpus), "--schema", "lab_test_own"]) == 2  # for q3's anchor
    capsys.readouterr()
    with database.connect("lab_test_own") as conn:
        assert conn.execute("SELECT count(*) FROM chunks").fetchone() == (3,)
        conn.execute("DROP SCHEMA lab_test_own CASCADE")


def test_a_file_that_cannot_be_read_is_named_the_rest_is_measured_and_the_exit_code_is_2(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (corpus / "docs" / "broken.md").write_bytes(b"# Broken\n\n\x00\n")
    assert cli_metrics.main(["--corpus", str(corpus)]) == 2
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1].split()[:2] == ["all", "2"]
    assert f"{corpus / 'docs' / 'broken.md'}:3: a NUL byte" in printed.err


def test_a_passage_too_large_to_index_is_named_and_the_rest_is_measured(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endless = " ".join(f"word{number}" for number in range(120_000))
    (corpus / "docs" / "endless.md").write_text(f"# Endless\n\n{endless}\n", encoding="utf-8")
    assert cli_metrics.main(["--corpus", str(corpus)]) == 2
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1].split()[:2] == ["all", "2"]
    assert "endless.md: chunk endless#" in printed.err


def test_all_faults_of_the_golden_set_come_at_once(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (corpus / "golden.yaml").write_text("- {query_id: 1}\n- {query_id: q, q: x}\n", encoding="utf-8")
    assert cli_metrics.main(["--corpus", str(corpus)]) == 2
    errors = capsys.readouterr().err
    assert "golden.yaml:1" in errors
    assert "golden.yaml:2" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--corpus", "/no/such/folder"], 2, "/no/such/folder"),
        ([], 2, "--corpus"),
        (["--corpus", ".", "--k", "0"], 2, "--k"),
        (["--corpus", str(CORPUS), "--dsn", "postgresql://u:hunter2@127.0.0.1:1/x"], 3, "no connection"),
    ],
)
def test_what_cannot_be_used_ends_in_one_message(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli_metrics.main(arguments) == code
    errors = capsys.readouterr().err
    assert message in errors
    assert "hunter2" not in errors
    assert "Traceback" not in errors


def test_ctrl_c_during_indexing_leaves_what_the_next_run_completes(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(60):
        (corpus / "docs" / f"more-{number:03d}.md").write_text(f"# More\n\n{'word ' * 2000}\n", encoding="utf-8")
    command = [sys.executable, "-m", "retrieval_lab.metrics", "--corpus", str(corpus), "--schema", "lab_test_ctrl_c"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with Database.open() as database, database.connect() as conn:
        count = "SELECT count(*) FROM lab_test_ctrl_c.indexed_documents"
        while not documents_in(conn, count):
            assert process.poll() is None, process.stderr
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 130
        assert "Traceback" not in errors
        assert 0 < documents_in(conn, count) < 63
        assert cli_metrics.main(["--corpus", str(corpus), "--schema", "lab_test_ctrl_c"]) == 2  # for q3's anchor
        assert documents_in(conn, count) == 63
        conn.execute("DROP SCHEMA lab_test_ctrl_c CASCADE")
    capsys.readouterr()


def documents_in(conn: psycopg.Connection[Any], count: str) -> int:
    try:
        row = conn.execute(count).fetchone()  # type: ignore[call-overload]
    except psycopg.errors.UndefinedTable:
        return 0
    return int(row[0]) if row else 0
