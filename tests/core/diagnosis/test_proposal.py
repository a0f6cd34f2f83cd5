"""Proposals: each kind on an example that was built for it, the order of the rules, fixes by rescue and by journey."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from retrieval_lab import Lab, PipelineConfig
from retrieval_lab.database import Database
from retrieval_lab.diagnosis.displacement import Above
from retrieval_lab.diagnosis.journey import Journey
from retrieval_lab.diagnosis.kinds import Failure, Fix
from retrieval_lab.diagnosis.nearby import Neighbour
from retrieval_lab.diagnosis.proposal import Proposal, diagnoses, propose
from retrieval_lab.diagnosis.rescue import Cost, Rescue, Rescues, rescued
from retrieval_lab.diagnosis.rescue_effect import Effect
from retrieval_lab.diagnosis.rescue_terms import Edit
from retrieval_lab.errors import Cancelled, InputError
from retrieval_lab.evals.summary import Estimate
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.retrievers.vector import VectorSearch
from retrieval_lab.settings import Bm25Reranker, NoReranker, WordChunker
from retrieval_lab.stored import Stored
from tests.core.diagnosis.losing import CONFIG, make_corpus

Explain = Callable[[str], Journey]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, database: Database) -> Iterator[Lab]:
    assert database.embedded
    with Lab.open(make_corpus(tmp_path_factory.mktemp("proposing") / "fruit")) as opened:
        yield opened


@pytest.fixture(scope="module")
def explain(small: Lab) -> Explain:
    return lambda query_id: small.explain(small.golden_query(query_id))


def proposed(journey: Journey, rescues: Rescues | None = None) -> tuple[Failure, Fix]:
    """The kinds that are proposed, once it is sure that the evidence is one line and the proposal survives JSON."""
    found = propose(journey, rescues)
    assert found is not None
    assert found.evidence.isprintable()
    assert found.query_id == (journey.golden.query_id if journey.golden else None)
    assert Proposal.from_stored(Stored(json.loads(json.dumps(found.to_dict())), "")) == found
    return found.failure, found.fix


# --- each kind -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query_id", "failure", "fix", "evidence"),
    [
        ("cut", Failure.CHUNK_BOUNDARY, Fix.SMALLER_CHUNKS, "cut#000 and cut#001 hold a part each"),
        ("head", Failure.CHUNK_BOUNDARY, Fix.CONTEXTUAL_CHUNK_HEADERS, "lacks quinc, which its heading path has"),
        ("next", Failure.CHUNK_BOUNDARY, Fix.SMALLER_CHUNKS, "long#000 beside it has 2 of the 2 words"),
        ("gap", Failure.VOCABULARY_GAP, Fix.QUERY_REWRITE, "text no word in common"),
        ("apple", Failure.RANKING, Fix.QUERY_REWRITE, "fused rank 4, beyond the pool of 3"),
        ("pear", Failure.RERANKER_DEMOTION, Fix.SMALLER_CHUNKS, "fused rank 1, after the lexical reranker 3"),
        ("fig", Failure.ANCHOR_AMBIGUITY, Fix.QUERY_REWRITE, "f1#000 at rank 1 has 4 of 5 content words"),
        ("plum", Failure.ANCHOR_AMBIGUITY, Fix.QUERY_REWRITE, "m1#000 at rank 1 is a near-duplicate (cosine 1.00)"),
    ],
)
def test_each_kind_on_an_example_built_for_it(
    explain: Explain, query_id: str, failure: Failure, fix: Fix, evidence: str
) -> None:
    journey = explain(query_id)
    assert proposed(journey) == (failure, fix)
    found = propose(journey)
    assert found is not None
    assert evidence in found.evidence


def test_what_is_found_and_what_has_no_anchor_gets_no_proposal(explain: Explain) -> None:
    assert propose(explain("first")) is None
    assert explain("absent").lost_at == "chunking"
    assert propose(explain("absent")) is None


def test_all_misses_get_what_their_journeys_get_in_the_order_of_the_file(small: Lab, explain: Explain) -> None:
    ids = ["apple", "pear", "plum", "fig", "gap", "next", "head", "cut"]
    assert list(diagnoses(small)) == [propose(explain(query_id)) for query_id in ids]


def test_a_note_says_that_it_is_a_proposal(explain: Explain) -> None:
    found = propose(explain("gap"))
    assert found is not None
    assert found.note.startswith("proposed: vocabulary-gap, query-rewrite: ")
    hostile = replace(found, evidence="a\x1b[31m\nb")
    assert hostile.note.isprintable()


# --- the order of the rules ----------------------------------------------------------------------------------------


def test_two_measured_ranks_go_before_shared_words(explain: Explain) -> None:
    journey = explain("pear")
    answering = Above("p1#000", 1, 1.0, {"text": 2}, ("pear",), 1.0, final_rank=1)
    moved = replace(journey, displacement=replace(journey.displacement, above=(answering,), content_words=("pear",)))
    assert proposed(moved)[0] is Failure.RERANKER_DEMOTION
    assert moved.fused is not None
    # Beyond the cut before the reranker it was not demoted; then the shared words decide.
    low = replace(moved, fused=replace(moved.fused, rank=journey.top_k + 1))
    assert proposed(low)[0] is Failure.ANCHOR_AMBIGUITY
    # A passage that answers and is not in the final list answers nobody.
    unseen = replace(answering, final_rank=None)
    hidden = replace(low, displacement=replace(low.displacement, above=(unseen,)))
    assert proposed(hidden)[0] is Failure.RANKING


def test_a_neighbour_counts_from_more_than_half_of_what_is_lacking(explain: Explain) -> None:
    journey = explain("gap")
    assert journey.nearby is not None
    for holds, failure in ((("zebra",), Failure.VOCABULARY_GAP), (("zebra", "stripe"), Failure.CHUNK_BOUNDARY)):
        near = replace(journey.nearby, after=Neighbour("gap#001", holds))
        assert proposed(replace(journey, nearby=near))[0] is failure


def test_a_passage_on_no_list_that_shares_half_of_the_words_ranks_low(explain: Explain) -> None:
    journey = explain("gap")
    text = journey.text
    assert text is not None
    for matched, absent, failure in (
        (("a",), ("b", "c"), Failure.VOCABULARY_GAP),
        (("a",), ("b",), Failure.RANKING),
        (("a", "b"), ("c",), Failure.RANKING),
    ):
        changed = replace(journey, lists={"text": replace(text, matched=matched, absent=absent, rank=90, reason=None)})
        assert proposed(changed)[0] is failure


def test_what_the_index_loses_is_no_gap_in_the_words(explain: Explain) -> None:
    assert proposed(replace(explain("gap"), lost_at="index"))[0] is Failure.RANKING


# --- the fix by the journey ----------------------------------------------------------------------------------------


def test_a_list_that_has_it_high_alone_should_weigh_more(small: Lab) -> None:
    config = replace(CONFIG, retrievers=(VectorSearch(n=5), TextSearch(n=4)))
    journey = small.explain("apple", "a4#000", config)
    assert journey.text is not None
    assert journey.vector is not None
    high = replace(journey.text, listed=2)
    low = replace(journey.vector, listed=None, rank=40)
    lists = {"vector": low, "text": high}
    lost = replace(journey, lists=lists, lost_at="fusion", final_rank=None, nearby=None)
    lost = replace(lost, displacement=replace(lost.displacement, above=(), duplicates=()))
    assert lost.fused is not None
    lost = replace(lost, fused=replace(lost.fused, rank=30))
    assert proposed(lost) == (Failure.RANKING, Fix.HYBRID_WEIGHTS)
    # Low on both: the words match and others match better, so meaning would have to tell them apart.
    nowhere = replace(lost, lists={"vector": low, "text": replace(high, listed=4)})
    assert proposed(nowhere) == (Failure.RANKING, Fix.BETTER_EMBEDDER)


def test_without_words_in_common_the_embedder_is_to_blame_where_there_is_one(small: Lab) -> None:
    config = replace(CONFIG, retrievers=(VectorSearch(n=1), TextSearch(n=4)))
    journey = small.explain(small.golden_query("gap"), config=config)
    assert journey.lost_at == "pool"
    assert proposed(journey) == (Failure.VOCABULARY_GAP, Fix.BETTER_EMBEDDER)


def test_what_the_query_excludes_needs_another_query(small: Lab) -> None:
    journey = small.explain("apple -fig", "f4#000")
    assert (journey.lost_at, journey.text and journey.text.excluded) == ("pool", ("fig",))
    assert proposed(journey)[1] is Fix.QUERY_REWRITE
    found = propose(journey)
    assert found is not None
    assert "the query excludes it by fig" in found.evidence


def test_a_demoted_passage_of_common_length_lacks_words(explain: Explain) -> None:
    journey = explain("pear")
    assert journey.reranked is not None
    assert journey.reranked.terms is not None
    assert journey.text is not None
    for factor, fix in ((1.25, Fix.SMALLER_CHUNKS), (1.24, Fix.QUERY_REWRITE)):
        terms = tuple(replace(one, length_factor=factor) for one in journey.reranked.terms)
        lists = {"text": replace(journey.text, absent=("jam",))}
        changed = replace(journey, reranked=replace(journey.reranked, terms=terms), lists=lists)
        assert proposed(changed) == (Failure.RERANKER_DEMOTION, fix)


# --- the fix by a rescue -------------------------------------------------------------------------------------------


def effect(gained: int, lost: int) -> Effect:
    ids = [f"q{number}" for number in range(gained + lost)]
    return Effect(9, tuple(ids[:gained]), tuple(ids[gained:]), Estimate(0.0, None), Estimate(0.0, None))


def rescue(
    cost: Cost, setting: str, config: PipelineConfig, moved: Effect | None = None, base: PipelineConfig = CONFIG
) -> Rescue:
    return rescued(
        base, config, cost=cost, setting=setting, before=3, after=2, chunk_id="p3#000", effect=moved or effect(0, 0)
    )


def edit(action: str, cost: Cost) -> Rescue:
    made = Edit(action, "jam", "pear jam", 1 if action == "add" else None)
    return rescued(CONFIG, CONFIG, cost=cost, setting="x", before=3, after=1, chunk_id="p3#000", edit=made)


HEAVIER = replace(CONFIG, retrievers=(TextSearch(n=4, weight=2.0),))
UNRANKED = replace(CONFIG, reranker=NoReranker(), mmr_lambda=None)
HEADED = replace(CONFIG, contextual_headers=True)
SMALLER = replace(CONFIG, chunker=replace(CONFIG.chunker, max_chars=60))
LARGER = replace(CONFIG, chunker=replace(CONFIG.chunker, max_chars=240))
WINDOWS = replace(CONFIG, chunker=WordChunker(100, 10))
NARROWER = replace(CONFIG, chunker=WordChunker(50, 10))


@pytest.mark.parametrize(
    ("found", "fix"),
    [
        ([edit("drop", Cost.QUERY)], Fix.QUERY_REWRITE),
        ([rescue(Cost.VALUE, "retrievers.text.weight", HEAVIER)], Fix.HYBRID_WEIGHTS),
        ([rescue(Cost.STAGE, "reranker.kind", UNRANKED)], Fix.HYBRID_WEIGHTS),
        ([rescue(Cost.STAGE, "retrievers.text.operators", HEAVIER)], Fix.QUERY_REWRITE),
        ([rescue(Cost.INDEX, "contextual_headers", HEADED)], Fix.CONTEXTUAL_CHUNK_HEADERS),
        ([rescue(Cost.INDEX, "chunker.max_chars", SMALLER)], Fix.SMALLER_CHUNKS),
        ([rescue(Cost.INDEX, "chunker.size", NARROWER, base=WINDOWS)], Fix.SMALLER_CHUNKS),
        # None of these is a fix, so the journey decides: p3 is long.
        ([], Fix.SMALLER_CHUNKS),
        ([edit("add", Cost.HINT)], Fix.SMALLER_CHUNKS),
        ([rescue(Cost.INDEX, "chunker.max_chars", LARGER)], Fix.SMALLER_CHUNKS),
        ([rescue(Cost.STAGE, "reranker.kind", UNRANKED, effect(1, 2))], Fix.SMALLER_CHUNKS),
        # The first that counts.
        (
            [
                rescue(Cost.VALUE, "retrievers.text.weight", HEAVIER, effect(0, 1)),
                rescue(Cost.INDEX, "contextual_headers", HEADED, effect(2, 2)),
                rescue(Cost.INDEX, "chunker.max_chars", SMALLER),
            ],
            Fix.CONTEXTUAL_CHUNK_HEADERS,
        ),
    ],
)
def test_the_fix_is_that_of_the_first_harmless_rescue(explain: Explain, found: list[Rescue], fix: Fix) -> None:
    journey = explain("pear")
    rescues = Rescues(
        query="pear",
        query_id="pear",
        wanted=("p3#000",),
        unlabelled=None,
        before=3,
        config=CONFIG,
        rescues=tuple(found),
        tried=(),
    )
    assert proposed(journey, rescues) == (Failure.RERANKER_DEMOTION, fix)
    with pytest.raises(InputError, match="rescues of 'plum'"):
        propose(journey, replace(rescues, query="plum"))


def test_searched_rescues_give_the_fixes(small: Lab) -> None:
    heard: list[tuple[int, int]] = []
    found = {one.query_id: one for one in diagnoses(small, rescue=True, progress=lambda *step: heard.append(step))}
    # Without BM25's length factor, or with the reranker off, the longest passage is first again.
    assert found["pear"].fix is Fix.HYBRID_WEIGHTS
    assert "rescued by" in found["pear"].evidence
    assert "rescued by" not in found["gap"].evidence
    assert heard[-10:] == [(done, 9) for done in range(10)]
    stopped = replace(CONFIG, reranker=Bm25Reranker(b=0.5))
    with pytest.raises(Cancelled):
        diagnoses(small, stopped, cancelled=lambda: True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"failure": "bad-luck"}, "failure is 'bad-luck'; expected vocabulary-gap"),
        ({"fix": 3}, "fix is 3; expected text"),
        ({"evidence": None}, "evidence is null"),
    ],
)
def test_a_broken_proposal_is_refused(explain: Explain, change: dict[str, object], message: str) -> None:
    found = propose(explain("gap"))
    assert found is not None
    with pytest.raises(InputError, match=message):
        Proposal.from_stored(Stored({**found.to_dict(), **change}, ""))
