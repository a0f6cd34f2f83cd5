"""`retrieval-lab eval`: what it prints and keeps, its gates, its JSON document and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from retrieval_lab import cli, cli_metrics
from retrieval_lab.database import Database
from retrieval_lab.evals.kept import resolve_run, stored_runs
from retrieval_lab.evals.runs import Run
from tests.core.evals.made import ranked
from tests.core.evals.test_runs import make_corpus

Capture = pytest.CaptureFixture[str]

GOOD = """\
- {query_id: q1, query: the loaf, kind: known, doc_id: bread, anchor: bake the loaf}
- {query_id: q2, query: "!!!", kind: other, doc_id: soup, anchor: leeks}
"""
UNDEFINED = "- {query_id: q3, query: milk, kind: other, doc_id: tea, anchor: with milk}\n"


@pytest.fixture
def corpus(tmp_path: Path, database: Database) -> Path:  # noqa: ARG001 - keeps the server up
    """Three documents of one chunk; q1 is found first, q2 never."""
    folder = make_corpus(tmp_path / "kitchen")
    (folder / "golden.yaml").write_text(GOOD, encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def evaluate(capsys: Capture, *arguments: str | Path) -> tuple[int, str, str]:
    code = cli.main(["eval", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: Capture, *arguments: str | Path, code: int = 0) -> dict[str, Any]:
    found_code, out, err = evaluate(capsys, *arguments, "--json")
    assert found_code == code, err
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("chunker", "chunks"),
    # Each of the three documents is a heading and a sentence; in words 5, 5 and 4.
    [
        ("documents", 3),
        ("sentences", 3),
        ("{kind: sentences, size: 1, overlap: 0}", 6),
        ("{kind: words, size: 3, overlap: 1}", 6),
    ],
)
def test_every_chunker_can_be_measured(corpus: Path, capsys: Capture, chunker: str, chunks: int) -> None:
    found = document(capsys, corpus, "--set", f"chunker={chunker}")
    assert found["corpus"]["chunks"] == chunks
    assert found["all"]["measures"]["recall@10"]["value"] == 0.5


def test_a_kind_of_chunker_drops_the_settings_of_the_one_in_the_file(corpus: Path, capsys: Capture) -> None:
    (corpus / "lab.yaml").write_text("chunker: {kind: words, size: 3, overlap: 2}\n", encoding="utf-8")
    assert document(capsys, corpus)["config"]["chunker"] == {"kind": "words", "size": 3, "overlap": 2}
    found = document(capsys, corpus, "--set", "chunker.kind=documents")
    assert found["config"]["chunker"] == {"kind": "documents"}


def test_an_overlap_as_long_as_its_window_is_named(corpus: Path, capsys: Capture) -> None:
    code, _, err = evaluate(capsys, corpus, "--set", "chunker.kind=words", "--set", "chunker.size=60")
    assert code == 2
    assert "chunker: overlap is 60; expected less than 60" in err


# --- what is printed -----------------------------------------------------------------------------------------------


def test_measures_are_rows_and_groups_are_columns(corpus: Path, capsys: Capture) -> None:
    code, out, err = evaluate(capsys, corpus, "--k", "2")
    lines = [line.rstrip() for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert lines[:12] == [
        "                  all            known  other",
        "queries           2              1      1",
        "recall@2          0.500 .00–1.0  1.000  0.000",
        "precision@2       0.250 .00–.50  0.500  0.000",
        "hit@2             0.500 .00–1.0  1.000  0.000",
        "mrr@2             0.500 .00–1.0  1.000  0.000",
        "ndcg@2            0.500 .00–1.0  1.000  0.000",
        "fused recall@50   0.500 .00–1.0  1.000  0.000",
        "vector recall@50  0.500 .00–1.0  1.000  0.000",
        "text recall@50    0.500 .00–1.0  1.000  0.000",
        "",
        "3 documents, 3 chunks; embedder hash-256, reranker lexical, vector exact scan",
    ]
    assert lines[12] == "means with 95% percentile bootstrap intervals, 2,000 resamples of the queries"
    assert lines[13].startswith("a query takes ")
    assert lines[14] == "the first five passages are of 1.0 documents on the mean"
    assert len(lines) == 15


def test_many_kinds_make_several_tables_that_fit(
    corpus: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    kinds = [*(f"kind-{number}" for number in range(6)), "a kind with a name that is far too long for it", "種類" * 20]
    golden = "".join(
        f"- {{query_id: q{number}-{again}, query: the loaf, kind: '{kind}', doc_id: bread, anchor: loaf}}\n"
        for number, kind in enumerate(kinds)
        for again in "ab"
    )
    (corpus / "golden.yaml").write_text(golden, encoding="utf-8")
    _, out, _ = evaluate(capsys, corpus)
    assert max(cell_len(line.rstrip()) for line in out.splitlines()) <= 80
    headers = [line.split() for line in out.splitlines() if line.startswith(" ")]
    assert [name for line in headers for name in line if name.startswith("kind-")] == kinds[:6]
    assert [line.split()[0] for line in out.splitlines() if line].count("recall@10") == len(headers) > 2
    assert "…" not in "".join(line for line in out.splitlines() if line.startswith("recall@10"))


def test_the_numbers_of_the_bundled_corpus_are_those_of_the_readme(capsys: Capture) -> None:
    found = document(capsys)
    values = {name: round(one["value"], 3) for name, one in found["all"]["measures"].items()}
    assert values == {
        "recall@10": 0.729,
        "precision@10": 0.083,
        "hit@10": 0.729,
        "mrr@10": 0.651,
        "ndcg@10": 0.671,
        "fused recall@50": 0.854,
        "vector recall@50": 0.708,
        "text recall@50": 0.854,
    }
    for one in found["all"]["measures"].values():
        assert one["interval"]["low"] < one["value"] < one["interval"]["high"]
    assert {kind: group["queries"] for kind, group in found["by_kind"].items()} == {
        "conceptual": 16,
        "factual": 16,
        "lexical": 16,
    }


def test_failures_are_those_of_the_metrics_command(corpus: Path, capsys: Capture) -> None:
    code, out, _ = evaluate(capsys, "--failures")
    assert (
        cli_metrics.main(["--corpus", str(Path(__file__).parents[2] / "fixtures" / "corpus"), "--failures"])
        == code
        == 0
    )
    assert out == capsys.readouterr().out
    assert "q08, factual, 14\n" in out
    assert evaluate(capsys, corpus, "--failures") == (0, "q2, other, none\n", "")
    (failure,) = document(capsys, corpus, "--failures")["failures"]
    assert failure == {
        "query_id": "q2",
        "kind": "other",
        "best_rank": None,
        "query": "!!!",
        "ranks": {"vector": None, "text": None, "fused": None, "reranked": None, "final": None},
        "relevant": ["soup#000"],
        "undefined": None,
    }
    assert "failures" not in document(capsys, corpus)


def test_queries_without_a_relevant_chunk_are_counted_named_and_exit_code_2(corpus: Path, capsys: Capture) -> None:
    (corpus / "golden.yaml").write_text(GOOD + UNDEFINED, encoding="utf-8")
    code, out, err = evaluate(capsys, corpus)
    assert code == 2
    assert out.splitlines()[1].split() == ["queries", "2", "1", "1"]
    assert out.splitlines()[-1] == "not counted, no chunk is relevant: q3"
    assert err == f"error: {corpus / 'golden.yaml'}: q3: no chunk of 'tea' holds the anchor 'with milk'\n"
    found = document(capsys, corpus, code=2)
    assert found["undefined"] == {"q3": "no chunk of 'tea' holds the anchor 'with milk'"}
    assert (found["corpus"]["queries"], found["all"]["queries"]) == (3, 2)


def test_files_that_were_left_out_are_told_with_the_queries(corpus: Path, capsys: Capture) -> None:
    (corpus / "golden.yaml").write_text(GOOD + UNDEFINED, encoding="utf-8")
    (corpus / "docs" / "broken.md").write_bytes(b"\xff\xff")
    code, out, err = evaluate(capsys, corpus, "--json", "--fail-under", "recall=1")
    assert (code, json.loads(out)["corpus"]["documents"]) == (2, 3)
    first, second, third = err.splitlines()
    assert first.startswith("gate failed: recall@10 is 0.5")
    assert "broken.md:1: not UTF-8" in second
    assert "q3: no chunk" in third


def test_what_the_golden_set_holds_cannot_steer_the_terminal(corpus: Path, capsys: Capture) -> None:
    golden = r'- {query_id: "q\e[31m", query: "!!!", kind: "[/b]\e]0;x\a", doc_id: bread, anchor: loaf}' + "\n"
    (corpus / "golden.yaml").write_text(golden, encoding="utf-8")
    for more in ((), ("--failures",)):
        _, out, _ = evaluate(capsys, corpus, *more)
        assert "\x1b" not in out
        assert r"[/b]\u001b]0" in out


# --- keeping runs --------------------------------------------------------------------------------------------------


def test_a_run_is_kept_under_its_name_and_no_other_replaces_it(corpus: Path, capsys: Capture) -> None:
    path = corpus / "runs" / "before.json"
    code, _, err = evaluate(capsys, corpus, "--name", "before", "--k", "2")
    assert (code, err) == (0, f"kept as before: {path}\n")
    kept = Run.load(path)
    assert (kept.name, kept.k, kept.corpus.folder) == ("before", 2, "kitchen")
    code, out, err = evaluate(capsys, corpus, "--name", "before", "--json")
    assert (code, out) == (2, "")
    assert err == f"error: {path}: there already; choose another name, or overwrite it (--force)\n"
    assert Run.load(path) == kept
    assert evaluate(capsys, corpus, "--save", "--name", "before", "--force")[0] == 0
    assert Run.load(path).k == 10


def test_without_a_name_it_is_the_date_and_time(corpus: Path, capsys: Capture) -> None:
    first, second = (document(capsys, corpus, "--save") for _ in range(2))
    assert first["saved"] == str(corpus / "runs" / f"{first['name']}.json")
    assert first["name"] != second["name"]  # also within one second
    assert stored_runs(corpus) == sorted([first["name"], second["name"]])
    assert first["name"].startswith(first["created"][:10].replace("-", ""))
    assert document(capsys, corpus)["saved"] is None


def test_a_path_is_a_path(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    assert evaluate(capsys, corpus, "--name", tmp_path / "out" / "x.json")[0] == 0
    assert Run.load(tmp_path / "out" / "x.json").name == "x"
    assert not (corpus / "runs").exists()


def test_runs_of_a_read_only_corpus_lie_in_the_data_directory(
    corpus: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: (Path(path) != corpus or mode != os.W_OK) and access(path, mode)
    )
    found = document(capsys, corpus, "--name", "a")
    path = Path(found["saved"])
    assert path.is_relative_to(os.environ["RETRIEVAL_LAB_DATA_DIR"])
    assert path == resolve_run("a", corpus)
    assert not (corpus / "runs").exists()
    assert document(capsys, corpus, "--baseline", "a")["comparison"]["baseline"]["name"] == "a"


def test_a_run_that_cannot_be_kept_is_shown_all_the_same(corpus: Path, capsys: Capture) -> None:
    (corpus / "runs").touch()
    code, out, err = evaluate(capsys, corpus, "--name", "a", "--json")
    assert (code, json.loads(out)["saved"], json.loads(out)["all"]["queries"]) == (2, None, 2)
    assert "a.json: cannot be written" in err


def test_force_alone_is_refused(corpus: Path, capsys: Capture) -> None:
    code, out, err = evaluate(capsys, corpus, "--force")
    assert (code, out, err) == (2, "", "error: --force has no effect without --save, --name or --record\n")


# --- baselines and gates -------------------------------------------------------------------------------------------


@pytest.fixture
def baseline(corpus: Path, capsys: Capture) -> Path:
    """The corpus with a run named `before`, made without a reranker."""
    assert evaluate(capsys, corpus, "--name", "before", "--set", "reranker=none")[0] == 0
    return corpus


def test_a_baseline_is_compared_with(baseline: Path, capsys: Capture) -> None:
    code, out, err = evaluate(capsys, baseline, "--baseline", "before")
    assert (code, err) == (0, "")
    assert out.splitlines()[0].split() == ["all", "known", "other"]
    assert "\nA  before  20" in out
    assert "  reranker.kind: none → lexical\n" in out
    assert "Moved: 0 queries, 0 gained and 0 lost" in out
    comparison = document(capsys, baseline, "--baseline", "before")["comparison"]
    for one in comparison["measures"].values():
        assert (one["p"], one["difference_interval"]) == (1, {"low": 0, "high": 0})
        assert one["counts"] == {"wins": 0, "ties": 2, "losses": 0}
    assert document(capsys, baseline)["comparison"] is None
    _, out, _ = evaluate(capsys, baseline, "--baseline", "before", "--failures")
    assert out.startswith("q2, other, none\n\nA  before")


def test_other_documents_are_a_warning_and_other_labels_an_error(baseline: Path, capsys: Capture) -> None:
    with (baseline / "docs" / "tea.md").open("a", encoding="utf-8") as file:
        file.write("\nPour it.\n")
    code, _, err = evaluate(capsys, baseline, "--baseline", "before")
    assert (code, err.startswith("warning: the runs searched other documents")) == (0, True)
    (baseline / "golden.yaml").write_text(GOOD.replace("leeks", "boil the leeks"), encoding="utf-8")
    code, out, err = evaluate(capsys, baseline, "--baseline", "before", "--json")
    assert (code, out) == (2, "")
    assert "another golden set: the same queries with other labels (doc_id, anchor or relevant)" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--baseline", "gone"], "gone.json: no such run; in that folder are before"),
        (["--baseline", "before", "--k", "3"], "'before' is cut at 10, the system at 3"),
        (
            ["--baseline", "other"],
            "'other' of corpus 'kitchen' is of another golden set: another text or kind of q1, q2",
        ),
        (["--baseline", "cut"], "not JSON, or only the beginning of it"),
        (["--baseline", "new"], "this is no run of format 1: its format is 9"),
        (["--k", "51"], "top_k is 51; expected at most 50"),
        (
            ["--fail-under", "recal=0.5"],
            "no such measure; there are recall@10, precision@10, hit@10, mrr@10, ndcg@10, f",
        ),
        (["--fail-under", "recall@5=0.5"], "this run measures recall@10"),
        (["--fail-under", "recall@10"], "expected MEASURE=VALUE"),
        (["--name", ""], "the name of a run is blank"),
    ],
)
def test_what_cannot_be_used_is_exit_code_2_and_one_line(
    baseline: Path, capsys: Capture, options: list[str], message: str
) -> None:
    ranked("other", 1, 2).save(baseline / "runs" / "other.json")
    (baseline / "runs" / "cut.json").write_text(json.dumps(ranked("x", 1).to_dict())[:-9], encoding="utf-8")
    (baseline / "runs" / "new.json").write_text('{"format": 9}', encoding="utf-8")
    if "--k" not in options and "gone" in options:
        for name in ("other", "cut", "new"):
            (baseline / "runs" / f"{name}.json").unlink()
    code, out, err = evaluate(capsys, baseline, "--json", *options)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert message in err


def test_gates_that_hold_say_nothing_and_those_that_do_not_are_exit_code_1(corpus: Path, capsys: Capture) -> None:
    gates = ["--fail-under", "recall@10=0.5", "--fail-under", "fused recall=0.5"]
    code, out, err = evaluate(capsys, corpus, *gates)
    assert (code, err) == (0, "")
    assert "gate" not in out
    code, out, err = evaluate(capsys, corpus, *gates, "--fail-under", "mrr=0.51", "--fail-under", "precision@10=0.06")
    assert (code, out.splitlines()[1].split()) == (1, ["queries", "2", "1", "1"])
    assert err.splitlines() == [
        "gate failed: mrr@10 is 0.5 (95% 0.000 to 1.000); expected 0.51 or more",
        "gate failed: precision@10 is 0.05 (95% 0.000 to 0.100); expected 0.06 or more",
    ]


def test_a_gate_that_fails_leaves_json_one_document_and_the_run_kept(baseline: Path, capsys: Capture) -> None:
    options = ["--fail-under", "mrr=0.51", "--fail-under", "hit=0", "--baseline", "before", "--name", "after"]
    found = document(capsys, baseline, *options, "--failures", code=1)
    assert [(gate["measure"], gate["passed"]) for gate in found["gates"]] == [("mrr@10", False), ("hit@10", True)]
    assert found["gates"][0]["interval"] == {"low": 0, "high": 1}
    assert found["comparison"]["queries"] == 2
    assert [failure["query_id"] for failure in found["failures"]] == ["q2"]
    assert stored_runs(baseline) == ["after", "before"]


def test_bad_options_are_told_before_any_server_is_asked(corpus: Path, capsys: Capture) -> None:
    for options in (["--fail-under", "x=1"], ["--baseline", "gone"], ["--name", ""]):
        assert evaluate(capsys, corpus, "--dsn", "host=nowhere.invalid", *options)[0] == 2
    assert evaluate(capsys, corpus, "--dsn", "host=nowhere.invalid")[0] == 3


def test_a_missing_or_faulty_golden_set_is_exit_code_2(corpus: Path, capsys: Capture) -> None:
    (corpus / "golden.yaml").write_text("- {query_id: 1}\n", encoding="utf-8")
    code, out, err = evaluate(capsys, corpus, "--json")
    assert (code, out) == (2, "")
    assert "golden.yaml:1" in err
    (corpus / "golden.yaml").unlink()
    assert "no golden queries" in evaluate(capsys, corpus)[2]


def test_in_a_pipe_it_prints_text_and_one_json_document(corpus: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "retrieval_lab", "eval", str(corpus)]
    done = subprocess.run([*command, "--save"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, "\x1b" in done.stdout) == (0, False)
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stderr.startswith("kept as 20")
    done = subprocess.run([*command, "--json", "--fail-under", "hit=1"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, json.loads(done.stdout)["gates"][0]["passed"]) == (1, False)


def test_help_has_an_example(capsys: Capture) -> None:
    code, out, _ = evaluate(capsys, "--help")
    assert code == 0
    assert "--baseline before --fail-under recall@10=0.70" in out


@pytest.mark.parametrize("name", ["feature/x", "docs/bread.md", "../x", "a\nb", "\x1b[31m"])
def test_a_name_that_would_lie_elsewhere_or_cannot_be_read_is_refused(
    corpus: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    code, out, err = evaluate(capsys, corpus, "--name", name)
    assert (code, out) == (2, "")
    assert "expected a name without a slash, or a path that ends in .json" in err
    assert sorted(tmp_path.rglob("*")) == before


def test_queries_are_parted_by_the_documents_folder_and_by_dates(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    golden = "- {query_id: q1, query: the loaf, kind: k, relevant: [bread], fields: {asked: '2024-05-05'}}\n"
    golden += "- {query_id: q2, query: the leeks, kind: k, relevant: [soup], fields: {asked: '2025-06-02 08:00'}}\n"
    (corpus / "golden.yaml").write_text(golden, encoding="utf-8")
    kept = tmp_path / "run.json"
    found = document(capsys, corpus, "--by", "document", "--record", str(kept))
    assert {name: group["queries"] for name, group in found["by"]["groups"].items()} == {"docs": 2}
    for by, groups in (("asked:year", ["2024", "2025"]), ("asked:weekday", ["Monday", "Sunday"])):
        replayed = document(capsys, corpus, "--by", by, "--replay", str(kept))
        assert list(replayed["by"]["groups"]) == groups
    code, _, err = evaluate(capsys, corpus, "--by", "asked:hour", "--replay", str(kept))
    assert code == 2
    assert "there is asked, asked:month, asked:weekday, asked:year, document, kind, split" in err


def test_queries_are_parted_by_any_label_field(corpus: Path, capsys: Capture) -> None:
    golden = "- {query_id: q1, query: the loaf, kind: k, relevant: {bread: 2, tea: 0}, fields: {topic: baking}}\n"
    golden += "- {query_id: q2, query: the leeks, kind: k, relevant: {soup: 1}, fields: {topic: cooking}}\n"
    (corpus / "golden.yaml").write_text(golden, encoding="utf-8")
    code, out, _ = evaluate(capsys, corpus, "--by", "topic")
    assert code == 0
    assert out.splitlines()[0].split() == ["all", "baking", "cooking"]
    assert "are judged; the rest counts as irrelevant" in out
    found = document(capsys, corpus, "--by", "topic", "--json")
    assert found["by"]["field"] == "topic"
    assert found["by"]["groups"]["baking"]["queries"] == 1
    code, _, err = evaluate(capsys, corpus, "--by", "day")
    assert (code, "no query has the label field 'day'; there is document, kind, split, topic" in err) == (2, True)
