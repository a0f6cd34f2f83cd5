"""Where the lab stores things, and where the bundled corpus is found."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs
import pytest

from retrieval_lab import paths
from retrieval_lab.errors import EnvironmentMissing


def test_data_dir_is_what_the_variable_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", "here")
    assert paths.data_dir() == tmp_path / "here"
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("value", [None, ""])
def test_data_dir_without_the_variable(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("RETRIEVAL_LAB_DATA_DIR")
    if value is not None:
        monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", value)
    users = platformdirs.user_data_path("retrieval-lab", appauthor=False)
    assert paths.data_dir() == (Path("/var/lib/retrieval-lab") if os.geteuid() == 0 else users)


def test_bundled_corpus_of_a_clone() -> None:
    assert paths.bundled_corpus() == Path(__file__).resolve().parents[2] / "fixtures" / "corpus"


def test_bundled_corpus_of_an_installed_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "retrieval_lab"
    monkeypatch.setattr(paths, "__file__", str(package / "paths.py"))
    with pytest.raises(EnvironmentMissing, match="install retrieval-lab again"):
        paths.bundled_corpus()
    (package / "corpus").mkdir(parents=True)
    (package / "corpus" / "golden.yaml").touch()
    assert paths.bundled_corpus() == package / "corpus"
