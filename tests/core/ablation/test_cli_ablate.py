"""`retrieval-lab ablate`: what it prints, its JSON document, its exit codes, and where it keeps things."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retrieval_lab import cli
from retrieval_lab.ablation.folder import AblationFolder
from tests.core.ablation.made_cells import CELLS, GRID
from tests.core.evals.test_runs import GOLDEN, make_corpus

pytestmark = pytest.mark.usefixtures("database")

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Three documents; q1 is found first, q2 never."""
    folder = make_corpus(tmp_path / "kitchen")
    (folder / "golden.yaml").write_text("".join(GOLDEN.splitlines(keepends=True)[:2]), encoding="utf-8")
    (tmp_path / "small.yaml").write_text(GRID, encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def ablate(capsys: Capture, corpus: Path, *options: str) -> tuple[int, str, str]:
    code = cli.main(["ablate", str(corpus.parent / "small.yaml"), str(corpus), *options])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_cells_are_a_table_by_the_measure_of_the_rule(corpus: Path, capsys: Capture) -> None:
    code, out, err = ablate(capsys, corpus)
    lines = [line.rstrip() for line in out.splitlines()]
    assert code == 0
    assert lines[0].split("  ")[0] == "configuration"
    assert lines[0].split()[1:] == ["ndcg@10", "recall@10", "ms", "p95", "index", "s", "MB"]
    assert sorted(line.partition("  ")[0] for line in lines[1:5]) == sorted(CELLS)
    assert all("0.500 .00–1.0  0.500 .00–1.0" in line for line in lines[1:5])
    assert lines[6].startswith("4 configurations, 0 failed; means over all queries with 95% bootstrap intervals")
    told = err.splitlines()
    assert [line.partition(": ")[2] for line in told[:4]] == [f"{name}: done" for name in CELLS]
    assert [line.partition(",")[0] for line in told[:4]] == ["1 of 4", "2 of 4", "3 of 4", "4 of 4"]
    folder = corpus / "ablations" / "small"
    assert told[4:] == [f"kept in {folder}", f"the report is {folder / 'report.md'}"]
    assert (folder / "report.md").read_text(encoding="utf-8").startswith("# Ablation small")
    written = (folder / "report.md").stat().st_mtime_ns
    ablate(capsys, corpus)
    assert (folder / "report.md").stat().st_mtime_ns == written  # nothing was made, so there is nothing new to report
    assert len(AblationFolder(corpus / "ablations" / "small").load().cells) == 4


def test_no_number_is_cut_at_80_columns(corpus: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    labelled = f"retrievers:\n  {'long ' * 20}: {{text: }}\n  both: {{vector: , text: }}\n"
    (corpus.parent / "small.yaml").write_text(labelled, encoding="utf-8")
    wide = ablate(capsys, corpus)[1].splitlines()
    monkeypatch.setenv("COLUMNS", "80")
    narrow = ablate(capsys, corpus)[1].splitlines()
    assert max(map(len, narrow[:3])) <= 80
    assert [line.split()[-7:] for line in narrow[1:3]] == [line.split()[-7:] for line in wide[1:3]]


def test_a_second_run_says_the_same_and_does_nothing(corpus: Path, capsys: Capture) -> None:
    first = ablate(capsys, corpus)[1]
    code, second, err = ablate(capsys, corpus)
    assert (code, second) == (0, first)
    assert len(err.splitlines()) == 1


def test_a_report_of_other_cells_or_of_another_rule_is_written_again(corpus: Path, capsys: Capture) -> None:
    grid, report = corpus.parent / "small.yaml", corpus / "ablations" / "small" / "report.md"
    grid.write_text("retrievers: [{text: }]\nreranker: [none]\n", encoding="utf-8")
    ablate(capsys, corpus)
    assert "of 1 configuration" in report.read_text(encoding="utf-8").lower()
    grid.write_text("retrievers: [{text: }, {vector: }]\nreranker: [none]\n", encoding="utf-8")
    ablate(capsys, corpus, "--no-report")  # as one that was killed before its report
    assert "the report is" in ablate(capsys, corpus)[2]
    assert "of 2 configurations" in report.read_text(encoding="utf-8").lower()
    assert "the report is" not in ablate(capsys, corpus)[2]
    grid.write_text(grid.read_text() + "decision: {target: {recall@10: 0.99}}\n", encoding="utf-8")
    assert "the report is" in ablate(capsys, corpus)[2]
    assert "0.99" in report.read_text(encoding="utf-8")
    (report.parent / "ablation.json").unlink()
    assert "the report is" in ablate(capsys, corpus)[2]


def test_the_document_has_every_cell_with_its_costs(corpus: Path, capsys: Capture, tmp_path: Path) -> None:
    code, out, _ = ablate(capsys, corpus, "--json", "--out", str(tmp_path / "here"), "--jobs", "1")
    found = json.loads(out)
    assert code == 0
    assert (found["name"], found["level"], found["failed"]) == ("small", "chunk", [])
    assert found["folder"] == str(tmp_path / "here")
    assert found["rule"] == {"measure": "ndcg@10", "target": {"recall@10": 0.7}, "reranker_ms": 50.0}
    cell = found["cells"][0]
    assert cell["measures"]["recall@10"] == {"value": 0.5, "interval": {"low": 0.0, "high": 1.0}}
    assert (cell["queries"], cell["processes"]) == (2, 1)
    assert cell["memory"] > 10_000_000
    assert 0 < cell["latency"]["median"] <= cell["latency"]["p95"] < 5
    assert cell["config"]["fusion"]["kind"] == "rrf"
    assert not (corpus / "ablations").exists()


def test_a_list_runs_nothing(corpus: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETRIEVAL_LAB_DSN", "postgresql://127.0.0.1:1/nothing")
    (corpus.parent / "small.yaml").write_text(GRID.replace("[null]", "[null, 0.7]"), encoding="utf-8")
    code, out, _ = ablate(capsys, corpus, "--list")
    lines = [line.rstrip() for line in out.splitlines()]
    assert code == 0
    assert lines[1] == "text · no reranker · no MMR"
    left_out = [line for line in lines if line.startswith("text · no reranker · MMR 0.7")]
    assert len(left_out) == 1
    assert "expected null, since MMR has no effect without a reranker" in left_out[0]
    assert lines[-1] == "6 configurations, 0 done; 2 left out; labels count at the level of the chunk"
    code, out, _ = ablate(capsys, corpus, "--list", "--json")
    found = json.loads(out)
    assert [one["done"] for one in found["cells"]] == [False] * 6
    assert found["left_out"][0]["name"] == "text · no reranker · MMR 0.7"
    assert not (corpus / "ablations").exists()


def test_failed_cells_are_listed_with_their_errors(corpus: Path, capsys: Capture) -> None:
    grid = "retrievers: [{text: }]\nreranker: [none, {kind: cross-encoder, model_path: /nowhere}]\nmmr_lambda: [null]\n"
    (corpus.parent / "small.yaml").write_text(grid, encoding="utf-8")
    code, out, err = ablate(capsys, corpus)
    assert code == 1
    assert "1 configuration, 1 failed" in out
    assert [line for line in out.splitlines() if line.startswith("cross-encoder model_path /nowhere  /nowhere")]
    assert "failed: /nowhere" in err
    code, out, _ = ablate(capsys, corpus, "--json")
    assert (code, json.loads(out)["failed"][0]["name"]) == (1, "cross-encoder model_path /nowhere")


def test_what_was_left_out_is_told_after_the_work(corpus: Path, capsys: Capture) -> None:
    (corpus / "golden.yaml").write_text(GOLDEN, encoding="utf-8")
    (corpus / "docs" / "broken.md").write_bytes(b"\xff\xff")
    code, out, err = ablate(capsys, corpus)
    assert (code, "4 configurations, 0 failed" in out) == (2, True)
    assert "broken.md" in err
    assert "q3: no chunk of 'tea' holds the anchor 'with milk'" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--executor", "tcp://x:1"], "expected the address of a Dask scheduler"),
        (["--executor", "dask://x:1", "--jobs", "2"], "--jobs has no effect with --executor"),
    ],
)
def test_options_that_do_not_fit_are_told(corpus: Path, capsys: Capture, options: list[str], message: str) -> None:
    code, _, err = ablate(capsys, corpus, *options)
    assert (code, message in err) == (2, True)
    assert not (corpus / "ablations").exists()


def test_a_grid_with_faults_is_told(corpus: Path, capsys: Capture) -> None:
    (corpus.parent / "small.yaml").write_text("reranker: none\n", encoding="utf-8")
    code, _, err = ablate(capsys, corpus)
    assert code == 2
    assert err.startswith(f"error: {corpus.parent / 'small.yaml'}:1: reranker: expected a list of alternatives")
