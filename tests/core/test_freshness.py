"""An index that keeps up with its corpus: killed, raced, cancelled and cut off runs end in a clean run's tables."""

from __future__ import annotations

import os
import random
import shutil
import signal
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

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.config_file import effective_config
from retrieval_lab.database import Database
from retrieval_lab.embed import HashEmbedder
from retrieval_lab.errors import Cancelled, EnvironmentMissing, InputError
from retrieval_lab.index import IndexingCancelled, Progress, schema_name
from retrieval_lab.settings import HashEmbedding
from tests.core.reference import Vector

Connection = psycopg.Connection[Any]
Row = tuple[Any, ...]

CONFIG = PipelineConfig(embedder=HashEmbedding(16))
DOCUMENTS = 30
KILLS = 20


def write_corpus(folder: Path) -> Path:
    """Thirty small documents of two or three chunks, and three golden queries."""
    (folder / "docs").mkdir(parents=True)
    for i in range(DOCUMENTS):
        write(folder, f"doc{i:02d}", "first")
    golden = [f"- {{query_id: g{i}, query: says {i}, kind: k, doc_id: doc0{i}, anchor: says}}" for i in range(3)]
    (folder / "golden.yaml").write_text("\n".join(golden), encoding="utf-8")
    return folder


def write(folder: Path, name: str, word: str) -> None:
    parts = [f"## Part {i}\n\n{name} {word} says {i}." for i in range(2 + len(word) % 2)]
    (folder / "docs" / f"{name}.md").write_text("\n\n".join([f"# {name}", *parts]), encoding="utf-8")


def change_corpus(folder: Path) -> None:
    """Edit ten documents, rename five, delete five, add five."""
    docs = folder / "docs"
    for i in range(DOCUMENTS):
        name = f"doc{i:02d}"
        if i % 3 == 0:
            write(folder, name, "changed")
        elif i % 6 == 1:
            (docs / f"{name}.md").rename(docs / f"renamed{i:02d}.md")
        elif i % 6 == 2:
            (docs / f"{name}.md").unlink()
        elif i % 6 == 4:
            write(folder, f"added{i:02d}", "first")


def tables(conn: Connection, folder: Path) -> tuple[list[Row], list[Row]]:
    """All rows of both tables of the corpus; none where a table is missing."""
    schema = schema_name(folder, CONFIG.indexing)
    found: list[list[Row]] = []
    for name, columns in (
        ("chunks", "chunk_id, doc_id, heading_path, start_char, end_char, text, tsv::text, embedding::text"),
        ("indexed_documents", "doc_id, fingerprint"),
    ):
        table = sql.Identifier(schema, name)
        exists = conn.execute("SELECT to_regclass(%s)", (table.as_string(conn),)).fetchone() != (None,)
        statement = sql.SQL(f"SELECT {columns} FROM {{}} ORDER BY 1").format(table)
        found.append(conn.execute(statement).fetchall() if exists else [])
    return found[0], found[1]


def whole_documents(found: tuple[list[Row], list[Row]], *runs: tuple[list[Row], list[Row]]) -> bool:
    """Whether each document has exactly the chunks that one of the clean runs gives it, and is known as indexed."""

    def by_document(rows: Sequence[Row], documents: Sequence[Row]) -> dict[str, Any]:
        return {doc_id: (fingerprint, [row for row in rows if row[1] == doc_id]) for doc_id, fingerprint in documents}

    clean = [by_document(*run) for run in runs]
    stored = by_document(*found)
    return {row[1] for row in found[0]} <= set(stored) and all(
        content in [run.get(doc_id) for run in clean] for doc_id, content in stored.items()
    )


@pytest.fixture(scope="module")
def session(database: Database) -> Iterator[Connection]:
    with database.connect() as conn:
        yield conn


@pytest.fixture
def corpora(tmp_path: Path, session: Connection) -> Iterator[Callable[[], Path]]:
    """Makes a corpus in a folder of its own; their schemas are dropped after the test."""
    made: list[Path] = []

    def make() -> Path:
        made.append(write_corpus(tmp_path / f"corpus{len(made)}"))
        return made[-1]

    yield make
    for folder in made:
        name = sql.Identifier(schema_name(folder, CONFIG.indexing))
        session.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(name))


@pytest.fixture
def corpus(corpora: Callable[[], Path]) -> Path:
    return corpora()


def terminate(session: Connection, pid: int) -> None:
    session.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))


# --- other processes -----------------------------------------------------------------------------------------------

