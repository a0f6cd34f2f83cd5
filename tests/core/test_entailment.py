"""Entailment by a tiny NLI model, against the softmax of logits computed by hand."""

from __future__ import annotations

import json
from math import exp
from pathlib import Path

import pytest

from retrieval_lab.entailment import EntailmentModel, faithfulness
from retrieval_lab.errors import InputError
from tests.core import tiny_models


def probability(shared: int) -> float:
    """Of logits 1, 2 and the number of shared words, the softmax of the third."""
    return exp(shared) / (exp(1) + exp(2) + exp(shared))


@pytest.fixture
def model(tmp_path: Path) -> EntailmentModel:
    return EntailmentModel(tiny_models.nli_folder(tmp_path / "nli"))


def test_entailment_is_the_softmax_of_its_logit(model: EntailmentModel) -> None:
    found = model.entailment(["red inn", "blue", "the inn is red", "red red red " * 3], "the red inn")
    assert found == pytest.approx([probability(shared) for shared in (2, 0, 3, 9)], abs=1e-6)
    assert model.entailment([], "the red inn") == []


def test_many_premises_come_back_in_their_order(model: EntailmentModel) -> None:
    premises = ["red " * (row % 7) + "blue " * (row % 11) for row in range(150)]
    assert model.entailment(premises, "red") == pytest.approx([probability(row % 7) for row in range(150)], abs=1e-6)


def test_a_sentence_counts_for_its_best_passage_and_the_answer_for_the_mean(model: EntailmentModel) -> None:
    answer = ["the red inn [1][2].", "who painted 【2】", "[3]", "nothing known [1, 2]"]
    report = faithfulness(model, answer, ["blue", "red inn", "inn red", "painted"])
    best = [probability(2), probability(1), probability(0)]
    assert [one.text for one in report.sentences] == [answer[0], answer[1], answer[3]]
    assert [one.passage for one in report.sentences] == [2, 4, 1]
    assert [one.probability for one in report.sentences] == pytest.approx(best, abs=1e-6)
    assert report.mean == pytest.approx(sum(best) / 3, abs=1e-6)


def test_nothing_to_judge(model: EntailmentModel) -> None:
    assert faithfulness(model, [], ["red"]).mean is None
    alone = faithfulness(model, ["red"], [])
    assert (alone.mean, alone.sentences[0].passage) == (0, None)


@pytest.mark.parametrize(
    "config",
    [
        {"id2label": {"0": "Contradiction", "1": "Neutral", "2": "ENTAILMENT"}},
        {"label2id": {"contradiction": 0, "entailment": 2, "neutral": 1}},
    ],
)
def test_the_class_is_found_in_any_case_and_in_either_table(tmp_path: Path, config: dict[str, object]) -> None:
    found = EntailmentModel(tiny_models.nli_folder(tmp_path / "nli", **config)).entailment(["red"], "red")
    assert found == pytest.approx([probability(1)], abs=1e-6)


@pytest.mark.parametrize("labels", [[], ["entailment"], ["not_entailment", "other"], ["LABEL_0", "LABEL_1", "LABEL_2"]])
def test_a_model_without_the_class_is_refused(tmp_path: Path, labels: list[str]) -> None:
    with pytest.raises(InputError, match=r"config\.json: its classes are .*entailment"):
        EntailmentModel(tiny_models.nli_folder(tmp_path / "nli", labels=labels))


def test_an_output_that_does_not_fit_the_classes_is_refused(tmp_path: Path) -> None:
    folder = tiny_models.nli_folder(tmp_path / "nli", labels=["not_entailment", "entailment"])
    with pytest.raises(InputError, match=r"model\.onnx: gave an array of shape \(1, 3\), expected \(1, 2\)"):
        EntailmentModel(folder).entailment(["red"], "red")


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_broken_file_is_named(tmp_path: Path, name: str) -> None:
    folder = tiny_models.nli_folder(tmp_path / "nli")
    (folder / name).write_text(json.dumps("broken"), encoding="utf-8")
    with pytest.raises(InputError, match=f"{name}: cannot be loaded"):
        EntailmentModel(folder).entailment(["red"], "red")
