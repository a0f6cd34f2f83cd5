"""The files of a report: what stands in them, that they come whole, and that times stand apart."""

from __future__ import annotations

import csv
import json
import re
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from retrieval_lab.ablation.cell import Cell, Failure
from retrieval_lab.ablation.folder import Ablation
from retrieval_lab.ablation.rule import Rule
from retrieval_lab.errors import InputError
from retrieval_lab.extras import MissingExtra
from retrieval_lab.report import write_report
from retrieval_lab.report.cost import at_once
from retrieval_lab.report.csv_files import failures_csv, per_query_csv
from retrieval_lab.report.plots import number_offsets
from retrieval_lab.report.study import study
from tests.core.report.made import HYBRID, TEXT, VECTOR, ablation, cell, reranked, stored, with_records

PNG = b"\x89PNG\r\n\x1a\n"
TEXTS = ["report.md", "metrics.json", "per_query.csv", "failures.csv"]
PICTURES = ["quality.png", "latency.png", "by_kind.png"]
HELD_OUT = (1, 2, 1, None, 1, 1, 3, 1)


def grid(seconds: float = 0.01, created: str = "2026-02-03T04:05:06+00:00") -> Ablation:
    """Three configurations whose times depend on `seconds`."""
    times: dict[str, Any] = {"kinds": ("easy", "hard"), "created": created}
    cells = (
        cell("text | plain", TEXT, HELD_OUT, seconds=seconds, **times),
        cell("vector_$x$", VECTOR, (2, None, 3, None, 5, 1, 4, 1), seconds=2 * seconds, **times),
        cell("hybrid · lexical", reranked(HYBRID), (1, 1, 1, None, 1, 1, 2, 1), seconds=3 * seconds, **times),
    )
    failed = Failure("hybrid <b>", replace(HYBRID, top_k=9), "no `model` | at\nall")
    return ablation(*cells, failures=[failed], left_out=[("text · MMR", "no reranker")])


def without_costs(text: str) -> str:
    return re.sub(r"## Cost\n.*?(?=\n## )", "", text, flags=re.DOTALL)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(text, newline="")))


