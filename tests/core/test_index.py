"""Indexing a folder: only what changed, never half a document, one process at a time, and on in spite of bad files."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from retrieval_lab.chunker import chunk, load_documents
from retrieval_lab.config import Indexing, PipelineConfig
from retrieval_lab.database import Database
from retrieval_lab.embed import HashEmbedder
from retrieval_lab.errors import InputError
from retrieval_lab.hybrid import text_search
from retrieval_lab.index import IndexingCancelled, IndexReport, Progress, index_corpus, schema_name
from retrieval_lab.settings import HashEmbedding, MarkdownChunker, ModelEmbedding
from tests.core.reference import Vector

Connection = psycopg.Connection[Any]

HASH_32 = Indexing(MarkdownChunker(), HashEmbedding(32), contextual_headers=False)
NAMES = ["alpha", "beta", "gamma", "delta"]


class Recorder(HashEmbedder):
    """HashEmbedder that remembers every text it was given."""

    def __init__(self, dims: int = 32) -> None:
        super().__init__(dims)
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vector:
        self.texts += texts
        return super().embed(texts)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Four documents, each of several chunks' worth of sections that name it, and a story."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "stories").mkdir()
    for name in NAMES:
        write(tmp_path, name, "first")
    (tmp_path / "stories" / "tale.txt").write_text("The Tale\n\nOnce upon a time.\n", encoding="utf-8")
    return tmp_path


def write(corpus: Path, name: str, word: str) -> None:
    text = f"# {name}\n\n" + "\n\n".join(f"## Part {i}\n\n{name} {word} says {i}." for i in range(5))
    (corpus / "docs" / f"{name}.md").write_text(text, encoding="utf-8")


@pytest.fixture
def session(database: Database) -> Iterator[Connection]:
    with database.connect() as conn:
        yield conn


def content(conn: Connection, schema: str) -> list[tuple[Any, ...]]:
    columns = "chunk_id, doc_id, heading_path, start_char, end_char, text, tsv::text, embedding::text"
    table = sql.Identifier(schema, "chunks")
    statement = sql.SQL(f"SELECT {columns} FROM {{}} ORDER BY chunk_id").format(table)
    return conn.execute(statement).fetchall()


def expected_content(corpus: Path) -> list[tuple[str, str, str, int, int, str]]:
    pieces = [piece for doc in load_documents(corpus) for piece in chunk(doc)]
    return sorted((p.chunk_id, p.doc_id, p.heading_path, p.start_char, p.end_char, p.text) for p in pieces)


@pytest.fixture
def clean(session: Connection, new_schema: Callable[[], str]) -> Callable[[Path], list[tuple[Any, ...]]]:
    """What a run into an empty schema gives."""

    def run(corpus: Path) -> list[tuple[Any, ...]]:
        schema = new_schema()
        index_corpus(session, corpus, HASH_32, schema)
        return content(session, schema)

    return run


# --- what is done and what is left alone ---------------------------------------------------------------------------


def test_the_first_run_indexes_every_document(session: Connection, corpus: Path, new_schema: Callable[[], str]) -> None:
    schema = new_schema()
    report = index_corpus(session, corpus, HASH_32, schema)
    assert report == IndexReport(("alpha", "beta", "delta", "gamma", "tale"), 0, (), 25, ())
    assert [row[:6] for row in content(session, schema)] == expected_content(corpus)


def test_the_schema_is_made_when_it_is_missing(session: Connection, corpus: Path) -> None:
    schema = f"lab_test_{os.urandom(6).hex()}"
    try:
        index_corpus(session, corpus, HASH_32, schema)
        assert len(content(session, schema)) == 25
    finally:
        session.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))


def test_the_connection_is_left_in_the_schema(session: Connection, corpus: Path, new_schema: Callable[[], str]) -> None:
    schema = new_schema()
    index_corpus(session, corpus, HASH_32, schema)
    assert session.execute("SELECT current_schema()").fetchone() == (schema,)
    assert text_search(session, "alpha")[0].chunk_id.startswith("alpha#")


def test_a_second_run_embeds_nothing_and_writes_nothing(
    session: Connection, corpus: Path, new_schema: Callable[[], str]
) -> None:
    schema, recorder = new_schema(), Recorder()
    index_corpus(session, corpus, HASH_32, schema)
    versions = session.execute("SELECT chunk_id, xmin::text, ctid::text FROM chunks ORDER BY 1").fetchall()
    report = index_corpus(session, corpus, HASH_32, schema, embedder=recorder)
    assert report == IndexReport((), 5, (), 25, ())
    assert recorder.texts == []
    assert session.execute("SELECT chunk_id, xmin::text, ctid::text FROM chunks ORDER BY 1").fetchall() == versions


def test_only_the_changed_document_is_embedded_again(
    session: Connection, corpus: Path, new_schema: Callable[[], str], clean: Callable[[Path], list[tuple[Any, ...]]]
) -> None:
    schema, recorder = new_schema(), Recorder()
    index_corpus(session, corpus, HASH_32, schema)
    write(corpus, "beta", "second")
    report = index_corpus(session, corpus, HASH_32, schema, embedder=recorder)
    assert report == IndexReport(("beta",), 4, (), 25, ())
    assert recorder.texts == [row[5] for row in expected_content(corpus) if row[1] == "beta"]
    assert content(session, schema) == clean(corpus)


def test_a_touched_file_with_the_same_text_is_not_embedded_again(
    session: Connection, corpus: Path, new_schema: Callable[[], str]
) -> None:
    schema, recorder = new_schema(), Recorder()
    index_corpus(session, corpus, HASH_32, schema)
    os.utime(corpus / "docs" / "beta.md", (1, 1))
    assert index_corpus(session, corpus, HASH_32, schema, embedder=recorder).unchanged == 5
    assert recorder.texts == []


def test_a_change_of_white_space_alone_is_a_change(
    session: Connection, corpus: Path, new_schema: Callable[[], str], clean: Callable[[Path], list[tuple[Any, ...]]]
) -> None:
    schema = new_schema()
    index_corpus(session, corpus, HASH_32, schema)
    path = corpus / "docs" / "beta.md"
    path.write_text("\n\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert index_corpus(session, corpus, HASH_32, schema).indexed == ("beta",)
    assert content(session, schema) == clean(corpus)


def test_a_document_that_became_shorter_leaves_no_old_chunks(
    session: Connection, corpus: Path, new_schema: Callable[[], str], clean: Callable[[Path], list[tuple[Any, ...]]]
) -> None:
    schema = new_schema()
    index_corpus(session, corpus, HASH_32, schema)
    (corpus / "docs" / "beta.md").write_text("# beta\n", encoding="utf-8")
    assert index_corpus(session, corpus, HASH_32, schema).chunks == 25 - 6 + 1
    assert content(session, schema) == clean(corpus)


def test_new_documents_are_added_and_those_gone_are_removed(
    session: Connection, corpus: Path, new_schema: Callable[[], str], clean: Callable[[Path], list[tuple[Any, ...]]]
) -> None:
    schema, recorder = new_schema(), Recorder()
    index_corpus(session, corpus, HASH_32, schema)
    (corpus / "docs" / "alpha.md").rename(corpus / "docs" / "omega.md")
    (corpus / "stories" / "tale.txt").unlink()
    report = index_corpus(session, corpus, HASH_32, schema, embedder=recorder)
    assert (report.indexed, report.unchanged, report.removed) == (("omega",), 3, ("alpha", "tale"))
    assert len(recorder.texts) == 6
    assert content(session, schema) == clean(corpus)


def test_an_empty_document_is_indexed_once_and_has_no_chunks(
    session: Connection, corpus: Path, new_schema: Callable[[], str]
) -> None:
    (corpus / "docs" / "empty.md").write_text("\n\n", encoding="utf-8")
    schema = new_schema()
    assert "empty" in index_corpus(session, corpus, HASH_32, schema).indexed
    assert index_corpus(session, corpus, HASH_32, schema).unchanged == 6


def test_the_settings_of_the_chunker_are_used(session: Connection, corpus: Path, new_schema: Callable[[], str]) -> None:
    schema = new_schema()
    index_corpus(session, corpus, replace(HASH_32, chunker=MarkdownChunker(20, 0)), schema)
    pieces = [p for doc in load_documents(corpus) for p in chunk(doc, max_chars=20, overlap=0)]
    assert [row[5] for row in content(session, schema)] == [p.text for p in sorted(pieces, key=lambda p: p.chunk_id)]


# --- statistics ----------------------------------------------------------------------------------------------------


def shares(conn: Connection) -> dict[str, float]:
    """The planner's idea of how the chunks are spread over the documents."""
    row = conn.execute(
        "SELECT most_common_vals::text::text[], most_common_freqs FROM pg_stats "
        "WHERE schemaname = current_schema() AND tablename = 'chunks' AND attname = 'doc_id'"
    ).fetchone()
    return dict(zip(row[0], row[1], strict=True)) if row and row[0] else {}


