"""A small corpus that loses passages in every way but by the index, each for a reason that can be told by hand."""

from __future__ import annotations

from pathlib import Path

import yaml

from retrieval_lab import PipelineConfig
from retrieval_lab.retrievers.text import TextSearch
from retrieval_lab.settings import MarkdownChunker, RrfFusion

FILLER = " ".join(f"filler{number}" for number in range(97))

STORIES = {
    # One word more often in each: full text ranks a4 last, and the fused pool takes three.
    "a1": "apple apple apple apple",
    "a2": "apple apple apple",
    "a3": "apple apple",
    "a4": "apple cider mill",
    # Full text puts p3 first, which has the word twice; BM25 puts it last for its length.
    "p1": "pear jam kitchen",
    "p2": "pear tree orchard",
    "p3": f"pear pear {FILLER}",
    # m1 and m2 are one text, so MMR picks m3 second.
    "m1": "plum tart with cream on top",
    "m2": "plum tart with cream on top",
    "m3": "plum and quite other things about winter gardens",
    # f1 is found for `fig` and has most words of f4's sentence; f4 is beyond the pool.
    "f1": "fig fig fig fig harbour lantern copper",
    "f2": "fig fig fig and some more words about nothing at all",
    "f3": "fig fig and some others about nothing, too",
    "f4": "harbour lantern copper kettle fig",
    "gap": "nothing of it stands here",
    "long": f"The violin teacher came.\n\nThen he left for the {'very ' * 24}old town.",
}
DOCS = {
    "storage": "# Quinces\n\nThey are hard.\n\n## In winter\n\nIn a cool room they keep for months.\n",
    "cut": "# Salmon\n\nServe it with a loaf.\n\n## Boats\n\nThe harbour has forty.\n",
}
GOLDEN = """\
- {query_id: apple, query: apple, kind: one, doc_id: a4, anchor: cider mill}
- {query_id: first, query: apple, kind: one, doc_id: a1, anchor: apple}
- {query_id: pear, query: pear, kind: one, doc_id: p3, anchor: pear}
- {query_id: plum, query: plum, kind: one, doc_id: m2, anchor: tart}
- {query_id: fig, query: fig, kind: one, doc_id: f4, anchor: kettle}
- {query_id: gap, query: zebra stripes, kind: two, doc_id: gap, anchor: stands here}
- {query_id: next, query: violin teacher, kind: two, doc_id: long, anchor: old town}
- {query_id: head, query: quince, kind: two, doc_id: storage, anchor: cool room}
- {query_id: cut, query: salmon, kind: two, doc_id: cut, anchor: "a loaf. ## boats the"}
- {query_id: absent, query: salmon, kind: two, doc_id: cut, anchor: no such words}
"""
CONFIG = PipelineConfig(
    chunker=MarkdownChunker(max_chars=120, overlap=0),
    retrievers=(TextSearch(n=4),),
    fusion=RrfFusion(n=3),
    mmr_lambda=0.8,
    top_k=2,
)
LOST = {
    "chunking": ("cut", "absent"),
    "pool": ("gap", "next", "head"),
    "index": (),
    "fusion": ("apple", "fig"),
    "reranker": ("pear",),
    "mmr": ("plum",),
}
FOUND = ("first",)


def make_corpus(folder: Path) -> Path:
    """Write the corpus with its lab.yaml."""
    for name, texts, ending in (("stories", STORIES, "txt"), ("docs", DOCS, "md")):
        (folder / name).mkdir(parents=True)
        for doc_id, text in texts.items():
            (folder / name / f"{doc_id}.{ending}").write_text(f"{text}\n", encoding="utf-8")
    (folder / "golden.yaml").write_text(GOLDEN, encoding="utf-8")
    settings = yaml.safe_dump(CONFIG.to_dict())
    (folder / "lab.yaml").write_text(settings, encoding="utf-8")
    return folder
