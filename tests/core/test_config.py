"""One configuration for a whole pipeline: its defaults, what it refuses and in which words, and its plain form."""

from __future__ import annotations

import json
import math
import re
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab import PipelineConfig
from retrieval_lab.errors import InputError, SettingError
from retrieval_lab.retrievers.base import RetrieverSettings
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.settings import (
    Bm25Reranker,
    DocumentChunker,
    HashEmbedding,
    MarkdownChunker,
    MinMaxFusion,
    ModelEmbedding,
    ModelReranker,
    NoExpansion,
    NoReranker,
    Rm3Expansion,
    RrfFusion,
    SentenceChunker,
    TrainedReranker,
    WordChunker,
)
from retrieval_lab.types import Filter

DEFAULTS = {
    "chunker": {"kind": "markdown", "max_chars": 1200, "overlap": 1},
    "contextual_headers": False,
    "embedder": {"kind": "hash", "dims": 256},
    "retrievers": {
        "vector": {"kind": "vector", "n": 50, "weight": 1.0, "scan": "exact"},
        "text": {"kind": "text", "n": 50, "weight": 1.0, "operators": True},
    },
    "expansion": {"kind": "none"},
    "fusion": {"kind": "rrf", "k": 60, "n": 50},
    "reranker": {"kind": "lexical", "k1": 1.2, "b": 0.75},
    "mmr_lambda": 0.7,
    "top_k": 10,
    "filter": {"doc_ids": [], "sources": [], "paths": []},
    "support_floor": 0.25,
}


def faults(data: Any) -> list[str]:
    """What is wrong with the plain values, a line each."""
    with pytest.raises(InputError) as caught:
        PipelineConfig.from_dict(data)
    return str(caught.value).split("\n")


def only_fault(data: Any) -> str:
    (fault,) = faults(data)
    return fault


# --- values --------------------------------------------------------------------------------------------------------


def test_the_defaults_are_those_of_the_pinned_pipeline() -> None:
    assert PipelineConfig().to_dict() == DEFAULTS
    assert PipelineConfig.from_dict({}) == PipelineConfig()


def test_the_plain_form_keeps_the_order_of_the_retrievers() -> None:
    turned = PipelineConfig(retrievers=(TextSearch(), VectorSearch()))
    assert list(turned.to_dict()["retrievers"]) == ["text", "vector"]
    assert PipelineConfig.from_dict(turned.to_dict()) == turned != PipelineConfig()


def test_equal_configurations_are_equal_values_and_hash_alike() -> None:
    changes: list[dict[str, Any]] = [
        {"chunker": MarkdownChunker(800)},
        {"contextual_headers": True},
        {"embedder": HashEmbedding(64)},
        {"retrievers": (VectorSearch(scan="hnsw"), TextSearch())},
        {"retrievers": (VectorSearch(), TextSearch(operators=False))},
        {"retrievers": (TextSearch(), VectorSearch())},
        {"retrievers": (VectorSearch(name="near"), TextSearch())},
        {"expansion": Rm3Expansion()},
        {"expansion": Rm3Expansion(of="text")},
        {"fusion": RrfFusion(k=1)},
        {"fusion": MinMaxFusion()},
        {"reranker": Bm25Reranker(k1=2)},
        {"reranker": NoReranker(), "mmr_lambda": None},
        {"mmr_lambda": 0.5},
        {"top_k": 5},
        {"filter": Filter(("a",))},
    ]
    configs = [PipelineConfig(), *(PipelineConfig(**change) for change in changes)]
    again = [PipelineConfig(), *(PipelineConfig(**change) for change in changes)]
    assert [hash(config) for config in configs] == [hash(config) for config in again]
    assert len({*configs, *again}) == len(configs) == 17


def test_a_configuration_cannot_be_changed() -> None:
    config = PipelineConfig()
    with pytest.raises(FrozenInstanceError):
        config.top_k = 5  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        config.chunker.max_chars = 5  # type: ignore[misc]


def test_what_the_index_depends_on_is_chunker_embedder_and_headers_alone() -> None:
    usual = PipelineConfig()
    same = replace(
        usual,
        retrievers=(TextSearch(),),
        fusion=RrfFusion(n=20),
        reranker=NoReranker(),
        mmr_lambda=None,
        top_k=3,
        filter=Filter(("a",)),
    )
    assert same.indexing == usual.indexing
    for other in (
        replace(usual, chunker=MarkdownChunker(overlap=0)),
        replace(usual, embedder=HashEmbedding(8)),
        replace(usual, contextual_headers=True),
    ):
        assert other.indexing != usual.indexing