def test_two_grids_that_differ_in_times_alone_give_reports_that_differ_in_times_alone(tmp_path: Path) -> None:
    first, again = (write_report(stored(grid(), tmp_path / name)) for name in ("a", "b"))
    assert [path.name for path in first.files] == [*TEXTS, *PICTURES]
    for one, other in zip(first.files, again.files, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
    slower = write_report(stored(grid(0.013, "2027-05-06T07:08:09+00:00"), tmp_path / "c"))
    pairs = {
        one.name: (one.read_bytes(), other.read_bytes()) for one, other in zip(first.files, slower.files, strict=True)
    }
    changed = {name for name, (one, other) in pairs.items() if one != other}
    assert changed == {"report.md", "metrics.json", "per_query.csv", "latency.png"}
    assert without_costs(pairs["report.md"][0].decode()) == without_costs(pairs["report.md"][1].decode())
    documents = [json.loads(text) for text in pairs["metrics.json"]]
    assert documents[0].pop("times") != documents[1].pop("times")
    assert documents[0] == documents[1]
    tables = [rows(text.decode()) for text in pairs["per_query.csv"]]
    assert [{**row, "seconds": ""} for row in tables[0]] == [{**row, "seconds": ""} for row in tables[1]]
    assert all(pairs[name][0].startswith(PNG) for name in PICTURES)


def test_the_text_gives_the_answer_first_and_says_what_was_not_measured(tmp_path: Path) -> None:
    text = write_report(stored(grid(), tmp_path), plots=False).path.read_text(encoding="utf-8")
    titles = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert titles[0] == "Answer"
    assert titles[-4:] == ["What was not measured", "What these data cannot prove", "Cost", "Fingerprint"]
    assert "**Ship text | plain.**" in text
    assert "| hybrid · lexical |" in text
    assert "| hybrid \\<b> | no \\`model\\` \\| at all |" in text
    assert "| text · MMR | no reranker |" in text
    assert "![" not in text


def test_every_table_has_as_many_cells_in_each_row_as_in_its_head(tmp_path: Path) -> None:
    text = write_report(stored(grid(), tmp_path), plots=False).path.read_text(encoding="utf-8")
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert len(tables) == 8
    for table in tables:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(widths) == 1, table


def test_without_a_decision_the_report_says_so_and_counts_what_failed(tmp_path: Path) -> None:
    made = ablation(*grid().cells, rule=Rule(target=0.99))
    text = write_report(stored(made, tmp_path), plots=False).path.read_text(encoding="utf-8")
    assert "**Ship none of them yet.**" in text
    assert "| recall@10 below 0.99 | 3 |" in text
    assert "## The worst held-out queries of hybrid · lexical" in text


def test_metrics_have_every_mean_and_the_decision(tmp_path: Path) -> None:
    found = json.loads((write_report(stored(grid(), tmp_path), plots=False).path.parent / "metrics.json").read_text())
    assert (found["format"], found["decision"]["chosen"], found["decision"]["best"]) == (
        1,
        "text | plain",
        "hybrid · lexical",
    )
    first = found["configurations"][0]
    assert first["name"] == "hybrid · lexical"
    assert first["held_out"]["measures"]["mrr@10"]["value"] == pytest.approx((6 + 1 / 2) / 8)
    assert first["by_kind"]["easy"]["queries"] == 4
    assert found["configurations"][1]["against_best"]["mrr@10"]["difference"] == pytest.approx(
        (1 / 3 - 1 / 2 - 1 / 2) / 8
    )
    assert found["times"]["text | plain"]["median"] == pytest.approx(0.01)
    assert found["fingerprint"]["held_out_ids_hash"] == found["queries"]["held_out_ids_hash"]


def test_a_row_a_configuration_and_query(tmp_path: Path) -> None:
    folder = write_report(stored(grid(), tmp_path), plots=False).path.parent
    found = rows((folder / "per_query.csv").read_text(encoding="utf-8"))
    assert len(found) == 3 * 10
    second = next(row for row in found if row["configuration"] == "vector_$x$" and row["query_id"] == "h3")
    expected = {"split": "held-out", "kind": "hard", "best_rank": "3", "hit@10": "1.0", "text recall@50": ""}
    assert {name: second[name] for name in expected} == expected
    assert float(second["mrr@10"]) == pytest.approx(1 / 3)
    assert next(row["best_rank"] for row in found if row["query_id"] == "h4") == ""


def hostile(made: Cell, query: str) -> Cell:
    last = made.run.queries[-1]
    changed = replace(last, query_id="@sum", query=query, kind="=1+1", ranks=dict.fromkeys(last.ranks))
    measures = dict.fromkeys(last.measures, 0.0)
    kept = replace(made, run=replace(made.run, queries=made.run.queries[:-1]))
    return with_records(kept, replace(changed, measures=measures))


@pytest.mark.parametrize("query", ["=HYPERLINK(1)", "+1", "-1", "@a", "\t=1", "\r=1", "\n=1"])
def test_no_text_of_a_csv_file_is_a_formula(query: str) -> None:
    made = study(ablation(hostile(cell("-x", TEXT, (1, 2)), query)))
    (row, *_) = rows(failures_csv(made))
    assert (row["query_id"], row["query"], row["kind"]) == ("'@sum", f"'{query}", "'=1+1")
    assert rows(per_query_csv(made))[0]["configuration"] == "'-x"


def test_a_line_break_and_quotes_stay_in_their_cell() -> None:
    query = 'a "b",\nc'
    (row, *more) = rows(failures_csv(study(ablation(hostile(cell("x", TEXT, (1, 1)), query)))))
    assert (row["query"], row["retrieved"].split(" ")[0], more) == (query, "h2#000", [])


def test_an_earlier_report_is_replaced_and_its_pictures_go_when_none_are_drawn(tmp_path: Path) -> None:
    folder = stored(grid(), tmp_path)
    for name in [*TEXTS, *PICTURES]:
        (folder / name).write_text("old")
    write_report(folder, plots=False)
    assert sorted(path.name for path in folder.iterdir() if path.is_file()) == sorted([*TEXTS, "ablation.json"])
    assert "old" not in [(folder / name).read_text(encoding="utf-8") for name in TEXTS]


def test_nothing_is_written_where_there_is_nothing_to_report(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no ablation is kept here"):
        write_report(tmp_path / "none")
    folder = stored(ablation(failures=[Failure("a", TEXT, "no")]), tmp_path / "failed")
    with pytest.raises(InputError, match="no configuration is measured yet"):
        write_report(folder, plots=False)
    assert not (folder / "report.md").exists()


def test_without_the_library_pictures_are_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    folder = stored(grid(), tmp_path)
    with pytest.raises(MissingExtra, match=r"pip install 'retrieval-lab\[evals\]'"):
        write_report(folder)
    assert not (folder / "report.md").exists()
    assert len(write_report(folder, plots=False).files) == len(TEXTS)


def test_how_many_cells_ran_at_once_is_counted_only_where_it_is_certain() -> None:
    # 10 queries of 1 s each, begun at 4:05:06: certainly busy from 4:05:07 to 4:05:16.
    def begun(second: int) -> Cell:
        return cell(f"c{second}", TEXT, HELD_OUT, seconds=1, created=f"2026-02-03T04:05:{second:02d}+00:00")

    assert at_once([begun(6), begun(30)]) == 1
    assert at_once([begun(6), begun(16)]) == 1
    assert at_once([begun(6), begun(14)]) == 2
    assert at_once([begun(6), begun(7), begun(8), begun(40)]) == 3


def test_numbers_in_a_picture_cover_neither_each_other_nor_a_point() -> None:
    points = [(100.0 + 9 * (place % 4), 100.0 + 7 * (place // 4)) for place in range(16)]
    spots = [(x + dx, y + dy) for (x, y), (dx, dy) in zip(points, number_offsets(points, 1), strict=True)]
    for place, (x, y) in enumerate(spots):
        others = [*points, *spots[:place]]
        assert all(abs(x - u) > 11 or abs(y - v) > 8.5 for u, v in others)
