"""BEIR folders: read, imported, opened and evaluated, against arithmetic of our own."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab import Lab, PipelineConfig, cli
from retrieval_lab.corpus import read_corpus
from retrieval_lab.database import Database
from retrieval_lab.evals.runs import Run, run
from retrieval_lab.evals.summary import summarise
from retrieval_lab.golden import load_golden
from retrieval_lab.importing.beir import read_beir
from retrieval_lab.importing.folder import original_ids
from retrieval_lab.settings import RrfFusion
from tests.core.importing.collections import FILLER, SHARED, beir, slice_of

Capture = pytest.CaptureFixture[str]

DOCUMENTS = [
    {"_id": "bread", "title": "Bread #", "text": "Bake the loaf.\r\n# not a heading\n```\nstill text"},
    {"_id": "Bread", "title": "", "text": f"Other case. {FILLER}"},
    {"_id": "a/b", "text": "Boil the leeks until soft."},
    {"_id": "empty", "title": "", "text": ""},
]
QUERIES = [
    {"_id": "q1", "text": "how is a loaf baked", "metadata": {"topic": "food", "year": 1999, "more": [1]}},
    {"_id": "q2", "text": "leeks"},
    {"_id": "q3", "text": "who painted the moon"},
    {"_id": "q4", "text": "never judged"},
]
LABELS = ["q1 bread 2", "q1 a/b 0", "q2 a/b 1", "q2 Bread 1", "q3 bread 0"]


def imported(capsys: Capture, *arguments: object, code: int = 0) -> str:
    assert cli.main(["import", *map(str, arguments)]) == code
    return capsys.readouterr().out


@pytest.fixture
def corpus(tmp_path: Path, capsys: Capture) -> Path:
    imported(capsys, "beir", beir(tmp_path / "kitchen", DOCUMENTS, QUERIES, test=LABELS), tmp_path / "corpus")
    return tmp_path / "corpus"


def test_documents_are_files_that_read_back_literally(corpus: Path) -> None:
    documents = {one.doc_id: one for one in read_corpus(corpus).documents}
    assert list(documents) == ["Bread~2", "a%2Fb", "bread", "empty"]
    assert documents["bread"].text == "# Bread \\#\n\nBake the loaf.\n\\# not a heading\n\\```\nstill text\n"
    assert documents["empty"].text == "\n"
    assert original_ids(corpus) == {"Bread~2": "Bread", "a%2Fb": "a/b"}


def test_labels_are_grades_of_documents(corpus: Path) -> None:
    q1, q2, q3 = load_golden(corpus / "golden.yaml")
    assert (q1.query, q1.kind, q1.relevant) == ("how is a loaf baked", "kitchen", (("a%2Fb", 0), ("bread", 2)))
    assert q1.fields == (("topic", "food"), ("year", "1999"))
    assert (q2.relevant, q2.level) == ((("Bread~2", 1), ("a%2Fb", 1)), "document")
    assert (q3.kind, q3.level) == ("no-answer", "none")


def test_what_is_left_out_is_counted(tmp_path: Path, capsys: Capture) -> None:
    origin = beir(tmp_path / "kitchen", DOCUMENTS, QUERIES, test=LABELS)
    assert imported(capsys, "beir", origin, tmp_path / "corpus").splitlines() == [
        f"{tmp_path / 'corpus'}: 4 documents, 3 queries",
        "note: documents without a word, kept: 1, the first empty (corpus.jsonl:4)",
        "note: queries without a label: 1, the first q4",
    ]


def test_faults_are_left_out_and_give_another_exit_code(tmp_path: Path, capsys: Capture) -> None:
    origin = beir(tmp_path / "kitchen", [*DOCUMENTS, "{"], QUERIES, test=[*LABELS, "q2 gone 1", "q2 gone2 1"])
    assert cli.main(["import", "beir", str(origin), str(tmp_path / "corpus"), "--json"]) == 2
    out, err = capsys.readouterr()
    found = {one["what"]: (one["count"], one["fault"]) for one in json.loads(out)["left_out"]}
    assert found["lines that are no JSON object"] == (1, True)
    assert found["labels of documents that the corpus does not have"] == (2, True)
    assert found["queries without a label"] == (1, False)
    assert "lists all of it" in err
    assert len(load_golden(tmp_path / "corpus" / "golden.yaml")) == 3


def test_splits_of_several_files_are_kept_and_one_can_be_chosen(tmp_path: Path) -> None:
    origin = beir(tmp_path / "kitchen", DOCUMENTS, QUERIES, suffix=".gz", dev=LABELS[:2], test=LABELS[2:])
    assert [(one.query_id, one.split) for one in read_beir(origin).queries] == [
        ("q1", "dev"),
        ("q2", "test"),
        ("q3", "test"),
    ]
    assert [(one.query_id, one.split) for one in read_beir(origin, "test").queries] == [("q2", ""), ("q3", "")]
    with pytest.raises(ValueError, match=r"no qrels/train\.tsv; there is dev, test"):
        read_beir(origin, "train")


@pytest.mark.parametrize("gone", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"])
def test_a_missing_file_is_named(tmp_path: Path, gone: str, capsys: Capture) -> None:
    origin = beir(tmp_path / "kitchen", DOCUMENTS, QUERIES, test=LABELS)
    (origin / gone).unlink()
    assert cli.main(["import", "beir", str(origin), str(tmp_path / "corpus")]) == 2
    assert "a BEIR folder has corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv" in capsys.readouterr().err
    assert not (tmp_path / "corpus").exists()


def test_nothing_is_written_over_and_nothing_half(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = beir(tmp_path / "kitchen", DOCUMENTS, QUERIES, test=LABELS)
    target = tmp_path / "corpus"
    (target / "docs").mkdir(parents=True)
    assert cli.main(["import", "beir", str(origin), str(target)]) == 2
    assert "name a folder that is new or empty" in capsys.readouterr().err
    (target / "docs").rmdir()

    written = Path.write_text

    def full(self: Path, *given: Any, **named: Any) -> int:
        if self.name == "empty.md":
            raise OSError(28, "No space left on device", str(self))
        return written(self, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        assert cli.main(["import", "beir", str(origin), str(target)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "kitchen"]
    assert list(target.iterdir()) == []
    imported(capsys, "beir", origin, target)  # an empty folder may be filled


def test_a_corpus_folder_is_copied_with_its_labels(tmp_path: Path, corpus: Path, capsys: Capture) -> None:
    assert imported(capsys, "golden", corpus, tmp_path / "copy").endswith("copy: 4 documents, 3 queries\n")
    files = sorted(path.relative_to(corpus) for path in corpus.rglob("*") if path.is_file())
    assert files == sorted(
        path.relative_to(tmp_path / "copy") for path in (tmp_path / "copy").rglob("*") if path.is_file()
    )
    assert all((tmp_path / "copy" / one).read_bytes() == (corpus / one).read_bytes() for one in files)


def test_a_corpus_with_faulty_labels_is_not_copied(tmp_path: Path, corpus: Path, capsys: Capture) -> None:
    (corpus / "golden.yaml").write_text("- query_id: x\n", encoding="utf-8")
    assert cli.main(["import", "golden", str(corpus), str(tmp_path / "copy")]) == 2
    assert "golden.yaml:1: x: missing" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()


# --- opened and evaluated ------------------------------------------------------------------------------------------


def test_documents_are_scored_by_their_best_chunk(tmp_path: Path, database: Database, capsys: Capture) -> None:  # noqa: ARG001
    """Each document has three chunks, so two documents take up to six of them."""
    documents = [
        {"_id": name, "title": name, "text": "\n\n".join(f"{word} {FILLER} part {part} of it" for part in range(3))}
        for name, word in (("d1", "loaf loaf loaf"), ("d2", "loaf loaf"), ("d3", "loaf"), ("d4", "soup"))
    ]
    labels = ["q1 d1 1", "q1 d3 3", "q1 d4 0"]
    origin = beir(tmp_path / "kitchen", documents, [{"_id": "q1", "text": "loaf"}], test=labels)
    imported(capsys, "beir", origin, tmp_path / "corpus")
    config = PipelineConfig.from_dict({"chunker": {"kind": "markdown", "max_chars": 150, "overlap": 0}, "top_k": 3})
    with Lab.open(tmp_path / "corpus", config) as lab:
        assert lab.index.chunks == 12
        (result,) = lab.evaluate_queries()
        whole = lab.trace("loaf", PipelineConfig.from_dict({**config.to_dict(), "top_k": 50}))
        trace = lab.trace(lab.golden[0])
    order = list(dict.fromkeys(row.chunk_id.partition("#")[0] for row in whole.final))[:3]
    assert [row.chunk_id.partition("#")[0] for row in result.final] == order
    assert [row.rank for row in result.final] == [1, 2, 3]
    gains = [{"d1": 1, "d3": 3}.get(one, 0) for one in order]
    dcg = sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains))
    assert result.ndcg == pytest.approx(dcg / (3 + 1 / math.log2(3)))
    assert result.recall == sum(gain > 0 for gain in gains) / 2
    assert result.precision == pytest.approx(sum(gain > 0 for gain in gains) / 3)
    assert result.pool == {"fused": 1.0, "vector": 1.0, "text": 1.0}
    assert {chunk_id.partition("#")[0]: grade for chunk_id, grade in trace.grades.items()} == {"d1": 1, "d3": 3}
    assert set(trace.relevant) == set(trace.grades)
    assert trace.fate()["final"].rank == 1


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory, database: Database) -> Lab:  # noqa: ARG001
    folder = tmp_path_factory.mktemp("beir")
    origin = beir(folder / "kitchen", DOCUMENTS, QUERIES, test=LABELS)
    assert cli.main(["import", "beir", str(origin), str(folder / "corpus")]) == 0
    return Lab.open(folder / "corpus")


def test_what_nothing_answers_is_in_no_mean_and_counted_apart(kitchen: Lab) -> None:
    made = run(kitchen)
    q3 = made.queries[2]
    assert (q3.level, q3.measures, q3.is_miss, q3.is_unlabelled) == ("none", {}, False, False)
    assert q3.undefined == "no passage answers this question, and none should"
    assert q3.support is not None
    assert 0 <= q3.support < made.config.support_floor
    found = summarise(made)
    assert (found.all.queries, found.undefined) == (2, {})
    assert found.no_answer is not None
    assert (found.no_answer.share.count, found.no_answer.share.of, found.no_answer.confident) == (0, 1, ())
    confident = summarise(run(kitchen, PipelineConfig(support_floor=0.0))).no_answer
    assert confident is not None
    assert confident.confident == ("q3",)
    metrics = kitchen.evaluate()
    assert (metrics.queries, metrics.undefined, metrics.no_answer) == (2, (), ("q3",))


def test_a_run_with_grades_reads_back_and_one_without_too(kitchen: Lab) -> None:
    made = run(kitchen)
    data = json.loads(json.dumps(made.to_dict()))
    assert Run.from_dict(data) == made
    assert made.queries[0].grades == {"a%2Fb": 0, "bread": 2}
    for query in data["queries"]:
        for key in ("level", "grades", "split", "fields", "support"):
            del query[key]
    for key in ("split", "held_out", "held_out_hash"):
        del data["corpus"][key]
    old = Run.from_dict(data)
    assert (old.corpus.held_out_hash, old.queries[0].level) == (None, "chunk")


def test_a_trace_with_grades_reads_back(kitchen: Lab) -> None:
    for query in kitchen.golden:
        trace = kitchen.trace(query)
        assert type(trace).from_dict(json.loads(json.dumps(trace.to_dict()))) == trace


def test_the_passage_of_a_graded_query_is_followed(kitchen: Lab) -> None:
    journey = kitchen.explain(kitchen.golden[1])
    assert journey.chunk is not None
    assert journey.chunk.doc_id in ("a%2Fb", "Bread~2")
    assert journey.lost_at is None


def test_what_nothing_answers_has_no_passage_and_nothing_lost_it(kitchen: Lab) -> None:
    from retrieval_lab.diagnosis.funnel import funnel
    from retrieval_lab.diagnosis.rescues import rescues

    query = kitchen.golden[2]
    journey = kitchen.explain(query)
    assert (journey.chunk, journey.lost_at) == (None, None)
    assert kitchen.trace(query).unlabelled == "no passage answers this question, and none should"
    assert kitchen.trace(query).fate() == {}
    assert [fate.query_id for fate in funnel(kitchen).fates] == ["q1", "q2"]
    assert rescues(kitchen, query).wanted == ()


@pytest.mark.parametrize("golden", ["q1", "q3"])
@pytest.mark.parametrize("command", ["trace", "diagnose", "rescue"])
def test_commands_take_graded_queries(kitchen: Lab, command: str, golden: str, capsys: Capture) -> None:
    place = [] if command == "diagnose" else ["--corpus"]
    code = cli.main([command, "--golden", golden, *place, str(kitchen.corpus)])
    out, err = capsys.readouterr()
    assert code == 0, err
    if command == "trace":
        assert ("wanted    nothing: no passage answers" if golden == "q3" else "bread (grade 2)") in out


@pytest.mark.skipif(not SHARED.is_dir(), reason="the public collections are not here")
@pytest.mark.parametrize(
    ("name", "documents", "recall"), [("scifact", 60, 0.9), ("cranfield", 60, 0.5), ("vaswani", 60, 0.5)]
)
def test_public_collections_are_imported_opened_and_evaluated(
    name: str,
    documents: int,
    recall: float,
    tmp_path: Path,
    database: Database,  # noqa: ARG001
    capsys: Capture,
) -> None:
    imported(capsys, "beir", slice_of(name, tmp_path / name, documents), tmp_path / "corpus")
    with Lab.open(tmp_path / "corpus", PipelineConfig(fusion=RrfFusion(n=60), mmr_lambda=None)) as lab:
        assert len(lab.index.indexed) == documents
        results = lab.evaluate_queries()
        metrics = lab.evaluate()
        names = original_ids(lab.corpus)
    assert names == {}
    assert (metrics.queries, metrics.undefined, metrics.no_answer) == (len(results), (), ())
    assert metrics.recall >= recall
    rows = (tmp_path / name / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]
    grades: dict[str, dict[str, int]] = {}
    for row in rows:
        query, document, grade = row.split("\t")
        grades.setdefault(query, {})[document] = int(grade)
    for result in results:
        wanted = {key: grade for key, grade in grades[result.query.query_id].items() if grade > 0}
        found = [row.chunk_id.partition("#")[0] for row in result.final]
        assert len(found) == len(set(found)) <= 10
        assert result.recall == pytest.approx(len(set(found) & set(wanted)) / len(wanted))
        dcg = sum(wanted.get(one, 0) / math.log2(rank + 2) for rank, one in enumerate(found))
        ideal = sum(grade / math.log2(rank + 2) for rank, grade in enumerate(sorted(wanted.values())[::-1][:10]))
        assert result.ndcg == pytest.approx(dcg / ideal)