# --- the plain form and back ---------------------------------------------------------------------------------------

NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,39}", fullmatch=True).filter(
    lambda name: name not in ("fused", "final", "reranked")
)
COUNTS = st.integers(1, 1000)
FINITE = st.floats(0, 1e6)
SHARES = st.floats(0, 1)
MODELS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1).filter(str.strip)


CHUNKERS = st.one_of(
    st.builds(MarkdownChunker, COUNTS, st.integers(0, 9)),
    st.builds(WordChunker, st.integers(10, 10**6), st.integers(0, 9)),
    st.builds(SentenceChunker, st.integers(10, 10**6), st.integers(0, 9)),
    st.just(DocumentChunker()),
)


@st.composite
def configs(draw: st.DrawFn) -> PipelineConfig:
    """Any configuration that is valid."""
    retrievers: list[RetrieverSettings] = []
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        common: dict[str, Any] = {"name": name, "n": draw(COUNTS), "weight": draw(FINITE)}
        if draw(st.booleans()):
            retrievers.append(VectorSearch(scan=draw(st.sampled_from(["exact", "hnsw"])), **common))
        else:
            retrievers.append(TextSearch(operators=draw(st.booleans()), **common))
    if not any(retriever.weight for retriever in retrievers):
        retrievers[0] = replace(retrievers[0], weight=1)
    reranker = draw(
        st.one_of(
            st.just(NoReranker()),
            st.builds(Bm25Reranker, k1=st.floats(0, 1000), b=SHARES),
            st.builds(ModelReranker, MODELS),
            st.just(TrainedReranker("~/reranker.json")),
        )
    )
    pool = draw(COUNTS)
    names = [retriever.name for retriever in retrievers]
    rm3 = st.builds(Rm3Expansion, COUNTS, COUNTS, SHARES, st.none() | st.sampled_from(names))
    return PipelineConfig(
        chunker=draw(CHUNKERS),
        contextual_headers=draw(st.booleans()),
        embedder=draw(st.one_of(st.builds(HashEmbedding, st.integers(1, 2000)), st.builds(ModelEmbedding, MODELS))),
        retrievers=tuple(retrievers),
        expansion=draw(st.just(NoExpansion()) | rm3),
        fusion=draw(st.sampled_from([RrfFusion(draw(FINITE), pool), MinMaxFusion(pool)])),
        reranker=reranker,
        mmr_lambda=None if isinstance(reranker, NoReranker) else draw(st.none() | SHARES),
        top_k=draw(st.integers(1, pool)),
        filter=Filter(tuple(draw(st.lists(st.text(), max_size=3, unique=True)))),
    )


@given(configs())
def test_the_plain_form_reads_back_as_an_equal_configuration(config: PipelineConfig) -> None:
    plain = config.to_dict()
    again = PipelineConfig.from_dict(plain)
    assert (again, hash(again)) == (config, hash(config))
    assert again.to_dict() == plain
    assert PipelineConfig.from_dict(json.loads(json.dumps(plain))) == config


def test_a_document_that_the_filter_names_twice_reads_back_as_an_equal_configuration() -> None:
    config = PipelineConfig(filter=Filter(("a", "b", "a")))
    assert PipelineConfig.from_dict(config.to_dict()) == config


def test_what_is_left_out_has_its_default_also_within_a_part() -> None:
    read = PipelineConfig.from_dict({"fusion": {"n": 80}, "retrievers": {"text": None, "near": {"kind": "vector"}}})
    assert read == PipelineConfig(fusion=RrfFusion(n=80), retrievers=(TextSearch(), VectorSearch(name="near")))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"chunker": "words"}, PipelineConfig(chunker=WordChunker(240, 60))),
        ({"chunker": "sentences"}, PipelineConfig(chunker=SentenceChunker(5, 1))),
        ({"chunker": "documents"}, PipelineConfig(chunker=DocumentChunker())),
        ({"embedder": "fastembed"}, PipelineConfig(embedder=ModelEmbedding())),
        ({"reranker": "none"}, PipelineConfig(reranker=NoReranker(), mmr_lambda=None)),
        ({"reranker": "cross-encoder"}, PipelineConfig(reranker=ModelReranker())),
        ({"retrievers": {"near": "vector"}}, PipelineConfig(retrievers=(VectorSearch(name="near"),))),
    ],
)
def test_a_kind_alone_is_that_kind_with_its_defaults(data: dict[str, Any], expected: PipelineConfig) -> None:
    assert PipelineConfig.from_dict(data) == expected


