"""`retrieval-lab tune`: what it prints, what it writes into lab.yaml, and what it refuses."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab import cli
from retrieval_lab.config_file import effective_config
from tests.core.conftest import CORPUS

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("COLUMNS", raising=False)
    shutil.copytree(CORPUS, tmp_path / "corpus")
    return tmp_path / "corpus"


def run(capsys: Capture, *arguments: str | Path) -> tuple[int, str, str]:
    code = cli.main(["tune", *map(str, arguments)])
    return code, *capsys.readouterr()


def document(capsys: Capture, *arguments: str | Path) -> dict[str, Any]:
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def test_the_curve_has_a_row_for_each_value_and_marks_the_best_and_the_present(capsys: Capture, corpus: Path) -> None:
    found = document(capsys, corpus)
    code, out, err = run(capsys, corpus)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "ndcg@10 of the fused list over 19 dev queries, with 95% bootstrap intervals"
    assert lines[1].startswith("golden.yaml has no splits: ")
    rows = [line for line in lines if "●" in line]
    assert len(rows) == len(found["points"]) == 21
    for row, point in zip(rows, found["points"], strict=True):
        first, second, mean, interval = row.split()[:4]
        assert [float(first), float(second)] == point["value"]
        assert mean == f"{point['mean']:.3f}"
        assert interval == f"{point['interval']['low']:.3f}–{point['interval']['high']:.3f}"
    marked = {row.split("◂")[1].strip(): place for place, row in enumerate(rows) if "◂" in row}
    assert marked == {"best": found["best"], "present": found["present"]}
    assert f"best minus present: +{found['difference']['value']:.3f}, paired 95% interval" in out
    assert "chosen on dev" in out
    assert "retrieval-lab split`, then retrieval-lab eval --split held-out --set retrievers.vector.weight=" in out


@pytest.mark.parametrize("columns", ["60", "80", "240"])
def test_the_bars_fit_into_the_terminal(
    capsys: Capture, corpus: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    _, out, _ = run(capsys, corpus)
    rows = [line for line in out.splitlines() if "●" in line]
    assert len(rows) == 21
    assert all(len(row.rstrip()) <= int(columns) for row in rows)


def test_what_is_chosen_is_written_and_is_then_the_present_value(capsys: Capture, corpus: Path) -> None:
    (corpus / "lab.yaml").write_text("top_k: 8  # few\n", encoding="utf-8")
    before = document(capsys, corpus, "--write")
    assert before["written"] == str(corpus / "lab.yaml")
    chosen = before["points"][before["best"]]
    config = effective_config(corpus).config
    assert [one.weight for one in config.retrievers] == chosen["value"] != [0.5, 0.5]
    assert (config.top_k, [one.name for one in config.retrievers]) == (8, ["vector", "text"])
    assert "top_k: 8  # few\n" in (corpus / "lab.yaml").read_text(encoding="utf-8")
    kept = (corpus / "lab.yaml").read_bytes()
    after = document(capsys, corpus, "--write")
    assert (after["best"], after["written"]) == (after["present"], None)
    assert (corpus / "lab.yaml").read_bytes() == kept
    assert "there is nothing to change" in run(capsys, corpus)[1]


def test_the_options_that_are_printed_make_the_chosen_configuration(capsys: Capture, corpus: Path) -> None:
    found = document(capsys, corpus, "--setting", "reranker.kind", "--values", "lexical,none", "--measure", "mrr@10")
    assert [point["value"] for point in found["points"]] == ["lexical", "none"]
    out = run(capsys, corpus, "--setting", "retrievers.text.n", "--values", "1, 3,50", "--measure", "recall@10")[1]
    assert "recall@10 of the final list over 19 dev queries" in out
    options = next(line for line in out.splitlines() if line.startswith("chosen: "))
    assert shlex.split(options) == ["chosen:", "--set", "retrievers.text.n=3"]


def test_a_swept_setting_is_written_with_the_lists_that_the_file_did_not_name(capsys: Capture, corpus: Path) -> None:
    arguments = ("--setting", "retrievers.text.n", "--values", "1,3", "--measure", "recall@10", "--write")
    code, out, _ = run(capsys, corpus, *arguments)
    assert code == 0
    assert f"written into {corpus / 'lab.yaml'}" in out
    config = effective_config(corpus).config
    assert [(one.name, one.n) for one in config.retrievers] == [("vector", 50), ("text", 3)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--setting", "fusion.k"], "go together"),
        (["--values", "1,2"], "go together"),
        (["--setting", "fusion.k", "--values", " , "], "expected values"),
        (["--setting", "fusion.q", "--values", "1"], "fusion.q: unknown key"),
        (["--setting", "fusion.k", "--values", "1,x"], "fusion.k: expected a number, found 'x'"),
        (["--measure", "bleu"], "the measure 'bleu' is unknown"),
        (["--write", "--set", "top_k=5"], "--write puts"),
    ],
)
def test_what_cannot_be_tuned_is_said(capsys: Capture, corpus: Path, arguments: list[str], message: str) -> None:
    code, out, err = run(capsys, corpus, *arguments)
    assert (code, out) == (2, "")
    assert message in err
