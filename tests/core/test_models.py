"""Local models through fastembed's real code: tiny ones made here, and a small real one where it is at hand."""

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from retrieval_lab import Lab
from retrieval_lab.config import Indexing, PipelineConfig
from retrieval_lab.config_values import PARTS
from retrieval_lab.database import Database
from retrieval_lab.embed import FastEmbedder, Vectors
from retrieval_lab.errors import EnvironmentMissing, InputError, SettingError
from retrieval_lab.index import schema_name
from retrieval_lab.model_choice import embedder_setting, reranker_setting
from retrieval_lab.models import fetch_model, runs
from retrieval_lab.rerankers import CrossEncoderReranker, sigmoid
from retrieval_lab.settings import HashEmbedding, MarkdownChunker, ModelEmbedding, ModelReranker, RrfFusion
from retrieval_lab.text import words
from retrieval_lab.trace import Trace
from retrieval_lab.trace_markdown import trace_markdown
from retrieval_lab.types import Chunk, Truncation
from retrieval_lab.windows import truncations
from tests.core import tiny_models

REAL = Path(__file__).parents[3] / "shared" / "models" / "all-minilm-l6-v2"
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="needs the real model beside the repository")

Make = Callable[..., Path]


@pytest.fixture
def embedding(tmp_path: Path) -> Path:
    return tiny_models.embedding_folder(tmp_path / "tiny-embedder")


@pytest.fixture
def cross_encoder(tmp_path: Path) -> Path:
    return tiny_models.cross_encoder_folder(tmp_path / "tiny-ranker")


def passages(*texts: str) -> list[Chunk]:
    return [Chunk(f"d#{row:03}", "d", "", 0, len(text), text) for row, text in enumerate(texts)]


def counted(*texts: str) -> np.ndarray:
    """The tiny embedder's vectors by hand: counts of the known words, scaled to length one."""
    rows = np.zeros((len(texts), tiny_models.DIMS), dtype=np.float64)
    for row, text in enumerate(texts):
        for word in text.split():
            if word in tiny_models.WORDS:
                rows[row, tiny_models.VOCABULARY[word]] += 1
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def edit(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **values}), encoding="utf-8")


# --- an embedder from a folder -------------------------------------------------------------------------------------


def test_a_folder_described_by_sentence_transformers_is_embedded_as_it_says(embedding: Path) -> None:
    texts = ["red green", "the red red inn", "blue", "who painted the sign"]
    embedder = FastEmbedder(model_path=embedding)
    vectors = embedder.embed(texts)
    assert (embedder.dims, vectors.shape, vectors.dtype) == (16, (4, 16), np.float32)
    np.testing.assert_allclose(vectors, counted(*texts), atol=1e-6)


def test_without_the_module_that_normalises_vectors_are_means(embedding: Path) -> None:
    kinds = ("Transformer", "Pooling")
    (embedding / "modules.json").write_text(json.dumps([{"type": f"a.b.{kind}"} for kind in kinds]), encoding="utf-8")
    vector = FastEmbedder(model_path=embedding).embed(["red green"])[0]
    # Four tokens with [CLS] and [SEP], which have the zero row.
    assert sorted(vector.tolist(), reverse=True)[:3] == pytest.approx([0.25, 0.25, 0])


def test_many_texts_come_back_in_their_order_whatever_their_length(embedding: Path) -> None:
    texts = [" ".join(["red"] * (row * 7 % 20) + ["green"] * (row % 5 + 1)) for row in range(150)]
    np.testing.assert_allclose(FastEmbedder(model_path=embedding).embed(texts), counted(*texts), atol=1e-6)


@pytest.mark.parametrize("lengths", [[], [5], [700], [10] * 200, [1, 900, 2, 600, 3, 599], list(range(300)), [0] * 130])
def test_runs_hold_every_row_once_and_pad_little(lengths: list[int]) -> None:
    parted = runs(["x" * length for length in lengths])
    assert sorted(row for rows in parted for row in rows) == list(range(len(lengths)))
    for rows in parted:
        assert len(rows) <= 64
        assert len(rows) <= 1 or len(rows) * max(lengths[row] for row in rows) <= 600


