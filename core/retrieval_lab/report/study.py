"""Everything that a report of an ablation says, as values: computed once, then written as text, tables and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from retrieval_lab.ablation.cell import Cell
from retrieval_lab.ablation.folder import Ablation
from retrieval_lab.evals.comparison import Corrected, compare_measures, corrected
from retrieval_lab.evals.measures import AT_CUT
from retrieval_lab.evals.resampling import LEVEL
from retrieval_lab.evals.slices import Coverage, coverage
from retrieval_lab.evals.splits import DEV_SHARE
from retrieval_lab.evals.splits import SEED as SPLIT_SEED
from retrieval_lab.evals.summary import Group, group_of, table
from retrieval_lab.report.axes import Effect, effects
from retrieval_lab.report.cost import Cost, cost
from retrieval_lab.report.decision import Decision, decide
from retrieval_lab.report.hybrids import Combined, combined
from retrieval_lab.report.parts import Parts, parts, records_of
from retrieval_lab.report.worst import Missed, worst

FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One configuration in the report.

    The groups have its means over the queries that count, `by_kind` over those held out. `against_best` compares it
    with the best on the measures at the cut, with p corrected for the number of configurations; None for the best.
    """

    cell: Cell
    held_out: Group
    dev: Group
    by_kind: Mapping[str, Group]
    against_best: Corrected | None
    coverage: Coverage

    @property
    def name(self) -> str:
        """What the grid calls it."""
        return self.cell.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """An ablation with all that is known of it; `standings` are sorted by the held-out mean of the rule's measure.

    `worst` are queries of the configuration that is shipped, else of the best.
    """

    ablation: Ablation
    parts: Parts
    decision: Decision
    standings: tuple[Standing, ...]
    effects: tuple[Effect, ...]
    combined: Combined | None
    worst: tuple[Missed, ...]
    costs: Mapping[str, Cost]

    @property
    def measure(self) -> str:
        """The measure of the rule."""
        return self.ablation.manifest.rule.measure

    @property
    def shown(self) -> tuple[str, ...]:
        """The measures of the tables: that of the rule, then the usual ones and that of the target."""
        return _shown(self.ablation, self.standings[0].cell.run.k)

    def standing(self, name: str) -> Standing:
        """That of one configuration."""
        return next(one for one in self.standings if one.name == name)

    def to_dict(self) -> dict[str, Any]:
        """The study as JSON has it, with `"format": 1`; all that was timed stands under `times`."""
        manifest = self.ablation.manifest
        return {
            "format": FORMAT,
            "name": manifest.name,
            "corpus": Path(manifest.corpus).name,
            "level": manifest.level,
            "rule": manifest.rule.to_dict(),
            "decision": self.decision.to_dict(manifest.rule),
            "queries": _queries(self.parts),
            "configurations": [_configuration(one) for one in self.standings],
            "effects": [one.to_dict() for one in self.effects],
            "several_lists": None if self.combined is None else self.combined.to_dict(),
            "worst": [one.to_dict() for one in self.worst],
            "failed": [
                {"name": one.name, "config": one.config.to_dict(), "error": one.error} for one in self.ablation.failures
            ],
            "left_out": [{"name": name, "reason": reason} for name, reason in manifest.left_out],
            "pending": self.ablation.pending,
            "fingerprint": fingerprint(self),
            "times": {name: asdict(one) for name, one in self.costs.items()},
        }


def study(ablation: Ablation) -> Study:
    """All that there is to say of an ablation as far as it is done.

    Raises InputError as `parts.parts` does, and when a measure of the rule is not one of the configurations'.
    """
    manifest, cells = ablation.manifest, ablation.cells
    of = parts(cells)
    decision = decide(cells, of, manifest.rule)
    standings = sorted(_standings(ablation, of, decision.best), key=lambda one: _rank(one, manifest.rule.measure))
    subject = next(cell for cell in cells if cell.name == decision.subject)
    return Study(
        ablation=ablation,
        parts=of,
        decision=decision,
        standings=tuple(standings),
        effects=effects(cells, of, _shown(ablation, cells[0].run.k)),
        combined=combined(cells, of, manifest.rule.measure),
        worst=worst(subject, of.held_out, manifest.rule.measure),
        costs={cell.name: cost(cell, decision.verdict(cell.name)) for cell in cells},
    )