SCRIPT = """
import os, sys, time
from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.embed import HashEmbedder
from retrieval_lab.settings import HashEmbedding

fast = HashEmbedder.embed

def slow(self, texts):
    print("embedding", flush=True)
    time.sleep(0.002)
    return fast(self, texts)

HashEmbedder.embed = slow
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        print(f"started {os.getpid()}", flush=True)
        with Lab.open(line.rstrip(), PipelineConfig(embedder=HashEmbedding(16))) as lab:
            print(f"indexed {len(lab.index.indexed)}", flush=True)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(f"ended {status}", flush=True)
"""


class Opener:
    """Opens corpora, each in a new process with a slow embedder; the modules are loaded once."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin
        assert self._process.stdout
        self._in, self._out = self._process.stdin, self._process.stdout

    def open(self, folder: Path) -> int:
        """Begin, and return the process id."""
        print(folder, file=self._in, flush=True)
        return int(self.until("started"))

    def until(self, word: str) -> str:
        """What follows the word, in the first line from now on that begins with it."""
        for line in self._out:
            if line.startswith(word):
                return line.removeprefix(word).strip()
            assert not line.startswith("ended"), f"the process ended before {word!r}"
        raise AssertionError(f"no {word!r}; all processes are gone")

    def embeddings(self, count: int) -> None:
        for _ in range(count):
            self.until("embedding")

    def close(self) -> None:
        self._in.close()
        self._process.wait(30)
        self._out.close()


@pytest.fixture(scope="module")
def openers(database: Database) -> Iterator[tuple[Opener, Opener]]:
    assert database.embedded
    made = (Opener(), Opener())
    for opener in made:
        opener.until("ready")
    yield made
    for opener in made:
        opener.close()


def test_twenty_kills_at_random_points_end_in_the_tables_of_a_clean_run(
    session: Connection, corpora: Callable[[], Path], openers: tuple[Opener, Opener]
) -> None:
    opener, points = openers[0], random.Random(3)
    before, after = corpora(), corpora()
    change_corpus(after)
    for folder in (before, after):
        Lab.open(folder, CONFIG).close()
    old, new = tables(session, before), tables(session, after)
    assert len(old[1]) == len(new[1]) == DOCUMENTS
    midway = 0
    for kill in range(KILLS):
        folder = corpora()
        if kill % 2:  # a killed update; the others are killed first runs
            Lab.open(folder, CONFIG).close()
            shutil.rmtree(folder)
            shutil.copytree(after, folder)
        pid = opener.open(folder)
        # Before the first document too, where the tables are made.
        opener.embeddings(points.randint(0, 18 if kill % 2 else 28))
        time.sleep(points.uniform(0, 0.03 if kill < 4 else 0.008))
        os.kill(pid, signal.SIGKILL)
        midway += int(opener.until("ended")) == -signal.SIGKILL
        left = tables(session, folder)
        assert whole_documents(left, old, new), f"kill {kill}"
        if kill % 2:  # a document that both corpora have is at no time gone
            assert {row[0] for row in old[1]} & {row[0] for row in new[1]} <= {row[0] for row in left[1]}
        with Lab.open(folder, CONFIG) as lab:
            assert lab.index.faults == ()
            assert len(lab.trace("says 1").final) == 10
        assert tables(session, folder) == (new if kill % 2 else old), f"kill {kill}"
    assert midway > KILLS / 2


def test_two_processes_at_once_end_well_and_do_the_work_once(
    session: Connection, corpora: Callable[[], Path], openers: tuple[Opener, Opener]
) -> None:
    clean, folder = corpora(), corpora()
    Lab.open(clean, CONFIG).close()
    for opener in openers:
        opener.open(folder)
    assert sum(int(opener.until("indexed")) for opener in openers) == DOCUMENTS
    assert [opener.until("ended") for opener in openers] == ["0", "0"]
    assert tables(session, folder) == tables(session, clean)


def test_who_waits_goes_on_when_the_other_process_is_killed(
    session: Connection, corpora: Callable[[], Path], openers: tuple[Opener, Opener]
) -> None:
    clean, folder = corpora(), corpora()
    Lab.open(clean, CONFIG).close()
    pid = openers[0].open(folder)
    openers[0].embeddings(5)
    openers[1].open(folder)
    openers[0].embeddings(3)
    os.kill(pid, signal.SIGKILL)
    assert openers[0].until("ended") == str(-signal.SIGKILL)
    assert 0 < int(openers[1].until("indexed")) < DOCUMENTS
    assert openers[1].until("ended") == "0"
    assert tables(session, folder) == tables(session, clean)


# --- changes -------------------------------------------------------------------------------------------------------


def found(lab: Lab, word: str) -> set[str]:
    """The documents that full text finds for a word."""
    return {hit.chunk_id.split("#")[0] for hit in lab.trace(word).text}


def test_an_edited_a_renamed_and_a_deleted_file_are_seen_at_the_next_opening(corpus: Path) -> None:
    docs = corpus / "docs"
    Lab.open(corpus, CONFIG).close()
    write(corpus, "doc03", "unheard")
    (docs / "doc04.md").rename(docs / "moved.md")
    (docs / "doc05.md").unlink()
    with Lab.open(corpus, CONFIG) as lab:
        assert (lab.index.indexed, lab.index.removed) == (("doc03", "moved"), ("doc04", "doc05"))
        assert lab.index.unchanged == DOCUMENTS - 3
        assert found(lab, "unheard") == {"doc03"}
        assert found(lab, "doc04") == {"moved"}
        assert found(lab, "doc05") == set()
        assert lab.trace("doc05").ranks_of("doc05#000")["vector"].reason == "not in the index"
    with Lab.open(corpus, CONFIG) as lab:
        assert (lab.index.indexed, lab.index.removed, lab.index.unchanged) == ((), (), DOCUMENTS - 1)


def test_an_edit_that_keeps_size_and_time_of_the_file_is_seen(corpus: Path) -> None:
    path = corpus / "docs" / "doc03.md"
    Lab.open(corpus, CONFIG).close()
    was = path.stat()
    path.write_text(path.read_text(encoding="utf-8").replace("first", "fifth"), encoding="utf-8")
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (was.st_size, was.st_mtime_ns)
    with Lab.open(corpus, CONFIG) as lab:
        assert lab.index.indexed == ("doc03",)
        assert found(lab, "fifth") == {"doc03"}


def test_a_document_that_moves_between_the_folders_is_seen(corpus: Path) -> None:
    """The id stays, and so do the bytes: what is stored is what a clean run stores."""
    Lab.open(corpus, CONFIG).close()
    (corpus / "stories").mkdir()
    (corpus / "docs" / "doc03.md").rename(corpus / "stories" / "doc03.txt")
    with Lab.open(corpus, CONFIG) as lab:
        seen = [chunk.heading_path for chunk in lab.chunks([f"doc03#00{i}" for i in range(5)]).values()]
    fresh = corpus.parent / "elsewhere"
    shutil.copytree(corpus, fresh)
    with Lab.open(fresh, CONFIG) as lab:
        assert seen == [chunk.heading_path for chunk in lab.chunks([f"doc03#00{i}" for i in range(5)]).values()]


def test_a_lab_that_is_open_answers_while_its_corpus_is_indexed_again(corpus: Path) -> None:
    failures: list[BaseException] = []

    def change_and_open() -> None:
        try:
            for round_ in range(2):
                for i in range(0, DOCUMENTS, 2):
                    write(corpus, f"doc{i:02d}", f"round{round_}" + "x" * (round_ % 2))
                Lab.open(corpus, CONFIG).close()
        except BaseException as error:  # noqa: BLE001 - the test shows it
            failures.append(error)

    with Lab.open(corpus, CONFIG) as lab:
        thread = threading.Thread(target=change_and_open)
        thread.start()
        asked = 0
        while thread.is_alive() or asked < 3:
            made = lab.trace(lab.golden[asked % 3])
            assert made.relevant
            assert len(made.final) == 10
            asked += 1
        thread.join()
        assert failures == []
        assert found(lab, "round1x") == {f"doc{i:02d}" for i in range(0, DOCUMENTS, 2)}


# --- progress, cancelling ------------------------------------------------------------------------------------------


def test_progress_counts_documents_and_a_cancelled_opening_is_resumed(session: Connection, corpus: Path) -> None:
    heard: list[Progress] = []
    with pytest.raises(IndexingCancelled, match="7 of 30"):
        Lab.open(corpus, CONFIG, progress=heard.append, cancelled=lambda: heard[-1].done >= 7)
    assert [(one.done, one.total) for one in heard] == [(done, DOCUMENTS) for done in range(8)]
    assert len(tables(session, corpus)[1]) == 7
    heard.clear()
    with Lab.open(corpus, CONFIG, progress=heard.append) as lab:
        assert len(lab.index.indexed) == DOCUMENTS - 7
    assert [(one.done, one.total) for one in heard] == [(done, DOCUMENTS) for done in range(7, DOCUMENTS + 1)]
    heard.clear()
    with Lab.open(corpus, CONFIG, progress=heard.append, cancelled=lambda: True) as lab:
        assert lab.index.unchanged == DOCUMENTS
    assert heard == [Progress(DOCUMENTS, DOCUMENTS)]


def test_an_evaluation_tells_its_progress_and_can_be_cancelled(corpus: Path) -> None:
    heard: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        heard.append((done, total))

    with Lab.open(corpus, CONFIG) as lab:
        assert len(lab.evaluate_queries(progress=progress)) == 3
        assert heard == [(0, 3), (1, 3), (2, 3), (3, 3)]
        heard.clear()
        with pytest.raises(Cancelled, match="2 of 3"):
            lab.evaluate_queries(progress=progress, cancelled=lambda: heard[-1][0] == 2)
        assert heard == [(0, 3), (1, 3), (2, 3)]
        assert lab.evaluate().queries == 3


def test_an_evaluation_that_is_cancelled_from_the_start_runs_no_query(corpus: Path) -> None:
    with Lab.open(corpus, CONFIG) as lab, pytest.raises(Cancelled, match="0 of 3"):
        lab.evaluate_queries(cancelled=lambda: True)


def test_an_evaluation_that_is_done_is_not_cancelled_any_more(corpus: Path) -> None:
    done: list[int] = [0]
    with Lab.open(corpus, CONFIG) as lab:
        results = lab.evaluate_queries(progress=lambda n, _: done.append(n), cancelled=lambda: done[-1] == 3)
        assert len(results) == 3


# --- threads -------------------------------------------------------------------------------------------------------


def test_an_evaluation_does_not_keep_a_question_waiting(corpus: Path) -> None:
    midway, go_on = threading.Event(), threading.Event()
    answers: list[object] = []

    def hold(done: int, _total: int) -> None:
        if done == 1:
            midway.set()
            assert go_on.wait(30)

    with Lab.open(corpus, CONFIG) as lab:
        evaluation = threading.Thread(target=lambda: answers.append(lab.evaluate_queries(progress=hold)))
        evaluation.start()
        assert midway.wait(30)
        question = threading.Thread(target=lambda: answers.append(lab.trace("says 1").final))
        question.start()
        question.join(10)
        in_time, still_held = not question.is_alive(), evaluation.is_alive()
        go_on.set()
        question.join()
        evaluation.join()
        assert (in_time, still_held) == (True, True)
        assert len(answers) == 2
        assert answers[0] == lab.trace("says 1").final


def test_a_cancelled_question_does_not_stop_an_evaluation(corpus: Path) -> None:
    with Lab.open(corpus, CONFIG) as lab:
        results = lab.evaluate_queries(progress=lambda _done, _total: lab.cancel())
        assert len(results) == 3


# --- the server's end of the connection is cut ---------------------------------------------------------------------


class Cutting(HashEmbedder):
    """HashEmbedder during whose first call something happens."""

    def __init__(self, happens: Callable[[], None]) -> None:
        super().__init__(16)
        self._happens: Callable[[], None] | None = happens

    def embed(self, texts: Sequence[str]) -> Vector:
        if self._happens is not None:
            happens, self._happens = self._happens, None
            happens()
        return super().embed(texts)


def test_a_question_that_is_cut_off_in_the_middle_says_so_and_the_next_is_answered(
    session: Connection, corpus: Path
) -> None:
    with Lab.open(corpus, CONFIG) as lab:
        expected = lab.trace("says 1").final
        lab.embedder = Cutting(lambda: terminate(session, lab._questions._conn.info.backend_pid))
        with pytest.raises(EnvironmentMissing, match="ask again to reconnect") as caught:
            lab.trace("says 1")
        assert "\n" not in str(caught.value)
        assert lab.trace("says 1").final == expected


def test_ranks_that_are_asked_after_the_cut_say_so_and_are_found_the_next_time(
    session: Connection, corpus: Path
) -> None:
    with Lab.open(corpus, CONFIG) as lab:
        made = lab.trace("says 1")
        expected = made.ranks_of("doc29#001")
        terminate(session, lab._questions._conn.info.backend_pid)
        with pytest.raises(EnvironmentMissing, match="ask again to reconnect"):
            made.ranks_of("doc29#001")
        assert made.ranks_of("doc29#001") == expected


def test_an_evaluation_that_is_cut_off_says_so_questions_go_on_and_the_next_one_is_whole(
    session: Connection, corpus: Path
) -> None:
    def cut(done: int, _total: int) -> None:
        if done == 1:
            terminate(session, lab._background._conn.info.backend_pid)

    with Lab.open(corpus, CONFIG) as lab:
        with pytest.raises(EnvironmentMissing, match="ask again to reconnect"):
            lab.evaluate_queries(progress=cut)
        assert len(lab.trace("says 1").final) == 10
        assert len(lab.evaluate_queries()) == 3


@pytest.mark.parametrize("cut_at", [0, 4, 17])
def test_an_opening_that_is_cut_off_says_so_and_the_next_one_ends_it(
    session: Connection, corpora: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, cut_at: int
) -> None:
    clean, folder = corpora(), corpora()
    Lab.open(clean, CONFIG).close()
    pids: list[int] = []
    connect = Database.connect

    def connect_and_note(self: Database, schema: str | None = None) -> Connection:
        conn = connect(self, schema)
        pids.append(conn.info.backend_pid)
        return conn

    def cut(progress: Progress) -> None:
        if progress.done == cut_at:
            for pid in pids:
                terminate(session, pid)

    with monkeypatch.context() as patched:
        patched.setattr(Database, "connect", connect_and_note)
        with pytest.raises(EnvironmentMissing, match="open the corpus again") as caught:
            Lab.open(folder, CONFIG, progress=cut)
    assert "\n" not in str(caught.value)
    assert len(tables(session, folder)[1]) == cut_at
    with Lab.open(folder, CONFIG) as lab:
        assert len(lab.index.indexed) == DOCUMENTS - cut_at
    assert tables(session, folder) == tables(session, clean)


def test_changed_new_and_removed_files_are_told_until_the_corpus_is_opened_again(corpus: Path) -> None:
    with Lab.open(corpus, CONFIG) as lab:
        assert lab.changed_files() == ()
        (corpus / "docs" / "added.md").write_text("# Added\n\nNew.\n", encoding="utf-8")
        (corpus / "golden.yaml").write_text("[]\n", encoding="utf-8")
        first = min((corpus / "docs").glob("*.md"), key=lambda path: (path.name == "added.md", path.name))
        first.unlink()
        expected = {corpus / "docs" / "added.md", corpus / "golden.yaml", first}
        assert set(lab.changed_files()) == expected
    with Lab.open(corpus, CONFIG) as again:
        assert again.changed_files() == ()


def test_a_folder_that_went_away_has_changed_in_every_file(corpus: Path, tmp_path: Path) -> None:
    with Lab.open(corpus, CONFIG) as lab:
        corpus.rename(tmp_path / "elsewhere")
        assert len(lab.changed_files()) >= 1


def test_a_saved_configuration_is_the_labs_own_and_no_change_of_files(corpus: Path) -> None:
    with Lab.open(corpus, CONFIG) as lab:
        other = replace(lab.config, top_k=3)
        path = lab.save_config(other)
        assert lab.config == other
        assert lab.changed_files() == ()
        assert effective_config(corpus).config == other
        with pytest.raises(InputError, match="another index"):
            lab.save_config(replace(other, embedder=HashEmbedding(dims=32)))
        assert effective_config(corpus).config == other
        path.write_text("top_k: 4\n", encoding="utf-8")
        assert lab.changed_files() == (path,)


def test_a_lab_can_be_told_that_another_one_wrote_the_configuration(corpus: Path) -> None:
    with Lab.open(corpus, CONFIG) as lab, Lab.open(corpus, replace(CONFIG, embedder=HashEmbedding(dims=32))) as other:
        path = other.save_config(other.config)
        (corpus / "golden.yaml").write_text("[]\n", encoding="utf-8")
        assert set(lab.changed_files()) == {path, corpus / "golden.yaml"}
        lab.read_config()
        assert lab.changed_files() == (corpus / "golden.yaml",)
        path.unlink()
        assert path in lab.changed_files()
        lab.read_config()
        assert lab.changed_files() == (corpus / "golden.yaml",)


def test_a_chunks_place_is_the_line_of_the_file_as_an_editor_counts_it(corpus: Path) -> None:
    text = "\ufeff# Title\r\n\r\nFirst.\r\n\r\n## Later\r\n\r\nUnmistakable.\r\n"
    (corpus / "docs" / "windows.md").write_bytes(text.encode())
    with Lab.open(corpus, CONFIG) as lab:
        chunk = next(one for one in lab.trace("Unmistakable").chunks.values() if "Unmistakable" in one.text)
        path, line = lab.source(chunk)
        assert path == corpus / "docs" / "windows.md"
        assert text.splitlines()[line - 1] == chunk.text.splitlines()[0]
        path.unlink()
        with pytest.raises(InputError, match="no file of the document 'windows' any more"):
            lab.source(chunk)
