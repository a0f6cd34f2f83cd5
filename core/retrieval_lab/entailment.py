"""Faithfulness by entailment: do the passages imply what an answer says, as a local NLI model judges it?

Needs the extra `models`. Each sentence counts for what its best passage gives it, and the answer for the mean of its
sentences, as the zero-shot form of SummaC does it: Laban et al., "SummaC: Re-Visiting NLI-based Models for
Inconsistency Detection in Summarization" (TACL 2022).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval_lab.errors import InputError
from retrieval_lab.extras import require
from retrieval_lab.markers import all_markers
from retrieval_lab.model_folder import ModelFolder
from retrieval_lab.models import EXTRA, fetch_model, first_line, model_cache_dir, runs
from retrieval_lab.text import sendable

_ENTAILMENT = "entailment"
HUB_GRAPH = "onnx/model.onnx"
"""Where a repository of the hub has its graph, by custom."""


@dataclass(frozen=True, slots=True)
class SentenceEntailment:
    """One sentence of an answer: how probable it is that passage number `passage`, from 1, entails it.

    Without passages the probability is 0 and `passage` is None.
    """

    text: str
    probability: float
    passage: int | None


@dataclass(frozen=True, slots=True)
class EntailmentReport:
    """The mean probability over the sentences, None where there are none, and each sentence in order."""

    mean: float | None
    sentences: tuple[SentenceEntailment, ...]


class EntailmentModel:
    """A cross-encoder for natural language inference in a local folder, loaded when it first judges anything."""

    def __init__(self, model_path: str | Path) -> None:
        """`model_path` has the ONNX file, the tokenizer's files, and a config.json that names the classes.

        Raises InputError that names what is missing or broken.
        """
        self._folder = ModelFolder.at(model_path)
        self._column, self._classes = _entailment_column(self._folder)
        self._session: Any = None
        self._tokenizer: Any = None

    @classmethod
    def named(cls, name_or_path: str) -> EntailmentModel:
        """The model in a folder, or of a name on the Hugging Face hub, which is fetched once where the network allows.

        A path begins with /, ~ or ., or is a folder. Raises as this class and `models.fetch_model` do.
        """
        if name_or_path.startswith(("/", "~", ".")) or os.path.isdir(name_or_path):  # noqa: PTH112
            return cls(name_or_path)
        return cls(fetch_model(name_or_path, model_cache_dir(), [HUB_GRAPH]))

    @property
    def name(self) -> str:
        """The folder's name with a hash of its content."""
        return self._folder.label

    def entailment(self, premises: Sequence[str], hypothesis: str) -> list[float]:
        """For each premise the probability that it entails the hypothesis: the softmax over the model's classes.

        Where both exceed the model's window, the longer of the two is cut. Raises MissingExtra without the extra
        `models`, and InputError when the model cannot be loaded or its output does not fit its classes.
        """
        if premises and self._session is None:
            self._tokenizer, self._session = _loaded(self._folder)
        found = [0.0] * len(premises)
        for rows in runs(premises):
            pairs = [(sendable(premises[row])[0], sendable(hypothesis)[0]) for row in rows]
            for row, probability in zip(rows, self._probabilities(pairs), strict=True):
                found[row] = float(probability)
        return found

    def _probabilities(self, pairs: list[tuple[str, str]]) -> NDArray[np.float64]:
        if not pairs:
            return np.zeros(0)
        encoded = self._tokenizer.encode_batch(pairs)
        inputs = {
            "input_ids": [one.ids for one in encoded],
            "attention_mask": [one.attention_mask for one in encoded],
            "token_type_ids": [one.type_ids for one in encoded],
        }
        asked = [one.name for one in self._session.get_inputs()]
        try:
            output = self._session.run(None, {name: np.array(inputs[name], dtype=np.int64) for name in asked})[0]
        except KeyError as error:
            raise InputError(f"{self._graph}: asks for {error}; expected inputs among {', '.join(inputs)}") from error
        logits = np.asarray(output, dtype=np.float64)
        if logits.shape != (len(pairs), self._classes):
            raise InputError(
                f"{self._graph}: gave an array of shape {logits.shape}, expected {(len(pairs), self._classes)}, "
                "a number for each class that config.json names"
            )
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float64] = powers[:, self._column] / powers.sum(axis=1)
        return probabilities

    @property
    def _graph(self) -> Path:
        return self._folder.path / self._folder.graph


def faithfulness(model: EntailmentModel, answer_sentences: Sequence[str], passages: Sequence[str]) -> EntailmentReport:
    """How well the passages entail each sentence, without its markers such as [1]: the maximum over the passages.

    Of equal passages the first counts. A sentence without words besides its markers is left out. Raises as
    `EntailmentModel.entailment` does.
    """
    judged = []
    for sentence in answer_sentences:
        hypothesis = _without_markers(sentence)
        if not any(char.isalnum() for char in hypothesis):
            continue
        found = model.entailment(passages, hypothesis)
        best = max(found, default=0.0)
        judged.append(SentenceEntailment(sentence, best, found.index(best) + 1 if found else None))
    mean = sum(one.probability for one in judged) / len(judged) if judged else None
    return EntailmentReport(mean, tuple(judged))


def _without_markers(sentence: str) -> str:
    for marker in reversed(all_markers(sentence, ())[0]):
        sentence = sentence[: marker.start].rstrip() + sentence[marker.end :]
    return sentence.strip()


def _entailment_column(folder: ModelFolder) -> tuple[int, int]:
    """Which of the model's outputs is entailment, and how many there are."""
    path, config = folder.path / "config.json", folder.config()
    labels = config.get("id2label")
    if not isinstance(labels, dict):
        ids = config.get("label2id")
        labels = {number: name for name, number in ids.items()} if isinstance(ids, dict) else {}
    named = {str(name).casefold(): str(number) for number, name in labels.items()}
    number = named.get(_ENTAILMENT, "")
    if len(named) < 2 or not number.isdecimal() or int(number) >= len(named):
        listed = ", ".join(map(str, labels.values())) or "none"
        raise InputError(
            f"{path}: its classes are {listed}; expected {_ENTAILMENT} and others in id2label or label2id: give a "
            "model for natural language inference"
        )
    return int(number), len(named)


def _loaded(folder: ModelFolder) -> tuple[Any, Any]:
    """The tokenizer, which truncates and pads, and the ONNX session."""
    runtime = require("onnxruntime", extra=EXTRA)
    tokenizers = require("fastembed.common.preprocessor_utils", extra=EXTRA)
    try:
        tokenizer = tokenizers.load_tokenizer(folder.path)[0]
    except Exception as error:  # the tokenizers raise plain Exceptions
        raise InputError(f"{folder.path / 'tokenizer.json'}: cannot be loaded ({first_line(error)})") from error
    graph = folder.path / folder.graph
    try:
        return tokenizer, runtime.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime has an error of its own for each status
        raise InputError(f"{graph}: cannot be loaded ({first_line(error)})") from error
