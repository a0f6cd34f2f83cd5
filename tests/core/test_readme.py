"""The README tells the truth: its numbers are what its commands print, and its Python runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from retrieval_lab import cli, cli_metrics
from retrieval_lab.chunker import chunk, load_documents
from retrieval_lab.golden import load_golden

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"```console\n\$ python -m retrieval_lab\.metrics ([^\n]*)\n(.*?)```", README, re.DOTALL)
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
TOLERANCE = 0.02


def table(text: str) -> dict[str, list[float]]:
    """Label -> numbers, for each row under the header."""
    return {row.split()[0]: [float(cell) for cell in row.split()[1:]] for row in text.strip("\n").split("\n")[1:]}


@pytest.mark.parametrize(("command", "shown"), CONSOLE, ids=[command.split()[-1] for command, _ in CONSOLE])
def test_the_numbers_are_those_the_command_prints(
    command: str, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert cli_metrics.main(shlex.split(command)) == 0
    printed = table(capsys.readouterr().out)
    expected = table(shown)
    assert printed.keys() == expected.keys() == {"all", "conceptual", "factual", "lexical"}
    for label, numbers in expected.items():
        assert printed[label] == pytest.approx(numbers, abs=TOLERANCE), label


def test_the_answer_is_the_one_the_command_gives(capsys: pytest.CaptureFixture[str]) -> None:
    shown = re.findall(r"```console\n\$ retrieval-lab (ask [^\n]*)\n(.*?)```", README, re.DOTALL)
    assert shown
    for command, said in shown:
        assert cli.main([*shlex.split(command), "--answerer", "extractive"]) == 0
        assert capsys.readouterr().out.startswith(said)


def test_all_three_systems_are_shown() -> None:
    assert [shlex.split(command)[-1] for command, _ in CONSOLE] == ["hybrid", "rerank", "mmr"]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_the_python_runs(snippet: str) -> None:
    done = subprocess.run([sys.executable, "-c", snippet], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_corpus_describes_itself_truly() -> None:
    corpus = ROOT / "fixtures" / "corpus"
    text = (corpus / "README.md").read_text(encoding="utf-8")
    chunks = sum(len(chunk(document)) for document in load_documents(corpus))
    kinds = Counter(query.kind for query in load_golden(corpus / "golden.yaml"))
    assert f"| chunks | {chunks} " in text
    assert f"| `docs/` | {len(list((corpus / 'docs').iterdir()))} Markdown files" in text
    assert f"| `stories/` | {len(list((corpus / 'stories').iterdir()))} short stories" in text
    assert (
        f"{kinds.total()} golden queries: {', '.join(f'{kinds[k]} {k}' for k in ('factual', 'conceptual', 'lexical'))}"
        in text
    )


def test_every_picture_is_there() -> None:
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    assert pictures
    for picture in pictures:
        assert (ROOT / picture).is_file(), picture