def test_the_name_of_a_folder_changes_with_every_file_that_decides_its_vectors(embedding: Path) -> None:
    names = {FastEmbedder(model_path=embedding).name}
    assert "tiny-embedder" in min(names)
    edit(embedding / "tokenizer_config.json", model_max_length=16)
    names.add(FastEmbedder(model_path=embedding).name)
    edit(embedding / "1_Pooling" / "config.json", pooling_mode_cls_token=True, pooling_mode_mean_tokens=False)
    names.add(FastEmbedder(model_path=embedding).name)
    (embedding / "model.onnx").write_bytes((embedding / "model.onnx").read_bytes() + b" ")
    names.add(FastEmbedder(model_path=embedding).name)
    (embedding / "README.md").write_text("not about vectors", encoding="utf-8")
    names.add(FastEmbedder(model_path=embedding).name)
    assert len(names) == 4


def test_changed_files_of_a_folder_make_another_index(embedding: Path) -> None:
    indexing = Indexing(MarkdownChunker(), ModelEmbedding(model_path=str(embedding)), contextual_headers=False)
    before = schema_name("corpus", indexing)
    assert schema_name("corpus", indexing) == before
    edit(embedding / "tokenizer_config.json", model_max_length=16)
    assert schema_name("corpus", indexing) != before


def test_a_folder_named_after_a_known_model_is_run_like_it(tmp_path: Path) -> None:
    folder = tiny_models.embedding_folder(tmp_path / "all-MiniLM-L6-v2")
    shutil.rmtree(folder / "1_Pooling")
    embedder = FastEmbedder(model_path=folder)
    assert embedder.dims == 384  # fastembed's list has it, whatever the graph gives
    with pytest.raises(InputError, match="1_Pooling"):
        _ = FastEmbedder(model_path=folder.rename(tmp_path / "unknown")).dims


def test_a_name_says_how_a_folder_is_run_and_its_file_may_have_another_name(embedding: Path) -> None:
    shutil.rmtree(embedding / "1_Pooling")
    (embedding / "model.onnx").rename(embedding / "other.onnx")
    embedder = FastEmbedder("sentence-transformers/all-MiniLM-L6-v2", model_path=embedding)
    assert "sentence-transformers/all-MiniLM-L6-v2" in embedder.name
    np.testing.assert_allclose(embedder.embed(["red red blue"]), counted("red red blue"), atol=1e-6)
    unknown = FastEmbedder("all-MiniLM-L6", model_path=embedding)
    with pytest.raises(InputError, match="sentence-transformers/all-MiniLM-L6-v2"):
        unknown.embed(["red"])


def test_dims_of_a_model_come_from_fastembeds_list() -> None:
    assert FastEmbedder("BAAI/bge-base-en-v1.5").dims == 768
    assert FastEmbedder("sentence-transformers/all-minilm-l6-v2").dims == 384  # in any spelling of its name
    with pytest.raises(InputError, match=r"bge-small-en-v1\.5"):
        _ = FastEmbedder("bge-small-en-v1.4").dims


# --- what a folder may lack ----------------------------------------------------------------------------------------


def _remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _write(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text, encoding="utf-8") and None


BROKEN = [
    (shutil.rmtree, "no such folder"),
    (_remove("tokenizer.json"), "no tokenizer.json"),
    (_remove("tokenizer_config.json"), "no tokenizer_config.json"),
    (_remove("model.onnx"), "no ONNX file"),
    (_write("tokenizer_config.json", '{"pad_token": "[PAD]"}'), "model_max_length is null"),
    (_write("tokenizer_config.json", '{"model_max_length": 1000000000000000019884624838656}'), "model_max_length is 1"),
    (_write("tokenizer_config.json", '{"model_max_length": 8}'), "pad token"),
    (_write("tokenizer_config.json", "[]"), r"tokenizer_config\.json: expected an object"),
    (_write("tokenizer_config.json", "{"), r"tokenizer_config\.json:1: not JSON"),
    (_write("tokenizer.json", "{}"), r"tokenizer\.json: the tokenizer cannot be loaded"),
    (_write("model.onnx", "not a graph"), r"model\.onnx: the model cannot be loaded"),
]


