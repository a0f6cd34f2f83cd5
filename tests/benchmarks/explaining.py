"""The journey of one passage, from the question to its report, against the time that it may take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from retrieval_lab.diagnosis.report import journey_report
from retrieval_lab.lab import Lab
from tests.benchmarks.timing import Ratio

_MOST_SECONDS = 0.1
_ROUNDS = 5


def ratios() -> Iterator[Ratio]:
    with Lab.open() as lab:
        taken: list[float] = []
        for round_number in range(_ROUNDS + 1):
            for query in lab.golden:
                began = time.perf_counter()
                journey_report(lab.explain(query))
                if round_number:
                    taken.append(time.perf_counter() - began)
        yield Ratio("lab.explain with its report, median / the limit", statistics.median(taken), _MOST_SECONDS, 1)
