"""Grid files: the cells they stand for, in which order and under which names, and the lines of what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retrieval_lab.ablation.grid import AXES, Grid, load_grid
from retrieval_lab.ablation.rule import Rule
from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import InputError
from retrieval_lab.retrievers.bm25 import Bm25Search
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.settings import Bm25Reranker, MarkdownChunker, NoReranker, WordChunker

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "grids"


def load(folder: Path, text: str) -> Grid:
    path = folder / "grid.yaml"
    path.write_text(text, encoding="utf-8")
    return load_grid(path)


def names(grid: Grid) -> list[str]:
    return [spec.name for spec in grid.specs]


def test_the_cells_are_the_product_in_the_order_of_a_configuration_the_last_part_changing_fastest(
    tmp_path: Path,
) -> None:
    grid = load(
        tmp_path,
        "mmr_lambda: [null, 0.7]\nreranker: [none, lexical]\n"
        "chunker: [markdown, {kind: words, size: 120, overlap: 60}]\n",
    )
    # mmr_lambda stands first in the file and last in a configuration; MMR without a reranker is no pipeline.
    assert names(grid) == [
        "markdown · no reranker · no MMR",
        "markdown · lexical · no MMR",
        "markdown · lexical · MMR 0.7",
        "words size 120 overlap 60 · no reranker · no MMR",
        "words size 120 overlap 60 · lexical · no MMR",
        "words size 120 overlap 60 · lexical · MMR 0.7",
    ]
    parts = [(one.config.chunker, one.config.reranker, one.config.mmr_lambda) for one in grid.specs]
    assert parts[0] == (MarkdownChunker(), NoReranker(), None)
    assert parts[5] == (WordChunker(120, 60), Bm25Reranker(), 0.7)
    assert [one.name for one in grid.left_out] == [
        "markdown · no reranker · MMR 0.7",
        "words size 120 overlap 60 · no reranker · MMR 0.7",
    ]
    assert "no effect without a reranker" in grid.left_out[0].reason
    assert (grid.name, grid.rule) == ("grid", Rule())


def test_alternatives_may_be_labelled_and_have_settings_of_their_own(tmp_path: Path) -> None:
    grid = load(
        tmp_path, "retrievers:\n  words: {bm25: {k1: 2.0}}\n  both: {vector: , text: {weight: 0.5}}\nreranker: [none]\n"
    )
    assert names(grid) == ["words", "both"]  # what has one alternative is in no name
    assert [one.config.retrievers for one in grid.specs] == [
        (Bm25Search(k1=2.0),),
        (VectorSearch(), TextSearch(weight=0.5)),
    ]
    assert {one.config.reranker for one in grid.specs} == {NoReranker()}


def test_alternatives_without_labels_are_called_by_their_lists(tmp_path: Path) -> None:
    assert names(load(tmp_path, "retrievers: [{text: }, {vector: , text: }]\n")) == ["text", "vector+text"]


def test_what_comes_to_the_same_as_an_earlier_cell_is_left_out_with_its_name(tmp_path: Path) -> None:
    grid = load(
        tmp_path,
        "retrievers: [{text: }, {vector: , text: }]\nfusion: [rrf, {kind: rrf, k: 20}]\nreranker: [none]\n",
    )
    assert names(grid) == ["text · rrf", "vector+text · rrf", "vector+text · rrf k 20"]
    assert [(one.name, one.reason) for one in grid.left_out] == [("text · rrf k 20", "comes to the same as text · rrf")]


@pytest.mark.parametrize("as_file", [False, True])
def test_the_base_is_shared_by_all_cells(tmp_path: Path, as_file: bool) -> None:
    (tmp_path / "base.yaml").write_text("embedder: {kind: hash, dims: 64}\nfusion: {n: 20}\n", encoding="utf-8")
    base = "base.yaml" if as_file else "{embedder: {kind: hash, dims: 64}, fusion: {n: 20}}"
    grid = load(tmp_path, f"base: {base}\nreranker: [none, lexical]\n")
    assert {(one.config.embedder.dims, one.config.fusion.n) for one in grid.specs} == {(64, 20)}  # type: ignore[union-attr]
    assert names(grid) == ["no reranker", "lexical"]


def test_whole_configurations_are_cells_too_and_may_be_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text("retrievers: {text: }\n", encoding="utf-8")
    (tmp_path / "other.yaml").write_text("retrievers: {bm25: }\n", encoding="utf-8")
    grid = load(tmp_path, "configs: [ours.yaml, other.yaml]\n")
    assert names(grid) == ["ours", "other"]
    grid = load(tmp_path, "configs: [other.yaml]\nretrievers: [{text: }]\n")
    assert names(grid) == ["other", "text"]
    assert grid.specs[0].config == PipelineConfig(retrievers=(Bm25Search(),))


def test_labels_count_at_the_level_of_documents_where_the_cells_cut_differently(tmp_path: Path) -> None:
    assert load(tmp_path, "reranker: [none, lexical]\n").level == "chunk"
    assert load(tmp_path, "chunker: [words]\n").level == "chunk"
    assert load(tmp_path, "chunker: [words, sentences]\n").level == "document"
    assert load(tmp_path, "chunker: [words, sentences]\nlevel: chunk\n").level == "chunk"
    assert load(tmp_path, "reranker: [none]\nlevel: document\n").level == "document"


def test_the_rule_is_read(tmp_path: Path) -> None:
    text = "reranker: [none]\ndecision: {measure: mrr@10, target: {hit@10: 0.9}, reranker_ms: 20}\n"
    assert load(tmp_path, text).rule == Rule("mrr@10", "hit@10", 0.9, 20.0)
    # A cut of 5 has other measures, which the rule must name.
    text = "base: {top_k: 5}\nreranker: [none]\ndecision: {measure: ndcg@5, target: {recall@5: 0.5}}\n"
    assert load(tmp_path, text).rule.measure == "ndcg@5"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "rerankers: [none]\n\nchunkers: [words]\n",
            r"grid.yaml:1: rerankers: unknown key(.|\n)*yaml:3: chunkers: unk",
        ),
        ("top_k: [5, 10]\n", r"grid.yaml:1: top_k: unknown key"),
        ("\nreranker: none\n", r"grid.yaml:2: reranker: expected a list of alternatives, such as \[none, lexical\]"),
        ("reranker: []\n", r"grid.yaml:1: reranker: expected a list"),
        ("reranker:\n- none\n- lexicla\n", r"grid.yaml:3: reranker.kind: unknown kind 'lexicla'.*did you mean lexical"),
        (
            "chunker:\n- {kind: words, sise: 3}\n- {kind: words, size: x}\n",
            r"yaml:2: chunker.sise: unknown key(.|\n)*yaml:3: chunker.size: expected a whole number",
        ),
        ("base: 3\n", r"grid.yaml:1: base: expected a mapping of settings, or the path"),
        ("base: gone.yaml\n", r"gone\.yaml.*(no such file|No such file|cannot be read)"),
        ("base:\n  top_k: many\n", r"grid.yaml:2: top_k: expected a whole number"),
        ("configs: ours.yaml\n", r"grid.yaml:1: configs: expected a list of paths"),
        ("level: passage\n", r"grid.yaml:1: level: expected chunk or document"),
        ("decision: 3\n", r"grid.yaml:1: decision: expected a mapping"),
        ("decision:\n  target: {recall@10: 7}\n", r"grid.yaml:2: decision.target: expected"),
        ("decision: {reranker_ms: .inf}\n", r"grid.yaml:1: decision.reranker_ms: expected"),
        (
            "decision:\n  measure: ndcg@5\n",
            r"grid.yaml:1: decision.measure: the cells have no ndcg@5; they all have rec",
        ),
        ("base: {top_k: 5}\n", r"grid.yaml: decision.measure: the cells have no ndcg@10"),
        ("retrievers: [{text: }, {text: {weight: 2.0}}]\n", r"two cells are called 'text'; label"),
        ("base: {reranker: none}\nmmr_lambda: [0.5]\n", r"no combination is a pipeline: MMR 0.5: mmr_lambda is 0.5"),
        ("- none\n", r"grid.yaml:1: expected a mapping"),
        ("reranker: [none\n", r"grid.yaml:\d: "),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(tmp_path, text)


def test_cells_of_other_cuts_or_filters_do_not_compare(tmp_path: Path) -> None:
    (tmp_path / "five.yaml").write_text("top_k: 5\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"five and markdown differ in top_k"):
        load(tmp_path, "chunker: [markdown]\nconfigs: [five.yaml]\n")
    (tmp_path / "part.yaml").write_text("filter: {doc_ids: [tea]}\nreranker: none\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"part and lexical differ in filter"):
        load(tmp_path, "reranker: [lexical]\nconfigs: [part.yaml]\n")


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.yaml"):
        load_grid(tmp_path / "gone.yaml")


def test_the_shipped_grids_can_be_read() -> None:
    found = {path.stem: load_grid(path) for path in FIXTURES.glob("*.yaml")}
    assert len(found["pipelines"].specs) >= 12
    assert all(len(set(names(grid))) == len(grid.specs) for grid in found.values())


def test_the_grid_in_the_page_can_be_read(tmp_path: Path) -> None:
    page = FIXTURES.parents[1] / "docs" / "ablation.md"
    (example,) = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    grid = load(tmp_path, example)
    # Four ways to find; no reranker without MMR, and two rerankers with and without.
    assert len(grid.specs) == 4 * (1 + 2 * 2)
    assert len(grid.left_out) == 4
    assert grid.specs[-1].name == "hybrid, text first · lexical k1 2.0 · MMR 0.7"
    table = page.read_text(encoding="utf-8").partition("## Running")[0]
    assert [key for key in AXES if f"`{key}`" not in table] == []


def test_a_configuration_that_says_little_has_the_rest_from_the_base(tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text("reranker: none\n", encoding="utf-8")
    (spec,) = load(tmp_path, "base: {chunker: documents, reranker: lexical}\nconfigs: [ours.yaml]\n").specs
    assert (spec.config.chunker.kind, spec.config.reranker.kind) == ("documents", "none")


def test_another_embedder_is_another_cell_only_where_something_asks_for_vectors(tmp_path: Path) -> None:
    grid = load(
        tmp_path,
        "embedder: [hash, {kind: hash, dims: 64}]\nretrievers: {words: {bm25: }, near: {flat: }}\nreranker: [none]\n",
    )
    assert names(grid) == ["hash · words", "hash · near", "hash dims 64 · near"]
    assert [one.reason for one in grid.left_out] == ["comes to the same as hash · words"]
