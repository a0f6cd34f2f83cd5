"""The learned reranker: its features by hand, its score, its file, and what a configuration says of it."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrieval_lab.config import PipelineConfig
from retrieval_lab.corpus_index import CorpusIndex, indexed_chunk
from retrieval_lab.errors import InputError, SettingError
from retrieval_lab.learned import LearnedReranker, StoredReranker
from retrieval_lab.learned_features import FEATURES, FeatureSettings, features
from retrieval_lab.learned_model import (
    Gain,
    LearnedModel,
    Regression,
    TrainedOn,
    Validated,
    Validation,
    read_model,
    write_model,
)
from retrieval_lab.model_choice import reranker_setting
from retrieval_lab.ragindex import Index
from retrieval_lab.settings import TrainedReranker
from retrieval_lab.types import Chunk

# text, path, title of the three documents
DOCUMENTS = {
    "bread": ("bake the loaf", "docs/bread.md", "Bread Loaf"),
    "soup": ("leek soup soup", "docs/soup.md", "Soup"),
    "tale": ("the old loaf tale", "stories/tale.txt", "The Old Tale"),
}
IDS = [f"{name}#000" for name in DOCUMENTS]
CHUNKS = {
    chunk_id: Chunk(chunk_id, chunk_id[:-4], "", 0, len(one[0]), one[0])
    for chunk_id, one in zip(IDS, DOCUMENTS.values(), strict=True)
}
GONE = Chunk("gone#000", "gone", "", 0, 4, "loaf")
QUERY = "the old loaf"


def made_index() -> CorpusIndex:
    chunks = [
        indexed_chunk(CHUNKS[chunk_id], source="file", uri=uri, title=title)
        for chunk_id, (_, uri, title) in zip(IDS, DOCUMENTS.values(), strict=True)
    ]
    return CorpusIndex(Index.build(chunks, np.eye(3, 4, dtype=np.float32), embedding_model="none"))


@pytest.fixture(scope="module")
def corpus() -> CorpusIndex:
    return made_index()


def model(**coefficients: float) -> LearnedModel:
    """A model that counts these features as they are, and the others not at all."""
    return LearnedModel(
        Regression(
            mean=(0.0,) * len(FEATURES),
            scale=(1.0,) * len(FEATURES),
            coefficients=tuple(coefficients.get(name, 0.0) for name in FEATURES),
            intercept=-0.5,
        ),
        FeatureSettings(),
        TrainedOn("kitchen", "stamp", 13, 4, 40, 5, "0" * 64, 1.0, {"fusion": {"kind": "rrf"}}),
        Validation(4, {"mrr@10": Validated(0.5, 0.4, 0.45, Gain(0.1, -0.1, 0.2), Gain(0.05, None, None))}),
    )


# --- the features --------------------------------------------------------------------------------------------------


def column(found: np.ndarray[Any, Any], name: str) -> list[float]:
    values: list[float] = found[:, FEATURES.index(name)].tolist()
    return values


def test_bm25_has_the_statistics_of_the_corpus(corpus: CorpusIndex) -> None:
    # 10 words in 3 texts; "the" and "loaf" stand in two of them, "old" in one.
    common, rare = math.log(1 + 1.5 / 2.5), math.log(1 + 2.5 / 1.5)

    def part(idf: float, length: int) -> float:
        return idf * 2.2 / (1 + 1.2 * (0.25 + 0.75 * length / (10 / 3)))

    found = column(features(corpus, QUERY, IDS, FeatureSettings()), "bm25")
    assert found == pytest.approx([2 * part(common, 3), 0, 2 * part(common, 4) + part(rare, 4)])


def tf_idf_rows() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """TF-IDF of the three texts and of the query, sublinear, rows of unit length."""
    words = ["bake", "leek", "loaf", "old", "soup", "tale", "the"]
    texts = [one[0].split() for one in DOCUMENTS.values()]
    idf = [math.log(4 / (1 + sum(word in text for text in texts))) + 1 for word in words]

    def row(text: list[str]) -> np.ndarray[Any, Any]:
        counts = [text.count(word) for word in words]
        weights = np.array([(1 + math.log(tf)) * one if tf else 0.0 for tf, one in zip(counts, idf, strict=True)])
        return np.asarray(weights / np.linalg.norm(weights))

    return np.array([row(text) for text in texts]), row(QUERY.split())


def test_tfidf_is_the_cosine_with_the_query(corpus: CorpusIndex) -> None:
    rows, query = tf_idf_rows()
    found = column(features(corpus, QUERY, IDS, FeatureSettings()), "tfidf")
    assert found == pytest.approx((rows @ query).tolist())


def test_lsa_is_the_cosine_in_the_space_of_the_largest_singular_values(corpus: CorpusIndex) -> None:
    rows, query = tf_idf_rows()
    directions = np.linalg.svd(rows)[2][:2]
    placed, asked = rows @ directions.T, directions @ query
    expected = placed @ asked / (np.linalg.norm(placed, axis=1) * np.linalg.norm(asked))
    assert expected[0] > 0.9 > 0.1 > expected[1]
    found = column(features(corpus, QUERY, IDS, FeatureSettings(lsa_dims=2)), "lsa")
    assert found == pytest.approx(expected.tolist(), abs=1e-6)


def test_the_title_is_compared_without_stop_words_and_the_folder_is_the_kind(corpus: CorpusIndex) -> None:
    found = features(corpus, QUERY, IDS, FeatureSettings())
    assert column(found, "title_overlap") == [0.5, 0.0, 0.5]  # of "old" and "loaf"
    assert column(found, "story") == [0, 0, 1]
    assert column(features(corpus, "the of and", IDS, FeatureSettings()), "title_overlap") == [0, 0, 0]


def test_each_chunk_has_its_own_features_in_whatever_order_they_come(corpus: CorpusIndex) -> None:
    usual = features(corpus, QUERY, IDS, FeatureSettings())
    mixed = features(corpus, QUERY, [IDS[2], "gone#000", IDS[0], IDS[2]], FeatureSettings())
    assert mixed.tolist() == [usual[2].tolist(), [0.0] * 5, usual[0].tolist(), usual[2].tolist()]
    assert features(corpus, QUERY, ["gone#000"], FeatureSettings()).tolist() == [[0.0] * 5]
    assert features(corpus, QUERY, [], FeatureSettings()).shape == (0, 5)


def test_a_query_without_known_words_has_the_kind_alone(corpus: CorpusIndex) -> None:
    for query in ("", "!!!", "xylophone"):
        assert features(corpus, query, IDS, FeatureSettings()).tolist() == [[0] * 5, [0] * 5, [0, 0, 0, 0, 1]]


def test_what_was_asked_before_changes_no_features(corpus: CorpusIndex) -> None:
    fresh = made_index()
    for query in ("soup", "leek leek tale"):
        features(fresh, query, IDS, FeatureSettings())
    usual = features(corpus, QUERY, IDS, FeatureSettings())
    assert features(fresh, QUERY, IDS, FeatureSettings()).tolist() == usual.tolist()


# --- the reranker --------------------------------------------------------------------------------------------------


def test_the_score_is_the_probability_and_the_best_comes_first(corpus: CorpusIndex) -> None:
    made = LearnedReranker(model(title_overlap=2.0, story=3.0), corpus)
    found = made.rerank(QUERY, [*CHUNKS.values()], 3)
    assert [(row.chunk_id, row.rank) for row in found] == [("tale#000", 1), ("bread#000", 2), ("soup#000", 3)]
    expected = [1 / (1 + math.exp(-(-0.5 + adds))) for adds in (4.0, 1.0, 0.0)]
    assert [row.score for row in found] == pytest.approx(expected)
    assert made.rerank(QUERY, [*CHUNKS.values()], 1) == found[:1]
    assert made.rerank(QUERY, [], 3) == []


def test_ties_stay_in_the_order_given(corpus: CorpusIndex) -> None:
    made = LearnedReranker(model(), corpus)
    for order in ([0, 1, 2], [2, 0, 1]):
        chunks = [CHUNKS[IDS[place]] for place in order]
        assert [row.chunk_id for row in made.rerank(QUERY, chunks, 3)] == [chunk.chunk_id for chunk in chunks]


def test_a_chunk_that_the_index_does_not_hold_counts_as_one_without_anything(corpus: CorpusIndex) -> None:
    made = LearnedReranker(model(story=3.0), corpus)
    scores = {row.chunk_id: row.score for row in made.rerank(QUERY, [GONE, *CHUNKS.values()], 4)}
    assert scores["gone#000"] == scores["soup#000"] == pytest.approx(1 / (1 + math.exp(0.5)))


def test_the_parts_of_a_score_sum_to_its_log_odds(corpus: CorpusIndex) -> None:
    regression = Regression((1.0, 0.1, 0.2, 0.3, 0.4), (2.0, 0.5, 0.5, 0.25, 0.5), (1.5, -0.5, 0.25, 2.0, 3.0), -0.75)
    usual = model()
    made = LearnedReranker(LearnedModel(regression, usual.computed_with, usual.trained_on, usual.validation), corpus)
    parts = made.parts(QUERY, CHUNKS["tale#000"])
    story, title = parts.features[FEATURES.index("story")], parts.features[FEATURES.index("title_overlap")]
    assert (story.value, story.standardised, story.coefficient) == pytest.approx((1, 1.2, 3.0))
    assert (story.contribution, title.contribution) == pytest.approx((3.6, 1.6))
    (score,) = [row.score for row in made.rerank(QUERY, [*CHUNKS.values()], 3) if row.chunk_id == "tale#000"]
    log_odds = parts.intercept + sum(one.contribution for one in parts.features)
    assert math.log(score / (1 - score)) == pytest.approx(log_odds)


# --- the file ------------------------------------------------------------------------------------------------------


def test_a_model_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "reranker.json"
    write_model(model(bm25=1 / 3), path)
    assert read_model(path) == model(bm25=1 / 3)
    assert json.loads(path.read_text())["features"] == list(FEATURES)


def places(value: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """Where each value of the document stands, but for what a pipeline is described by."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*path, key)
        if key != "pipeline":
            yield from places(one, *path, key)


