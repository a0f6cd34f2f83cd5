"""Runs: what an evaluation keeps, how it is stored and read back, and what files that are no runs get."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.database import Database
from retrieval_lab.errors import Cancelled, FaultyInput, InputError
from retrieval_lab.evals.kept import resolve_run, stored_runs
from retrieval_lab.evals.runs import Run, hash_of_documents, hash_of_golden, measure_names, run
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.settings import ModelReranker, NoReranker, RrfFusion
from retrieval_lab.types import Document, GoldenQuery
from tests.core.evals.made import made, ranked, record, undefined

DOCS = {"bread": "# bread\n\nBake the loaf.\n", "soup": "# soup\n\nBoil the leeks.\n", "tea": "# tea\n\nSteep it.\n"}
GOLDEN = """\
- {query_id: q1, query: the loaf, kind: known, doc_id: bread, anchor: bake the loaf}
- {query_id: q2, query: "!!!", kind: unknown, doc_id: soup, anchor: leeks}
- {query_id: q3, query: milk, kind: unknown, doc_id: tea, anchor: with milk}
"""


def make_corpus(folder: Path) -> Path:
    (folder / "docs").mkdir(parents=True)
    for name, text in DOCS.items():
        (folder / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / "golden.yaml").write_text(GOLDEN, encoding="utf-8")
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return make_corpus(tmp_path / "kitchen")


@pytest.fixture(scope="module")
def lab(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:  # noqa: ARG001 - a server
    with Lab.open(make_corpus(tmp_path_factory.mktemp("runs") / "kitchen")) as opened:
        yield opened


# --- making one ----------------------------------------------------------------------------------------------------


def test_a_run_keeps_what_each_query_got(lab: Lab) -> None:
    q1, q2, q3 = run(lab, k=2).queries
    assert (q1.query_id, q1.query, q1.kind, q1.relevant, q1.undefined) == (
        "q1",
        "the loaf",
        "known",
        ("bread#000",),
        None,
    )
    assert q1.ranks == {"vector": 1, "text": 1, "fused": 1, "reranked": 1, "final": 1}
    assert q1.measures == {
        "recall@2": 1,
        "precision@2": 1 / 2,
        "hit@2": 1,
        "mrr@2": 1,
        "ndcg@2": 1,
        "fused recall@50": 1,
        "vector recall@50": 1,
        "text recall@50": 1,
    }
    assert (q1.final[0].chunk_id, q1.final[0].rank, len(q1.final)) == ("bread#000", 1, 2)
    assert 0 < q1.seconds < 5
    assert (set(q2.ranks.values()), set(q2.measures.values()), q2.final) == ({None}, {0}, ())
    assert (q3.measures, q3.undefined) == ({}, "no chunk of 'tea' holds the anchor 'with milk'")


def test_a_run_knows_in_which_folder_the_wanted_documents_lie(tmp_path: Path, database: Database) -> None:  # noqa: ARG001
    corpus = make_corpus(tmp_path / "kitchen")
    (corpus / "stories").mkdir()
    (corpus / "stories" / "tale.txt").write_text("The baker slept.\n", encoding="utf-8")
    with (corpus / "golden.yaml").open("a", encoding="utf-8") as golden:
        golden.write("- {query_id: q4, query: baker, kind: known, doc_id: tale, anchor: slept}\n")
        golden.write("- {query_id: q5, query: baker, kind: known, relevant: {tale: 1, bread: 2, soup: 0}}\n")
        golden.write("- {query_id: q6, query: baker, kind: known, relevant: {tale: 1, soup: 0, gone: 1}}\n")
        golden.write("- {query_id: q7, query: cake, kind: known, relevant: []}\n")
        golden.write("- {query_id: q8, query: cake, kind: known, doc_id: cake, anchor: sugar}\n")
    with Lab.open(corpus) as opened:
        made_now = run(opened)
    assert [one.document for one in made_now.queries] == [
        *("docs", "docs", "docs", "stories"),
        *("mixed", "stories", "", ""),
    ]
    assert Run.from_dict(json.loads(json.dumps(made_now.to_dict()))) == made_now


def test_a_run_says_what_it_was_made_of(lab: Lab) -> None:
    made_now = run(lab)
    documents = "".join(f"{json.dumps([name, text])}\n" for name, text in DOCS.items())
    golden = [
        ["q1", "the loaf", "known", "bread", "bake the loaf"],
        ["q2", "!!!", "unknown", "soup", "leeks"],
        ["q3", "milk", "unknown", "tea", "with milk"],
    ]
    facts = made_now.corpus
    assert (facts.folder, facts.documents, facts.chunks, facts.queries) == ("kitchen", 3, 3, 3)
    assert facts.documents_hash == sha256(documents.encode()).hexdigest()
    assert facts.golden_hash == sha256("".join(f"{json.dumps(row)}\n" for row in golden).encode()).hexdigest()
    printed = made_now.fingerprint
    assert (printed.embedder, printed.reranker, printed.scans) == ("hash-256", "lexical", {"vector": "exact"})
    assert set(printed.versions) == {"retrieval-lab", "python", "numpy", "postgresql", "pgvector"}
    assert printed.versions["pgvector"].startswith("0.")
    assert (printed.resamples, printed.bootstrap_seed, printed.draws, printed.permutation_seed) == (2_000, 0, 10_000, 0)
    assert (made_now.config, made_now.k) == (lab.config, 10)
    created = datetime.fromisoformat(made_now.created)
    assert timedelta(0) <= datetime.now(UTC) - created < timedelta(minutes=1)
    assert made_now.name == created.strftime("%Y%m%d-%H%M%S")


def test_a_configuration_of_ones_own_and_its_fingerprint(lab: Lab) -> None:
    nearest = VectorSearch(name="near", n=1, scan="hnsw")
    config = PipelineConfig(
        retrievers=(nearest,), reranker=NoReranker(), mmr_lambda=None, top_k=1, fusion=RrfFusion(n=3)
    )
    found = run(lab, config)
    assert (found.config, found.fingerprint.scans, found.fingerprint.reranker) == (config, {"near": "hnsw"}, "none")
    assert set(found.queries[0].ranks) == {"near", "fused", "reranked", "final"}
    assert tuple(found.queries[0].measures) == measure_names(config)
    assert measure_names(config)[-2:] == ("fused recall@3", "near recall@1")


def test_progress_is_heard_and_a_run_can_be_stopped(lab: Lab) -> None:
    heard: list[tuple[int, int]] = []
    run(lab, progress=lambda done, total: heard.append((done, total)))
    assert heard == [(0, 3), (1, 3), (2, 3), (3, 3)]
    with pytest.raises(Cancelled, match="stopped after 0 of 3"):
        run(lab, cancelled=lambda: True)


def test_a_cut_that_the_pool_cannot_fill_is_refused(lab: Lab) -> None:
    with pytest.raises(InputError, match="top_k is 51; expected at most 50"):
        run(lab, k=51)


@pytest.mark.usefixtures("database")
def test_what_was_searched_must_be_known(corpus: Path) -> None:
    with Lab.open(corpus) as lab:
        before = run(lab)
        (corpus / "docs" / "later.md").write_text("# later\n\nNot indexed yet.\n", encoding="utf-8")
        assert run(lab).corpus == before.corpus
        (corpus / "docs" / "soup.md").write_text("# soup\n\nBoil the leeks and the peas.\n", encoding="utf-8")
        with pytest.raises(InputError, match=r"2 of the 3 chunks are still theirs\); open the corpus again"):
            run(lab)
        (corpus / "docs" / "soup.md").unlink()
        with pytest.raises(InputError, match="files changed since they were indexed"):
            run(lab)


@pytest.mark.usefixtures("database")
def test_files_that_were_left_out_are_not_among_the_searched(corpus: Path) -> None:
    with Lab.open(corpus) as lab:
        before = run(lab).corpus
    (corpus / "docs" / "broken.md").write_bytes(b"\xff\xff")
    (corpus / "docs" / "endless.md").write_text(" ".join(f"word{n}" for n in range(120_000)), encoding="utf-8")
    with Lab.open(corpus) as lab:
        assert len(lab.index.faults) == 2
        assert run(lab).corpus == before


def test_hashes_do_not_depend_on_the_order_but_on_every_part() -> None:
    ab, c = Document("ab", "t", "c"), Document("c", "t", "x")
    assert hash_of_documents([ab, c]) == hash_of_documents([c, ab])
    assert hash_of_documents([ab]) != hash_of_documents([Document("a", "t", "bc")])
    assert hash_of_documents([ab, c]) != hash_of_documents([ab])
    one, two = (GoldenQuery(name, "what", "k", "doc", "anchor") for name in ("q1", "q2"))
    assert hash_of_golden([one, two]) == hash_of_golden([two, one])
    for part in ("query_id", "query", "kind", "doc_id", "anchor"):
        assert hash_of_golden([replace(one, **{part: "other"}), two]) != hash_of_golden([one, two]), part


@pytest.mark.usefixtures("database")
def test_a_faulty_golden_set_is_no_run(corpus: Path) -> None:
    (corpus / "golden.yaml").write_text("- {query_id: 1}\n", encoding="utf-8")
    with Lab.open(corpus) as lab, pytest.raises(FaultyInput, match=r"golden\.yaml:1"):
        run(lab)


# --- storing -------------------------------------------------------------------------------------------------------


def test_a_run_is_read_back_as_it_was(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.json"
    for one in (
        run(lab),
        made("b", [record("q1", None), undefined("q2")], PipelineConfig(top_k=2, reranker=ModelReranker())),
    ):
        one.save(path, overwrite=True)
        assert Run.load(path) == one
        assert Run.from_dict(json.loads(json.dumps(one.to_dict()))) == one
        assert json.loads(path.read_text(encoding="utf-8"))["format"] == 1
    assert [one.name for one in path.parent.iterdir()] == ["a.json"]


def test_what_is_not_utf_8_in_a_folders_name_is_stored_too(tmp_path: Path) -> None:
    one = ranked("a", 1, folder=os.fsdecode(b"caf\xe9"))
    one.save(tmp_path / "a.json")
    assert Run.load(tmp_path / "a.json") == one


def test_nothing_is_overwritten_unless_told(tmp_path: Path) -> None:
    first, second, path = ranked("a", 1), ranked("a", 2), tmp_path / "a.json"
    first.save(path)
    with pytest.raises(InputError, match=r"a\.json: there already; choose another name"):
        second.save(path)
    assert Run.load(path) == first
    second.save(path, overwrite=True)
    assert Run.load(path) == second


def test_a_save_that_fails_leaves_what_was_there_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, path = ranked("a", 1), tmp_path / "a.json"
    first.save(path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InputError, match=r"a\.json: cannot be written: No space left"):
        ranked("a", 2).save(path, overwrite=True)
    monkeypatch.undo()
    assert Run.load(path) == first
    assert [one.name for one in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("place", ["file/a.json", f"{'x' * 300}.json"])
def test_a_place_where_nothing_can_lie_is_told(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot be written|no run can lie there"):
        ranked("a", 1).save(tmp_path / place)


def broken(change: Callable[[dict[str, Any]], object]) -> str:
    document = ranked("a", 1, 2).to_dict()
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r":1: not JSON, or only the beginning of it \(Expecting value\)"),
        (json.dumps(ranked("a", 1).to_dict(), indent=1)[:-40], r":\d+: not JSON, or only the beginning"),
        ("[" * 100_000, ": not JSON"),
        ("\xff", ": not JSON|: this is no run of format 1"),
        ("[]", ": this is no run of format 1: it is a list; `retrieval-lab eval --save` makes one"),
        ("3", ": this is no run of format 1: it is 3;"),
        (broken(lambda d: d.update(format=2)), ": this is no run of format 1: its format is 2"),
        (broken(lambda d: d.pop("format")), ": this is no run of format 1: its format is null"),
        ('{"format": 1, "query": "x", "config": {}, "lists": {}}', ": this is no run: it has no name, created, corpus"),
        (broken(lambda d: d.update(queries={})), ": this run is broken: queries is an object; expected a list"),
        (broken(lambda d: d.update(name=3)), "broken: name is 3; expected text"),
        (broken(lambda d: d["corpus"].pop("folder")), "broken: corpus.folder is missing"),
        (broken(lambda d: d["corpus"].update(chunks=-1)), "broken: corpus.chunks is -1; expected a whole number"),
        (broken(lambda d: d["fingerprint"].update(versions=[])), "fingerprint.versions is a list; expected an object"),
        (broken(lambda d: d["config"].update(top_k=0)), "broken: .*top_k is 0; expected 1 or more"),
        (broken(lambda d: d["config"].update(a=1, b=2)), "broken: a: unknown key.*; b: unknown key"),
        (broken(lambda d: d["queries"][1].update(seconds="1")), r"broken: queries\[1\].seconds is '1'; expected a num"),
        (broken(lambda d: d["queries"][0].update(seconds=float("nan"))), r"queries\[0\].seconds is nan"),
        (broken(lambda d: d["queries"][0]["ranks"].update(final=0)), r"queries\[0\].ranks.final is 0; ranks count"),
        (broken(lambda d: d["queries"][0]["ranks"].pop("final")), "ranks of 'q1' lack"),
        (broken(lambda d: d["queries"][0]["measures"].pop("mrr@2")), "measures of 'q1' are recall@2, precision@2"),
        (broken(lambda d: d["queries"][0].update(relevant=[])), "measures of 'q1' are recall@2"),
        (broken(lambda d: d["queries"][0].update(query_id="q2")), "query id 'q2' stands twice"),
        (broken(lambda d: d["queries"].append(None)), r"queries\[2\] is null; expected an object"),
        (broken(lambda d: d["queries"][0]["final"].append({"score": 1})), r"final\[2\].chunk_id is missing"),
    ],
)
def test_a_file_that_is_no_run_is_told_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=message) as caught:
        Run.load(path)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value).splitlines()) == 1


def test_a_run_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.json: no such run; there are none in that folder"):
        Run.load(tmp_path / "gone.json")
    for number in range(9):
        ranked("a", 1).save(tmp_path / f"r{number}.json")
    with pytest.raises(InputError, match=r"in that folder are r1, r2, r3, r4, r5, r6, r7, r8 and 1 more"):
        Run.load(tmp_path / "gone.json")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        Run.load(tmp_path)


def test_a_pipe_in_the_place_of_a_run_does_not_keep_us_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(InputError, match="it is not a file"):
        Run.load(tmp_path / "a.json")


# --- where runs lie ------------------------------------------------------------------------------------------------


def test_a_name_lies_in_the_corpus_and_a_path_where_it_says(tmp_path: Path) -> None:
    assert resolve_run("a", tmp_path) == tmp_path / "runs" / "a.json"
    assert resolve_run("v1.2", tmp_path) == tmp_path / "runs" / "v1.2.json"
    assert resolve_run("a.json", tmp_path) == Path("a.json")
    assert resolve_run("some/where", tmp_path) == Path("some/where")
    with pytest.raises(InputError, match="name of a run is blank"):
        resolve_run(" ", tmp_path)
    assert stored_runs(tmp_path) == []
    for name in ("b", "a"):
        ranked(name, 1).save(resolve_run(name, tmp_path))
    (tmp_path / "runs" / ".c.json.123").touch()
    assert stored_runs(tmp_path) == ["a", "b"]


def test_runs_of_a_read_only_corpus_lie_in_the_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    path = resolve_run("a", tmp_path / "kitchen")
    assert path.parent.parent.parent == tmp_path / "data" / "corpora"
    assert path.parent.parent.name.startswith("kitchen-")
    assert path.name == "a.json"
