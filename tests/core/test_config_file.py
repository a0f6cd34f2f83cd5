"""Where a configuration comes from: --set over lab.yaml over the defaults; files that are broken or hostile; saving."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given

from retrieval_lab import Lab, PipelineConfig, paths
from retrieval_lab.config_file import EffectiveConfig, config_path, described, effective_config, save_config
from retrieval_lab.errors import InputError
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.settings import (
    Bm25Reranker,
    HashEmbedding,
    MarkdownChunker,
    ModelEmbedding,
    ModelReranker,
    NoReranker,
    RrfFusion,
)
from retrieval_lab.types import Filter
from tests.core.test_config import configs

USUAL = PipelineConfig()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder that is a corpus of one document."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "bread.md").write_text("# Bread\n\nBake the loaf.\n", encoding="utf-8")
    return tmp_path


def effective(corpus: Path, text: str | bytes | None = None, *overrides: str) -> EffectiveConfig:
    """The configuration of the corpus with this lab.yaml and these --set."""
    if text is not None:
        (corpus / "lab.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return effective_config(corpus, overrides=overrides)


def faults(corpus: Path, text: str | bytes | None = None, *overrides: str) -> list[str]:
    """What is wrong, a line each, with `lab.yaml` for the path of the file."""
    with pytest.raises(InputError) as caught:
        effective(corpus, text, *overrides)
    return str(caught.value).replace(str(corpus / "lab.yaml"), "lab.yaml").split("\n")


def only_fault(corpus: Path, text: str | bytes | None = None, *overrides: str) -> str:
    (fault,) = faults(corpus, text, *overrides)
    return fault


# --- precedence ----------------------------------------------------------------------------------------------------


def test_without_a_file_every_value_is_a_default(corpus: Path) -> None:
    found = effective(corpus)
    assert (found.config, found.path) == (USUAL, None)
    assert set(found.origins.values()) == {"default"}
    assert effective_config(None) == found


def test_each_value_comes_from_the_command_line_then_the_file_then_the_defaults(corpus: Path) -> None:
    text = "top_k: 20\nmmr_lambda: 0.5\nfusion:\n  n: 80\n"
    found = effective(corpus, text, "top_k=5", "fusion.k=1")
    assert found.config == PipelineConfig(top_k=5, mmr_lambda=0.5, fusion=RrfFusion(k=1, n=80))
    assert found.path == corpus / "lab.yaml"


def test_the_origin_of_every_value_is_known_by_its_key(corpus: Path) -> None:
    text = "# first line\ntop_k: 20\nreranker: {k1: 2}\nretrievers:\n  near:\n    kind: vector\n    n: 80\n  text:\n"
    found = effective(corpus, text, "fusion.k=1", "retrievers.near.scan=hnsw")
    file = corpus / "lab.yaml"
    assert dict(found.origins) == {
        "chunker.kind": "default",
        "chunker.max_chars": "default",
        "chunker.overlap": "default",
        "contextual_headers": "default",
        "embedder.kind": "default",
        "embedder.dims": "default",
        "retrievers.near.kind": f"{file}:6",
        "retrievers.near.n": f"{file}:7",
        "retrievers.near.weight": "default",
        "retrievers.near.scan": "--set",
        "retrievers.text.kind": "default",
        "retrievers.text.n": "default",
        "retrievers.text.weight": "default",
        "retrievers.text.operators": "default",
        "expansion.kind": "default",
        "fusion.kind": "default",
        "fusion.k": "--set",
        "fusion.n": "default",
        "reranker.kind": "default",
        "reranker.k1": f"{file}:3",
        "reranker.b": "default",
        "mmr_lambda": "default",
        "top_k": f"{file}:2",
        "filter.doc_ids": "default",
        "filter.sources": "default",
        "filter.paths": "default",
        "support_floor": "default",
    }


def test_a_kind_written_alone_has_the_line_it_stands_in(corpus: Path) -> None:
    found = effective(corpus, "\nreranker: none\nembedder: fastembed\n")
    assert found.origins["reranker.kind"].endswith("lab.yaml:2")
    assert found.origins["embedder.kind"].endswith("lab.yaml:3")
    assert found.origins["embedder.model"] == "default"


def test_of_two_overrides_of_one_key_the_last_counts(corpus: Path) -> None:
    assert effective(corpus, None, "top_k=5", "top_k=7").config.top_k == 7


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["contextual_headers=true"], replace(USUAL, contextual_headers=True)),
        (["filter.doc_ids=[a, b]"], replace(USUAL, filter=Filter(("a", "b")))),
        (["filter={doc_ids: [a]}"], replace(USUAL, filter=Filter(("a",)))),
        (["mmr_lambda=null"], replace(USUAL, mmr_lambda=None)),
        (["chunker={max_chars: 800, overlap: 0}"], replace(USUAL, chunker=MarkdownChunker(800, 0))),
        (["chunker.max_chars=800", "chunker.overlap=0"], replace(USUAL, chunker=MarkdownChunker(800, 0))),
        ([" top_k = 7 "], replace(USUAL, top_k=7)),
        (["embedder.kind=fastembed", "embedder.model=a=b"], replace(USUAL, embedder=ModelEmbedding("a=b"))),
    ],
)
def test_an_override_is_a_key_with_dots_and_a_value_of_yaml(
    corpus: Path, overrides: Sequence[str], expected: PipelineConfig
) -> None:
    assert effective(corpus, None, *overrides).config == expected


def test_a_file_named_on_the_command_line_replaces_that_of_the_corpus(corpus: Path) -> None:
    (corpus / "lab.yaml").write_text("top_k: 20\n", encoding="utf-8")
    other = corpus / "other.yaml"
    other.write_text("mmr_lambda: 0.5\n", encoding="utf-8")
    found = effective_config(corpus, path=other)
    assert (found.config, found.path) == (PipelineConfig(mmr_lambda=0.5), other)
    with pytest.raises(InputError, match=r"gone\.yaml: cannot be read: No such file"):
        effective_config(corpus, path=corpus / "gone.yaml")


def test_opening_a_lab_takes_the_file_of_the_corpus_and_a_configuration_given_goes_before_it(
    corpus: Path, database: Any
) -> None:
    (corpus / "lab.yaml").write_text("embedder: {dims: 16}\ntop_k: 3\n", encoding="utf-8")
    with Lab.open(corpus, dsn=None) as lab:
        assert lab.config == PipelineConfig(embedder=HashEmbedding(16), top_k=3)
    with Lab.open(corpus, PipelineConfig(embedder=HashEmbedding(8))) as lab:
        assert lab.config == PipelineConfig(embedder=HashEmbedding(8))
    (corpus / "lab.yaml").write_text("top_q: 3\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"lab\.yaml:1: top_q: unknown key"):
        Lab.open(corpus)
    assert database.embedded


# --- another kind --------------------------------------------------------------------------------------------------


def test_another_kind_on_the_command_line_drops_the_settings_of_the_kind_before(corpus: Path) -> None:
    text = "reranker: {kind: lexical, k1: 2}\nembedder: {dims: 64}\n"
    found = effective(corpus, text, "reranker.kind=cross-encoder", "embedder=fastembed")
    assert found.config == PipelineConfig(reranker=ModelReranker(), embedder=ModelEmbedding())
    found = effective(corpus, text, "reranker={kind: cross-encoder, model: m}")
    assert found.config == PipelineConfig(reranker=ModelReranker("m"), embedder=HashEmbedding(64))


def test_the_same_kind_on_the_command_line_keeps_its_settings(corpus: Path) -> None:
    text = "reranker: {k1: 2}\nembedder: {dims: 64}\n"
    found = effective(corpus, text, "reranker.kind=lexical", "embedder=hash", "reranker.b=0.5")
    assert found.config == PipelineConfig(reranker=Bm25Reranker(2, 0.5), embedder=HashEmbedding(64))


def test_a_setting_of_the_kind_that_was_dropped_is_refused(corpus: Path) -> None:
    fault = only_fault(corpus, None, "reranker.kind=cross-encoder", "reranker.k1=2")
    assert fault.startswith("--set: reranker.k1: unknown key")


def test_no_reranker_on_the_command_line_drops_the_lambda_of_the_file(corpus: Path) -> None:
    found = effective(corpus, "mmr_lambda: 0.5\n", "reranker=none")
    assert found.config == PipelineConfig(reranker=NoReranker(), mmr_lambda=None)


@pytest.mark.parametrize("overrides", [("reranker=none", "mmr_lambda=0.3"), ("mmr_lambda=0.3", "reranker=none")])
def test_a_lambda_and_no_reranker_on_one_command_line_are_refused_in_either_order(
    corpus: Path, overrides: tuple[str, str]
) -> None:
    assert only_fault(corpus, None, *overrides).startswith("--set: mmr_lambda is 0.3; expected null")


def test_a_lambda_without_a_reranker_in_the_file_is_refused_with_its_line(corpus: Path) -> None:
    assert only_fault(corpus, "reranker: none\nmmr_lambda: 0.3\n").startswith("lab.yaml:2: mmr_lambda is 0.3")


# --- retrievers ----------------------------------------------------------------------------------------------------


def test_a_file_that_names_retrievers_names_all_of_them_in_order(corpus: Path) -> None:
    assert effective(corpus, "retrievers: {text: }\n").config.retrievers == (TextSearch(),)
    assert effective(corpus, "retrievers: {text: {n: 9}, vector: }\n").config.retrievers == (
        TextSearch(n=9),
        VectorSearch(),
    )


def test_the_command_line_changes_one_retriever(corpus: Path) -> None:
    found = effective(corpus, "retrievers: {text: {n: 9}, near: {kind: vector, weight: 2}}\n", "retrievers.near.n=7")
    assert found.config.retrievers == (TextSearch(n=9), VectorSearch(name="near", weight=2, n=7))
    found = effective(corpus, "", "retrievers.text.operators=false", "retrievers.vector.weight=0")
    assert found.config.retrievers == (VectorSearch(weight=0), TextSearch(operators=False))


def test_the_command_line_adds_a_retriever_and_replaces_all(corpus: Path) -> None:
    found = effective(corpus, None, "retrievers.index={kind: vector, scan: hnsw}", "retrievers.index.n=20")
    assert found.config.retrievers == (VectorSearch(), TextSearch(), VectorSearch(name="index", scan="hnsw", n=20))
    found = effective(corpus, None, "retrievers={near: vector}")
    assert found.config.retrievers == (VectorSearch(name="near"),)
    found = effective(corpus, "retrievers: {text: }\n", "retrievers.vector.n=5")
    assert found.config.retrievers == (TextSearch(), VectorSearch(n=5))


def test_the_command_line_takes_a_retriever_out(corpus: Path) -> None:
    assert effective(corpus, None, "retrievers.vector=null").config.retrievers == (TextSearch(),)
    assert only_fault(corpus, None, "retrievers.vector=", "retrievers.text=null").startswith(
        "--set: retrievers is empty"
    )


def test_the_command_line_cannot_change_a_retriever_that_is_not_there(corpus: Path) -> None:
    fault = only_fault(corpus, None, "retrievers.near.n=5")
    assert fault.startswith("--set")
    assert all(name in fault for name in ("near", "vector", "text"))


# --- faults say where ----------------------------------------------------------------------------------------------


def test_every_fault_has_its_line_or_the_option(corpus: Path) -> None:
    text = (
        "top_q: 5\n"
        "chunker:\n"
        "  max_chars: 0\n"
        "reranker: {k1: 2,\n"
        "  model: m}\n"
        "retrievers:\n"
        "  vector:\n"
        "    scan: fast\n"
        "  tex: {}\n"
        "filter:\n"
        "  doc_ids:\n"
        "    - a\n"
        "    - 5\n"
    )
    found = faults(corpus, text, "embedder.kind=word2vec", "fusion.n=x")
    assert sorted(fault.partition(": ")[0] for fault in found) == [
        "--set",
        "--set",
        "lab.yaml:1",
        "lab.yaml:13",
        "lab.yaml:3",
        "lab.yaml:5",
        "lab.yaml:8",
        "lab.yaml:9",
    ]


def test_settings_that_do_not_fit_each_other_have_the_line_of_one_of_them(corpus: Path) -> None:
    assert only_fault(corpus, "\ntop_k: 60\n").startswith("lab.yaml:2: top_k is 60")
    assert only_fault(corpus, "fusion: {k: 1}\ntop_k: 5\n", "fusion.n=3").startswith("lab.yaml:2: top_k is 5")
    assert only_fault(corpus, "\nfusion:\n  n: 5\n").startswith("lab.yaml:3")
    assert only_fault(corpus, "", "fusion.n=5").startswith("--set")


@pytest.mark.parametrize("override", ["top_k", "=5", " =5", "", "top_k:5"])
def test_an_override_without_key_and_value_is_refused_with_an_example(corpus: Path, override: str) -> None:
    fault = only_fault(corpus, None, override)
    assert fault.startswith("--set")
    assert "KEY=VALUE" in fault


@pytest.mark.parametrize(
    "override",
    [
        "top_k.x=5",
        "chunker.max_chars.x=5",
        "retrievers.vector.n.x=5",
        "retrievers=5",
        "retrievers.vector=5",
        "retrievers.vector.kind=[a]",
        "chunker.kind=[a]",
        "filter.doc_ids=a",
        "filter.doc_ids.x=a",
        "filter=a",
        "..=5",
        "top_k=",
        "top_k=[",
        "top_k='",
        "top_k=a: b: c",
        "top_k=\x00",
        "top_k=2024-13-45",
        "filter.doc_ids=[2024-02-30]",
        "top_k=!!int ''",
        "contextual_headers=!!bool maybe",
        "top_k=!!python/object/apply:os.getcwd []",
        "filter=&a [*a]",
        "filter=&a {doc_ids: *a}",
        "top_k=" + "[" * 700 + "]" * 700,
        "top_k=0x" + "f" * 5000,
        "fusion.k=" + "9" * 400,
    ],
    ids=lambda override: override[:40],
)
def test_a_bad_override_is_refused_in_one_line(corpus: Path, override: str) -> None:
    assert only_fault(corpus, None, override).startswith("--set")


# --- files that are broken or hostile ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("top_k: 5\n\tfusion: {}\n", 2, "not YAML"),
        ("top_k: 5\nfusion: {n: 20\n", 3, "not YAML"),
        ("top_k: 'a\n", 2, "not YAML"),
        ("top_k: 5\n---\ntop_k: 6\n", 2, "document"),
        ("top_k: *nobody\n", 1, "alias"),
        ("- top_k: 5\n", 1, "mapping"),
        ("\n\njust words\n", 3, "mapping"),
        ("5\n", 1, "mapping"),
        ("top_k: 5\nfusion:\n  n: 20\ntop_k: 6\n", 4, "top_k is repeated"),
        ("fusion:\n  n: 20\n  'n': 30\n", 3, "n is repeated"),
        ("top_k: 5\nchunker: &a {kind: *a}\n", 2, "alias"),
        ("filter: {doc_ids: &a [*a]}\n", 1, "alias"),
        ("\nreranker:\n  - lexical\n", 2, "found a list"),
        ("top_k: 1e3\n", 1, "expected a whole number, found '1e3'"),
        ("top_k: 10.0\n", 1, "expected a whole number, found 10.0"),
        ("top_k: ten\n", 1, "expected a whole number, found 'ten'"),
        ("mmr_lambda: off\n", 1, "expected a number or null, found False"),
        ("contextual_headers: 1\n", 1, "expected true or false"),
        ("contextual_headers: 'yes'\n", 1, "expected true or false"),
        ("filter: {doc_ids: [2024-02-03]}\n", 1, "expected text"),
        ("fusion: {k: .nan}\n", 1, "k is nan"),
        ("fusion: {k: .inf}\n", 1, "k is inf"),
        ("? [a, b]\n: 5\n", 1, "unknown key"),
        ("5: 5\n", 1, "5: unknown key"),
        ("null: 5\n", 1, "null: unknown key"),
        ("<<: {top_k: 5}\n", 1, "<<: unknown key"),
        ("top_k: 5\nfilter: {doc_ids: [2024-13-45]}\n", 2, "not YAML"),
        ("\ntop_k: !!int ''\n", 2, "int"),
        ("\nmmr_lambda: !!float ''\n", 2, "float"),
        ("\ncontextual_headers: !!bool maybe\n", 2, "bool"),
        ("\ntop_k: !!timestamp soon\n", 2, "timestamp"),
        ("\ntop_k: 0x" + "f" * 5000 + "\n", 2, "top_k"),
        ("\nfusion: {k: " + "9" * 400 + "}\n", 2, "k"),
        ("\nfilter: {doc_ids: ['\\x']}\nfusion: {k: \"\\U00110000\"}\n", 3, "not YAML"),
        ("chunker: {kind: [markdown]}\n", 1, "chunker.kind"),
        ("retrievers:\n  vector: {kind: {a: b}}\n", 2, "retrievers.vector.kind"),
        ("\ntop_k: 5\x00\n", 2, "character"),
        ("\ntop_k: 5 # \x07\n", 2, "character"),
        (b"top_k: 5\n# caf\xe9\n", 2, "UTF-8"),
    ],
)
def test_a_broken_file_is_refused_in_one_line_that_names_the_line(
    corpus: Path, text: str | bytes, line: int, words: str
) -> None:
    fault = only_fault(corpus, text)
    assert fault.startswith(f"lab.yaml:{line}: ")
    assert fault.count("lab.yaml") == 1
    assert words in fault
    assert "Node(" not in fault


@pytest.mark.parametrize("text", ["top_k: 5\n".encode("utf-16"), b"\x89PNG\r\n\x1a\n\x00"])
def test_a_file_that_is_no_text_is_refused_in_one_line(corpus: Path, text: bytes) -> None:
    assert "UTF-8" in only_fault(corpus, text)


@pytest.mark.parametrize(
    ("opening", "closing", "depth"), [("[", "]", 200), ("{a: ", "}", 200), ("[", "]", 700), ("{a: ", "", 50_000)]
)
def test_a_file_nested_deeply_is_refused_in_one_line(corpus: Path, opening: str, closing: str, depth: int) -> None:
    began = time.monotonic()
    assert only_fault(corpus, f"top_k: {opening * depth}{closing * depth}\n").startswith("lab.yaml")
    assert time.monotonic() - began < 5


def test_aliases_of_aliases_cost_no_more_than_the_file_is_long(corpus: Path) -> None:
    """Each line means ten times as much as the one before."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 6)]
    began = time.monotonic()
    assert len(faults(corpus, "\n".join(lines))) == 6
    assert time.monotonic() - began < 1


