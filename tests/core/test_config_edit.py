"""One setting changed in a file, with all else kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from retrieval_lab.config import dotted
from retrieval_lab.config_edit import write_setting, write_settings
from retrieval_lab.config_file import effective_config
from retrieval_lab.errors import InputError

KEPT = [
    ("", "support_floor: 0.31\n"),
    ("# mine\n", "# mine\nsupport_floor: 0.31\n"),
    ("top_k: 5  # few\n", "top_k: 5  # few\nsupport_floor: 0.31\n"),
    ("top_k: 5", "top_k: 5\nsupport_floor: 0.31\n"),
    ("support_floor: 0.2   # by hand\ntop_k: 5\n", "support_floor: 0.31   # by hand\ntop_k: 5\n"),
    ("support_floor:\ntop_k: 5\n", "support_floor: 0.31\ntop_k: 5\n"),
    ("  top_k: 5\n", "  top_k: 5\n  support_floor: 0.31\n"),
    ("top_k: 5\n...\n", "top_k: 5\nsupport_floor: 0.31\n...\n"),
    ("---\ntop_k: 5\n", "---\ntop_k: 5\nsupport_floor: 0.31\n"),
    ("reranker:\n  kind: lexical\n", "reranker:\n  kind: lexical\nsupport_floor: 0.31\n"),
]


@pytest.mark.parametrize(("before", "after"), KEPT)
def test_a_setting_takes_its_place_and_the_rest_stays(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(before, encoding="utf-8")
    write_setting(path, "support_floor", 0.31)
    assert path.read_text(encoding="utf-8") == after
    assert effective_config(None, path=path).config.support_floor == 0.31


def test_a_missing_file_is_made(tmp_path: Path) -> None:
    write_setting(tmp_path / "new" / "lab.yaml", "support_floor", 0.2692)
    assert (tmp_path / "new" / "lab.yaml").read_text(encoding="utf-8") == "support_floor: 0.2692\n"


@pytest.mark.parametrize("text", ["{top_k: 5}\n", "- 1\n", "top_k: [\n", "just text\n"])
def test_a_file_of_another_shape_stays_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"lab\.yaml:\d+: .*write support_floor: 0\.31 into it yourself"):
        write_setting(path, "support_floor", 0.31)
    assert path.read_text(encoding="utf-8") == text


# --- settings within parts -----------------------------------------------------------------------------------------

WITHIN = [
    ("", "fusion.k", 10, "fusion:\n  k: 10\n"),
    ("# mine\ntop_k: 5", "fusion.k", 2.5, "# mine\ntop_k: 5\nfusion:\n  k: 2.5\n"),
    ("fusion:\n  k: 60  # usual\n  n: 20\n", "fusion.k", 10, "fusion:\n  k: 10  # usual\n  n: 20\n"),
    (
        "fusion:\n    n: 20  # pool\n\n# end\ntop_k: 5\n",
        "fusion.k",
        10,
        "fusion:\n    n: 20  # pool\n    k: 10\n\n# end\ntop_k: 5\n",
    ),
    ("fusion: {n: 20}  # pool\n", "fusion.k", 10, "fusion: {k: 10, n: 20}  # pool\n"),
    ("fusion: {}\n", "fusion.k", 10, "fusion: {k: 10}\n"),
    ("fusion:\ntop_k: 5\n", "fusion.k", 10, "fusion: {k: 10}\ntop_k: 5\n"),
    ("fusion: rrf # by rank\n", "fusion.k", 10, "fusion: {kind: rrf, k: 10} # by rank\n"),
    ("fusion: {n: 20}\n", "fusion", "minmax", "fusion: minmax\n"),
    (
        "retrievers:\n  vector:\n  text:\n    n: 9\n",
        "retrievers.text.weight",
        0.35,
        "retrievers:\n  vector:\n  text:\n    n: 9\n    weight: 0.35\n",
    ),
    (
        "retrievers: {near: vector, text: }\n",
        "retrievers.near.weight",
        0.35,
        "retrievers: {near: {kind: vector, weight: 0.35}, text: }\n",
    ),
    (
        "retrievers:\n  text: {n: 9}",
        "retrievers.text.weight",
        1e-07,
        "retrievers:\n  text: {weight: 1.0e-07, n: 9}",
    ),
    (
        "top_k: 5\n",
        "retrievers.text.n",
        9,
        "top_k: 5\nretrievers:\n  vector:\n    kind: vector\n  text:\n    kind: text\n    n: 9\n",
    ),
]


@pytest.mark.parametrize(("before", "key", "value", "after"), WITHIN)
def test_a_setting_within_a_part_takes_its_place(tmp_path: Path, before: str, key: str, value: Any, after: str) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(before, encoding="utf-8")
    write_settings(path, {key: value})
    assert path.read_text(encoding="utf-8") == after
    found = dotted(effective_config(None, path=path).config.to_dict())
    assert found[f"{key}.kind" if key == "fusion" else key] == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fusion: &f {n: 20}\nreranker: *f\n", "reranker is an alias"),
        ("reranker: [1]\n", "reranker is a list"),
    ],
)
def test_a_part_that_is_no_mapping_leaves_the_file_as_it_is(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=rf"lab\.yaml:\d: {message}; write top_k: 5, reranker\.k1: 2 into it yourself"):
        write_settings(path, {"top_k": 5, "reranker.k1": 2})
    assert path.read_text(encoding="utf-8") == text


PARTS: dict[str, Any] = {
    "top_k": st.integers(1, 50),
    "contextual_headers": st.booleans(),
    "fusion": st.sampled_from([{"k": 3}, {"kind": "rrf"}, {"n": 60, "k": 1}]),
    "expansion": st.sampled_from([{"kind": "rm3", "of": None}, {"kind": "none"}]),
    "retrievers": st.sampled_from([{"vector": {"n": 3}, "text": None}, {"vector": "vector", "text": {"weight": 0.5}}]),
}
CHANGES = st.dictionaries(
    st.sampled_from(["fusion.k", "retrievers.vector.weight", "retrievers.text.weight", "support_floor", "mmr_lambda"]),
    st.integers(0, 1000).map(lambda number: number / 1000),
    min_size=1,
)


@given(st.fixed_dictionaries({}, optional=PARTS), CHANGES, st.booleans(), st.booleans())
def test_what_is_written_is_read_and_nothing_else_changes(
    tmp_path: Path, file: dict[str, Any], changes: dict[str, float], braces: bool, ends: bool
) -> None:
    changes = {key: max(value, 0.001) for key, value in changes.items()}
    path = tmp_path / "lab.yaml"
    # The innermost mappings in braces, or all in lines.
    text = yaml.safe_dump(file, default_flow_style=None if braces else False, sort_keys=False) if file else ""
    if braces and all(not isinstance(value, dict) for value in file.values()):
        text = "".join(f"{key}: {str(value).lower()}\n" for key, value in file.items())
    path.write_text(text if ends else text.rstrip(), encoding="utf-8")
    before = dotted(effective_config(None, path=path).config.to_dict())
    write_settings(path, changes)
    assert dotted(effective_config(None, path=path).config.to_dict()) == {**before, **changes}
