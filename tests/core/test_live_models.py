"""The default models on the bundled corpus; skipped where they are not in the cache, which is never filled here."""

from __future__ import annotations

import pytest

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.model_cache import cached_models
from retrieval_lab.settings import ModelEmbedding, ModelReranker


def test_the_default_models_reach_the_floors_that_are_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = [model for model, there in cached_models().items() if not there]
    if absent:
        pytest.skip(f"not in the cache: {', '.join(absent)}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with Lab.open(config=PipelineConfig(embedder=ModelEmbedding(), reranker=ModelReranker())) as lab:
        found = lab.evaluate(k=10)
    assert found.queries == 48
    assert found.recall >= 0.75
    assert found.mrr >= 0.60
