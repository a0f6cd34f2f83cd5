"""The command `retrieval-lab split`: deal the golden set into a part to choose by and a part held out."""

from __future__ import annotations

from typing import Annotated

import typer

from retrieval_lab.cli_options import CorpusArgument, JsonOption, print_json
from retrieval_lab.cli_text import print_table
from retrieval_lab.corpus import GOLDEN_FILE
from retrieval_lab.errors import InputError
from retrieval_lab.evals.splits import DEV, DEV_SHARE, HELD_OUT, SEED, stratified
from retrieval_lab.golden import load_golden
from retrieval_lab.paths import bundled_corpus
from retrieval_lab.text import printable


def split(
    corpus: CorpusArgument = None,
    dev: Annotated[
        float, typer.Option("--dev", metavar="SHARE", help="The share of the queries to choose by.")
    ] = DEV_SHARE,
    seed: Annotated[int, typer.Option("--seed", help="Another number deals otherwise.")] = SEED,
    force: Annotated[bool, typer.Option("--force", help="Deal anew, though there are splits already.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the splits, and write nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Deal the golden queries into the splits dev and held-out, each kind in its share, and write them down.

    They stand in golden.yaml, as the key [bold]split[/bold] of each query; nothing else in the file
    changes. The same queries, share and seed give the same splits, in
    whatever order the file has them. Every report of [bold]eval[/bold] has the hash of the
    held-out list.

    Example: [bold]retrieval-lab split my-corpus[/bold], then [bold]retrieval-lab eval my-corpus --split dev[/bold]
    """
    from retrieval_lab.evals.runs import hash_of_golden
    from retrieval_lab.golden_write import write_splits

    path = (corpus or bundled_corpus()) / GOLDEN_FILE
    golden = load_golden(path)
    there = sorted({query.split for query in golden if query.split})
    if there and not (force or dry_run):
        raise InputError(f"{path}: the queries are in splits already ({', '.join(there)}); --force deals them anew")
    made = stratified(golden, dev=dev, seed=seed)
    if not dry_run:
        write_splits(path, made.by_query)
    held_out = hash_of_golden(query for query in golden if made.by_query[query.query_id] == HELD_OUT)
    if as_json:
        by_kind = {kind: {DEV: counts[0], HELD_OUT: counts[1]} for kind, counts in made.by_kind.items()}
        print_json({"splits": made.by_query, "by_kind": by_kind, "held_out_hash": held_out, "written": not dry_run})
        return
    rows = [(kind, str(counts[0]), str(counts[1])) for kind, counts in made.by_kind.items()]
    rows.append(("all", str(made.count(DEV)), str(made.count(HELD_OUT))))
    print_table([("kind", False), (DEV, True), (HELD_OUT, True)], rows)
    typer.echo(f"\nthe held-out list has the hash {held_out[:12]}")
    typer.echo(printable(f"{'not written to' if dry_run else 'written to'} {path}"))
