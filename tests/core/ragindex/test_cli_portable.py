"""`retrieval-lab export-index` and `search --index`: from a corpus to answers without any server."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrieval_lab import cli
from retrieval_lab.chunker import chunk
from retrieval_lab.config import Indexing
from retrieval_lab.corpus import load_documents
from retrieval_lab.database import Database
from retrieval_lab.embed import FastEmbedder, HashEmbedder
from retrieval_lab.errors import InputError
from retrieval_lab.portable import export_index
from retrieval_lab.ragindex import Hybrid, Index
from retrieval_lab.settings import HashEmbedding, MarkdownChunker
from tests.core import tiny_models
from tests.core.ragindex import plain

Capture = pytest.CaptureFixture[str]

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("no server is needed")

    monkeypatch.setattr(Database, "open", refuse)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    (folder / "docs").mkdir(parents=True)
    (folder / "stories").mkdir()
    texts = {"bread": "Bake the loaf.", "soup": "Boil the leeks.", "tea": "Steep [bold]the\x1b[31m leaves.\x07"}
    for name, text in texts.items():
        (folder / "docs" / f"{name}.md").write_text(f"# {name}\n\n## Work\n\n{text}\n", encoding="utf-8")
    (folder / "stories" / "inn.txt").write_text("The red inn has a green sign.\n", encoding="utf-8")
    return folder


def run(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def test_a_corpus_becomes_an_index(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run("export-index", tmp_path / "index", "--corpus", corpus, "--set", "embedder.dims=32", "--json") == 0
    described = json.loads(capsys.readouterr().out)
    index = Index.open(tmp_path / "index")
    assert described["index_id"] == index.meta.index_id
    chunks = [piece for document in load_documents(corpus) for piece in chunk(document)]
    titles = {document.doc_id: document.title for document in load_documents(corpus)}
    assert [(one.chunk_id, one.doc_id, one.text) for one in index.chunks] == [
        (one.chunk_id, one.doc_id, one.text) for one in chunks
    ]
    assert [dict(one.extra) for one in index.chunks] == [
        {
            "heading_path": one.heading_path,
            "start_char": one.start_char,
            "end_char": one.end_char,
            "title": titles[one.doc_id],
        }
        for one in chunks
    ]
    assert {one.uri for one in index.chunks} == {"docs/bread.md", "docs/soup.md", "docs/tea.md", "stories/inn.txt"}
    assert {one.source for one in index.chunks} == {"file"}
    assert [one.n_tokens for one in index.chunks] == [len(plain.terms(one.text)) for one in chunks]
    np.testing.assert_array_equal(index.vecs, HashEmbedder(32).embed([one.text for one in chunks]))
    assert (tmp_path / "index" / "bm25.idx").read_bytes() == plain.bm25_file([one.text for one in chunks])
    assert (index.meta.embedding_model, index.meta.tokenizer) == ("hash-32", "words")
    assert index.meta.chunker == {"kind": "markdown", "max_chars": 1200, "overlap": 1, "contextual_headers": False}


def test_headings_are_indexed_with_the_text_and_not_stored_in_it(corpus: Path) -> None:
    made = export_index(corpus, Indexing(MarkdownChunker(), HashEmbedding(16), contextual_headers=True)).index
    chunks = [piece for document in load_documents(corpus) for piece in chunk(document)]
    texts = [f"{one.heading_path}\n\n{one.text}" if one.heading_path else one.text for one in chunks]
    assert [one.text for one in made.chunks] == [one.text for one in chunks]
    assert made.bm25.to_bytes() == plain.bm25_file(texts)
    np.testing.assert_array_equal(made.vecs, HashEmbedder(16).embed(texts))
    without = export_index(corpus, Indexing(MarkdownChunker(), HashEmbedding(16), contextual_headers=False)).index
    assert made.meta.index_id != without.meta.index_id


def test_an_index_is_searched_without_a_server(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run("export-index", tmp_path / "index", "--corpus", corpus) == 0
    assert "index: " in capsys.readouterr().out
    assert run("search", "boil leeks", "--index", tmp_path / "index", "--k", 1) == 0
    head, snippet = capsys.readouterr().out.splitlines()
    assert head.split()[0] == "1"
    assert head.split()[2:] == ["soup#001", "soup", ">", "Work"]
    assert snippet.strip() == "## Work  Boil the leeks."
    assert run("search", "boil leeks", "--index", tmp_path / "index", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    expected = Hybrid(Index.open(tmp_path / "index"), HashEmbedder()).retrieve("boil leeks", 10)
    assert [(one["chunk_id"], one["score"]) for one in found["results"]] == [(h.chunk_id, h.score) for h in expected]
    assert found["notes"] == []


def test_what_a_passage_holds_cannot_steer_the_terminal(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    run("export-index", tmp_path / "index", "--corpus", corpus)
    assert run("search", "steep leaves \x1b]0;x\x07", "--index", tmp_path / "index") == 0
    assert run("search", "!!!", "--index", tmp_path / "index") == 0
    printed = capsys.readouterr()
    assert "[bold]the" in printed.out
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", printed.out + printed.err)
    assert "note: nothing was found" in printed.err


def test_files_that_cannot_be_read_are_left_out_and_told(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    (corpus / "docs" / "bad.md").write_bytes(b"\xff")
    assert run("export-index", tmp_path / "index", "--corpus", corpus) == 2
    assert "bad.md" in capsys.readouterr().err
    assert Index.open(tmp_path / "index").chunk("soup#001") is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus", "x"], "leave out --corpus and --dsn"),
        (["--dsn", "x"], "leave out --corpus and --dsn"),
        (["--set", "top_k=3"], "leave out --config, --reranker and --set"),
        (["--reranker", "none"], "leave out --config, --reranker and --set"),
        (["--embedder", "hash:64"], "embedded by hash-256, not by hash-64"),
        (["--embedder", "bogus"], "names no model"),
    ],
)
def test_options_that_have_no_effect_are_errors(
    corpus: Path, tmp_path: Path, capsys: Capture, arguments: list[str], message: str
) -> None:
    run("export-index", tmp_path / "index", "--corpus", corpus)
    assert run("search", "x", "--index", tmp_path / "index", *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_folder_that_is_no_index_is_an_error(corpus: Path, capsys: Capture) -> None:
    assert run("search", "x", "--index", corpus) == 2
    assert "meta.json: no such file" in capsys.readouterr().err
    assert run("export-index", corpus, "--corpus", corpus) == 2
    assert "no index to replace" in capsys.readouterr().err
    assert (corpus / "docs" / "soup.md").is_file()


def test_a_model_of_a_folder_is_found_where_it_is_named_and_bm25_is_alone_otherwise(
    corpus: Path, tmp_path: Path, capsys: Capture
) -> None:
    model = tiny_models.embedding_folder(tmp_path / "tiny")
    assert run("export-index", tmp_path / "index", "--corpus", corpus, "--embedder", model) == 0
    index = Index.open(tmp_path / "index")
    embedder = FastEmbedder(model_path=model)
    assert (index.meta.embedding_model, index.meta.tokenizer) == (embedder.name, embedder.name)
    assert [one.n_tokens for one in index.chunks] == embedder.token_counts([one.text for one in index.chunks])
    capsys.readouterr()
    assert run("search", "red inn", "--index", tmp_path / "index", "--embedder", model, "--json") == 0
    with_model = json.loads(capsys.readouterr().out)
    expected = Hybrid(index, embedder).retrieve("red inn", 10)
    assert [one["chunk_id"] for one in with_model["results"]] == [hit.chunk_id for hit in expected]
    assert len(expected) == len(index.chunks)
    assert run("search", "red inn", "--index", tmp_path / "index", "--json") == 0
    alone = json.loads(capsys.readouterr().out)
    assert [one["chunk_id"] for one in alone["results"]] == ["inn#000"]
    assert "BM25 alone: the index was embedded by 'fastembed-tiny@" in alone["notes"][0]


@pytest.mark.parametrize("name", ["word2vec", "hash-0", "hash-9999999999", "hash-32", ""])
def test_an_embedder_that_is_not_to_be_had_by_its_name_leaves_bm25(tmp_path: Path, capsys: Capture, name: str) -> None:
    plain.write_index(tmp_path / "index", ["kv cache"], [[1.0, 0, 0, 0]], model=name)
    assert run("search", "cache", "--index", tmp_path / "index") == 0
    printed = capsys.readouterr()
    assert "d0#000" in printed.out
    assert f"note: BM25 alone: the index was embedded by {name!r}" in printed.err


def test_the_python_of_the_page_on_the_format_runs(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "index-format.md").read_text("utf-8"), re.DOTALL)
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda: str(tmp_path))
    exec("\n".join(snippets), {})
    *found, final = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in found] == ["1", "2", "3"]
    assert final.startswith("['the-lamplighter-of-brasov#001', ")
    assert len(Index.open(tmp_path / "index").chunks) == 687


def test_the_corpus_has_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        export_index(tmp_path / "x", Indexing(MarkdownChunker(), HashEmbedding(), contextual_headers=False))


# --- trace and eval over an index ----------------------------------------------------------------------------------


def test_a_question_is_traced_over_an_index(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    run("export-index", tmp_path / "index", "--corpus", corpus)
    capsys.readouterr()
    assert run("trace", "boil leeks", "--index", tmp_path / "index", "--json", "--set", "top_k=2") == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["lists"]) == ["bm25", "flat"]
    assert found["final"][0]["chunk_id"] == "soup#001"
    assert len(found["final"]) == 2
    assert run("trace", "boil leeks", "--index", tmp_path / "index", "--chunk", "tea#001", "--parse") == 0
    assert "lower case" in capsys.readouterr().out


def test_the_golden_set_of_the_corpus_is_evaluated_over_an_index(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    golden = "- {query_id: q1, query: boil leeks, kind: factual, doc_id: soup, anchor: Boil the leeks}\n"
    (corpus / "golden.yaml").write_text(golden, encoding="utf-8")
    run("export-index", tmp_path / "index", "--corpus", corpus)
    capsys.readouterr()
    assert run("eval", corpus, "--index", tmp_path / "index", "--json", "--fail-under", "flat recall@50=1") == 0
    assert json.loads(capsys.readouterr().out)["gates"][0]["passed"]
    bundle = tmp_path / "q1.json"
    assert run("trace", "--golden", "q1", "--corpus", corpus, "--index", tmp_path / "index", "--bundle", bundle) == 0
    assert bundle.is_file()
    capsys.readouterr()
    assert run("eval", "--index", tmp_path / "index") == 2
    assert "an index has no golden queries" in capsys.readouterr().err
    assert run("eval", corpus, "--index", tmp_path / "index", "--fail-under", "text recall@50=1") == 2
    assert "text recall@50" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dsn", "x"], "--index needs no server: leave out --dsn"),
        (["--set", "retrievers.vector.n=3"], "does not work on an index"),
        (["--config", "none.yaml"], "none.yaml"),
        (["--embedder", "hash:64"], "embedded by hash-256, not by hash-64"),
    ],
)
def test_what_an_index_cannot_do_is_told_in_one_line(
    corpus: Path, tmp_path: Path, capsys: Capture, arguments: list[str], message: str
) -> None:
    run("export-index", tmp_path / "index", "--corpus", corpus)
    assert run("trace", "x", "--index", tmp_path / "index", *arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) == 1