@pytest.mark.parametrize(("harm", "message"), BROKEN)
@pytest.mark.parametrize("kind", ["embedder", "reranker"])
def test_a_broken_folder_is_one_line_that_names_the_file(
    embedding: Path, cross_encoder: Path, harm: Callable[[Path], None], message: str, kind: str
) -> None:
    folder = embedding if kind == "embedder" else cross_encoder
    harm(folder)

    def use() -> None:
        if kind == "embedder":
            FastEmbedder(model_path=folder).embed(["red"])
        else:
            CrossEncoderReranker(model_path=folder).rerank("red", passages("red"), 1)

    with pytest.raises(InputError, match=message) as raised:
        use()
    assert str(folder) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "document", "message"),
    [
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "cls, mean and lasttoken"),
        ("1_Pooling/config.json", {"pooling_mode": "weightedmean"}, "cls, mean and lasttoken"),
        ("modules.json", [{"type": "sentence_transformers.models.Dense"}], "Dense"),
        ("modules.json", {"type": "x"}, "expected a list"),
    ],
)
def test_a_pooling_that_cannot_be_done_is_refused(embedding: Path, name: str, document: object, message: str) -> None:
    (embedding / name).write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        FastEmbedder(model_path=embedding).embed(["red"])


def test_several_graphs_without_a_usual_name_are_refused(embedding: Path) -> None:
    (embedding / "model.onnx").rename(embedding / "a.onnx")
    shutil.copy(embedding / "a.onnx", embedding / "b.onnx")
    with pytest.raises(InputError, match=r"a\.onnx, b\.onnx"):
        FastEmbedder(model_path=embedding)


def test_a_path_to_a_file_is_no_folder(embedding: Path) -> None:
    with pytest.raises(InputError, match="not a folder"):
        CrossEncoderReranker(model_path=embedding / "model.onnx")


# --- a cross-encoder from a folder ---------------------------------------------------------------------------------


def test_a_cross_encoder_ranks_by_shared_words(cross_encoder: Path) -> None:
    chunks = passages("blue cache", "the inn the sign", "red inn", "the the the red")
    found = CrossEncoderReranker(model_path=cross_encoder).rerank("the red inn", chunks, 4)
    # Pairs of equal words: the inn the sign 2 + 1, red inn 2, the the the red 3 + 1.
    assert [(row.chunk_id, row.score) for row in found] == [("d#003", 4), ("d#001", 3), ("d#002", 2), ("d#000", 0)]


def test_a_model_for_embedding_ranks_nothing(tmp_path: Path) -> None:
    folder = tiny_models.embedding_folder(tmp_path / "embedder")
    with pytest.raises(InputError, match=r"/embedder: the model gives arrays; expected one score"):
        CrossEncoderReranker(model_path=folder).rerank("a", [Chunk("a#000", "a", "", 0, 1, "a")], 1)


def test_a_model_with_several_classes_ranks_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contradiction, neutral, entailment"):
        CrossEncoderReranker(model_path=tiny_models.nli_folder(tmp_path / "nli"))


@pytest.mark.parametrize("score", [-1e308, -800.0, -3.5, 0.0, 3.5, 800.0, 1e308])
def test_sigmoid(score: float) -> None:
    expected = 0.0 if score < -700 else 1 / (1 + math.exp(-score))
    assert sigmoid(score) == pytest.approx(expected, rel=1e-12)
    assert sigmoid(score) + sigmoid(-score) == pytest.approx(1)