def fingerprint(made: Study) -> dict[str, Any]:
    """What the numbers depend on; where configurations differ, all values that there are."""
    runs = [cell.run for cell in made.ablation.cells]
    first, prints = runs[0].corpus, [run.fingerprint for run in runs]
    versions = {name: _distinct(one.versions.get(name) for one in prints) for one in prints for name in one.versions}
    scans = {name: _distinct(one.scans.get(name) for one in prints) for one in prints for name in one.scans}
    return {
        "corpus": first.folder,
        "documents": first.documents,
        "chunks": sorted({run.corpus.chunks for run in runs}),
        "documents_hash": _distinct(run.corpus.documents_hash for run in runs),
        "golden_hash": first.golden_hash,
        "held_out_ids_hash": made.parts.held_out_hash,
        "held_out_labels_hash": first.held_out_hash,
        "embedders": _distinct(one.embedder for one in prints),
        "rerankers": _distinct(one.reranker for one in prints),
        "scans": scans,
        "versions": versions,
        "interval_level": LEVEL,
        "resamples": prints[0].resamples,
        "bootstrap_seed": prints[0].bootstrap_seed,
        "draws": prints[0].draws,
        "permutation_seed": prints[0].permutation_seed,
        "split_seed": SPLIT_SEED if made.parts.dealt else None,
        "split_dev_share": DEV_SHARE if made.parts.dealt else None,
    }


def _distinct(values: Any) -> list[str]:
    return list(dict.fromkeys(one for one in values if one is not None))


def _shown(ablation: Ablation, k: int) -> tuple[str, ...]:
    rule = ablation.manifest.rule
    return tuple(dict.fromkeys((rule.measure, f"ndcg@{k}", f"mrr@{k}", f"recall@{k}", rule.target_measure)))


def _rank(one: Standing, measure: str) -> tuple[float, str]:
    return -one.held_out.measures[measure].value, one.name


def _standings(ablation: Ablation, of: Parts, best: str) -> list[Standing]:
    names = [f"{name}@{ablation.cells[0].run.k}" for name in AT_CUT]
    names = list(dict.fromkeys([ablation.manifest.rule.measure, *names]))
    tables = {cell.name: table(records_of(cell, of.held_out), names) for cell in ablation.cells}
    others = [name for name in tables if name != best]
    compared = corrected([compare_measures(tables[name], tables[best], of.held_out) for name in others])
    against = dict(zip(others, compared, strict=True))
    return [
        Standing(
            cell=cell,
            held_out=group_of(records_of(cell, of.held_out)),
            dev=group_of(records_of(cell, of.dev)),
            by_kind=_by_kind(cell, of),
            against_best=against.get(cell.name),
            coverage=coverage(records_of(cell, of.held_out)),
        )
        for cell in ablation.cells
    ]


def _by_kind(cell: Cell, of: Parts) -> dict[str, Group]:
    records = records_of(cell, of.held_out)
    kinds = sorted({one.kind for one in records})
    return {kind: group_of([one for one in records if one.kind == kind]) for kind in kinds}


def _queries(of: Parts) -> dict[str, Any]:
    return {
        "dev": list(of.dev),
        "held_out": list(of.held_out),
        "held_out_list": list(of.held_out_list),
        "held_out_ids_hash": of.held_out_hash,
        "dealt_by_the_report": of.dealt,
        "undefined": {query_id: list(names) for query_id, names in of.undefined.items()},
        "unanswerable": list(of.unanswerable),
        "elsewhere": list(of.elsewhere),
    }


def _configuration(one: Standing) -> dict[str, Any]:
    return {
        "name": one.name,
        "config": one.cell.config.to_dict(),
        "held_out": one.held_out.to_dict(),
        "dev": one.dev.to_dict(),
        "by_kind": {kind: group.to_dict() for kind, group in one.by_kind.items()},
        "against_best": None if one.against_best is None else one.against_best.to_dict(),
        "coverage": one.coverage.to_dict(),
    }
