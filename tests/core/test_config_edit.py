"""One setting changed in a file, with all else kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval_lab.config_edit import write_setting
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