# --- what is refused: a line that names the key, what was found and what was expected -----------------------------

BAD_VALUES: list[tuple[dict[str, Any], str, str, str]] = [
    ({"top_k": 0}, "top_k", "0", "1 or more"),
    ({"support_floor": 1.5}, "support_floor", "1.5", "every question is answered. to 1"),
    ({"support_floor": -0.1}, "support_floor", "-0.1", "to 1"),
    ({"support_floor": None}, "support_floor", "nothing", "a number"),
    ({"top_k": -3}, "top_k", "-3", "1 or more"),
    ({"top_k": 51}, "top_k", "51", "at most 50"),
    ({"top_k": 2.0}, "top_k", "2.0", "whole number"),
    ({"top_k": "10"}, "top_k", "'10'", "whole number"),
    ({"top_k": True}, "top_k", "True", "whole number"),
    ({"top_k": None}, "top_k", "nothing", "whole number"),
    ({"top_k": [1]}, "top_k", "a list", "whole number"),
    ({"mmr_lambda": 1.01}, "mmr_lambda", "1.01", "0 .* to 1"),
    ({"mmr_lambda": -0.1}, "mmr_lambda", "-0.1", "0 .* to 1"),
    ({"mmr_lambda": math.nan}, "mmr_lambda", "nan", "0 .* to 1"),
    ({"mmr_lambda": "half"}, "mmr_lambda", "'half'", "number or null"),
    ({"mmr_lambda": False}, "mmr_lambda", "False", "number or null"),
    ({"contextual_headers": 1}, "contextual_headers", "1", "true or false"),
    ({"contextual_headers": "yes"}, "contextual_headers", "'yes'", "true or false"),
    ({"chunker": {"max_chars": 0}}, "chunker.*max_chars", "0", "1 or more"),
    ({"chunker": {"overlap": -1}}, "chunker.*overlap", "-1", "0 or more"),
    ({"chunker": {"overlap": 0.5}}, "chunker.*overlap", "0.5", "whole number"),
    ({"chunker": {"kind": "words", "size": 0}}, "chunker.*size", "0", "1 or more"),
    ({"chunker": {"kind": "words", "size": 60}}, "chunker.*overlap", "60", "less than 60"),
    ({"chunker": {"kind": "words", "max_chars": 60}}, "chunker.max_chars", "unknown key", "size, overlap"),
    ({"chunker": {"kind": "sentences", "overlap": 5}}, "chunker.*overlap", "5", "less than 5"),
    ({"chunker": {"kind": "sentences", "overlap": -1}}, "chunker.*overlap", "-1", "0 or more"),
    ({"chunker": {"kind": "sentences", "size": 2.0}}, "chunker.*size", "2.0", "whole number"),
    ({"chunker": {"kind": "documents", "size": 1}}, "chunker.size", "unknown key", "no settings"),
    ({"chunker": 5}, "chunker", "5", "a kind or a mapping"),
    ({"chunker": ["markdown"]}, "chunker", "a list", "a kind or a mapping"),
    ({"embedder": {"dims": 0}}, "embedder.*dims", "0", "1 to 2000"),
    ({"embedder": {"dims": 2001}}, "embedder.*dims", "2001", "1 to 2000"),
    ({"embedder": {"kind": "fastembed", "model": " "}}, "embedder.*model", "blank", "a name"),
    ({"embedder": {"kind": "fastembed", "model": 5}}, "embedder.*model", "5", "text"),
    ({"fusion": {"k": -1}}, "fusion.*k", "-1", "0 or more"),
    ({"fusion": {"k": math.inf}}, "fusion.*k", "inf", "0 or more"),
    ({"fusion": {"k": math.nan}}, "fusion.*k", "nan", "0 or more"),
    ({"fusion": {"n": 0}}, "fusion.*n", "0", "1 or more"),
    ({"fusion": {"kind": "minmax", "k": 60}}, "fusion.k", "unknown key", "minmax takes n"),
    ({"expansion": {"feedback": 3}}, "expansion.feedback", "unknown key", "none takes no settings"),
    ({"expansion": {"kind": "rm3", "feedback": 2.5}}, "expansion.*feedback", "2.5", "whole number"),
    ({"expansion": {"kind": "rm3", "original_weight": math.nan}}, "expansion.*original_weight", "nan", "0 .* to 1"),
    ({"expansion": {"kind": "rm3", "of": 3}}, "expansion.of", "3", "text or null"),
    ({"expansion": {"kind": "rm3", "of": "bm25"}}, "expansion.of", "bm25", "vector, text"),
    ({"reranker": {"k1": -0.5}}, "reranker.*k1", "-0.5", "0 to 1000"),
    ({"reranker": {"k1": math.nan}}, "reranker.*k1", "nan", "0 to 1000"),
    ({"reranker": {"k1": 1e308}}, "reranker.*k1", r"1e\+308", "0 to 1000"),
    ({"reranker": {"b": 1.5}}, "reranker.*b", "1.5", "0 to 1"),
    ({"reranker": {"b": math.nan}}, "reranker.*b", "nan", "0 to 1"),
    ({"reranker": {"kind": "cross-encoder", "model": ""}}, "reranker.*model", "blank", "a name"),
    ({"retrievers": {}}, "retrievers", "empty", "at least one"),
    ({"retrievers": None}, "retrievers", "nothing", "a mapping"),
    ({"retrievers": ["vector"]}, "retrievers", "a list", "a mapping"),
    ({"retrievers": "vector"}, "retrievers", "'vector'", "a mapping"),
    ({"retrievers": {"vector": 5}}, "retrievers.vector", "5", "a kind or a mapping"),
    ({"retrievers": {"vector": {"n": 0}}}, "retrievers.vector.*n", "0", "1 or more"),
    ({"retrievers": {"vector": {"weight": -1}}}, "retrievers.vector.*weight", "-1", "0 or more"),
    ({"retrievers": {"vector": {"weight": math.nan}}}, "retrievers.vector.*weight", "nan", "0 or more"),
    ({"retrievers": {"vector": {"weight": math.inf}}}, "retrievers.vector.*weight", "inf", "0 or more"),
    ({"retrievers": {"vector": {"scan": "fast"}}}, "retrievers.vector.*scan", "'fast'", "exact or hnsw"),
    ({"retrievers": {"vector": {"scan": "hnsw", "n": 1001}}}, "retrievers.vector", "scan is hnsw", "exact.*1000.*1001"),
    ({"retrievers": {"text": {"operators": 0}}}, "retrievers.text.*operators", "0", "true or false"),
    ({"retrievers": {"text": {"weight": 0}}}, "retrievers", "weight 0", "a weight above 0"),
    ({"retrievers": {"fused": "text"}}, "retrievers", "'fused'", "fused, reranked, final"),
    ({"retrievers": {"": "text"}}, "retrievers", "''", "a letter, then letters, digits, - or _"),
    ({"retrievers": {"a.b": "text"}}, "retrievers", "'a.b'", "a letter, then letters, digits, - or _"),
    ({"retrievers": {"x" * 41: "text"}}, "retrievers", "'x{41}'", "a letter, then letters, digits, - or _"),
    ({"filter": 5}, "filter", "5", "a mapping"),
    ({"filter": {"doc_ids": "a"}}, "filter.doc_ids", "'a'", "a list"),
    ({"filter": {"doc_ids": ["a", 5]}}, "filter.doc_ids", "5", "text"),
]


