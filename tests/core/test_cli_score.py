"""`retrieval-lab score`: what it prints, its JSON documents, and what files that cannot be scored get."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab import cli

Capture = pytest.CaptureFixture[str]

QRELS = "1 0 a 1\n1 0 b 0\n2 0 c 2\n2 0 d 1\n3 0 e 1\n"
RUN = "1 Q0 a 1 2.0 mine\n1 Q0 b 2 1.0 mine\n2 Q0 x 1 3.0 mine\n2 Q0 c 2 2.5 mine\n"
WORSE = "1 Q0 b 1 2.0 other\n1 Q0 a 2 1.0 other\n2 Q0 x 1 3.0 other\n3 Q0 e 1 2.5 other\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "qrels").write_text(QRELS)
    (tmp_path / "run").write_text(RUN)
    (tmp_path / "worse.gz").write_bytes(gzip.compress(WORSE.encode()))
    return tmp_path


def score(capsys: Capture, folder: Path, *arguments: str, runs: tuple[str, ...] = ("run",)) -> tuple[int, str, str]:
    given = [part for name in runs for part in ("--run", str(folder / name))]
    code = cli.main(["score", "--qrels", str(folder / "qrels"), *given, *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: Capture, folder: Path, *arguments: str, runs: tuple[str, ...] = ("run",)) -> dict[str, Any]:
    code, out, _ = score(capsys, folder, *arguments, "--json", runs=runs)
    assert code == 0
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def test_the_json_document(files: Path, capsys: Capture) -> None:
    found = document(capsys, files, "--measures", "num_q,num_ret,map, recip_rank,P_5")
    assert found == {
        "mean": {"num_q": 2, "num_ret": 4, "map": 0.625, "recip_rank": 0.75, "P_5": 0.2},
        "per_query": {
            "1": {"num_ret": 2, "map": 1.0, "recip_rank": 1.0, "P_5": 0.2},
            "2": {"num_ret": 2, "map": 0.25, "recip_rank": 0.5, "P_5": 0.2},
        },
    }
    assert isinstance(found["mean"]["num_q"], int)


def test_the_default_set_and_no_rounding(files: Path, capsys: Capture) -> None:
    found = document(capsys, files)
    assert len(found["mean"]) == 29
    assert list(found["mean"])[:3] == ["num_q", "num_ret", "num_rel"]
    assert document(capsys, files, "-m", "P_15")["mean"]["P_15"] == 1 / 15


def test_options_are_those_of_trec_eval(files: Path, capsys: Capture) -> None:
    assert document(capsys, files, "-m", "num_q,map", "-c")["mean"] == {"num_q": 3, "map": pytest.approx(1.25 / 3)}
    assert document(capsys, files, "-m", "num_rel,map", "--level", "2")["mean"] == {"num_rel": 1, "map": 0.25}
    assert document(capsys, files, "-m", "num_ret,map", "-M", "1")["mean"] == {"num_ret": 2, "map": 0.5}


def test_means_with_intervals_and_a_line_for_each_query(files: Path, capsys: Capture) -> None:
    code, out, err = score(capsys, files, "-m", "num_ret,map", "-q")
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["mine:", "2", "queries;", "means", "with", "95%", "intervals"],
        [],
        ["num_ret", "4"],
        ["map", "0.6250", "+.250…+1.00"],
        [],
        ["num_ret", "1", "2"],
        ["map", "1", "1.0000"],
        ["num_ret", "2", "2"],
        ["map", "2", "0.2500"],
    ]


def test_two_runs_are_compared_over_the_queries_of_both(files: Path, capsys: Capture) -> None:
    code, out, err = score(capsys, files, "-m", "map,num_ret", runs=("run", "worse.gz"))
    assert code == 0
    assert err == "warning: 1 labelled query not in every run and left out; -c counts them\n"
    rows = [line.split() for line in out.splitlines()]
    assert ["map", "A", "0.625"] in rows
    assert ["B", "0.250", "-0.375", "-.500…-.250", "0.5000", "0.5000", "0/0/2", "0.350"] in rows
    assert "Carried by, map" in out
    assert "num_ret" not in out


def test_several_runs_in_json(files: Path, capsys: Capture) -> None:
    found = document(capsys, files, "-m", "map", "-c", runs=("run", "worse.gz", "run"))
    assert (found["queries"], found["excluded"]) == (3, [])
    assert found["baseline"]["tag"] == "mine"
    assert found["baseline"]["mean"]["map"] == pytest.approx(1.25 / 3)
    worse, same = found["systems"]
    assert worse["run"] == str(files / "worse.gz")
    assert worse["per_query"]["3"] == {"map": 1.0}
    one = same["measures"]["map"]
    assert (one["p"], one["p_holm"], one["difference_interval"]) == (1, 1, {"low": 0, "high": 0})
    assert worse["measures"]["map"]["difference"] == pytest.approx((-0.5 - 0.25 + 1) / 3)
    assert worse["measures"]["map"]["p_holm"] == min(1, 2 * worse["measures"]["map"]["p"])


def test_the_plot_is_of_the_measure_that_was_named(files: Path, capsys: Capture) -> None:
    code, out, _ = score(capsys, files, "-m", "map,P_5", "-c", "--plot", "--measure", "P_5", runs=("run", "worse.gz"))
    assert code == 0
    assert "P_5, B minus A" in out
    assert "─" in out
    assert "2.5%" in out


@pytest.mark.parametrize(
    ("arguments", "runs", "message"),
    [
        (("-m", "mapp"), ("run",), "the measures are num_q, num_ret"),
        (("--level", "0"), ("run",), "lowest relevant grade is 0"),
        (("--plot",), ("run",), "a plot is of two runs"),
        (("--plot", "--json"), ("run", "run"), "a plot is of two runs"),
        (("-m", "map", "--measure", "P_5"), ("run", "run"), "'P_5' is not compared here; these are: map"),
        (("-m", "num_ret"), ("run", "run"), "counts are not compared"),
        ((), ("none",), "cannot be read: No such file"),
        ((), ("qrels",), "every line has 4 columns; expected 6"),
    ],
)
def test_what_cannot_be_scored_is_exit_code_2(
    files: Path, capsys: Capture, arguments: tuple[str, ...], runs: tuple[str, ...], message: str
) -> None:
    code, out, err = score(capsys, files, *arguments, runs=runs)
    assert (code, out) == (2, "")
    assert message in " ".join(err.replace("│", " ").split())


def test_all_faults_of_a_file_are_told(files: Path, capsys: Capture) -> None:
    (files / "run").write_text("1 Q0 a 1 nan t\n1 Q0 b\n1 Q0 c 1 1 t\n1 Q0 c 1 1 t\n")
    code, _, err = score(capsys, files)
    assert code == 2
    assert [line.split("run:")[1].split(":")[0] for line in err.splitlines()] == ["1", "2", "4"]


def test_what_files_hold_cannot_steer_the_terminal(files: Path, capsys: Capture) -> None:
    (files / "qrels").write_text("\x1b[31m 0 a 1\n")
    (files / "run").write_text("\x1b[31m Q0 a 1 1.0 \x1b[31m[/b]\n")
    code, out, _ = score(capsys, files, "-q")
    assert (code, "\x1b" in out) == (0, False)
    assert r"\u001b[31m[/b]: 1 query" in out


def test_it_needs_no_server_and_works_in_a_pipe(files: Path) -> None:
    environment = {**os.environ, "RETRIEVAL_LAB_DSN": "host=nowhere.invalid"}
    command = [sys.executable, "-W", "error", "-m", "retrieval_lab", "score", "--qrels", "qrels", "--run", "run"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, cwd=files)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("mine: 2 queries")
