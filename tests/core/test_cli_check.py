"""`retrieval-lab check`: what it prints, its JSON document and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab import cli
from retrieval_lab.evals.findings import Kind
from tests.core import tiny_models

FILLER = "Twenty plain words keep this document from being called short, so that each test sees only what it is about."
GOOD = "- {query_id: q1, query: what does it bake, kind: k, doc_id: bread, anchor: bakes the loaf}\n"

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """One document and one good query."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "bread.md").write_text(f"# Bread\n\nIt bakes the loaf. {FILLER}\n", encoding="utf-8")
    (tmp_path / "golden.yaml").write_text(GOOD, encoding="utf-8")
    return tmp_path


def add(corpus: Path, *entries: str) -> None:
    with (corpus / "golden.yaml").open("a", encoding="utf-8") as file:
        file.writelines(f"- {entry}\n" for entry in entries)


def run(capsys: Capture, *arguments: str | Path) -> tuple[int, str, str]:
    code = cli.main(["check", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: Capture, *arguments: str | Path) -> tuple[int, dict[str, Any]]:
    code, out, _ = run(capsys, *arguments, "--json")
    found = json.loads(out)
    assert isinstance(found, dict)
    return code, found


def test_a_good_corpus_gives_the_counts_and_0(corpus: Path, capsys: Capture) -> None:
    assert run(capsys, corpus) == (0, "0 errors and 0 warnings in 1 query, 1 document, 1 chunk\n", "")


def test_chunks_that_no_character_count_made_are_not_too_long(corpus: Path, capsys: Capture) -> None:
    (corpus / "docs" / "long.md").write_text("\n\n".join(f"Word{n} {FILLER}" for n in range(40)), encoding="utf-8")
    for kind, chunks in (("documents", 2), ("{kind: words, size: 800, overlap: 0}", 3)):
        code, found = document(capsys, corpus, "--set", f"chunker={kind}")
        assert (code, found["chunks"]) == (0, chunks)
        assert "chunk-long" not in {one["kind"] for one in found["findings"]}
    _, out, _ = run(capsys, corpus, "--set", "chunker.max_chars=100")
    assert "[chunk-long]" in out


def test_errors_come_first_then_warnings_then_counts(corpus: Path, capsys: Capture) -> None:
    add(
        corpus,
        "{query_id: q2, query: '!!!', kind: k, doc_id: bread, anchor: loaf}",
        "{query_id: q3, query: where is it, kind: k, doc_id: bread.md, anchor: loaf}",
    )
    code, out, err = run(capsys, corpus)
    golden = corpus / "golden.yaml"
    lines = out.splitlines()
    assert (code, err) == (1, "")
    assert lines[0] == "Errors (1)"
    assert lines[1].startswith(f"  {golden}:3: q3: the corpus has no document")
    assert lines[1].endswith("[unknown-document]")
    assert lines[3] == "Warnings (1)"
    assert lines[4].startswith(f"  {golden}:2: q2: the query has no words")
    assert lines[6] == "1 error and 1 warning in 3 queries, 1 document, 1 chunk"
    assert lines[7:] == ["1 query left out of every measure, since no chunk is relevant: q3"]


def test_warnings_alone_are_no_failure(corpus: Path, capsys: Capture) -> None:
    add(corpus, "{query_id: q2, query: '!!!', kind: k, doc_id: bread, anchor: loaf}")
    assert run(capsys, corpus)[0] == 0


def test_trap_8_missing_documents_can_be_allowed_and_are_counted(corpus: Path, capsys: Capture) -> None:
    add(corpus, "{query_id: q2, query: where is it, kind: k, doc_id: gone, anchor: never}")
    assert run(capsys, corpus)[0] == 1
    code, out, _ = run(capsys, corpus, "--allow-missing")
    assert code == 0
    assert out.splitlines()[0] == "Warnings (1)"
    assert out.splitlines()[-1] == "1 query left out of every measure, since no chunk is relevant: q2"


def test_the_json_document_has_everything_and_is_alone_on_stdout(corpus: Path, capsys: Capture) -> None:
    add(corpus, "{query_id: q2, query: where is it, kind: k, doc_id: bread, anchor: 'bakes **the** loaf'}")
    code, found = document(capsys, corpus)
    assert code == 1
    (finding,) = found.pop("findings")
    assert found == {
        "corpus": str(corpus),
        "documents": 1,
        "chunks": 1,
        "queries": 2,
        "excluded": ["q2"],
        "no_answer": [],
        "unread": [],
        "left_out": [],
        "errors": 1,
        "warnings": 0,
        "faults": [],
    }
    message = finding.pop("message")
    assert '"bakes the loaf"' in message
    assert finding == {
        "severity": "error",
        "kind": "anchor-markdown",
        "file": str(corpus / "golden.yaml"),
        "line": 2,
        "query_id": "q2",
        "chunk_ids": ["bread#000"],
        "text": "bakes the loaf",
    }


def test_faults_of_the_golden_file_come_all_at_once_with_what_else_is_wrong(corpus: Path, capsys: Capture) -> None:
    add(
        corpus,
        "{query_id: q2, query: x, kind: k, doc_id: gone, anchor: a}",
        "{query_id: q3, query: '', kind: k, doc_id: 7, anchor: a}",  # two faults
        "{query_id: q1, query: x, kind: k, doc_id: bread, anchor: a}",  # another query of the same id
        "{query_id: q2, query: x, kind: k, doc_id: gone, anchor: a}",  # the same query again
    )
    code, out, err = run(capsys, corpus)
    assert code == 2
    assert "q2: the corpus has no document" in out
    assert [line.partition("golden.yaml:")[2][:5] for line in err.splitlines()] == ["3: q3", "3: q3", "4: q1", "5: q2"]
    assert "other content" in err.splitlines()[2]
    assert "same content" in err.splitlines()[3]
    code, found = document(capsys, corpus)
    assert (code, [fault["line"] for fault in found["faults"]]) == (2, [3, 3, 4, 5])


def test_a_document_that_cannot_be_read_is_a_fault_and_its_queries_are_named(corpus: Path, capsys: Capture) -> None:
    (corpus / "docs" / "soup.md").write_bytes(b"\xff\xfe")
    add(corpus, "{query_id: q2, query: x, kind: k, doc_id: soup, anchor: a}")
    code, out, err = run(capsys, corpus)
    assert code == 2
    assert out.splitlines() == [
        "0 errors and 0 warnings in 1 query, 1 document, 1 chunk",
        "1 query not checked, since the document could not be read: q2",
    ]
    assert "soup.md:1: not UTF-8" in err
    assert document(capsys, corpus)[1]["unread"] == ["q2"]


@pytest.mark.parametrize("content", ["", "a: [", "just text"])
def test_a_golden_file_that_is_none_is_exit_code_2(corpus: Path, capsys: Capture, content: str) -> None:
    (corpus / "golden.yaml").write_text(content, encoding="utf-8")
    code, _, err = run(capsys, corpus)
    assert code == 2
    assert err.startswith(f"error: {corpus / 'golden.yaml'}")


def test_a_missing_golden_file_or_folder_is_exit_code_2(corpus: Path, capsys: Capture) -> None:
    (corpus / "golden.yaml").unlink()
    assert run(capsys, corpus)[0] == 2
    code, out, err = run(capsys, corpus / "nowhere", "--json")
    assert (code, out) == (2, "")
    assert "no such folder" in err


def test_what_ids_hold_cannot_steer_the_terminal(corpus: Path, capsys: Capture) -> None:
    add(corpus, r'{query_id: "q\e[31m", query: x, kind: k, doc_id: "[/b]\e]0;x\a", anchor: a}')
    _, out, _ = run(capsys, corpus)
    assert "\x1b" not in out
    assert r"q\u001b[31m" in out
    assert "[/b]" in out


def test_the_bundled_corpus_is_the_default_and_has_no_errors(capsys: Capture, corpus_dir: Path) -> None:
    code, found = document(capsys)
    assert (code, found["errors"], found["excluded"], found["corpus"]) == (0, 0, [], str(corpus_dir))
    assert {finding["kind"] for finding in found["findings"]} <= set(Kind)


def test_it_needs_no_server_and_works_in_a_pipe(corpus: Path, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "RETRIEVAL_LAB_DSN": "host=nowhere.invalid",
        "RETRIEVAL_LAB_DATA_DIR": str(tmp_path / "x"),
    }
    command = [sys.executable, "-W", "error", "-m", "retrieval_lab", "check", str(corpus), "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr, json.loads(done.stdout)["errors"]) == (0, "", 0)
    assert not (tmp_path / "x").exists()


def test_help_has_an_example(capsys: Capture) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "retrieval-lab check fixtures/corpus" in out


def test_trap_9_chunks_beyond_a_models_window_are_warnings(corpus: Path, capsys: Capture) -> None:
    tiny_models.embedding_folder(corpus / "embedder")
    tiny_models.cross_encoder_folder(corpus / "reranker", window=512)
    settings = ["embedder.kind=fastembed", f"embedder.model_path={corpus / 'embedder'}"]
    settings += ["reranker.kind=cross-encoder", f"reranker.model_path={corpus / 'reranker'}"]
    options = [part for one in settings for part in ("--set", one)]
    assert document(capsys, corpus, *options)[1]["warnings"] == 0
    with (corpus / "docs" / "bread.md").open("a", encoding="utf-8") as file:
        file.write(f"\n## Long\n\n{'red ' * 40}\n")
    code, found = document(capsys, corpus, *options)
    (finding,) = found["findings"]
    assert (code, finding["kind"], finding["chunk_ids"], finding["line"]) == (0, "chunk-truncated", ["bread#001"], 5)
    # 40 words, the heading's marks and its word, and two special tokens.
    assert "the embedder reads 32 of its 44 tokens" in finding["message"]


def test_tokens_that_nobody_can_count_are_a_warning(
    corpus: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(corpus / "no models"))
    code, found = document(capsys, corpus, "--set", "embedder.kind=fastembed")
    (finding,) = found["findings"]
    assert (code, finding["kind"], finding["file"]) == (0, "tokens-not-counted", None)
    assert "BAAI/bge-small-en-v1.5" in finding["message"]
