"""Labels and lists as TREC files, under the ids that a collection was imported with."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval_lab import Lab, cli
from retrieval_lab.database import Database
from retrieval_lab.trec import read_qrels, read_run
from tests.core.importing.collections import FILLER, beir

LABELS = ["q1 a/b 2", "q1 c 0", "q2 c 0"]


@pytest.fixture
def corpus(tmp_path: Path, database: Database) -> Path:  # noqa: ARG001 - keeps the server up
    documents = [
        {"_id": "a/b", "title": "Bread", "text": f"The loaf. {FILLER}\n\nAnother loaf. {FILLER}"},
        {"_id": "c", "text": f"Soup of leeks. {FILLER}"},
        {"_id": "d é", "text": f"Loaf and soup. {FILLER}"},
    ]
    asked = [{"_id": "q1", "text": "loaf"}, {"_id": "q2", "text": "soup of leeks"}]
    origin = beir(tmp_path / "kitchen", documents, asked, test=LABELS)
    assert cli.main(["import", "beir", str(origin), str(tmp_path / "corpus")]) == 0
    (tmp_path / "corpus" / "lab.yaml").write_text("chunker: {max_chars: 150}\n", encoding="utf-8")
    return tmp_path / "corpus"


def test_documents_have_their_own_ids_and_strictly_falling_scores(corpus: Path, tmp_path: Path) -> None:
    qrels, run = tmp_path / "q.txt", tmp_path / "r.txt.gz"
    assert cli.main(["export", str(corpus), "--qrels", str(qrels), "--run", str(run), "--tag", "mine"]) == 0
    assert qrels.read_text(encoding="utf-8") == "q1 0 a/b 2\nq1 0 c 0\nq2 0 c 0\n"
    found = read_run(run, encoded=True)
    assert found.tag == "mine"
    assert {query: set(scores) for query, scores in found.scores.items()} == {
        "q1": {"a/b", "c", "d é"},
        "q2": {"a/b", "c", "d é"},
    }
    assert all(len(set(scores.values())) == len(scores) for scores in found.scores.values())
    with Lab.open(corpus) as lab:
        assert lab.index.chunks > 3
        (first, _) = lab.evaluate_queries()
    ids = {"a%2Fb": "a/b", "c": "c", "d%20%C3%A9": "d é"}
    assert found.ranked()["q1"] == [ids[row.chunk_id.partition("#")[0]] for row in first.final]


def test_anchors_are_of_chunks(tmp_path: Path, database: Database) -> None:  # noqa: ARG001
    folder = tmp_path / "kitchen"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "d.md").write_text(f"# Bread\n\nThe loaf. {FILLER}\n\nNo other. {FILLER}\n", encoding="utf-8")
    (folder / "golden.yaml").write_text(
        "- {query_id: a b, query: loaf, kind: k, doc_id: d, anchor: the loaf, split: dev}\n"
        "- {query_id: q2, query: loaf, kind: k, relevant: []}\n",
        encoding="utf-8",
    )
    (folder / "lab.yaml").write_text("chunker: {max_chars: 150}\n", encoding="utf-8")
    qrels, run = tmp_path / "q.txt", tmp_path / "r.txt"
    assert cli.main(["export", str(folder), "--qrels", str(qrels), "--run", str(run), "--split", "dev"]) == 0
    assert read_qrels(qrels, encoded=True).grades == {"a b": {"d#000": 1}}
    assert set(read_run(run, encoded=True).scores["a b"]) == {"d#000", "d#001"}
    assert all(len(line.split()) == 6 for line in run.read_text(encoding="utf-8").splitlines())


def test_a_command_that_would_write_nothing_is_refused(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["export", str(corpus)]) == 2
    assert "nothing to write; give --qrels FILE, --run FILE or both" in capsys.readouterr().err