@pytest.mark.parametrize("place", ["top_k: {}\n", "chunker: {}\n", "{}\n"])
@pytest.mark.parametrize(
    "tagged",
    ["!!python/object/apply:os.mkdir [{}]", "!!python/object:os.Foo {{}}", "!!python/name:os.mkdir", "!other {{}}"],
)
def test_a_tag_never_makes_an_object_and_is_refused(corpus: Path, place: str, tagged: str) -> None:
    target = corpus / "made"
    assert only_fault(corpus, place.format(tagged.format(target))).startswith("lab.yaml:1")
    assert not target.exists()


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "{}\n", "\ufeff", "---\n...\n"])
def test_an_empty_file_is_all_defaults(corpus: Path, text: str) -> None:
    assert effective(corpus, text).config == USUAL


@pytest.mark.parametrize(
    "text",
    [
        "top_k: 5\r\nfusion: {n: 20}\r\n",
        "\ufefftop_k: 5\nfusion: {n: 20}\n",
        "'top_k': 0x5\nfusion: {n: 2_0}\n",
        "%YAML 1.1\n---\ntop_k: 5\nfusion:\n  n: 20\n...\n",
        "fusion: &f {n: 20}\ntop_k: 5",
    ],
)
def test_what_yaml_allows_is_read(corpus: Path, text: str) -> None:
    assert effective(corpus, text).config == PipelineConfig(top_k=5, fusion=RrfFusion(n=20))