@pytest.mark.parametrize(
    ("data", "key", "found", "expected"), BAD_VALUES, ids=[json.dumps(row[0])[:70] for row in BAD_VALUES]
)
def test_a_bad_value_is_refused_in_one_line(data: dict[str, Any], key: str, found: str, expected: str) -> None:
    fault = only_fault(data)
    named = re.match(key, fault)
    assert named, fault
    assert re.search(found, fault[named.end() :]), fault
    assert re.search(expected, fault[named.end() :]), fault


HUGE = 10**400
ENDLESS = 16**5000  # Python refuses to print it


@pytest.mark.parametrize(
    ("key", "data"),
    [
        ("chunker.kind", {"chunker": {"kind": ["markdown"]}}),
        ("embedder.kind", {"embedder": {"kind": {"a": 1}}}),
        ("retrievers.vector.kind", {"retrievers": {"vector": {"kind": ["vector"]}}}),
        ("fusion", {"fusion": {"k": HUGE}}),
        ("reranker", {"reranker": {"k1": HUGE}}),
        ("retrievers.vector", {"retrievers": {"vector": {"weight": HUGE}}}),
        ("mmr_lambda", {"mmr_lambda": HUGE}),
        ("top_k", {"top_k": ENDLESS}),
        ("reranker", {"reranker": {"b": ENDLESS}}),
    ],
)
def test_a_kind_or_a_number_of_absurd_shape_is_refused_in_one_line(key: str, data: dict[str, Any]) -> None:
    assert only_fault(data).startswith(key)