# --- the window ----------------------------------------------------------------------------------------------------


def test_tokens_are_counted_without_truncation(embedding: Path, cross_encoder: Path) -> None:
    texts = ["", "red", "red " * 50, "red, green!"]
    embedder, reranker = FastEmbedder(model_path=embedding), CrossEncoderReranker(model_path=cross_encoder)
    assert (embedder.window, reranker.window) == (32, 32)
    # [CLS] and [SEP] around one text; of a pair the query too, and another [SEP]. Punctuation is a token.
    assert embedder.token_counts(texts) == [2, 3, 52, 6]
    assert reranker.token_counts(texts, "the inn") == [5, 6, 55, 9]


def test_counting_leaves_the_truncation_of_the_model_alone(embedding: Path) -> None:
    embedder = FastEmbedder(model_path=embedding)
    assert embedder.token_counts(["red " * 50]) == [52]
    beyond = "red " * 30 + "blue"  # the window holds 30 words
    np.testing.assert_allclose(embedder.embed([beyond]), counted("red"), atol=1e-6)
    assert embedder.token_counts(["red " * 50]) == [52]


def test_trap_9_a_tail_that_no_model_reads_is_reported(embedding: Path, cross_encoder: Path) -> None:
    chunks = passages("red " * 30, "red " * 31, "red " * 26, "red " * 27)
    embedder, reranker = FastEmbedder(model_path=embedding), CrossEncoderReranker(model_path=cross_encoder)
    found = truncations(chunks, embedder, lambda chunk: chunk.text, reranker, "the inn blue")
    # A text may have 30 words, its pair with a query of three 26.
    assert found == {
        "d#000": (Truncation("reranker", 36, 32),),
        "d#001": (Truncation("embedder", 33, 32), Truncation("reranker", 37, 32)),
        "d#003": (Truncation("reranker", 33, 32),),
    }
    assert truncations(chunks, object(), lambda chunk: chunk.text, None, "x") == {}