@pytest.mark.parametrize(
    ("word", "value"), [("yes", True), ("on", True), ("True", True), ("off", False), ("no", False)]
)
def test_the_words_of_yaml_for_true_and_false_are_taken(corpus: Path, word: str, value: bool) -> None:
    assert effective(corpus, f"contextual_headers: {word}\n").config.contextual_headers is value


def test_a_folder_in_the_place_of_the_file_is_refused(corpus: Path) -> None:
    (corpus / "lab.yaml").mkdir()
    assert only_fault(corpus) == "lab.yaml: cannot be read: Is a directory"


def test_a_pipe_in_the_place_of_the_file_does_not_keep_us_waiting(corpus: Path) -> None:
    os.mkfifo(corpus / "lab.yaml")
    writer = os.open(corpus / "lab.yaml", os.O_RDWR)
    answers: list[list[str]] = []
    thread = threading.Thread(target=lambda: answers.append(faults(corpus)), daemon=True)
    thread.start()
    thread.join(1)
    waiting = thread.is_alive()
    os.close(writer)  # the end of the file for who waits
    thread.join()
    assert not waiting
    assert len(answers[0]) == 1


# --- showing and saving --------------------------------------------------------------------------------------------


@given(configs())
def test_what_is_described_reads_back_as_the_same_configuration(
    tmp_path_factory: pytest.TempPathFactory, config: PipelineConfig
) -> None:
    folder = tmp_path_factory.mktemp("described")
    save_config(config, folder / "lab.yaml")
    found = effective_config(folder)
    assert found.config == config
    (folder / "lab.yaml").write_text(described(found), encoding="utf-8")
    assert effective_config(folder).config == config


