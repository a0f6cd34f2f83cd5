"""Robustness in a report: kept beside the cells, shown when it is there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab.errors import InputError
from retrieval_lab.report import write_report
from retrieval_lab.report.robustness import keep_robustness, load_robustness
from tests.core.report.made import TEXT, ablation, cell, stored

INTERVAL = {"low": -0.3, "high": -0.05}
CHANGE = {"baseline": 0.7, "system": 0.525, "difference": -0.175, "difference_interval": INTERVAL}
EFFECT = {
    "queries": 11,
    "measures": {"ndcg@10": CHANGE},
    "ranks": {"final": {"before": 9, "after": 7, "lost": ["h1", "h2"], "gained": [], "median_move": 1.0}},
}


@dataclass
class Robust:
    kinds: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {"config": {}, "queries": 12, "kinds": self.kinds}


def test_what_is_kept_is_shown_for_the_measure_of_the_rule(tmp_path: Path) -> None:
    folder = stored(ablation(cell("text", TEXT, (1, 2))), tmp_path)
    plain = write_report(folder, plots=False).path.read_text(encoding="utf-8")
    nothing = {"changed": 0, "unchanged": ["h1"], "excluded": [], "effect": None}
    typos = {"changed": 12, "unchanged": [], "excluded": ["h9"], "effect": EFFECT}
    keep_robustness(folder, {"text": Robust({"typos": typos, "synonyms": nothing})})
    text = write_report(folder, plots=False).path.read_text(encoding="utf-8")
    assert "## Robustness" not in plain
    assert "| text | typos | 11 of 12 | 0.700 | 0.525 | -0.175 (-0.300 to -0.050) | 2 | 0 |" in text
    assert "| text | synonyms | 0 of 0 | – | – | – | 0 | 0 |" in text
    assert '"difference": -0.175' in (folder / "metrics.json").read_text(encoding="utf-8")


def test_a_broken_file_is_named_with_its_fault(tmp_path: Path) -> None:
    assert load_robustness(tmp_path) == {}
    broken = {"changed": 1, "effect": {**EFFECT, "queries": "many"}}
    keep_robustness(tmp_path, {"text": Robust({"typos": broken})})
    with pytest.raises(InputError, match=r"robustness is broken: configurations\.text\.kinds\.typos\.effect\.queries"):
        load_robustness(tmp_path)
