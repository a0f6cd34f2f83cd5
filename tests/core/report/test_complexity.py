"""How complex a configuration is: points counted by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from retrieval_lab.config import PipelineConfig
from retrieval_lab.report.complexity import MODEL_POINTS, RERANKER_POINTS, complexity, complexity_of
from retrieval_lab.settings import RERANKERS, ModelEmbedding, ModelReranker
from tests.core.report.made import HYBRID, TEXT, VECTOR, reranked

MODEL = ModelEmbedding(model="a")


@pytest.mark.parametrize(
    ("config", "points"),
    [
        (TEXT, 1),
        (VECTOR, 1),
        (HYBRID, 2),
        (reranked(HYBRID), 3),
        (reranked(HYBRID, 0.7), 4),
        (replace(HYBRID, reranker=ModelReranker(model="b")), 5),
        (replace(TEXT, embedder=MODEL), 1),  # which nothing in it uses
        (replace(VECTOR, embedder=MODEL), 3),
        (replace(reranked(TEXT, 0.7), embedder=MODEL), 5),  # MMR compares vectors
    ],
)
def test_every_part_that_has_to_be_run_has_its_points(config: PipelineConfig, points: int) -> None:
    assert complexity(config).points == points


def test_an_expansion_is_a_point() -> None:
    settings = HYBRID.to_dict()
    assert complexity_of({**settings, "expansion": {"kind": "rm3"}}).points == 3
    assert complexity_of({**settings, "expansion": {"kind": "none"}}).points == 2


def test_every_reranker_has_points_and_a_model_has_more_than_words() -> None:
    assert RERANKERS.keys() <= RERANKER_POINTS.keys()
    in_order = [RERANKER_POINTS[kind] for kind in ("none", "lexical", "learned", "cross-encoder")]
    assert in_order == sorted(set(in_order))


def test_the_page_states_the_points() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "report.md").read_text(encoding="utf-8")
    stated = {kind: int(points) for kind, points in re.findall(r"^\| reranker `(.+)` \| (\d) \|$", page, re.MULTILINE)}
    assert stated == {kind: points for kind, points in RERANKER_POINTS.items() if points}
    assert re.findall(r"^\| a model that embeds.*\| (\d) \|$", page, re.MULTILINE) == [str(MODEL_POINTS)]