def test_what_is_described_has_every_value_with_its_origin(corpus: Path) -> None:
    found = effective(corpus, "top_k: 5\nretrievers:\n  text:\n    n: 9\n", "fusion.k=1")
    rows = [row.split("  # ") for row in described(found).splitlines()]
    assert [(row[0].rstrip(), row[1].replace(str(corpus), "") if row[1:] else "") for row in rows] == [
        ("chunker:", ""),
        ("  kind: markdown", "default"),
        ("  max_chars: 1200", "default"),
        ("  overlap: 1", "default"),
        ("contextual_headers: false", "default"),
        ("embedder:", ""),
        ("  kind: hash", "default"),
        ("  dims: 256", "default"),
        ("retrievers:", ""),
        ("  text:", ""),
        ("    kind: text", "default"),
        ("    n: 9", "/lab.yaml:4"),
        ("    weight: 1.0", "default"),
        ("    operators: true", "default"),
        ("expansion:", ""),
        ("  kind: none", "default"),
        ("fusion:", ""),
        ("  kind: rrf", "default"),
        ("  k: 1", "--set"),
        ("  n: 50", "default"),
        ("reranker:", ""),
        ("  kind: lexical", "default"),
        ("  k1: 1.2", "default"),
        ("  b: 0.75", "default"),
        ("mmr_lambda: 0.7", "default"),
        ("top_k: 5", "/lab.yaml:1"),
        ("filter:", ""),
        ("  doc_ids: []", "default"),
        ("  sources: []", "default"),
        ("  paths: []", "default"),
        ("support_floor: 0.25", "default"),
    ]


