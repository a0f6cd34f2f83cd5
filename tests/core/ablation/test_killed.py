"""An ablation that is interrupted, then killed with all its processes, then finished; on a server of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from retrieval_lab import cli, server_admin
from retrieval_lab.ablation.folder import AblationFolder
from tests.core.ablation.test_run import files
from tests.core.evals.test_runs import make_corpus
from tests.core.test_server import data_directory, wait_until

CELLS = 14
GRID = f"retrievers: [{{vector: , text: }}]\nfusion: [{', '.join(f'{{kind: rrf, k: {k}}}' for k in range(CELLS))}]\n"

# Processes whatever they cost: the default would see that cells as small as these need none.
SCRIPT = """\
import sys
from retrieval_lab import cli
from retrieval_lab.ablation import executors

executors._STARTUP_SECONDS = -1.0
if __name__ == "__main__":
    sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Three documents, and so many questions that a cell takes a moment."""
    folder = make_corpus(tmp_path / "kitchen")
    row = "- {{query_id: q{n}, query: the loaf, kind: known, doc_id: bread, anchor: bake the loaf}}\n"
    (folder / "golden.yaml").write_text("".join(row.format(n=number) for number in range(25)), encoding="utf-8")
    (tmp_path / "grid.yaml").write_text(GRID, encoding="utf-8")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    return folder


def started(corpus: Path, out: Path) -> subprocess.Popen[str]:
    parent = corpus.parent
    return subprocess.Popen(
        [sys.executable, parent / "script.py", "ablate", parent / "grid.yaml", corpus, "--out", out, "--jobs", "2"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def done(out: Path) -> dict[str, tuple[int, int]]:
    return {name: stamp for name, stamp in files(out).items() if not name.startswith(".")} if out.exists() else {}


def test_what_is_done_survives_ctrl_c_and_kill_9(
    corpus: Path, fast_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = corpus.parent / "out"
    with data_directory(fast_folder) as data:  # which waits for the end of all processes in it
        monkeypatch.setenv("RETRIEVAL_LAB_DATA_DIR", str(data))
        process = started(corpus, out)
        wait_until(lambda: (out / "cells").exists() and len(done(out)) >= 3, "three cells")
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 130
        assert "Traceback" not in err
        first = done(out)

        process = started(corpus, out)
        wait_until(lambda: len(done(out)) >= len(first) + 3, "three more")
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        second = done(out)
        assert first.items() <= second.items()
        assert len(second) < CELLS

        code = cli.main(
            ["ablate", str(corpus.parent / "grid.yaml"), str(corpus), "--out", str(out), "--json", "--no-report"]
        )
        document, err = capsys.readouterr()
        assert (code, len(json.loads(document)["cells"])) == (0, CELLS)
        assert len(err.splitlines()) == CELLS - len(second)
        assert second.items() <= done(out).items()
        found = AblationFolder(out).load()
        assert (len(found.cells), found.failures, found.pending) == (CELLS, (), 0)
        server_admin.stop(force=True)
