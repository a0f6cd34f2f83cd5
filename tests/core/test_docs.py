"""docs/configuration.md names every setting of every kind, with its default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from retrieval_lab.config import PipelineConfig, dotted
from retrieval_lab.config_values import PARTS
from retrieval_lab.embed import DEFAULT_EMBEDDING_MODEL
from retrieval_lab.golden import parse_golden
from retrieval_lab.rerankers import DEFAULT_RERANKING_MODEL
from retrieval_lab.retrievers.registry import RETRIEVERS
from retrieval_lab.support import LEAST_MASS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
GIVEN = {"reranker.learned": {"path": "/must be given"}}
"""The settings without which a kind cannot be made."""
ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| (?:of `([^`]+)`: )?[^|]+ \|$", re.MULTILINE)
"""A setting that several kinds have with other defaults has a row for each, which begins with the kind."""


def rows() -> list[tuple[str, str, str]]:
    """The key, the default and the kind (empty where all have it) of each row."""
    found = ROW.findall(PAGE.read_text(encoding="utf-8"))
    return [(key, default.strip(), kind) for key, default, kind in found]


@pytest.fixture(scope="module")
def documented() -> dict[str, str]:
    return {key: default for key, default, _ in reversed(rows())}


def settings() -> dict[str, object]:
    """The dotted key of every setting of every kind, with its default."""
    found = dotted(PipelineConfig().to_dict())
    for part, (kinds, _) in PARTS.items():
        for kind in kinds.values():
            made = kind(**GIVEN.get(f"{part}.{kind.kind}", {}))
            data = {"kind": kind.kind, **{name: getattr(made, name) for name in kind.__slots__}}
            found |= {key: value for key, value in dotted(data, f"{part}.").items() if key not in found}
    lists = PipelineConfig(retrievers=tuple(kind() for kind in RETRIEVERS.values())).to_dict()["retrievers"]
    for entry in reversed(lists.values()):
        found |= dotted(entry, "retrievers.NAME.")
    return {key: value for key, value in found.items() if not key.startswith(("retrievers.vector", "retrievers.text"))}


def test_every_setting_is_documented_and_no_other(documented: dict[str, str]) -> None:
    assert documented.keys() == settings().keys()


def test_every_default_is_the_one_in_the_page(documented: dict[str, str]) -> None:
    stated = {key: yaml.safe_load(default.strip("`")) for key, default in documented.items()}
    expected = settings() | {
        "retrievers.NAME.kind": "the name",
        "embedder.model": DEFAULT_EMBEDDING_MODEL,
        "reranker.model": DEFAULT_RERANKING_MODEL,
        "reranker.path": "must be given",
    }
    assert stated == expected


def test_each_kind_has_one_row_for_each_of_its_settings_with_its_own_default() -> None:
    for part, (kinds, _) in PARTS.items():
        for kind in kinds.values():
            made = kind(**GIVEN.get(f"{part}.{kind.kind}", {}))
            for name in kind.__slots__:
                key, value = f"{part}.{name}", getattr(made, name)
                stated = [default for found, default, of in rows() if found == key and of in ("", kind.kind)]
                assert len(stated) == 1, (kind.kind, key)
                if value is not None and name not in GIVEN.get(f"{part}.{kind.kind}", {}):
                    assert yaml.safe_load(stated[0].strip("`")) == value, (kind.kind, key)


def test_no_row_is_about_a_kind_that_has_no_such_setting() -> None:
    for key, _, of in rows():
        part, _, name = key.partition(".")
        if of and part in PARTS:
            assert name in PARTS[part][0][of].__slots__, (key, of)


def test_the_page_has_the_constant_of_support() -> None:
    assert f"one of {LEAST_MASS:g} terms" in PAGE.read_text(encoding="utf-8")


def test_the_labels_in_the_page_can_be_read() -> None:
    text = (PAGE.parent / "labels.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    golden = parse_golden(example, PAGE)
    assert golden.faults == ()
    assert [query.level for query in golden.queries] == ["document", "none"]
    assert golden.queries[0].grades == {"sourdough": 2, "brioche": 1, "1984": 0}
