"""The effect of a change on golden queries: the ranks of best answers counted by hand, measures by arithmetic."""

from __future__ import annotations

import json
import math

import pytest

from retrieval_lab.config import PipelineConfig
from retrieval_lab.errors import InputError
from retrieval_lab.evals.effects import RankChange, effect
from retrieval_lab.metrics import QueryResult
from retrieval_lab.types import GoldenQuery

CONFIG = PipelineConfig(top_k=2)


def result(query_id: str, final: int | None, vector: int | None = 1, pool: int | None = 9) -> QueryResult:
    """One relevant chunk at these ranks; the text list never has it, the fused pool always at the rank `pool`."""
    found = float(final is not None)
    return QueryResult(
        query=GoldenQuery(query_id, f"what is {query_id}?", "known", "bread", "loaf"),
        relevant_ids=frozenset({"bread#000"}),
        final=(),
        recall=found,
        precision=found / 2,
        hit=found,
        mrr=1 / final if final else 0.0,
        ndcg=1 / math.log2(final + 1) if final else 0.0,
        pool={"vector": float(vector is not None), "text": 0.0, "fused": 1.0},
        ranks={"vector": vector, "text": None, "fused": pool, "reranked": pool, "final": final},
        seconds=0.01,
    )


BEFORE = [result("q1", 1), result("q2", 1, vector=3), result("q3", None, vector=None), result("q4", 2), result("q5", 2)]
AFTER = [result("q1", 1), result("q2", 2, vector=8), result("q3", 2, vector=4), result("q4", None), result("q5", 2)]


def test_best_answers_are_counted_in_every_list() -> None:
    found = effect(BEFORE, AFTER, CONFIG)
    assert found is not None
    assert found.queries == 5
    assert found.ranks == {
        "vector": RankChange(4, 5, (), ("q3",), 0.0),  # moves 0, 5, 0, 0
        "text": RankChange(0, 0, (), (), None),
        "fused": RankChange(5, 5, (), (), 0.0),
        "reranked": RankChange(5, 5, (), (), 0.0),
        "final": RankChange(4, 4, ("q4",), ("q3",), 0.0),  # moves 0, 1, 0
    }
    sank = effect(BEFORE[:2], [result("q1", 2), result("q2", 2)], CONFIG)
    assert sank is not None
    assert sank.ranks["final"].median_move == 1
    assert sank.ranks["vector"].median_move == -1  # of 0 and -2


def test_measures_are_paired_differences() -> None:
    found = effect(BEFORE, AFTER, CONFIG)
    assert found is not None
    mrr = found.measures["mrr@2"]
    assert mrr.baseline == pytest.approx((1 + 1 + 0 + 1 / 2 + 1 / 2) / 5)
    assert mrr.system == pytest.approx((1 + 1 / 2 + 1 / 2 + 0 + 1 / 2) / 5)
    assert mrr.difference == pytest.approx(-1 / 10)
    # Differences are -1/2, 1/2, -1/2 and twice 0: of eight signs all are as far from 0 as -1/2, so p is 1.
    assert mrr.p == 1
    assert (mrr.counts.wins, mrr.counts.ties, mrr.counts.losses) == (1, 2, 2)
    assert mrr.difference_interval is not None
    assert mrr.difference_interval.low < -1 / 10 < mrr.difference_interval.high
    assert found.measures["vector recall@50"].difference == pytest.approx(1 / 5)
    assert found.measures["text recall@50"].difference == 0


def test_the_queries_that_lost_most_come_first() -> None:
    found = effect(
        [*BEFORE, result("q6", None, pool=4), result("q7", None, pool=3)],
        [*AFTER, result("q6", None, pool=5), result("q7", None, pool=None)],
        CONFIG,
    )
    assert found is not None
    # q2 and q4 both lose a half of 1 / rank and stand in their order; q7 and q6 lose in the pool alone.
    assert [one.query_id for one in found.moved] == ["q2", "q4", "q7", "q6", "q3"]
    assert [one.query_id for one in found.worse] == ["q2", "q4"]
    q4 = found.moved[1]
    assert (q4.loss, q4.ranks_before["final"], q4.ranks_after["final"]) == (0.5, 2, None)
    document = json.loads(json.dumps(found.to_dict()))
    assert [one["query_id"] for one in document["moved"]] == ["q2", "q4", "q7", "q6", "q3"]
    assert document["ranks"]["final"]["lost"] == ["q4"]


def test_no_query_has_no_effect_and_others_cannot_be_paired() -> None:
    assert effect([], [], CONFIG) is None
    with pytest.raises(InputError, match="other queries, or in another order"):
        effect(BEFORE, AFTER[::-1], CONFIG)
    with pytest.raises(InputError, match="other queries"):
        effect(BEFORE, AFTER[:4], CONFIG)
    nothing = QueryResult(GoldenQuery("q1", "?", "k", "", ""), frozenset(), (), 0, 0, 0, 0, 0, {}, {}, 0.0)
    with pytest.raises(InputError, match="'q1' has no relevant chunk"):
        effect([nothing], [nothing], CONFIG)