@pytest.mark.parametrize("kind", ["vector", "text"])
@pytest.mark.parametrize("n", [2**63, HUGE])
def test_a_list_longer_than_the_server_can_count_is_refused(kind: str, n: int) -> None:
    assert only_fault({"retrievers": {kind: {"n": n}}}).startswith(f"retrievers.{kind}")


@pytest.mark.parametrize("data", [None, 5, "top_k: 5", ["top_k"]])
def test_something_else_than_a_mapping_is_refused(data: Any) -> None:
    assert "mapping" in only_fault(data)


@pytest.mark.parametrize("key", ["top\nk", "a\x1b[31mb", "a\u2028b\r"])
def test_a_fault_stays_one_printable_line_whatever_the_key_holds(key: str) -> None:
    for data in ({key: 5}, {"chunker": {key: 5}}, {"filter": {key: 5}}, {"retrievers": {key: "text"}}):
        fault = only_fault(data)
        assert fault.isprintable()


def test_each_part_checks_itself_and_names_the_setting() -> None:
    for part, key in (
        (lambda: MarkdownChunker(0), "max_chars"),
        (lambda: MarkdownChunker(overlap=-1), "overlap"),
        (lambda: WordChunker(60), "overlap"),
        (lambda: SentenceChunker(overlap=5), "overlap"),
        (lambda: SentenceChunker(0, 0), "size"),
        (lambda: HashEmbedding(2001), "dims"),
        (lambda: ModelEmbedding(""), "model"),
        (lambda: RrfFusion(k=-1), "k"),
        (lambda: RrfFusion(n=0), "n"),
        (lambda: MinMaxFusion(n=0), "n"),
        (lambda: Rm3Expansion(feedback=0), "feedback"),
        (lambda: Rm3Expansion(terms=0), "terms"),
        (lambda: Rm3Expansion(original_weight=1.1), "original_weight"),
        (lambda: Bm25Reranker(k1=-1), "k1"),
        (lambda: Bm25Reranker(b=2), "b"),
        (lambda: ModelReranker("\t"), "model"),
        (lambda: TrainedReranker(), "path"),
        (lambda: TrainedReranker("reranker.json"), "path"),
        (lambda: VectorSearch(n=0), "n"),
        (lambda: VectorSearch(name="a b"), "name"),
        (lambda: VectorSearch(n=1001, scan="hnsw"), "scan"),
        (lambda: TextSearch(weight=-1), "weight"),
        (lambda: PipelineConfig(top_k=0), "top_k"),
        (lambda: PipelineConfig(retrievers=()), "retrievers"),
        (lambda: PipelineConfig(mmr_lambda=2), "mmr_lambda"),
    ):
        with pytest.raises(SettingError, match=f"^{key} .*expected") as caught:
            part()
        assert caught.value.key == key
        assert isinstance(caught.value, ValueError)
        assert caught.value.exit_code == 2


def test_two_lists_of_one_name_are_refused() -> None:
    with pytest.raises(SettingError, match=r"near, text, near.*a name for each"):
        PipelineConfig(retrievers=(VectorSearch(name="near"), TextSearch(), VectorSearch(name="near", n=10)))


@pytest.mark.parametrize("name", ["fused", "reranked", "final"])
def test_a_list_cannot_have_the_name_of_a_later_stage(name: str) -> None:
    with pytest.raises(SettingError, match=name):
        PipelineConfig(retrievers=(VectorSearch(name=name),))