def test_a_saved_configuration_is_plain_yaml_with_every_setting(tmp_path: Path) -> None:
    save_config(USUAL, tmp_path / "new" / "folder" / "lab.yaml")
    text = (tmp_path / "new" / "folder" / "lab.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == USUAL.to_dict()
    assert list(yaml.safe_load(text)) == list(USUAL.to_dict())


def test_saving_replaces_the_file_and_keeps_the_one_before_beside_it(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text("top_k: 3  # three\n", encoding="utf-8")
    save_config(USUAL, tmp_path / "lab.yaml")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["lab.yaml", "lab.yaml.bak"]
    assert (tmp_path / "lab.yaml.bak").read_text(encoding="utf-8") == "top_k: 3  # three\n"
    assert effective_config(tmp_path).config == USUAL


@pytest.mark.parametrize("operation", ["write_bytes", "replace"])
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    (tmp_path / "lab.yaml").write_text("top_k: 3\n", encoding="utf-8")
    original = getattr(Path, operation)

    def full(self: Path, *_: Any, **__: Any) -> Any:
        if operation == "write_bytes":
            original(self, b"chunk")  # the part that still had room
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, operation, full)
        with pytest.raises(InputError, match=r"lab\.yaml: cannot be written: No space left on device"):
            save_config(USUAL, tmp_path / "lab.yaml")
    assert {entry.name for entry in tmp_path.iterdir()} - {"lab.yaml.bak"} == {"lab.yaml"}
    assert (tmp_path / "lab.yaml").read_text(encoding="utf-8") == "top_k: 3\n"


def test_a_folder_that_cannot_be_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"cannot be written: (File exists|Not a directory)"):
        save_config(USUAL, tmp_path / "file" / "lab.yaml")
    with pytest.raises(InputError, match="cannot be written: Is a directory"):
        save_config(USUAL, tmp_path / "folder")
    assert sorted(entry.name for entry in tmp_path.rglob("*")) == ["file", "folder"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_without_permission_is_told_in_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match=r"lab\.yaml: cannot be written: Permission denied"):
        save_config(USUAL, tmp_path / "lab.yaml")
    assert list(tmp_path.iterdir()) == []


