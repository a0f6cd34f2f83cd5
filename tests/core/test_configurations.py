"""Configurations by name: the shipped ones, those beside a corpus, faulty files, and the commands that take a name."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
import typer

from retrieval_lab import cli, paths
from retrieval_lab.cli_completion import complete_config
from retrieval_lab.cli_pipeline import PipelineChoice
from retrieval_lab.config import PipelineConfig
from retrieval_lab.configurations import configurations, description_of, path_of
from retrieval_lab.errors import EnvironmentMissing, InputError
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.settings import NoReranker

Capture = pytest.CaptureFixture[str]
SHIPPED = Path(__file__).resolve().parents[2] / "fixtures" / "configs"
FULL_TEXT = PipelineConfig(retrievers=(TextSearch(name="text"),), reranker=NoReranker(), mmr_lambda=None)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "configs").mkdir()
    return tmp_path


def write(corpus: Path, name: str, text: str | bytes) -> Path:
    path = corpus / "configs" / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_every_shipped_file_is_sound_described_and_no_other_pipeline_than_itself(tmp_path: Path) -> None:
    found = configurations(tmp_path)
    assert [one.name for one in found] == sorted(path.stem for path in SHIPPED.iterdir())
    assert [one.faults for one in found if one.faults] == []
    assert all(20 <= len(one.description) <= 100 for one in found)
    assert len({one.config for one in found}) == len(found)
    by_name = {one.name: one.config for one in found}
    assert by_name["default"] == PipelineConfig()
    assert by_name["full-text"] == FULL_TEXT


def test_a_file_beside_the_corpus_comes_too_and_hides_a_shipped_one_of_its_name(corpus: Path) -> None:
    mine = write(corpus, "vector.yaml", "# Mine\ntop_k: 3\n")
    write(corpus, "zebra.yaml", "top_k: 4\n")
    write(corpus, ".hidden.yaml", "top_k: 5\n")
    write(corpus, "notes.md", "# no configuration\n")
    (corpus / "configs" / "folder.yaml").mkdir()
    found = {one.name: one for one in configurations(corpus)}
    assert found.keys() == {path.stem for path in SHIPPED.iterdir()} | {"zebra"}
    assert found["vector"].path == mine
    assert found["vector"].config == PipelineConfig(top_k=3)
    assert (found["vector"].description, found["zebra"].description) == ("Mine", "")
    assert path_of("vector", corpus) == mine


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("# One\n# Two\ntop_k: 3\n", "One"),
        ("\n---\n##  Deep  \n", "Deep"),
        ("top_k: 3 # no\n# nor this\n", ""),
        ("", ""),
        ("\ufeff# With a mark\n", "With a mark"),
        (b"# Caf\xe9\n", "Caf\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_the_first_comment_line_describes_it(corpus: Path, text: str | bytes, description: str) -> None:
    assert description_of(write(corpus, "one.yaml", text)) == description


def test_a_faulty_file_has_all_its_faults_and_no_configuration(corpus: Path) -> None:
    path = write(corpus, "bad.yaml", "# Bad\ntop_k: many\nrerank: none\n")
    (bad,) = [one for one in configurations(corpus) if one.name == "bad"]
    assert bad.config is None
    assert bad.description == "Bad"
    assert len(bad.faults) == 2
    assert {fault.split(": ")[0] for fault in bad.faults} == {f"{path}:2", f"{path}:3"}


def test_a_name_is_taken_for_a_file_only_where_there_is_one(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = PipelineChoice(Path("full-text"))
    assert choice.configured(corpus).config == FULL_TEXT
    assert choice.is_shipped(corpus)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full-text").write_text("top_k: 7\n", encoding="utf-8")
    assert choice.configured(corpus).config == PipelineConfig(top_k=7)
    assert not choice.is_shipped(corpus)
    with pytest.raises(InputError, match=r"fulltext: no such file, and no configuration .* default, full-text, "):
        PipelineChoice(Path("fulltext")).configured(corpus)
    with pytest.raises(InputError, match=r"no/full-text: cannot be read"):
        PipelineChoice(Path("no/full-text")).configured(corpus)


def test_config_list_prints_names_with_descriptions_and_faults_at_the_end(corpus: Path, capsys: Capture) -> None:
    assert cli.main(["config", "list", str(corpus)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(path.stem for path in SHIPPED.iterdir())
    assert "full-text search alone" in next(line for line in lines if line.startswith("full-text "))
    write(corpus, "bad.yaml", "top_k: many\n")
    assert cli.main(["config", "list", str(corpus), "--json"]) == 2
    out, err = capsys.readouterr()
    found = {one["name"]: one for one in json.loads(out)}
    assert found["bad"]["config"] is None
    assert "bad.yaml:1: top_k: expected a whole number" in found["bad"]["faults"][0]
    assert "bad.yaml:1: top_k" in err
    assert PipelineConfig.from_dict(found["full-text"]["config"]) == FULL_TEXT
    assert cli.main(["config", "list", str(corpus / "nowhere")]) == 2


def test_a_shell_completes_names_with_descriptions_then_files(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(corpus, "full.yaml", "# Mine\n")
    (tmp_path / "full-of-folders").mkdir()
    (tmp_path / "full.yml").touch()
    (tmp_path / "full.txt").touch()
    context = typer.Context(click.Command("x"))
    context.params = {"corpus": corpus}
    found = list(complete_config(context, "full"))
    assert ("full", "Mine") in found
    assert [name for name, _ in found if "/" in name or "." in name] == ["full-of-folders/", "full.yml"]
    assert "full-text" in [name for name, _ in found]
    assert "vector" not in [name for name, _ in found]
    (tmp_path / "full-of-folders" / "a.yaml").touch()
    assert list(complete_config(context, "full-of-folders/")) == [("full-of-folders/a.yaml", "file")]
    assert list(complete_config(context, f"{tmp_path}/full.")) == [(f"{tmp_path}/full.yml", "file")]


def test_the_shipped_folder_of_an_installed_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "retrieval_lab"
    monkeypatch.setattr(paths, "__file__", str(package / "paths.py"))
    with pytest.raises(
        EnvironmentMissing, match=r"shipped configurations are neither in .* install retrieval-lab again"
    ):
        paths.bundled_configs()
    (package / "configs").mkdir(parents=True)
    (package / "configs" / "default.yaml").touch()
    assert paths.bundled_configs() == package / "configs"
