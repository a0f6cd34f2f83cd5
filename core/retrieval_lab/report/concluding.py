"""The end of an ablation: the configurations that matter asked in other words, then the report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from retrieval_lab.ablation.folder import AblationFolder
from retrieval_lab.ablation.work import Labs, golden_at
from retrieval_lab.evals.robustness import robustness
from retrieval_lab.report.robustness import keep_robustness
from retrieval_lab.report.study import study
from retrieval_lab.report.writing import Report, write_report


def conclude(
    folder: Path,
    dsn: str | None = None,
    *,
    plots: bool = True,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Report:
    """Ask the golden queries of the configuration to ship and of the best one in other words, and write the report.

    `progress` hears how many of how many such questions of a configuration are asked. Raises as `write_report` does,
    before that as `Lab.open` does.
    """
    ablation = AblationFolder(folder).load()
    decision = study(ablation).decision
    configs = {cell.name: cell.config for cell in ablation.cells if cell.name in (decision.subject, decision.best)}
    found = {}
    with Labs() as labs:
        for name, config in configs.items():
            lab = labs.opened(ablation.manifest.corpus, config, dsn).lab
            golden = golden_at(ablation.manifest.level, lab.golden)
            found[name] = robustness(lab, config, golden=golden, progress=progress)
    keep_robustness(folder, found)
    return write_report(folder, plots=plots)