# --- where the file lies -------------------------------------------------------------------------------------------


@pytest.fixture
def data_dir(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory of the test's own."""
    folder = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(folder))
    return folder


def read_only(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make the folder look read-only, for root too."""
    access = os.access

    def answer(path: Any, mode: int, **options: Any) -> bool:
        return not (mode & os.W_OK and Path(path) == folder) and access(path, mode, **options)

    monkeypatch.setattr(os, "access", answer)


def test_the_file_lies_beside_a_corpus_that_can_be_written(corpus: Path, data_dir: Path) -> None:
    assert config_path(corpus) == corpus / "lab.yaml"
    assert list(data_dir.iterdir()) == []


def test_the_file_of_a_read_only_corpus_lies_in_the_data_directory(
    corpus: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_only(monkeypatch, corpus)
    path = config_path(corpus)
    assert path.name == "lab.yaml"
    assert path.is_relative_to(data_dir)
    save_config(PipelineConfig(top_k=7), path)
    found = effective_config(corpus)
    assert (found.config.top_k, found.path) == (7, path)
    assert found.origins["top_k"].startswith(f"{path}:")


def test_two_read_only_corpora_of_one_name_have_files_of_their_own(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for parent in ("one", "two"):
        folder = tmp_path / parent / "corpus"
        folder.mkdir(parents=True)
        read_only(monkeypatch, folder)
        found.append(config_path(folder))
    assert len(set(found)) == 2
    assert all(path.is_relative_to(data_dir) for path in found)


def test_a_file_beside_a_read_only_corpus_is_still_read(
    corpus: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (corpus / "lab.yaml").write_text("top_k: 7\n", encoding="utf-8")
    read_only(monkeypatch, corpus)
    assert effective_config(corpus).config.top_k == 7
    assert list(data_dir.iterdir()) == []


def test_the_corpus_inside_an_installed_package_counts_as_read_only(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = tmp_path / "retrieval_lab" / "corpus"
    packaged.mkdir(parents=True)
    monkeypatch.setattr(paths, "__file__", str(packaged.parent / "paths.py"))
    assert config_path(packaged).is_relative_to(data_dir)
    assert config_path(packaged.parent) == packaged.parent / "lab.yaml"