def test_indexing_ends_with_analyze(session: Connection, corpus: Path, new_schema: Callable[[], str]) -> None:
    index_corpus(session, corpus, HASH_32, new_schema())
    assert session.execute("SELECT reltuples FROM pg_class WHERE oid = 'chunks'::regclass").fetchone() == (25,)
    assert shares(session)["alpha"] == pytest.approx(6 / 25)


def test_indexing_ends_with_analyze_when_the_number_of_chunks_stays(
    session: Connection, corpus: Path, new_schema: Callable[[], str]
) -> None:
    schema = new_schema()
    index_corpus(session, corpus, HASH_32, schema)
    (corpus / "docs" / "alpha.md").write_text("\n\n".join(f"# {i}\n\nx" for i in range(7)), encoding="utf-8")
    (corpus / "docs" / "beta.md").write_text("\n\n".join(f"# {i}\n\nx" for i in range(5)), encoding="utf-8")
    assert index_corpus(session, corpus, HASH_32, schema).chunks == 25
    assert shares(session)["alpha"] == pytest.approx(7 / 25)


# --- progress, cancelling, failing ---------------------------------------------------------------------------------


def test_progress_counts_documents_up_to_all_of_them(
    session: Connection, corpus: Path, new_schema: Callable[[], str]
) -> None:
    schema = new_schema()
    heard: list[Progress] = []
    index_corpus(session, corpus, HASH_32, schema, progress=heard.append)
    assert heard[0] == Progress(0, 5)
    assert [(p.done, p.total) for p in heard[1:]] == [(i, 5) for i in range(1, 6)]
    assert [p.doc_id for p in heard[1:]] == ["alpha", "beta", "delta", "gamma", "tale"]
    write(corpus, "gamma", "second")
    heard.clear()
    index_corpus(session, corpus, HASH_32, schema, progress=heard.append)
    assert heard == [Progress(4, 5), Progress(5, 5, "gamma")]