_WRONG = {"format": 2, "sublinear": 1, "bigrams": "no"}
"""Where true would be no damage."""
PLACES = list(places(model().to_dict()))


def damaged(path: tuple[str | int, ...], value: Any = None, *, delete: bool = False) -> dict[str, Any]:
    document = copy.deepcopy(model().to_dict())
    parent: Any = document
    for key in path[:-1]:
        parent = parent[key]
    if delete:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return document


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_every_value_is_checked(path: tuple[str | int, ...], tmp_path: Path) -> None:
    file = tmp_path / "reranker.json"
    may_go = path == ("validation", "measures", "mrr@10")  # a model of other measures is one, too
    documents = [] if may_go else [damaged(path, delete=True)]
    for document in [*documents, damaged(path, [[]]), damaged(path, _WRONG.get(str(path[-1]), True))]:
        file.write_text(json.dumps(document))
        with pytest.raises(InputError, match=r"reranker\.json: ") as caught:
            read_model(file)
        key = next(one for one in reversed(path) if isinstance(one, str))
        assert key in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("format",), 2, "no learned reranker of format 1: its format is 2"),
        (("features",), ["bm25", "lsa"], "features is bm25, lsa; expected bm25, tfidf, lsa, title_overlap, story"),
        (("features", 4), "length", "features is bm25, tfidf, lsa, title_overlap, length; expected"),
        (("mean",), [0.0], "mean has 1 numbers; expected 5"),
        (("scale", 2), 0, r"scale\[2\] is 0.0; expected a number above 0"),
        (("coefficients", 1), math.inf, r"coefficients\[1\] is inf; expected a number"),
        (("intercept",), math.nan, "intercept is nan; expected a number"),
        (("computed_with", "b"), 1.5, "computed_with.b is 1.5; expected 0 to 1"),
        (("computed_with", "k1"), -1, "computed_with.k1 is -1.0; expected 0 to 1000"),
        (("computed_with", "lsa_dims"), 0, "computed_with.lsa_dims is 0; expected 1 or more"),
        (("trained_on", "positives"), 40, "trained_on.positives is 40; expected less than candidates"),
        (("trained_on", "training_set"), "f" * 63, "trained_on.training_set is 'f+'; expected 64 hex"),
        (("trained_on", "c"), 0, "trained_on.c is 0.0; expected a number above 0"),
        (("trained_on", "dealt"), -1, "trained_on.dealt is -1; expected a whole number"),
        (("validation", "measures", "mrr@10", "fused"), 2, "validation.measures.mrr@10.fused is 2.0; expected 0 to 1"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_key(
    path: tuple[str | int, ...], value: Any, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "reranker.json"
    file.write_text(json.dumps(damaged(path, value)))
    with pytest.raises(InputError, match=f"reranker.json: .*{said}"):
        read_model(file)


def test_a_file_that_is_cut_off_or_missing_or_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "reranker.json"
    with pytest.raises(InputError, match=r"reranker\.json: no such file; `retrieval-lab train-reranker` makes one"):
        read_model(file)
    whole = json.dumps(model().to_dict()).encode()
    for end in range(0, len(whole), 40):
        file.write_bytes(whole[:end])
        with pytest.raises(InputError, match=r"reranker\.json"):
            read_model(file)
    for content in (b"[]", b"5", b"\xff\xfe", b"null"):
        file.write_bytes(content)
        with pytest.raises(InputError, match=r"reranker\.json"):
            read_model(file)
    file.unlink()
    file.mkdir()
    with pytest.raises(InputError, match=r"reranker\.json: cannot be read"):
        read_model(file)


def test_a_changed_file_counts_for_the_next_pipeline(corpus: CorpusIndex, tmp_path: Path) -> None:
    path = tmp_path / "reranker.json"
    kept = StoredReranker(path)
    firsts = []
    for story in (1.0, -1.0):
        write_model(model(story=story), path)
        firsts.append([row.chunk_id for row in kept.over(corpus).rerank(QUERY, [*CHUNKS.values()], 3)])
    assert firsts == [["tale#000", "bread#000", "soup#000"], ["bread#000", "soup#000", "tale#000"]]


# --- the configuration ---------------------------------------------------------------------------------------------


def test_a_configuration_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = PipelineConfig(reranker=TrainedReranker("/r.json"))
    assert config.to_dict()["reranker"] == {"kind": "learned", "path": "/r.json"}
    assert PipelineConfig.from_dict(config.to_dict()) == config
    monkeypatch.setenv("HOME", str(tmp_path))
    assert TrainedReranker("~/r.json").file == tmp_path / "r.json"
    assert TrainedReranker("~nobody-of-this-name/r.json").file.name == "r.json"
    for path in (None, "", "r.json", "./r.json"):
        with pytest.raises(SettingError, match="path is"):
            TrainedReranker(path)
    with pytest.raises(InputError, match="reranker: path is null; expected the file that"):
        PipelineConfig.from_dict({"reranker": "learned"})


def test_the_short_form_makes_the_path_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert reranker_setting("learned:r.json") == {"kind": "learned", "path": str(tmp_path / "r.json")}
    with pytest.raises(InputError, match="learned:FILE"):
        reranker_setting("learned:")


def test_the_label_changes_with_the_content(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    labels = set()
    for story in (1.0, 2.0, 1.0):
        write_model(model(story=story), path)
        labels.add(TrainedReranker(str(path)).label())
    assert len(labels) == 2
    assert all(label.startswith("r.json@") for label in labels)
    path.unlink()
    with pytest.raises(InputError, match=r"r\.json: cannot be read"):
        TrainedReranker(str(path)).label()