# --- a pipeline of models over Postgres ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("models")
    (folder / "corpus" / "docs").mkdir(parents=True)
    texts = {
        "inn": "# Inn\n\nwho painted the sign of the inn: the sign is red\n",
        "cache": "# Cache\n\nevict an entry of the cache when the cache is full\n",
        "long": f"# Long\n\n{'red ' * 60}\n",
        "blue": "# Blue\n\nblue and green\n",
    }
    for name, text in texts.items():
        (folder / "corpus" / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
    anchor = {"id": "q1", "query": "evict the blue", "kind": "lexical", "doc_id": "long", "anchor": "red red"}
    golden = [{"query_id": anchor.pop("id"), **anchor}]
    (folder / "corpus" / "golden.yaml").write_text(json.dumps(golden), encoding="utf-8")
    config = PipelineConfig(
        embedder=ModelEmbedding(model_path=str(tiny_models.embedding_folder(folder / "embedder"))),
        reranker=ModelReranker(model_path=str(tiny_models.cross_encoder_folder(folder / "reranker"))),
        mmr_lambda=None,
        fusion=RrfFusion(n=3),
        top_k=3,
    )
    with Lab.open(folder / "corpus", config) as opened:
        yield opened


def test_a_pipeline_of_models_puts_the_pool_into_the_cross_encoders_order(lab: Lab) -> None:
    made = lab.trace("the red sign of the inn")
    asked = words(made.query)
    shared = {
        chunk_id: sum(word == other for word in asked for other in words(chunk.text) if word in tiny_models.WORDS)
        for chunk_id, chunk in made.chunks.items()
    }
    assert [row.chunk_id for row in made.reranked] != [row.chunk_id for row in made.pool]
    kept = {**shared, "long#000": 21}  # 32 tokens less 9 of the query and around it and the 2 of the heading
    assert {row.chunk_id: row.score for row in made.reranked} == pytest.approx(kept)


def test_a_trace_says_which_chunks_were_read_in_part_and_keeps_it(lab: Lab) -> None:
    made = lab.trace("the red sign of the inn")
    assert made.truncated == {"long#000": (Truncation("embedder", 64, 32), Truncation("reranker", 71, 32))}
    assert Trace.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    older = made.to_dict()
    del older["truncated"]
    assert Trace.from_dict(older).truncated == {}


def test_a_trace_in_words_says_so_too(lab: Lab) -> None:
    said = "- long#000: the embedder reads 32 of its 64 tokens; the reranker reads 32 of its 71 tokens"
    assert said in trace_markdown(lab.trace("the red sign of the inn")).splitlines()


def test_why_a_passage_was_missed_names_the_tail(lab: Lab) -> None:
    golden = lab.golden_query("q1")
    journey = lab.explain(golden)
    assert journey.lost_at in ("pool", "fusion")
    assert "the embedder reads 32 of its 64 tokens" in (journey.reason or "")
    assert lab.trace(golden).truncated["long#000"][0].tokens == 64


# --- without a network ---------------------------------------------------------------------------------------------

NO_SOCKETS = """
import socket
def refuse(*_, **__):
    raise AssertionError("a socket was asked for")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
"""


def run(script: str, **environment: str) -> str:
    found = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout + found.stderr


def test_folders_need_no_network_and_nothing_is_imported_before_use(embedding: Path, cross_encoder: Path) -> None:
    script = f"""{NO_SOCKETS}
import sys
from retrieval_lab.embed import FastEmbedder
from retrieval_lab.rerankers import CrossEncoderReranker
from retrieval_lab.types import Chunk
embedder = FastEmbedder(model_path={str(embedding)!r})
reranker = CrossEncoderReranker(model_path={str(cross_encoder)!r})
assert FastEmbedder().dims == 384 and FastEmbedder().name and embedder.name and embedder.dims == 16
assert reranker.rerank("q", [], 3) == [] and embedder.embed([]).shape == (0, 16)
assert not {{"fastembed", "onnxruntime", "tokenizers", "huggingface_hub"}} & set(sys.modules)
assert embedder.embed(["red"]).shape == (1, 16)
assert reranker.rerank("red", [Chunk("d#0", "d", "", 0, 3, "red")], 1)[0].score == 1
"""
    assert run(script, HF_HUB_OFFLINE="") == ""


@pytest.mark.parametrize("answers", [False, True])
def test_a_model_that_is_nowhere_is_one_quick_error_and_nothing_else(tmp_path: Path, answers: bool) -> None:
    """The hub refuses the connection, or takes it and stays silent."""
    script = f"""
import time
from retrieval_lab.embed import FastEmbedder
from retrieval_lab.errors import EnvironmentMissing
import fastembed
from retrieval_lab import models
models._HUB_SECONDS = 1
began = time.perf_counter()
try:
    FastEmbedder(cache_dir={str(tmp_path)!r}).embed(["a"])
except EnvironmentMissing as error:
    assert time.perf_counter() - began < 8
    print(error)
"""
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"http://127.0.0.1:{server.getsockname()[1]}"
        if not answers:
            server.close()
        told = run(script, HF_ENDPOINT=endpoint, HF_HUB_OFFLINE="", NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
    assert len(told.splitlines()) == 1
    assert "BAAI/bge-small-en-v1.5" in told
    assert str(tmp_path) in told
    assert "model_path" in told


def test_a_fetched_model_is_found_in_the_cache_without_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(EnvironmentMissing, match="some/model"):
        fetch_model("some/model", tmp_path, ["model.onnx"])
    place = tmp_path / "models--some--model"
    snapshot = place / "snapshots" / ("0" * 40)
    tiny_models.embedding_folder(snapshot)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("0" * 40, encoding="utf-8")
    assert fetch_model("some/model", tmp_path, ["model.onnx"]) == snapshot
    with pytest.raises(EnvironmentMissing, match="cannot be fetched"):
        fetch_model("some/model", tmp_path, ["other.onnx"])


# --- settings and their short forms --------------------------------------------------------------------------------


def test_settings_without_a_model_mean_the_usual_one() -> None:
    assert ModelEmbedding() == ModelEmbedding("BAAI/bge-small-en-v1.5")
    assert ModelReranker() == ModelReranker("Xenova/ms-marco-MiniLM-L-6-v2")
    assert ModelEmbedding(model_path="/m").model is None


@pytest.mark.parametrize("path", ["", " ", "models/x", "./x"])
def test_settings_take_no_relative_folder(path: str) -> None:
    for kind in (ModelEmbedding, ModelReranker):
        with pytest.raises(SettingError, match="absolute") as raised:
            kind(model_path=path)
        assert raised.value.key == "model_path"


def test_a_reranker_is_a_name_or_a_folder() -> None:
    with pytest.raises(SettingError, match="model_path is used instead"):
        ModelReranker("some/model", "/m")


def test_a_folder_survives_the_file_of_the_configuration() -> None:
    config = PipelineConfig(embedder=ModelEmbedding(model_path="~/m"), reranker=ModelReranker(model_path="/r"))
    assert config.to_dict()["embedder"] == {"kind": "fastembed", "model": None, "model_path": "~/m"}
    assert PipelineConfig.from_dict(config.to_dict()) == config
    assert (
        PipelineConfig.from_dict({"embedder": {"kind": "fastembed", "model_path": "~/m"}}).embedder == config.embedder
    )


def test_the_library_takes_a_relative_folder(embedding: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(embedding.parent)
    assert FastEmbedder(model_path=embedding.name).embed(["red"]).shape == (1, 16)


def test_a_rerankers_label_changes_with_its_files(cross_encoder: Path) -> None:
    settings = ModelReranker(model_path=str(cross_encoder))
    before = settings.label()
    assert before.startswith("tiny-ranker@")
    edit(cross_encoder / "tokenizer_config.json", model_max_length=16)
    assert settings.label() != before
    assert ModelReranker("a/b").label() == "a/b"


def test_home_is_expanded(embedding: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(embedding.parent))
    built = ModelEmbedding(model_path="~/tiny-embedder").build()
    assert built.dims == 16


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hash", HashEmbedding()),
        ("hash:64", HashEmbedding(64)),
        ("fastembed", ModelEmbedding()),
        ("fastembed:a/b:c", ModelEmbedding("a/b:c")),
        ("/m", ModelEmbedding(model_path="/m")),
        ("models/m", ModelEmbedding(model_path="/{here}/models/m")),
        ("./m", ModelEmbedding(model_path="/{here}/m")),
        ("there", ModelEmbedding(model_path="/{here}/there")),
        ("~/m", ModelEmbedding(model_path="/{here}/m")),
    ],
)
def test_the_short_forms_of_an_embedder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: HashEmbedding | ModelEmbedding
) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    if isinstance(expected, ModelEmbedding) and expected.model_path is not None:
        expected = replace(expected, model_path=expected.model_path.replace("/{here}", str(tmp_path)))
    assert PipelineConfig.from_dict({"embedder": embedder_setting(text)}).embedder == expected


