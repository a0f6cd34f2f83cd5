"""`retrieval-lab train-reranker`, from the command line to a better order; held-out queries have no part in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab import cli
from retrieval_lab.config import PipelineConfig
from retrieval_lab.database import Database
from retrieval_lab.diagnosis.journey import Journey
from retrieval_lab.diagnosis.report import journey_report
from retrieval_lab.lab import Lab
from retrieval_lab.learned_model import read_model
from retrieval_lab.rerankers import sigmoid
from retrieval_lab.settings import NoReranker, TrainedReranker

Capture = pytest.CaptureFixture[str]
WORDS = ("acorn", "barley", "cobalt", "dahlia", "ember", "fennel", "garnet", "heron", "indigo", "juniper")


def query(number: int, *, split: str = "", anchor: str = "") -> str:
    """A line of golden.yaml that wants the story of the word, or the page if it has this anchor."""
    word = WORDS[number]
    wanted = f'doc_id: {word}, anchor: "{anchor}"' if anchor else f'doc_id: {word}-evening, anchor: "spoke of {word}"'
    named = f", split: {split}" if split else ""
    return f"- {{query_id: q{number}, query: {word}, kind: known, {wanted}{named}}}\n"


def splits(number: int) -> str:
    return "dev" if number < 6 else "held-out"


GOLDEN = [query(number, split=splits(number)) for number in range(10)]


@pytest.fixture
def corpus(tmp_path: Path, database: Database) -> Path:  # noqa: ARG001 - keeps the server up
    """Ten words, each with a page that is full of it and a story that mentions it, which is what is wanted."""
    folder = tmp_path / "words"
    for name in ("docs", "stories"):
        (folder / name).mkdir(parents=True)
    for word in WORDS:
        (folder / "docs" / f"{word}.md").write_text(f"# {word}\n\nThe {word}: {word} and {word}.\n")
        story = f"An evening\n\nIt rained, and the two of them spoke of {word} until the lamp went out.\n"
        (folder / "stories" / f"{word}-evening.txt").write_text(story)
    (folder / "golden.yaml").write_text("".join(GOLDEN))
    return folder


def run(capsys: Capture, *arguments: str | Path, code: int = 0) -> tuple[str, str]:
    found = cli.main([*map(str, arguments)])
    out, err = capsys.readouterr()
    assert found == code, err
    return out, err


def trained(capsys: Capture, corpus: Path, *arguments: str | Path) -> bytes:
    run(capsys, "train-reranker", corpus, "--force", *arguments)
    return (corpus / "reranker.json").read_bytes()


def measured(capsys: Capture, corpus: Path, *arguments: str | Path) -> dict[str, Any]:
    out, _ = run(capsys, "eval", corpus, "--split", "held-out", "--json", *arguments)
    document: dict[str, Any] = json.loads(out)
    return document


def test_what_dev_teaches_helps_held_out(corpus: Path, capsys: Capture) -> None:
    out, err = run(capsys, "train-reranker", corpus)
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == "trained on 6 dev queries and 120 passages of their pools, 6 of them relevant"
    assert [line.split()[0] for line in lines[2:9]] == [
        "feature", "bm25", "tfidf", "lsa", "title_overlap", "story", "intercept",
    ]  # fmt: skip
    (mrr,) = [line.split() for line in lines if line.startswith("mrr@10")]
    assert mrr[1:3] == [
        "1.000",
        "0.500",
    ]  # the page stands before the story in the fused order, and never after training
    assert mrr[3] == "+0.500"
    path = corpus / "reranker.json"
    assert lines[-1] == f"written to {path}; use it with --reranker learned:{path}"
    before = measured(capsys, corpus, "--reranker", "none")
    after = measured(capsys, corpus, "--reranker", f"learned:{path}")
    assert before["all"]["measures"]["mrr@10"]["value"] == 0.5
    assert after["all"]["measures"]["mrr@10"]["value"] == 1.0
    assert after["fingerprint"]["reranker"].startswith("learned reranker.json@")
    assert "scikit-learn" in after["fingerprint"]["versions"]
    assert "scikit-learn" not in before["fingerprint"]["versions"]


def test_the_file_says_what_it_was_trained_on(corpus: Path, capsys: Capture) -> None:
    trained(capsys, corpus, "--c", "0.5", "--lsa-dims", "3", "--set", "fusion.n=12")
    model = read_model(corpus / "reranker.json")
    on = model.trained_on
    assert (on.corpus, on.dealt, on.queries, on.candidates, on.positives, on.c) == ("words", None, 6, 72, 6, 0.5)
    assert model.computed_with.lsa_dims == 3
    assert (on.pipeline["fusion"]["n"], "reranker" in on.pipeline) == (12, False)
    assert (model.validation.folds, list(model.validation.measures)) == (5, ["mrr@10", "ndcg@10", "recall@10"])
    mrr = model.validation.measures["mrr@10"]
    assert mrr.over_fused.difference == pytest.approx(mrr.learned - mrr.fused)
    assert mrr.over_bm25.difference == pytest.approx(mrr.learned - mrr.bm25)


def test_held_out_labels_and_the_order_of_the_file_change_nothing(corpus: Path, capsys: Capture) -> None:
    usual = trained(capsys, corpus)
    other = [query(number, split="held-out", anchor=WORDS[number]) for number in range(6, 10)]
    (corpus / "golden.yaml").write_text("".join([*GOLDEN[:6], *other]))
    assert trained(capsys, corpus) == usual
    (corpus / "golden.yaml").write_text("".join(GOLDEN[:6]))
    assert trained(capsys, corpus) == usual
    (corpus / "golden.yaml").write_text("".join(GOLDEN[::-1]))
    assert trained(capsys, corpus) == usual
    (corpus / "golden.yaml").write_text("".join([query(0, split="dev", anchor="acorn"), *GOLDEN[1:]]))
    assert trained(capsys, corpus) != usual


def test_without_splits_it_says_how_dev_was_dealt(corpus: Path, capsys: Capture) -> None:
    (corpus / "golden.yaml").write_text("".join(query(number) for number in range(10)))
    out, _ = run(capsys, "train-reranker", corpus)
    assert "golden.yaml has no splits: dev is what `retrieval-lab split` would make of it, with the seed 13" in out
    dealt = (corpus / "reranker.json").read_bytes()
    run(capsys, "split", corpus)
    assert json.loads(trained(capsys, corpus)) == {
        **json.loads(dealt),
        "trained_on": {**json.loads(dealt)["trained_on"], "dealt": None},
    }


def test_queries_without_a_relevant_passage_are_left_out_and_named(corpus: Path, capsys: Capture) -> None:
    more = "- {query_id: q98, query: acorn, kind: known, doc_id: acorn, anchor: nowhere, split: dev}\n"
    more += "- {query_id: q99, query: zinc, kind: known, relevant: {}, split: dev}\n"
    (corpus / "golden.yaml").write_text("".join(GOLDEN) + more)
    out, _ = run(capsys, "train-reranker", corpus, "--json")
    found = json.loads(out)
    assert found["without_label"] == ["q98", "q99"]
    assert found["model"]["trained_on"]["queries"] == 6
    assert found["file"] == str(corpus / "reranker.json")


def test_graded_documents_train_and_measure_by_document(corpus: Path, capsys: Capture) -> None:
    graded = [
        f"- {{query_id: q{number}, query: {word}, kind: known, split: {splits(number)},"
        f" relevant: {{{word}-evening: 2, {word}: 0}}}}\n"
        for number, word in enumerate(WORDS)
    ]
    (corpus / "golden.yaml").write_text("".join(graded))
    trained(capsys, corpus)
    model = read_model(corpus / "reranker.json")
    assert model.trained_on.positives == 6
    assert model.validation.measures["ndcg@10"].learned == 1.0


def test_a_file_is_not_replaced_unless_that_is_said(corpus: Path, capsys: Capture, tmp_path: Path) -> None:
    (corpus / "reranker.json").write_text("mine")
    _, err = run(capsys, "train-reranker", corpus, code=2)
    assert "reranker.json: is there already; --force replaces it, --output names another file" in err
    assert (corpus / "reranker.json").read_text() == "mine"
    run(capsys, "train-reranker", corpus, "--output", tmp_path / "new" / "r.json")
    assert read_model(tmp_path / "new" / "r.json").trained_on.queries == 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--c", "0"], "C is 0.0; expected a number above 0"),
        (["--c", "nan"], "C is nan; expected a number above 0"),
        (["--set", "fusion.n=1", "--set", "top_k=1"], "0 dev queries have a relevant passage in their pools, of 6"),
    ],
)
def test_what_cannot_be_trained_is_refused_and_nothing_is_written(
    corpus: Path, capsys: Capture, arguments: list[str], said: str
) -> None:
    _, err = run(capsys, "train-reranker", corpus, *arguments, code=2)
    assert said in err
    assert not (corpus / "reranker.json").exists()


def test_a_broken_or_missing_file_is_told(corpus: Path, capsys: Capture) -> None:
    path = corpus / "r.json"
    asked = ("search", "acorn", "--corpus", corpus, "--reranker", f"learned:{path}")
    assert "r.json: no such file; `retrieval-lab train-reranker` makes one" in run(capsys, *asked, code=2)[1]
    path.write_text('{"format": 1, "features": []}')
    assert "r.json: this learned reranker is broken: features is empty" in run(capsys, *asked, code=2)[1]


def test_the_journey_tells_what_each_feature_adds(corpus: Path, capsys: Capture) -> None:
    trained(capsys, corpus)
    config = PipelineConfig(reranker=TrainedReranker(str(corpus / "reranker.json")))
    with Lab.open(corpus) as lab:
        journey = lab.explain(lab.golden_query("q7"), config=config)
        chunks = lab.trace("heron", config).reranked
    reranked = journey.reranked
    assert reranked is not None
    assert reranked.learned is not None
    assert (reranked.kind, reranked.rank, reranked.terms) == ("learned", 1, None)
    log_odds = reranked.learned.intercept + sum(one.contribution for one in reranked.learned.features)
    assert reranked.score == pytest.approx(sigmoid(log_odds)) == pytest.approx(chunks[0].score)
    assert Journey.from_dict(json.loads(json.dumps(journey.to_dict()))) == journey
    report = journey_report(journey)
    assert f"learned: score {reranked.score:.4f}" in report
    assert f"log-odds {log_odds:.3f}: intercept {reranked.learned.intercept:.3f} and" in report
    (story,) = [line.split() for line in report.splitlines() if line.split()[:1] == ["story"]]
    assert story[1] == "1.000"
    assert float(story[2]) * float(story[3]) == pytest.approx(float(story[4]), abs=0.01)


def test_a_file_that_changes_counts_for_the_next_question(corpus: Path, capsys: Capture) -> None:
    trained(capsys, corpus)
    path = corpus / "reranker.json"
    config = PipelineConfig(reranker=TrainedReranker(str(path)), mmr_lambda=None)
    with Lab.open(corpus) as lab:
        before = lab.trace("heron", config).final[0].chunk_id
        document = json.loads(path.read_text())
        document["coefficients"] = [-one for one in document["coefficients"]]
        path.write_text(json.dumps(document))
        after = lab.trace("heron", config).final[0].chunk_id
    assert (before, after == before) == ("heron-evening#000", False)


def test_it_changes_the_order_of_the_pool_and_nothing_else(corpus: Path, capsys: Capture) -> None:
    trained(capsys, corpus)
    learned = PipelineConfig(reranker=TrainedReranker(str(corpus / "reranker.json")), mmr_lambda=None)
    with Lab.open(corpus) as lab:
        usual = lab.trace("heron", PipelineConfig(reranker=NoReranker(), mmr_lambda=None))
        found = lab.trace("heron", learned)
    assert found.fused == usual.fused
    assert {row.chunk_id: row.ranks for row in found.reranked} == {row.chunk_id: row.ranks for row in usual.reranked}
    scores = [row.score for row in found.reranked]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score < 1 for score in scores)


def test_rescue_and_funnel_take_it(corpus: Path, capsys: Capture) -> None:
    trained(capsys, corpus)
    path = corpus / "reranker.json"
    document = json.loads(path.read_text())
    document["coefficients"] = [-one for one in document["coefficients"]]  # so that it loses what is wanted
    path.write_text(json.dumps(document))
    given = ("--reranker", f"learned:{path}", "--set", "top_k=3")
    out, _ = run(capsys, "rescue", "--golden", "q7", "--corpus", corpus, *given, "--json")
    found = json.loads(out)
    assert any("reranker" in json.dumps(one) for one in found["rescues"])
    out, _ = run(capsys, "funnel", corpus, *given)
    assert "reranker" in out


def test_eval_says_which_numbers_flatter(corpus: Path, capsys: Capture) -> None:
    trained(capsys, corpus)
    given = ("--reranker", f"learned:{corpus / 'reranker.json'}")
    warning = "warning: the reranker was trained on 6 dev queries of this corpus"
    _, err = run(capsys, "eval", corpus, *given)
    assert warning in err
    assert err.rstrip().endswith("without them: --split held-out")
    assert warning in run(capsys, "eval", corpus, "--split", "dev", *given)[1]
    assert warning not in run(capsys, "eval", corpus, "--split", "held-out", *given)[1]
    assert warning not in run(capsys, "eval", corpus, "--reranker", "lexical")[1]
    (corpus / "golden.yaml").write_text("".join(query(number) for number in range(10)))
    assert "`retrieval-lab split`, then --split held-out" in run(capsys, "eval", corpus, *given)[1]


def test_eval_of_another_corpus_is_no_training(corpus: Path, capsys: Capture) -> None:
    trained(capsys, corpus)
    other = corpus.rename(corpus.with_name("others"))
    assert "trained on" not in run(capsys, "eval", other, "--reranker", f"learned:{other / 'reranker.json'}")[1]