def test_cancelled_midway_keeps_whole_documents_and_the_next_run_does_the_rest(
    session: Connection, corpus: Path, new_schema: Callable[[], str], clean: Callable[[Path], list[tuple[Any, ...]]]
) -> None:
    schema, recorder = new_schema(), Recorder()
    done: list[str | None] = []
    with pytest.raises(IndexingCancelled):
        index_corpus(
            session,
            corpus,
            HASH_32,
            schema,
            progress=lambda p: done.append(p.doc_id),
            cancelled=lambda: "beta" in done,
        )
    assert [row[:6] for row in content(session, schema)] == [
        row for row in expected_content(corpus) if row[1] in ("alpha", "beta")
    ]
    report = index_corpus(session, corpus, HASH_32, schema, embedder=recorder)
    assert (report.indexed, report.unchanged) == (("delta", "gamma", "tale"), 2)
    assert len(recorder.texts) == 6 + 6 + 1
    assert content(session, schema) == clean(corpus)


def test_an_embedder_that_fails_leaves_whole_documents_a_usable_connection_and_no_lock(
    session: Connection,
    database: Database,
    corpus: Path,
    new_schema: Callable[[], str],
    clean: Callable[[Path], list[tuple[Any, ...]]],
) -> None:
    class Tired(Recorder):
        def embed(self, texts: Sequence[str]) -> Vector:
            if any("delta" in text for text in texts):
                raise RuntimeError("tired")
            return super().embed(texts)

    schema = new_schema()
    with pytest.raises(RuntimeError, match="tired"):
        index_corpus(session, corpus, HASH_32, schema, embedder=Tired())
    assert session.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert {row[1] for row in content(session, schema)} == {"alpha", "beta"}
    with database.connect() as other:
        heard: list[Progress] = []
        index_corpus(other, corpus, HASH_32, schema, progress=heard.append)
        assert not any(p.waiting for p in heard)
        assert content(other, schema) == clean(corpus)