@pytest.mark.parametrize("text", ["none", "lexical", "cross-encoder", "cross-encoder:x/y", "/m"])
def test_the_short_forms_of_a_reranker(text: str) -> None:
    setting = reranker_setting(text)
    config = PipelineConfig.from_dict({"reranker": setting})
    kinds = PARTS["reranker"][0]
    assert isinstance(config.reranker, kinds["cross-encoder" if text in ("/m", "cross-encoder:x/y") else text])
    if text == "/m":
        assert config.reranker == ModelReranker(model_path="/m")
    if text == "cross-encoder:x/y":
        assert config.reranker == ModelReranker("x/y")


@pytest.mark.parametrize(
    "text", ["", "hash:", "hash:x", "hash:-1", "hash:²", "fastembed:", "bge-small", "Hash", "none"]
)
def test_what_names_no_embedder_is_refused_with_the_forms(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="hash, hash:DIMS, fastembed, fastembed:MODEL or a folder's PATH"):
        embedder_setting(text)


@pytest.mark.parametrize("text", ["", "none:1", "lexical:x", "cross-encoder: ", "learned: ", "fastembed"])
def test_what_names_no_reranker_is_refused_with_the_forms(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        InputError, match="lexical, cross-encoder, cross-encoder:MODEL, learned:FILE or a folder's PATH"
    ):
        reranker_setting(text)


