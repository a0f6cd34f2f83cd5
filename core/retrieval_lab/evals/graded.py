"""What is wrong with labels that grade whole documents: documents that are not there, or that have no text."""

from __future__ import annotations

from collections.abc import Iterator

from retrieval_lab.evals.anchors import AnchorFault, Passages
from retrieval_lab.evals.findings import Kind, excerpt, listed
from retrieval_lab.types import GoldenQuery

KeyedFault = tuple[str, AnchorFault]
"""The key of the golden query that a fault is about, and the fault."""


def graded_faults(query: GoldenQuery, passages: Passages) -> Iterator[KeyedFault]:
    """What is wrong with the graded documents of a query, relevant or not."""
    known = [doc_id for doc_id in query.doc_ids if doc_id in passages.documents]
    with_text = [doc_id for doc_id in known if passages.chunks.get(doc_id)]
    if query.doc_ids and not known:
        hint = passages.suggestion(query.doc_ids[0])
        message = f"the corpus has none of the relevant documents {listed(query.doc_ids)}; {hint}"
        yield "relevant", AnchorFault(Kind.UNKNOWN_DOCUMENT, message)
    elif query.doc_ids and not with_text:
        message = f"no relevant document has a word in it ({listed(known)}), so nothing can be found; label others"
        yield "relevant", AnchorFault(Kind.NO_TEXT_RELEVANT, message)
    else:
        yield from _of_some(query, passages)


def _of_some(query: GoldenQuery, passages: Passages) -> Iterator[KeyedFault]:
    """Faults that leave the query something to find, or that are of documents judged and not relevant."""
    for doc_id, grade in query.relevant:
        if doc_id not in passages.documents:
            cost = "it counts as never found; " if grade > 0 else ""
            message = f"the corpus has no document {excerpt(doc_id)}; {cost}{passages.suggestion(doc_id)}"
            yield f"relevant.{doc_id}", AnchorFault(Kind.LABEL_UNKNOWN_DOCUMENT, message)
        elif grade > 0 and not passages.chunks.get(doc_id):
            message = f"{excerpt(doc_id)} has no text, and counts as never found; delete the label or fill the document"
            yield f"relevant.{doc_id}", AnchorFault(Kind.LABEL_WITHOUT_TEXT, message)
