"""Writing the report of an ablation into its folder, each file whole or not at all."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from retrieval_lab.ablation.folder import AblationFolder
from retrieval_lab.errors import InputError
from retrieval_lab.report.csv_files import failures_csv, per_query_csv
from retrieval_lab.report.plots import by_kind_png, latency_png, quality_png, require_plots
from retrieval_lab.report.robustness import load_robustness
from retrieval_lab.report.study import Study, study
from retrieval_lab.report.text import Robustness, report_text
from retrieval_lab.whole_file import write_whole

REPORT = "report.md"
PLOTS = ("quality.png", "latency.png", "by_kind.png")


@dataclass(frozen=True, slots=True)
class Report:
    """A report that was written: its files, report.md first, and what it says."""

    files: tuple[Path, ...]
    study: Study

    @property
    def path(self) -> Path:
        """The text, which names the others."""
        return self.files[0]


def write_report(folder: Path, *, plots: bool = True) -> Report:
    """Write the report of the ablation in a folder beside its cells, in the place of an earlier one.

    The files are report.md, metrics.json, per_query.csv, failures.csv and, unless `plots` is false, quality.png,
    latency.png and by_kind.png. An ablation that is not done is reported as far as it is. Nothing is written unless
    all of it can be made.

    Raises InputError when there is no ablation in the folder, or none of its cells is done, or it is broken, no query
    is held out, a measure of the rule was not measured, or a file cannot be written; MissingExtra when the pictures
    need a library that is not there.
    """
    if plots:
        require_plots()  # before the work
    made = study(AblationFolder(folder).load())
    robustness = load_robustness(folder)
    files: dict[str, str | bytes] = {
        REPORT: report_text(made, robustness, plots=plots),
        "metrics.json": _metrics(made, robustness),
        "per_query.csv": per_query_csv(made),
        "failures.csv": failures_csv(made),
    }
    if plots:
        files |= zip(PLOTS, (quality_png(made), latency_png(made), by_kind_png(made)), strict=True)
    try:
        for name, content in files.items():
            write_whole(folder / name, content)
        for name in PLOTS:
            if not plots:
                (folder / name).unlink(missing_ok=True)  # of an earlier report, whose numbers they show
    except OSError as error:
        raise InputError(f"{folder}: the report cannot be written: {error.strerror}") from error
    return Report(tuple(folder / name for name in files), made)


def _metrics(made: Study, robustness: Robustness) -> str:
    kept = {name: {kind: asdict(one) for kind, one in kinds.items()} for name, kinds in robustness.items()}
    return json.dumps({**made.to_dict(), "robustness": kept}, indent=1, allow_nan=False) + "\n"