# --- a real model --------------------------------------------------------------------------------------------------


@needs_real
def test_a_real_model_finds_what_shares_no_word(tmp_path: Path) -> None:
    docs = tmp_path / "corpus" / "docs"
    docs.mkdir(parents=True)
    texts = {
        "cache": "# Memory\n\nDropping an item that was not used for a while makes room.\n",
        "pasta": "# Supper\n\nBoil the noodles in salted water, then add tomatoes.\n",
        "trees": "# Garden\n\nApple trees want pruning in late winter.\n",
    }
    for name, text in texts.items():
        (docs / f"{name}.md").write_text(text, encoding="utf-8")
    with Lab.open(tmp_path / "corpus", PipelineConfig(embedder=ModelEmbedding(model_path=str(REAL)))) as lab:
        assert lab.embedder.dims == 384
        for query, best in (("how to cook spaghetti", "pasta"), ("evict stale cache entries", "cache")):
            made = lab.trace(query)
            assert made.vector[0].chunk_id == f"{best}#000"
            assert made.truncated == {}
    with Lab.open(tmp_path / "corpus", lab.config) as again:
        assert again.index.indexed == ()


@needs_real
def test_a_real_models_vectors_do_not_depend_on_the_batch(corpus_chunks: list[Chunk]) -> None:
    embedder = FastEmbedder(model_path=REAL)
    texts = [*(piece.text for piece in corpus_chunks[:6]), "short", "a bit longer", "x", ""]
    together = embedder.embed(texts)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(embedder.embed([text])[0], vector, atol=1e-5)


@needs_real
def test_trap_9_the_last_line_of_a_long_fence_is_beyond_a_real_models_window() -> None:
    fence = "```\n" + "word " * 2000 + "\nthe answer is forty-two\n```"
    embedder = FastEmbedder(model_path=REAL)
    assert embedder.window == 512
    (tokens,) = embedder.token_counts([fence])
    assert tokens > 2000
    np.testing.assert_array_equal(embedder.embed([fence]), embedder.embed([fence.replace("forty-two", "a secret")]))


def test_the_second_evaluation_of_an_unchanged_corpus_embeds_no_passage(
    tmp_path: Path,
    database: Database,  # noqa: ARG001 - keeps the server up
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "inn.md").write_text("# Inn\n\nthe sign of the inn is red\n", encoding="utf-8")
    golden = "- {query_id: q1, query: the red sign, kind: k, doc_id: inn, anchor: sign of the inn}\n"
    (tmp_path / "golden.yaml").write_text(golden, encoding="utf-8")
    folder = str(tiny_models.embedding_folder(tmp_path / "model"))
    config = PipelineConfig(embedder=ModelEmbedding(model_path=folder))
    embedded: list[str] = []
    embed = FastEmbedder.embed

    def counted(self: FastEmbedder, texts: Sequence[str]) -> Vectors:
        embedded.extend(texts)
        return embed(self, texts)

    monkeypatch.setattr(FastEmbedder, "embed", counted)
    for passages in (["# Inn\n\nthe sign of the inn is red"], []):
        embedded.clear()
        with Lab.open(tmp_path, config) as lab:
            assert lab.evaluate().recall == 1.0
        assert embedded == [*passages, "the red sign"]
