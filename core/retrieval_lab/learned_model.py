"""A logistic regression over the features of the learned reranker, what it was trained on, and its JSON file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np

from retrieval_lab.errors import InputError
from retrieval_lab.learned_features import FEATURES, Array, FeatureSettings
from retrieval_lab.stored import Stored, as_number, as_text, read_as, read_json, write_json

FORMAT: Final = 1

_VECTORS = ("mean", "scale", "coefficients")
_LABEL_CHARS = 12
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class TrainedOn:
    """The training set of a model.

    `corpus` is the name of its folder, and `index_stamp` differs where its documents do (`corpus_index.table_stamp`).
    `dealt` is the seed by which the queries were dealt into splits, None where golden.yaml has them. Of the
    `candidates`, which are pairs of a query and a passage of its pool, `positives` are relevant. `training_set` is a
    sha256 over the queries' ids and texts and the candidates' ids and labels. `c` is the inverse strength of the
    penalty. `pipeline` is what makes the pool, as lab.yaml has it.
    """

    corpus: str
    index_stamp: str
    dealt: int | None
    queries: int
    candidates: int
    positives: int
    training_set: str
    c: float
    pipeline: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Gain:
    """A mean difference over queries, and the ends of its paired 95% bootstrap interval, None for one query."""

    difference: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Validated:
    """A measure of the same pools in three orders: by models that were not trained on the query, fused, by BM25."""

    learned: float
    fused: float
    bm25: float
    over_fused: Gain
    over_bm25: Gain


@dataclass(frozen=True, slots=True)
class Validation:
    """The measures of a cross-validation with queries as groups, by name, means over the queries."""

    folds: int
    measures: Mapping[str, Validated]


@dataclass(frozen=True, slots=True)
class Regression:
    """A logistic regression: the probability of relevance is the sigmoid of `decisions`.

    `mean`, `scale` and `coefficients` have an entry for each of FEATURES. A feature counts
    `coefficient * (value - mean) / scale`.
    """

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    coefficients: tuple[float, ...]
    intercept: float

    def standardised(self, values: Array) -> Array:
        """The features of passages, shape (passages, features), less the mean of training and over its scale."""
        standard: Array = (values - np.array(self.mean)) / np.array(self.scale)
        return standard

    def contributions(self, values: Array) -> Array:
        """What each feature adds to the decision, shape (passages, features)."""
        parts: Array = self.standardised(values) * np.array(self.coefficients)
        return parts

    def decisions(self, values: Array) -> Array:
        """The log-odds of relevance, shape (passages,)."""
        # Summed row by row, and not as a product of matrices: equal passages must tie wherever they stand.
        sums: Array = self.contributions(values).sum(axis=1) + self.intercept
        return sums


@dataclass(frozen=True, slots=True)
class LearnedModel:
    """A regression, with what its features are computed with, what it was trained on and what that promises."""

    regression: Regression
    computed_with: FeatureSettings
    trained_on: TrainedOn
    validation: Validation

    def to_dict(self) -> dict[str, Any]:
        """The model as JSON has it, with `"format": 1`; `from_dict` makes an equal model of it."""
        return {
            "format": FORMAT,
            "features": list(FEATURES),
            **{key: list(getattr(self.regression, key)) for key in _VECTORS},
            "intercept": self.regression.intercept,
            "computed_with": asdict(self.computed_with),
            "trained_on": asdict(self.trained_on),
            "validation": asdict(self.validation),
        }

    @classmethod
    def from_dict(cls, data: Any) -> LearnedModel:
        """The model that `to_dict` wrote. Raises InputError for another format or a broken one."""
        return read_as("learned reranker", FORMAT, data, _read)


def write_model(model: LearnedModel, path: Path) -> None:
    """Write the model, whole or not at all; missing folders are made. Raises InputError when it cannot be written."""
    write_json(path, model.to_dict())


def read_model(path: Path) -> LearnedModel:
    """The model in a file. Raises InputError, which names the file and the key, when there is none or it is broken."""
    try:
        return LearnedModel.from_dict(read_json(path))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; `retrieval-lab train-reranker` makes one") from error
    except InputError as error:
        message = str(error)
        raise InputError(message if message.startswith(str(path)) else f"{path}: {message}") from error


def model_label(path: Path) -> str:
    """The name of the file, which changes with its content. Raises InputError when it cannot be read."""
    try:
        digest = sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    return f"{path.name}@{digest[:_LABEL_CHARS]}"


# --- reading -------------------------------------------------------------------------------------------------------


def _read(data: Stored) -> LearnedModel:
    found = data.each("features", as_text)
    if found != FEATURES:
        raise InputError(f"features is {', '.join(found) or 'empty'}; expected {', '.join(FEATURES)}")
    vectors = {key: _vector(data, key) for key in _VECTORS}
    for place, scale in enumerate(vectors["scale"]):
        if scale <= 0:
            raise InputError(f"scale[{place}] is {scale}; expected a number above 0")
    return LearnedModel(
        regression=Regression(**vectors, intercept=data.number("intercept")),
        computed_with=_read_settings(data.inner("computed_with")),
        trained_on=_read_trained(data.inner("trained_on")),
        validation=_read_validation(data.inner("validation")),
    )


def _vector(data: Stored, key: str) -> tuple[float, ...]:
    found = data.each(key, as_number)
    if len(found) != len(FEATURES):
        raise InputError(f"{key} has {len(found)} numbers; expected {len(FEATURES)}, one for each feature")
    return found


def _read_settings(data: Stored) -> FeatureSettings:
    return FeatureSettings(
        k1=_within(data, "k1", 0, 1000),
        b=_within(data, "b", 0, 1),
        sublinear=data.flag("sublinear"),
        bigrams=data.flag("bigrams"),
        lsa_dims=_at_least_1(data, "lsa_dims"),
    )


def _read_trained(data: Stored) -> TrainedOn:
    read = TrainedOn(
        corpus=data.text("corpus"),
        index_stamp=data.text("index_stamp"),
        dealt=None if data.number_or_none("dealt") is None else data.count("dealt"),
        queries=_at_least_1(data, "queries"),
        candidates=_at_least_1(data, "candidates"),
        positives=_at_least_1(data, "positives"),
        training_set=data.text("training_set"),
        c=data.number("c"),
        pipeline=data.inner("pipeline").values,
    )
    if read.positives >= read.candidates:
        raise InputError(f"{data.place}.positives is {read.positives}; expected less than candidates")
    if not _SHA256.fullmatch(read.training_set):
        raise InputError(f"{data.place}.training_set is {read.training_set[:64]!r}; expected 64 hexadecimal digits")
    if read.c <= 0:
        raise InputError(f"{data.place}.c is {read.c}; expected a number above 0")
    return read


def _read_validation(data: Stored) -> Validation:
    return Validation(_at_least_1(data, "folds"), data.named("measures", _read_validated))


def _read_validated(value: Any, place: str) -> Validated:
    data = Stored(value, place)
    means = {key: _within(data, key, 0, 1) for key in ("learned", "fused", "bm25")}
    return Validated(
        **means, over_fused=_read_gain(data.inner("over_fused")), over_bm25=_read_gain(data.inner("over_bm25"))
    )


def _read_gain(data: Stored) -> Gain:
    return Gain(data.number("difference"), data.number_or_none("low"), data.number_or_none("high"))


def _at_least_1(data: Stored, key: str) -> int:
    found = data.count(key)
    if found < 1:
        raise InputError(f"{data.place}.{key} is {found}; expected 1 or more")
    return found


def _within(data: Stored, key: str, low: float, high: float) -> float:
    found = data.number(key)
    if not low <= found <= high:
        raise InputError(f"{data.place}.{key} is {found}; expected {low} to {high}")
    return found