def test_a_failed_change_keeps_the_old_chunks_of_the_document(
    session: Connection, corpus: Path, new_schema: Callable[[], str]
) -> None:
    class Refusing(HashEmbedder):
        def embed(self, texts: Sequence[str]) -> Vector:
            raise RuntimeError(f"refused {len(texts)}")

    schema = new_schema()
    index_corpus(session, corpus, HASH_32, schema)
    before = content(session, schema)
    write(corpus, "beta", "second")
    with pytest.raises(RuntimeError, match="refused"):
        index_corpus(session, corpus, HASH_32, schema, embedder=Refusing(32))
    assert content(session, schema) == before
    assert index_corpus(session, corpus, HASH_32, schema).indexed == ("beta",)


def test_an_embedder_of_another_width_is_refused_and_nothing_changes(
    session: Connection, corpus: Path, new_schema: Callable[[], str]
) -> None:
    schema = new_schema()
    index_corpus(session, corpus, HASH_32, schema)
    before = content(session, schema)
    with pytest.raises(InputError, match=r"32.*16|16.*32"):
        index_corpus(session, corpus, replace(HASH_32, embedder=HashEmbedding(16)), schema)
    assert content(session, schema) == before


def test_a_folder_that_is_no_corpus_is_refused_before_anything_is_made(session: Connection, tmp_path: Path) -> None:
    schema = f"lab_test_{os.urandom(6).hex()}"
    with pytest.raises(InputError, match="gone"):
        index_corpus(session, tmp_path / "gone", HASH_32, schema)
    assert session.execute("SELECT to_regnamespace(%s)", (schema,)).fetchone() == (None,)


# --- bad files -----------------------------------------------------------------------------------------------------


def spoil(corpus: Path) -> None:
    docs = corpus / "docs"
    (docs / "nul.md").write_bytes(b"# nul\n\na \x00 b\n")
    (docs / "latin.md").write_bytes(b"# latin\n\ncaf\xe9\n")
    (docs / "folder.md").mkdir()
    (docs / "twice.md").write_text("# first of the two\n", encoding="utf-8")
    (corpus / "stories" / "twice.txt").write_text("second of the two\n", encoding="utf-8")


def test_files_that_cannot_be_used_are_faults_and_the_rest_is_indexed(
    session: Connection, corpus: Path, new_schema: Callable[[], str]
) -> None:
    spoil(corpus)
    schema = new_schema()
    report = index_corpus(session, corpus, HASH_32, schema)
    assert [(fault.path.name, fault.line) for fault in report.faults] == [
        ("folder.md", None),
        ("latin.md", 3),
        ("nul.md", 3),
        ("twice.txt", None),
    ]
    assert report.indexed == ("alpha", "beta", "delta", "gamma", "twice", "tale")
    assert [row[5] for row in content(session, schema) if row[1] == "twice"] == ["# first of the two"]
    again = index_corpus(session, corpus, HASH_32, schema)
    assert (again.indexed, again.unchanged, again.faults) == ((), 6, report.faults)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_without_permission_is_a_fault_and_the_rest_is_indexed(
    session: Connection, corpus: Path, new_schema: Callable[[], str]
) -> None:
    (corpus / "docs" / "beta.md").chmod(0)
    report = index_corpus(session, corpus, HASH_32, new_schema())
    assert [fault.path.name for fault in report.faults] == ["beta.md"]
    assert report.indexed == ("alpha", "delta", "gamma", "tale")


