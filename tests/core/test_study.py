"""The study in docs/study: what its pages and the README say is what its metrics have."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab.ablation.grid import load_grid

ROOT = Path(__file__).resolve().parents[2]
STUDY = ROOT / "docs" / "study"
CORPORA = ("fixture", "scifact", "cranfield")
NAMES = {
    "MiniLM alone": "MiniLM · rrf · no reranker",
    "MiniLM and BM25 of stems, RRF": "MiniLM + stems · rrf · no reranker",
    "MiniLM and BM25 of stems, min-max": "MiniLM + stems · minmax · no reranker",
}


@cache
def metrics(corpus: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((STUDY / corpus / "metrics.json").read_text(encoding="utf-8"))
    return found


def over_all(corpus: str, name: str, measure: str) -> float:
    """The mean over dev and held-out together."""
    (one,) = (one for one in metrics(corpus)["configurations"] if one["name"] == name)
    parts = (one["dev"], one["held_out"])
    total = sum(part["measures"][measure]["value"] * part["queries"] for part in parts)
    return float(total / sum(part["queries"] for part in parts))


def test_the_table_of_the_readme_is_that_of_the_study() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text.partition("## Which parts help")[2].partition("Vectors of hashed words")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", table, re.MULTILINE)
    assert len(rows) == 16
    for label, *numbers in rows:
        name = NAMES.get(label, label.strip("`"))
        expected = [over_all(corpus, name, f"{m}@10") for corpus in ("fixture", "scifact") for m in ("ndcg", "recall")]
        assert numbers == [f"{value:.3f}" for value in expected], label
    shipped = {path.stem for path in (ROOT / "fixtures" / "configs").glob("*.yaml")}
    assert shipped == {label.strip("`") for label, *_ in rows if label.startswith("`")}


@pytest.mark.parametrize("corpus", CORPORA)
def test_the_study_has_every_cell_of_its_grid(corpus: str) -> None:
    grid = load_grid(STUDY / ("fixture.yaml" if corpus == "fixture" else "documents.yaml"))
    assert {spec.name for spec in grid.specs} == {one["name"] for one in metrics(corpus)["configurations"]}
    assert len(grid.specs) >= 24
    configs = {spec.name: spec.config.to_dict() for spec in grid.specs}
    assert {one["name"]: one["config"] for one in metrics(corpus)["configurations"]} == configs


def test_the_decisions_are_those_of_the_reports() -> None:
    page = (STUDY / "README.md").read_text(encoding="utf-8")
    chosen = {corpus: metrics(corpus)["decision"]["chosen"] for corpus in CORPORA}
    assert chosen == {
        "fixture": "bm25-stemmed",
        "scifact": "MiniLM + stems · minmax · no reranker",
        "cranfield": None,
    }
    for corpus, shipped in (
        ("bundled", "BM25 of stems"),
        ("SciFact", "MiniLM + stems, min-max"),
        ("Cranfield", "none"),
    ):
        assert f"| {corpus} | {shipped} |" in page
    for corpus in ("scifact", "cranfield"):
        found = metrics(corpus)["several_lists"]["comparison"]
        interval = found["difference_interval"]
        said = f"+{found['difference']:.3f} (+{interval['low']:.3f} to +{interval['high']:.3f})"
        assert said in page.replace("\n", " "), corpus


def test_no_report_names_a_place_of_the_machine_that_made_it() -> None:
    for path in STUDY.rglob("*"):
        if path.suffix in (".md", ".json", ".csv", ".yaml"):
            assert not re.search(r"/(home|root|tmp|work|Users)/", path.read_text(encoding="utf-8")), path