# --- keys that are unknown or have no effect -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "key", "suggestion"),
    [
        ({"topk": 5}, "topk", "top_k"),
        ({"retriever": {}}, "retriever", "retrievers"),
        ({"mmr_lamda": 0.5}, "mmr_lamda", "mmr_lambda"),
        ({"chunker": {"max_char": 5}}, "chunker.max_char", "max_chars"),
        ({"chunker": {"kind": "markdwn"}}, "chunker.kind", "markdown"),
        ({"embedder": "fast-embed"}, "embedder.kind", "fastembed"),
        ({"reranker": "crossencoder"}, "reranker.kind", "cross-encoder"),
        ({"retrievers": {"vectors": {"n": 5}}}, "retrievers.vectors.kind", "vector"),
        ({"retrievers": {"text": {"operator": False}}}, "retrievers.text.operator", "operators"),
        ({"filter": {"doc_id": ["a"]}}, "filter.doc_id", "doc_ids"),
    ],
)
def test_an_unknown_key_or_kind_is_refused_with_the_nearest_one(
    data: dict[str, Any], key: str, suggestion: str
) -> None:
    fault = only_fault(data)
    assert fault.startswith(f"{key}: unknown")
    assert fault.endswith(f"(did you mean {suggestion}?)")


def test_an_unknown_key_like_no_other_is_refused_with_all_that_are_possible() -> None:
    fault = only_fault({"quux": 5})
    assert all(key in fault for key in DEFAULTS)
    assert "did you mean" not in fault
    assert all(kind in only_fault({"reranker": "quux"}) for kind in ("none", "lexical", "cross-encoder"))


@pytest.mark.parametrize(
    ("data", "key"),
    [
        ({"embedder": {"kind": "hash", "model": "x"}}, "embedder.model"),
        ({"embedder": {"kind": "fastembed", "dims": 64}}, "embedder.dims"),
        ({"reranker": {"kind": "none", "k1": 1.2}}, "reranker.k1"),
        ({"reranker": {"kind": "lexical", "model": "x"}}, "reranker.model"),
        ({"reranker": {"kind": "cross-encoder", "b": 0.5}}, "reranker.b"),
        ({"retrievers": {"vector": {"operators": True}}}, "retrievers.vector.operators"),
        ({"retrievers": {"text": {"scan": "exact"}}}, "retrievers.text.scan"),
        ({"retrievers": {"text": {"name": "text"}}}, "retrievers.text.name"),
    ],
)
def test_a_setting_of_another_kind_is_refused(data: dict[str, Any], key: str) -> None:
    assert only_fault(data).startswith(f"{key}: unknown key")


def test_without_a_reranker_the_default_lambda_is_dropped_but_one_that_was_given_is_refused() -> None:
    assert PipelineConfig.from_dict({"reranker": "none"}).mmr_lambda is None
    assert PipelineConfig.from_dict({"reranker": "none", "mmr_lambda": None}).mmr_lambda is None
    assert re.match(r"mmr_lambda is 0\.7; expected null.*reranker", only_fault({"reranker": "none", "mmr_lambda": 0.7}))
    with pytest.raises(SettingError, match=r"mmr_lambda is 0\.7"):
        PipelineConfig(reranker=NoReranker(), mmr_lambda=0.7)


def test_all_faults_are_told_at_once_a_line_each() -> None:
    found = faults(
        {
            "topk": 5,
            "chunker": {"max_chars": 0, "overlap": "x", "size": 3},
            "embedder": {"kind": "word2vec"},
            "retrievers": {"vector": {"n": -1, "scan": "no"}, "elastic": {}, "text": {"weight": []}},
            "fusion": {"k": "x", "n": None},
            "mmr_lambda": "x",
            "contextual_headers": 3,
            "filter": {"doc_ids": [1, 2]},
        }
    )
    keys = [
        "topk",
        "chunker.overlap",
        "chunker.size",
        "embedder.kind",
        "retrievers.vector.scan",
        "retrievers.elastic.kind",
        "retrievers.text.weight",
        "fusion.k",
        "fusion.n",
        "mmr_lambda",
        "contextual_headers",
        "filter.doc_ids",
        "filter.doc_ids",
    ]
    assert sorted(fault.split(":")[0] for fault in found) == sorted(keys)


def test_values_out_of_range_in_several_parts_are_told_at_once() -> None:
    found = faults({"chunker": {"max_chars": 0}, "fusion": {"n": 0}, "retrievers": {"text": {"weight": -1}}})
    assert [fault.split(":")[0] for fault in found] == ["chunker", "fusion", "retrievers.text"]
