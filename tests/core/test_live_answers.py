"""Three real answers of Claude's: they cite the passage or refuse, and cost little. Skipped without a login.

`make test` leaves them out, since they cost money; `make live` runs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from retrieval_lab.answering import Claude, grounds, say
from retrieval_lab.claude_login import has_login
from retrieval_lab.lab import Lab

pytest.importorskip("claude_agent_sdk")
pytestmark = [pytest.mark.live, pytest.mark.skipif(not has_login(), reason="nobody is logged in to Claude")]

MOST_USD = 0.20
spent: list[float] = []


@pytest.fixture(scope="module")
def lab(corpus_dir: Path) -> Iterator[Lab]:
    with Lab.open(corpus_dir) as opened:
        yield opened


@pytest.mark.parametrize("query_id", ["q04", "q15", "q33"])
def test_a_live_answer_refuses_or_cites_a_passage_that_holds_the_anchor(lab: Lab, query_id: str) -> None:
    made = grounds(lab, lab.golden_query(query_id))
    said = say(made, Claude())
    spent.append(said.cost_usd)
    assert not said.report.invalid
    cited = {said.sources[number - 1].chunk.chunk_id for number in said.report.cited}
    assert said.report.refused or cited & set(made.trace.relevant)
    assert sum(spent) <= MOST_USD


def test_a_live_question_about_something_else_is_refused_at_no_cost(lab: Lab) -> None:
    said = say(grounds(lab, "How do I grow basil on a balcony?"), Claude())
    assert said.report.refused
    assert said.cost_usd == 0.0
