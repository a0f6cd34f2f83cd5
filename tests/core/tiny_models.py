"""Tiny models in ONNX with real tokenizers, made in a moment, whose outputs can be computed by hand.

All know the words of `WORDS`. The embedding model gives the mean of one-hot rows, so a text's vector counts its words.
The cross-encoder's logit is the number of word pairs, one of the query and one of the passage, that are equal. The NLI
model's entailment logit is the same number, of premise and hypothesis; its other logits are 1 and 2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WORDS = ("red", "green", "blue", "sign", "inn", "painted", "cache", "evict", "entry", "the", "a", "who")
VOCABULARY = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}
DIMS = len(VOCABULARY)
NLI_LABELS = ("contradiction", "neutral", "entailment")
WINDOW = 32


def embedding_folder(folder: Path, *, window: int = WINDOW) -> Path:
    """A folder of an embedding model of DIMS dimensions, described as sentence-transformers does."""
    _tokenizer(folder, window)
    _json(folder / "config.json", {"hidden_size": DIMS})
    _json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": DIMS, "pooling_mode_mean_tokens": True})
    kinds = ("Transformer", "Pooling", "Normalize")
    _json(folder / "modules.json", [{"type": f"sentence_transformers.models.{kind}"} for kind in kinds])
    table = np.eye(DIMS, dtype=np.float32)
    table[: len(SPECIAL)] = 0  # special and unknown tokens add nothing
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])]
    _graph(folder, nodes, {"table": table}, ("input_ids", "attention_mask"), ("last_hidden_state", [None, None, DIMS]))
    return folder


def cross_encoder_folder(folder: Path, *, window: int = WINDOW) -> Path:
    """A folder of a model that ranks passages by the words that they share with the query."""
    _tokenizer(folder, window)
    _json(folder / "config.json", {"id2label": {"0": "LABEL_0"}})
    nodes, constants = _shared_words("shared")
    nodes.append(helper.make_node("Unsqueeze", ["shared", "last_axis"], ["logits"]))
    inputs = ("input_ids", "token_type_ids", "attention_mask")
    _graph(folder, nodes, {**constants, "last_axis": np.array([1])}, inputs, ("logits", [None, 1]))
    return folder


def nli_folder(folder: Path, *, labels: Sequence[str] = NLI_LABELS, **config: Any) -> Path:
    """A folder of a model whose third logit counts shared words; the others are 1 and 2."""
    _tokenizer(folder, WINDOW)
    _json(folder / "config.json", config or {"id2label": {str(row): name for row, name in enumerate(labels)}})
    nodes, constants = _shared_words("shared")
    nodes += [
        helper.make_node("Unsqueeze", ["shared", "last_axis"], ["column"]),
        helper.make_node("Mul", ["column", "third"], ["entailed"]),
        helper.make_node("Add", ["entailed", "others"], ["logits"]),
    ]
    constants |= {
        "last_axis": np.array([1]),
        "third": np.array([[0, 0, 1]], dtype=np.float32),
        "others": np.array([[1, 2, 0]], dtype=np.float32),
    }
    _graph(folder, nodes, constants, ("input_ids", "token_type_ids"), ("logits", [None, 3]))
    return folder


def _shared_words(name: str) -> tuple[list[Any], dict[str, np.ndarray]]:
    """Pairs of equal words of the first and the second text: the sum over the vocabulary of count times count."""
    words = np.array([0] * len(SPECIAL) + [1] * len(WORDS), dtype=np.float32)
    nodes = [
        helper.make_node("OneHot", ["input_ids", "depth", "off_on"], ["every"], axis=-1),
        helper.make_node("Mul", ["every", "words"], ["onehot"]),
        helper.make_node("Cast", ["token_type_ids"], ["types"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["types", "axis_2"], ["in_second"]),
        helper.make_node("Sub", ["one", "in_second"], ["in_first"]),
        helper.make_node("Mul", ["onehot", "in_first"], ["first"]),
        helper.make_node("Mul", ["onehot", "in_second"], ["second"]),
        helper.make_node("ReduceSum", ["first", "axis_1"], ["counts_1"], keepdims=0),
        helper.make_node("ReduceSum", ["second", "axis_1"], ["counts_2"], keepdims=0),
        helper.make_node("Mul", ["counts_1", "counts_2"], ["products"]),
        helper.make_node("ReduceSum", ["products", "axis_1"], [name], keepdims=0),
    ]
    constants = {
        "depth": np.array(DIMS),
        "off_on": np.array([0, 1], dtype=np.float32),
        "words": words,
        "one": np.array(1, dtype=np.float32),
        "axis_1": np.array([1]),
        "axis_2": np.array([2]),
    }
    return nodes, constants


def _graph(
    folder: Path,
    nodes: list[Any],
    constants: Mapping[str, np.ndarray],
    inputs: Sequence[str],
    output: tuple[str, list[int | None]],
) -> None:
    name, shape = output
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(one, TensorProto.INT64, ["batch", "length"]) for one in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(value, key) for key, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    save(model, str(folder / "model.onnx"))


def _tokenizer(folder: Path, window: int) -> None:
    tokenizer = Tokenizer(models.WordLevel(dict(VOCABULARY), unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, VOCABULARY[token]) for token in ("[CLS]", "[SEP]")],
    )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    _json(folder / "tokenizer_config.json", {"model_max_length": window, "pad_token": "[PAD]"})
    _json(folder / "special_tokens_map.json", {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"})


def _json(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
