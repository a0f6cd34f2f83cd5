"""How well a pipeline bears other wording: the golden queries as they are, and with typos, synonyms, reversed words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrieval_lab.evals.effects import Effect, effect
from retrieval_lab.evals.perturb import PERTURBATIONS, Perturbed, perturbed
from retrieval_lab.types import GoldenQuery

if TYPE_CHECKING:
    from retrieval_lab.config import PipelineConfig
    from retrieval_lab.lab import Lab
    from retrieval_lab.metrics import QueryResult


@dataclass(frozen=True, slots=True)
class Reworded:
    """What one perturbation did.

    `queries` are those that it changed, as they were asked, `unchanged` the ids of those that it left as they are,
    which were not asked again. `excluded` are the ids of changed queries without a relevant chunk; `effect`, over the
    others, is None where there are none.
    """

    queries: tuple[GoldenQuery, ...]
    unchanged: tuple[str, ...]
    excluded: tuple[str, ...]
    effect: Effect | None

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON has it."""
        return {
            "changed": len(self.queries),
            "unchanged": list(self.unchanged),
            "excluded": list(self.excluded),
            "effect": None if self.effect is None else self.effect.to_dict(),
            "queries": {one.query_id: one.query for one in self.queries},
        }


@dataclass(frozen=True, slots=True)
class Robustness:
    """What other wording does to one configuration: `queries` golden queries, and each perturbation by its name.

    `undefined` are the ids of those whose label finds nothing, which is a fault of the golden set.
    """

    config: PipelineConfig
    queries: int
    undefined: tuple[str, ...]
    kinds: Mapping[str, Reworded]

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON has it."""
        return {
            "config": self.config.to_dict(),
            "queries": self.queries,
            "undefined": list(self.undefined),
            "kinds": {kind: one.to_dict() for kind, one in self.kinds.items()},
        }


def robustness(
    lab: Lab,
    config: PipelineConfig | None = None,
    *,
    kinds: Sequence[str] = tuple(PERTURBATIONS),
    split: str | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Robustness:
    """Ask the golden queries, or those of a split, under a configuration, then each that a perturbation changes.

    `kinds` are names of PERTURBATIONS. Effects are over the queries that changed, paired with themselves. `progress`
    hears how many of all queries are asked. Raises InputError for an unknown name, and as `Lab.evaluate_queries` does.
    """
    config = config or lab.config
    golden = lab.golden if split is None else lab.split(split)
    changed = {kind: perturbed(golden, kind) for kind in dict.fromkeys(kinds)}
    total = len(golden) + sum(len(one.queries) for one in changed.values())
    done = 0

    def asked(queries: Sequence[GoldenQuery] | None) -> dict[str, QueryResult]:
        nonlocal done
        found = lab.evaluate_queries(
            config,
            split=split if queries is None else None,
            golden=queries,
            progress=lambda so_far, _: progress(done + so_far, total),
            cancelled=cancelled,
        )
        done += len(found)
        return {one.query.query_id: one for one in found}

    before = asked(None)
    reworded = {kind: _reworded(one, before, asked(one.queries), config) for kind, one in changed.items()}
    undefined = tuple(one for one, it in before.items() if not it.relevant_ids and it.query.level != "none")
    return Robustness(config, len(golden), undefined, reworded)


def _reworded(
    changed: Perturbed, before: Mapping[str, QueryResult], after: Mapping[str, QueryResult], config: PipelineConfig
) -> Reworded:
    counted = [one.query_id for one in changed.queries if before[one.query_id].relevant_ids]
    return Reworded(
        queries=changed.queries,
        unchanged=changed.unchanged,
        excluded=tuple(one.query_id for one in changed.queries if not before[one.query_id].relevant_ids),
        effect=effect([before[one] for one in counted], [after[one] for one in counted], config),
    )