def test_a_document_that_can_no_longer_be_read_is_removed_and_comes_back(
    session: Connection, corpus: Path, new_schema: Callable[[], str], clean: Callable[[Path], list[tuple[Any, ...]]]
) -> None:
    schema = new_schema()
    index_corpus(session, corpus, HASH_32, schema)
    good = (corpus / "docs" / "beta.md").read_bytes()
    (corpus / "docs" / "beta.md").write_bytes(good + b"\xff")
    report = index_corpus(session, corpus, HASH_32, schema)
    assert (report.indexed, report.removed, len(report.faults)) == ((), ("beta",), 1)
    (corpus / "docs" / "beta.md").write_bytes(good)
    assert index_corpus(session, corpus, HASH_32, schema).indexed == ("beta",)
    assert content(session, schema) == clean(corpus)


def test_hostile_names_and_texts_are_only_data(
    session: Connection, corpus: Path, new_schema: Callable[[], str]
) -> None:
    for name in ["'; DROP TABLE chunks; --", "%s %(x)s {}", "[bold]x[@click=app.quit]", "日本 😀", "a#000"]:
        (corpus / "docs" / f"{name}.md").write_text(f"# {name}\n\n\x1b[31m {name} \\", encoding="utf-8")
    schema = new_schema()
    assert len(index_corpus(session, corpus, HASH_32, schema).indexed) == 10
    assert [row[:6] for row in content(session, schema)] == expected_content(corpus)
    assert index_corpus(session, corpus, HASH_32, schema).unchanged == 10


# --- several processes ---------------------------------------------------------------------------------------------

SCRIPT = """
import sys, time
import psycopg
from retrieval_lab.config import Indexing
from retrieval_lab.embed import HashEmbedder
from retrieval_lab.index import index_corpus
from retrieval_lab.settings import HashEmbedding, MarkdownChunker

dsn, corpus, schema, stop_after = sys.argv[1:]

class Slow(HashEmbedder):
    calls = 0

    def embed(self, texts):
        Slow.calls += 1
        if Slow.calls > int(stop_after):
            print("busy", flush=True)
            time.sleep(60)
        time.sleep(0.05)
        return super().embed(texts)

with psycopg.connect(dsn, autocommit=True) as conn:
    indexing = Indexing(MarkdownChunker(), HashEmbedding(32), False)
    print(len(index_corpus(conn, corpus, indexing, schema, embedder=Slow(32)).indexed), flush=True)
"""


def indexer(conn: Connection, corpus: Path, schema: str, stop_after: int = 9999) -> subprocess.Popen[str]:
    """Another process that indexes the corpus, and hangs before it embeds document number `stop_after` + 1."""
    password = {"password": conn.info.password} if conn.info.password else {}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, make_conninfo(conn.info.dsn, **password), corpus, schema, str(stop_after)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_killed_run_leaves_whole_documents_and_the_next_one_equals_a_clean_run(
    session: Connection, corpus: Path, new_schema: Callable[[], str], clean: Callable[[Path], list[tuple[Any, ...]]]
) -> None:
    schema, recorder = new_schema(), Recorder()
    with indexer(session, corpus, schema, stop_after=2) as process:
        assert process.stdout
        assert process.stdout.readline() == "busy\n"
        process.kill()
    report = index_corpus(session, corpus, HASH_32, schema, embedder=recorder)
    assert (report.indexed, report.unchanged) == (("delta", "gamma", "tale"), 2)
    assert len(recorder.texts) == 6 + 6 + 1
    assert content(session, schema) == clean(corpus)


def test_a_run_killed_in_the_middle_of_a_change_keeps_the_old_document(
    session: Connection, corpus: Path, new_schema: Callable[[], str], clean: Callable[[Path], list[tuple[Any, ...]]]
) -> None:
    schema = new_schema()
    index_corpus(session, corpus, HASH_32, schema)
    before = content(session, schema)
    write(corpus, "beta", "second")
    with indexer(session, corpus, schema, stop_after=0) as process:
        assert process.stdout
        assert process.stdout.readline() == "busy\n"
        assert content(session, schema) == before
        process.kill()
    assert content(session, schema) == before
    assert index_corpus(session, corpus, HASH_32, schema).indexed == ("beta",)
    assert content(session, schema) == clean(corpus)


