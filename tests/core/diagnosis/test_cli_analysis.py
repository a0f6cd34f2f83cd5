"""`retrieval-lab analysis` and the file on disk: what is written, what survives, exit codes, JSON."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab import cli
from retrieval_lab.database import Database
from retrieval_lab.diagnosis.analysis_edits import set_row
from retrieval_lab.diagnosis.analysis_file import Document, Row, parse
from retrieval_lab.diagnosis.analysis_store import analysis_path, edit_analysis, load_analysis
from retrieval_lab.errors import InputError
from tests.core.evals.test_runs import make_corpus

Capture = pytest.CaptureFixture[str]

WORDS = " ".join(["word"] * 25)
# q1 is found; q2 and `ключ 🙂` have no words, so nothing is found; q3 has no relevant chunk.
GOLDEN = """\
- {query_id: q1, query: the loaf, kind: known, doc_id: bread, anchor: bake the loaf}
- {query_id: q2, query: "!!!", kind: other, doc_id: soup, anchor: leeks}
- {query_id: "ключ 🙂", query: "??? | ???", kind: other, doc_id: soup, anchor: leeks}
- {query_id: q3, query: milk, kind: other, doc_id: tea, anchor: with milk}
"""
MINE = """\
My own words.\r
\r
| query_id | failure | fix | who |\r
|---|---|---|---|\r
| q2 | ranking | query-rewrite | me |\r
\r
## Ranking\r
\r
Words of mine."""


@pytest.fixture
def corpus(tmp_path: Path, database: Database) -> Path:  # noqa: ARG001 - keeps the server up
    folder = make_corpus(tmp_path / "kitchen")
    (folder / "golden.yaml").write_text(GOLDEN, encoding="utf-8")
    return folder


@pytest.fixture
def file(corpus: Path) -> Path:
    return corpus / "RETRIEVAL_ANALYSIS.md"


def analysis(capsys: Capture, *arguments: str | Path) -> tuple[int, str, str]:
    code = cli.main(["analysis", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: Capture, *arguments: str | Path, code: int = 0) -> dict[str, Any]:
    found_code, out, err = analysis(capsys, *arguments, "--json")
    assert found_code == code, err
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def text_of(path: Path) -> str:
    return path.read_bytes().decode()


# --- init ----------------------------------------------------------------------------------------------------------


def test_init_writes_a_row_for_each_miss(corpus: Path, file: Path, capsys: Capture) -> None:
    code, out, err = analysis(capsys, "init", corpus)
    assert (code, out, err) == (0, f"{file}: 2 rows added, 2 misses of 4 golden queries\n", "")
    assert text_of(file).endswith("| q2 | todo | todo | !!! |  |\n| ключ 🙂 | todo | todo | ??? \\| ??? |  |\n")
    assert sorted(one.name for one in corpus.iterdir()) == ["RETRIEVAL_ANALYSIS.md", "docs", "golden.yaml"]


def test_init_adds_what_is_missing_and_touches_nothing_else(corpus: Path, file: Path, capsys: Capture) -> None:
    file.write_bytes(MINE.encode())
    assert document(capsys, "init", corpus) == {
        "file": str(file),
        "misses": 2,
        "rows": 2,
        "added": ["ключ 🙂"],
        "proposed": [],
        "left_out": [],
    }
    added = "| me |\r\n| ключ 🙂 | todo | todo |  |\r\n"
    assert text_of(file) == MINE.replace("| me |\r\n", added)
    before = file.stat()
    assert document(capsys, "init", corpus)["added"] == []
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_init_follows_the_configuration(corpus: Path, file: Path, capsys: Capture) -> None:
    (corpus / "golden.yaml").write_text(
        "- {query_id: a, query: the loaf, kind: k, doc_id: soup, anchor: leeks}\n", encoding="utf-8"
    )
    assert document(capsys, "init", corpus)["misses"] == 0  # all three chunks are in the top 10
    assert document(capsys, "init", corpus, "--set", "top_k=1")["added"] == ["a"]
    assert [row.query_id for row in load_analysis(file).rows] == ["a"]


def test_an_id_that_no_row_can_hold_is_named_and_the_rest_is_done(corpus: Path, file: Path, capsys: Capture) -> None:
    with (corpus / "golden.yaml").open("a", encoding="utf-8") as golden:
        golden.write('- {query_id: "a\\nb", query: "!!!", kind: other, doc_id: soup, anchor: leeks}\n')
    code, _, err = analysis(capsys, "init", corpus)
    assert (code, "a\\u000ab: no row of a table can hold this id" in err) == (2, True)
    assert [row.query_id for row in load_analysis(file).rows] == ["q2", "ключ 🙂"]


def test_a_golden_set_with_faults_writes_nothing(corpus: Path, file: Path, capsys: Capture) -> None:
    (corpus / "golden.yaml").write_text("- {query_id: q1}\n", encoding="utf-8")
    code, _, err = analysis(capsys, "init", corpus)
    assert (code, file.exists()) == (2, False)
    assert "golden.yaml:1" in err


# --- status and check ----------------------------------------------------------------------------------------------


def judged(file: Path, *rows: tuple[str, str, str], paragraphs: tuple[str, ...] = ()) -> None:
    lines = ["| query_id | failure | fix |", "|-|-|-|", *(f"| {' | '.join(row)} |" for row in rows)]
    file.write_text("\n".join([*lines, *(f"\n{kind}: {WORDS}" for kind in paragraphs), ""]), encoding="utf-8")


GOOD = (("q2", "vocabulary-gap", "query-rewrite"), ("ключ 🙂", "ranking", "better-embedder"))


def test_status_before_the_file_and_on_the_way(corpus: Path, file: Path, capsys: Capture) -> None:
    code, out, _ = analysis(capsys, "status", corpus)
    assert code == 0
    assert out.splitlines()[0].startswith(f"{file} (not there yet")
    assert not file.exists()
    judged(file, GOOD[0], ("q1", "ranking", "todo"))
    code, out, _ = analysis(capsys, "status", corpus)
    assert (code, out.splitlines()[1:]) == (
        0,
        [
            "1 of 2 misses are judged",
            "failure: vocabulary-gap 1",
            "fix: query-rewrite 1",
            "without a row (`retrieval-lab analysis init` adds it): ключ 🙂",
            "rows of no miss: q1",
            "failures without a paragraph of 25 words: vocabulary-gap, ranking",
            "not counted, no chunk is relevant: q3",
        ],
    )
    found = document(capsys, "status", corpus)
    assert (found["exists"], found["judged"], found["absent"], found["stale"]) == (True, ["q2"], ["ключ 🙂"], ["q1"])
    assert (found["failures"]["vocabulary-gap"], found["fixes"]["query-rewrite"], found["agreement"]) == (1, 1, None)


def test_check_passes_on_a_complete_analysis(corpus: Path, file: Path, capsys: Capture) -> None:
    judged(file, *GOOD, paragraphs=("ranking", "vocabulary-gap"))
    assert analysis(capsys, "check", corpus) == (0, "0 faults in 2 rows, 2 misses of 4 golden queries\n", "")
    assert document(capsys, "check", corpus)["faults"] == []


def test_check_names_each_fault_and_ends_with_1(corpus: Path, file: Path, capsys: Capture) -> None:
    judged(file, ("q2", "todo", "todo"), ("q1", "ranking", "query-rewrite"), paragraphs=("ranking",))
    code, out, err = analysis(capsys, "check", corpus)
    lines = out.splitlines()
    assert (code, err, len(lines)) == (1, "", 4)
    assert lines[0].startswith(f"{file}:1: ключ 🙂: a miss without a row")
    assert lines[1].startswith(f"{file}:3: q2: not judged yet")
    assert lines[2].startswith(f"{file}:4: q1: no miss")
    assert lines[3] == "3 faults in 2 rows, 2 misses of 4 golden queries"
    found = document(capsys, "check", corpus, code=1)
    assert [(one["file"], one["line"], one["query_id"]) for one in found["faults"]] == [
        (str(file), 1, "ключ 🙂"),
        (str(file), 3, "q2"),
        (str(file), 4, "q1"),
    ]


def test_check_without_a_file_or_of_one_that_is_no_text_is_bad_input(corpus: Path, file: Path, capsys: Capture) -> None:
    code, out, err = analysis(capsys, "check", corpus)
    assert (code, out) == (2, "")
    assert "`retrieval-lab analysis init` makes one" in err
    file.write_bytes(b"| query_id |\n\xff\n")
    for command in ("check", "status", "init"):
        code, _, err = analysis(capsys, command, corpus)
        assert (code, f"{file}:2: not UTF-8" in err) == (2, True)
    assert file.read_bytes() == b"| query_id |\n\xff\n"


def test_a_key_must_be_agreed_with(corpus: Path, file: Path, tmp_path: Path, capsys: Capture) -> None:
    judged(file, *GOOD, paragraphs=("ranking", "vocabulary-gap"))
    key = tmp_path / "key.yaml"
    key.write_text("q2: [ranking, vocabulary-gap]\n'ключ 🙂': [ranking]\nq1: [ranking]\n", encoding="utf-8")
    code, out, _ = analysis(capsys, "check", corpus, "--key", key)
    assert (code, out.splitlines()[-1].partition("; ")[2]) == (0, "2 of 2 judgments agree with the key")
    key.write_text("q2: [ranking]\n'ключ 🙂': [ranking]\n", encoding="utf-8")
    found = document(capsys, "check", corpus, "--key", key, code=1)
    assert found["agreement"] == {"agreed": 1, "of": 2, "least": 0.7, "enough": False}
    assert len(found["faults"]) == 1
    assert "1 of 2 judgments agree with the key" in analysis(capsys, "status", corpus, "--key", key)[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q2: [rankin]\n", "key.yaml:1: q2: 'rankin' is no failure; did you mean ranking?"),
        ("q2: [ranking]\nq9: [ranking]\n", "key.yaml:2: q9: the golden set has no such query"),
        ("- q2\n", "key.yaml:1: expected a mapping"),
        ("q2: [\n", "key.yaml:2: not YAML"),
    ],
)
def test_a_faulty_key_is_bad_input(
    corpus: Path, file: Path, tmp_path: Path, capsys: Capture, text: str, message: str
) -> None:
    judged(file, *GOOD, paragraphs=("ranking", "vocabulary-gap"))
    (tmp_path / "key.yaml").write_text(text, encoding="utf-8")
    code, _, err = analysis(capsys, "check", corpus, "--key", tmp_path / "key.yaml")
    assert code == 2
    assert message in err


def test_what_the_file_holds_cannot_steer_the_terminal(corpus: Path, file: Path, capsys: Capture) -> None:
    judged(file, ("\x1b[31mq[/b]", "\x1b]0;x\a", "todo"))
    _, out, _ = analysis(capsys, "check", corpus)
    _, status, _ = analysis(capsys, "status", corpus)
    assert "\x1b" not in out + status
    assert r"\u001b[31mq[/b]" in out


# --- the file on disk ----------------------------------------------------------------------------------------------


def judge(query_id: str) -> Callable[[Document], Document]:
    return lambda document: set_row(document, query_id, failure="ranking", fix="query-rewrite")


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A folder with an analysis; no corpus is needed to edit it."""
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "RETRIEVAL_ANALYSIS.md").write_bytes(MINE.encode())
    return folder


