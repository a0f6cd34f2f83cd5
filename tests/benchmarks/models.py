"""Embedding and reranking through the lab against fastembed's own calls, on the small real model beside the lab."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource
from fastembed.rerank.cross_encoder import TextCrossEncoder
from onnx import helper, numpy_helper

from retrieval_lab.embed import FastEmbedder
from retrieval_lab.rerankers import CrossEncoderReranker
from retrieval_lab.types import Chunk
from tests.benchmarks.timing import Ratio, compare
from tests.core import tiny_models

REAL = Path(__file__).parents[3] / "shared" / "models" / "all-minilm-l6-v2"

_QUESTION = "which passages does a reranker read before it answers?"
_PAIRS = 50
_EMBEDDED = 16  # a round must be short, for the load of the machine to meet both sides
_SLOWEST = 1.0526  # 0.95 of the throughput


def ratios(texts: list[str]) -> Iterator[Ratio]:
    """Some chunks, from all over the corpus, are embedded; without the real model only tiny ones are run."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        some = texts[:: max(1, len(texts) // _PAIRS)]
        if REAL.is_dir():
            yield _embedding(some[:: max(1, len(some) // _EMBEDDED)])
            yield _reranking("MiniLM with a head of one number", _with_a_head(folder / "minilm"), some, 2)
        else:
            print(f"{REAL.name} is not there: only a tiny cross-encoder is measured")
        yield _reranking(
            "a tiny cross-encoder", tiny_models.cross_encoder_folder(folder / "tiny", window=512), some, 21
        )


def _embedding(texts: list[str]) -> Ratio:
    direct = TextEmbedding("sentence-transformers/all-MiniLM-L6-v2", specific_model_path=str(REAL))
    sizes = {size: min(_seconds(direct, texts, size) for _ in range(3)) for size in (1, 2, 4, 8, 16)}
    best = min(sizes, key=lambda size: sizes[size])
    embedder = FastEmbedder(model_path=REAL)
    np.testing.assert_allclose(embedder.embed(texts), list(direct.embed(texts, batch_size=1)), atol=1e-5)
    return compare(
        f"FastEmbedder / fastembed in batches of {best}, its best, {len(texts)} chunks",
        lambda: embedder.embed(texts),
        lambda: list(direct.embed(texts, batch_size=best)),
        rounds=11,
        bound=_SLOWEST,
    )


def _seconds(model: Any, texts: list[str], size: int) -> float:
    began = perf_counter()
    list(model.embed(texts, batch_size=size))
    return perf_counter() - began


def _reranking(title: str, folder: Path, texts: list[str], rounds: int) -> Ratio:
    chunks = [Chunk(f"d#{row}", "d", "", 0, len(text), text) for row, text in enumerate(texts[:_PAIRS])]
    passages = [chunk.text for chunk in chunks]
    name = f"benchmark/{folder.name}"
    TextCrossEncoder.add_custom_model(name, sources=ModelSource(url=folder.as_uri()), model_file="model.onnx")
    direct = TextCrossEncoder(name, specific_model_path=str(folder))
    reranker = CrossEncoderReranker(model_path=folder)
    scores = {row.chunk_id: row.score for row in reranker.rerank(_QUESTION, chunks, len(chunks))}
    expected = list(direct.rerank(_QUESTION, passages))
    np.testing.assert_allclose([scores[chunk.chunk_id] for chunk in chunks], expected, rtol=1e-3, atol=1e-3)
    return compare(
        f"CrossEncoderReranker / fastembed, {len(chunks)} pairs, {title}",
        lambda: reranker.rerank(_QUESTION, chunks, len(chunks)),
        lambda: list(direct.rerank(_QUESTION, passages)),
        rounds=rounds,
        bound=1.05,
    )


def _with_a_head(folder: Path) -> Path:
    """The real model as a cross-encoder: its score, the first token's sum, means nothing, but costs as much."""
    folder.mkdir()
    for file in REAL.glob("*token*.json"):
        (folder / file.name).write_bytes(file.read_bytes())
    model = onnx.load(str(REAL / "model.onnx"))
    output = model.graph.output[0].name
    model.graph.initializer.extend(
        [numpy_helper.from_array(np.array(0), "first"), numpy_helper.from_array(np.array([1]), "last_axis")]
    )
    model.graph.node.extend(
        [
            helper.make_node("Gather", [output, "first"], ["first_token"], axis=1),
            helper.make_node("ReduceSum", ["first_token", "last_axis"], ["logits"], keepdims=1),
        ]
    )
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, [None, 1]))
    onnx.save(model, str(folder / "model.onnx"))
    return folder
