"""Scoring a run of 10,000 queries x 100 results against ir-measures, bare pytrec_eval and, where it is, ranx."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from retrieval_lab.evals.scoring import Scores, score
from retrieval_lab.trec import Qrels, TrecRun, read_qrels, read_run, write_qrels, write_run
from tests.benchmarks.timing import Ratio, compare

QUERIES, DEPTH, LABELS, DOCUMENTS = 10_000, 100, 20, 50_000
MEASURES = ("map", "recip_rank", "P_10", "recall_100", "ndcg_cut_10", "success_10")

Grades = dict[str, dict[str, int]]
Results = dict[str, dict[str, float]]


def case() -> tuple[Grades, Results]:
    """Labels with grades 0 to 3 and a run in no order, whose scores have ties now and then."""
    rng = np.random.default_rng(0)
    names = np.array([f"document-{number}" for number in range(DOCUMENTS)])
    qrels: Grades = {}
    run: Results = {}
    for number in range(QUERIES):
        found = names[rng.integers(0, DOCUMENTS, DEPTH + LABELS)].tolist()
        labelled = found[DEPTH - LABELS // 2 : DEPTH + LABELS // 2]
        # The last label gets a grade above 0, so that no query is without a relevant one.
        grades = [*rng.integers(0, 4, len(labelled) - 1).tolist(), 1]
        scores = rng.integers(0, 100_000, DEPTH) / 1000
        qrels[f"q{number}"] = dict(zip(labelled, grades, strict=True))
        run[f"q{number}"] = dict(zip(found, scores.tolist(), strict=False))
    return qrels, run


def ours(qrels: Grades, run: Results) -> Scores:
    return score(Qrels(qrels), TrecRun("ours", run), MEASURES)


def _pytrec_eval(qrels: Grades, run: Results) -> dict[str, dict[str, float]]:
    import pytrec_eval

    asked = {"map", "recip_rank", "P.10", "recall.100", "ndcg_cut.10", "success.10"}
    found: dict[str, dict[str, float]] = pytrec_eval.RelevanceEvaluator(qrels, asked).evaluate(run)
    return found


def _ir_measures(qrels: Grades, run: Results) -> dict[str, float]:
    import ir_measures
    from ir_measures import AP, RR, P, R, Success, nDCG

    asked = dict(zip(MEASURES, (AP, RR, P @ 10, R @ 100, nDCG @ 10, Success @ 10), strict=True))
    means = ir_measures.calc_aggregate(list(asked.values()), qrels, run)
    return {name: means[metric] for name, metric in asked.items()}


def _ranx(qrels: Any, run: Any) -> dict[str, float]:
    import ranx

    asked = dict(zip(MEASURES, ("map", "mrr", "precision@10", "recall@100", "ndcg@10", "hit_rate@10"), strict=True))
    found = ranx.evaluate(qrels, run, list(asked.values()))
    return {name: float(found[theirs]) for name, theirs in asked.items()}


def ratios() -> Iterator[Ratio]:
    qrels, run = case()
    means, theirs = ours(qrels, run).means, _ir_measures(qrels, run)
    for name, value in theirs.items():
        assert np.isclose(means[name], value, atol=1e-9), name
    yield compare(
        "scoring 10,000 queries x 100, six measures / ir-measures",
        lambda: ours(qrels, run),
        lambda: _ir_measures(qrels, run),
        rounds=5,
        bound=1.0,
    )
    yield compare("the same / pytrec_eval", lambda: ours(qrels, run), lambda: _pytrec_eval(qrels, run), rounds=5)
    # ranx brings numba, which pins numpy: it is compared where somebody has installed it.
    if importlib.util.find_spec("ranx"):
        import ranx

        made = ranx.Qrels(qrels), ranx.Run(run)
        yield compare(
            "the same / ranx", lambda: ours(qrels, run), lambda: _ranx(ranx.Qrels(qrels), ranx.Run(run)), rounds=5
        )
        yield compare(
            "the same / ranx, its own form made before", lambda: ours(qrels, run), lambda: _ranx(*made), rounds=5
        )
    yield from _from_files(qrels, run)


def _from_files(qrels: Grades, run: Results) -> Iterator[Ratio]:
    import ir_measures

    with tempfile.TemporaryDirectory() as folder:
        labels, results = Path(folder) / "qrels", Path(folder) / "run"
        write_qrels(labels, Qrels(qrels))
        write_run(results, "ours", {query: list(found.items()) for query, found in run.items()})
        yield compare(
            "reading a run of 1,000,000 lines and its qrels / ir-measures",
            lambda: (read_qrels(labels), read_run(results)),
            lambda: (list(ir_measures.read_trec_qrels(str(labels))), list(ir_measures.read_trec_run(str(results)))),
            rounds=3,
        )