@pytest.mark.parametrize("step", ["replace", "fsync"])
def test_a_crash_while_writing_leaves_the_old_file(plain: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def crash(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*{"replace": (Path, "replace"), "fsync": (os, "fsync")}[step], crash)
    with pytest.raises(InputError, match="No space left on device; nothing was changed"):
        edit_analysis(plain, judge("q9"))
    assert [one.name for one in plain.iterdir()] == ["RETRIEVAL_ANALYSIS.md"]
    assert text_of(plain / "RETRIEVAL_ANALYSIS.md") == MINE


def test_a_change_that_fails_leaves_the_file(plain: Path) -> None:
    def fail(document: Document) -> Document:
        raise InputError(f"no: {len(document.rows)}")

    with pytest.raises(InputError, match="no: 1"):
        edit_analysis(plain, fail)
    assert text_of(plain / "RETRIEVAL_ANALYSIS.md") == MINE


def test_an_edit_is_applied_to_what_a_person_wrote_meanwhile(plain: Path) -> None:
    path = plain / "RETRIEVAL_ANALYSIS.md"
    seen: list[str] = []

    def change(document: Document) -> Document:
        seen.append("".join(document.lines))
        if len(seen) == 1:  # an editor saves between reading and writing
            path.write_bytes(MINE.replace("My own words", "Other words").encode())
        return judge("q9")(document)

    edit_analysis(plain, change)
    assert len(seen) == 2
    assert text_of(path) == MINE.replace("My own words", "Other words").replace(
        "| me |\r\n", "| me |\r\n| q9 | ranking | query-rewrite |  |\r\n"
    )


def test_a_file_that_never_rests_is_an_error(plain: Path) -> None:
    path = plain / "RETRIEVAL_ANALYSIS.md"

    def change(document: Document) -> Document:
        path.write_text(path.read_text(encoding="utf-8") + "more\n", encoding="utf-8")
        return judge("q9")(document)

    with pytest.raises(InputError, match="changed again and again"):
        edit_analysis(plain, change)
    assert "q9" not in text_of(path)


def test_edits_at_the_same_time_all_arrive(plain: Path) -> None:
    ids = [f"q{number}" for number in range(10, 30)]
    threads = [threading.Thread(target=edit_analysis, args=(plain, judge(one))) for one in ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = load_analysis(plain / "RETRIEVAL_ANALYSIS.md").rows
    assert sorted(row.query_id for row in rows) == sorted(["q2", *ids])


def test_a_link_stays_a_link_and_permissions_stay(plain: Path, tmp_path: Path) -> None:
    path, real = plain / "RETRIEVAL_ANALYSIS.md", tmp_path / "real.md"
    path.rename(real)
    real.chmod(0o640)
    path.symlink_to(real)
    edit_analysis(plain, judge("q9"))
    assert path.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert "q9" in text_of(real)


def test_a_read_only_corpus_keeps_its_analysis_in_the_data_directory(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "data"
    monkeypatch.setattr("retrieval_lab.diagnosis.analysis_store.corpus_home", lambda _: home)
    assert analysis_path(plain) == plain / "RETRIEVAL_ANALYSIS.md"
    edit_analysis(plain, judge("q9"))
    assert analysis_path(plain) == home / "RETRIEVAL_ANALYSIS.md"
    assert text_of(plain / "RETRIEVAL_ANALYSIS.md") == MINE
    assert load_analysis(analysis_path(plain)).rows == (*parse(MINE).rows, Row("q9", "ranking", "query-rewrite"))


def test_a_pipe_or_a_folder_in_its_place_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "RETRIEVAL_ANALYSIS.md")
    with pytest.raises(InputError, match="not a file"):
        edit_analysis(tmp_path, judge("q9"))
    (tmp_path / "RETRIEVAL_ANALYSIS.md").unlink()
    (tmp_path / "RETRIEVAL_ANALYSIS.md").mkdir()
    with pytest.raises(InputError, match="not a file"):
        load_analysis(tmp_path / "RETRIEVAL_ANALYSIS.md")


def test_help_names_the_commands_and_an_example(capsys: Capture) -> None:
    assert {"init", "status", "check"} <= set(analysis(capsys, "--help")[1].split())
    assert "retrieval-lab analysis check fixtures/corpus" in analysis(capsys, "check", "--help")[1]
