"""`retrieval-lab report`: finding the ablation, what is printed, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retrieval_lab.cli import main
from tests.core.report.made import HYBRID, TEXT, ablation, cell, stored

MADE = ablation(cell("text", TEXT, (1, 2, 1, 1)), cell("hybrid", HYBRID, (2, 1, 1, 1)))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "kitchen"
    folder.mkdir()
    stored(MADE, folder / "ablations" / "first")
    return folder


def test_a_name_of_the_corpus_or_a_folder_is_reported(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "first", str(corpus), "--no-plots"]) == 0
    printed = capsys.readouterr().out
    assert "ship text (4 queries held out)" in printed
    assert str(corpus / "ablations" / "first" / "report.md") in printed
    assert main(["report", str(corpus / "ablations" / "first"), "--no-plots", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["decision"]["chosen"] == "text"
    assert [Path(path).name for path in found["files"]] == [
        "report.md",
        "metrics.json",
        "per_query.csv",
        "failures.csv",
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("second", "there is no ablation 'second': of this corpus are kept first"),
        ("./second", "no ablation is kept here"),
        (" ", "the name of the ablation is blank"),
    ],
)
def test_what_is_no_ablation_is_said_with_what_there_is(
    corpus: Path, name: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", name, str(corpus)]) == 2
    assert words in capsys.readouterr().err