def test_two_processes_at_once_do_the_work_once(
    session: Connection, corpus: Path, new_schema: Callable[[], str], clean: Callable[[Path], list[tuple[Any, ...]]]
) -> None:
    schema = new_schema()
    processes = [indexer(session, corpus, schema) for _ in range(2)]
    outputs = [process.communicate(timeout=50)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(int(output) for output in outputs) == [0, 5]
    assert content(session, schema) == clean(corpus)


@pytest.fixture
def busy(database: Database, corpus: Path, new_schema: Callable[[], str]) -> Iterator[tuple[str, threading.Event]]:
    """A schema that another thread is indexing, until the event is set."""
    schema, go_on, started = new_schema(), threading.Event(), threading.Event()

    class Held(HashEmbedder):
        def embed(self, texts: Sequence[str]) -> Vector:
            started.set()
            assert go_on.wait(timeout=30)
            return super().embed(texts)

    def hold() -> None:
        with database.connect() as other:
            index_corpus(other, corpus, HASH_32, schema, embedder=Held(32))

    thread = threading.Thread(target=hold)
    thread.start()
    assert started.wait(timeout=30)
    yield schema, go_on
    go_on.set()
    thread.join()


def test_who_waits_for_another_process_says_so_and_can_be_cancelled(
    session: Connection, corpus: Path, busy: tuple[str, threading.Event]
) -> None:
    heard: list[Progress] = []
    with pytest.raises(IndexingCancelled):
        index_corpus(
            session,
            corpus,
            HASH_32,
            busy[0],
            progress=heard.append,
            cancelled=lambda: len(heard) >= 2,
        )
    assert all(p.waiting for p in heard)


def test_other_schemas_need_not_wait(
    session: Connection, corpus: Path, busy: tuple[str, threading.Event], new_schema: Callable[[], str]
) -> None:
    assert not busy[1].is_set()
    heard: list[Progress] = []
    index_corpus(session, corpus, HASH_32, new_schema(), progress=heard.append)
    assert not any(p.waiting for p in heard)


def test_who_waited_indexes_the_files_as_they_are_then(
    session: Connection,
    corpus: Path,
    busy: tuple[str, threading.Event],
    clean: Callable[[Path], list[tuple[Any, ...]]],
) -> None:
    schema, go_on = busy

    def changed_meanwhile(progress: Progress) -> None:
        if progress.waiting and not go_on.is_set():
            write(corpus, "beta", "second")
            go_on.set()

    report = index_corpus(session, corpus, HASH_32, schema, progress=changed_meanwhile)
    assert report.indexed == ("beta",)
    assert content(session, schema) == clean(corpus)


# --- the name of the schema ----------------------------------------------------------------------------------------


def test_the_schema_is_named_after_folder_chunker_and_embedder(corpus: Path, tmp_path_factory: Any) -> None:
    other = tmp_path_factory.mktemp("other")
    usual = PipelineConfig().indexing
    others = [
        replace(usual, embedder=HashEmbedding(8)),
        replace(usual, embedder=ModelEmbedding("a")),
        replace(usual, chunker=MarkdownChunker(800)),
        replace(usual, chunker=MarkdownChunker(overlap=0)),
        replace(usual, contextual_headers=True),
    ]
    names = {schema_name(corpus, usual), schema_name(other, usual), *(schema_name(corpus, one) for one in others)}
    assert len(names) == 7
    assert all(name.startswith("lab_") and name.isidentifier() and len(name) < 64 for name in names)


def test_the_same_folder_has_the_same_schema_however_it_is_written(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = schema_name(corpus, PipelineConfig().indexing)
    monkeypatch.chdir(corpus.parent)
    (corpus.parent / f"{corpus.name}-link").symlink_to(corpus)
    for way in (str(corpus), corpus.name, f"./{corpus.name}/", f"{corpus}/docs/..", f"{corpus.name}-link"):
        assert schema_name(way, PipelineConfig().indexing) == expected


def test_indexing_the_bundled_corpus_takes_seconds(
    session: Connection, corpus_dir: Path, new_schema: Callable[[], str]
) -> None:
    schema, began = new_schema(), time.monotonic()
    report = index_corpus(session, corpus_dir, PipelineConfig().indexing, schema)
    assert time.monotonic() - began < 20
    assert report.faults == ()
    assert [row[:6] for row in content(session, schema)] == expected_content(corpus_dir)
