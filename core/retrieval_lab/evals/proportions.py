"""How sure a share is: the interval of a proportion.

Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", Journal of the American Statistical
Association 22 (1927). Unlike the textbook interval it stays within 0 and 1 and has a width where all or none were
counted; Brown, Cai and DasGupta, "Interval Estimation for a Binomial Proportion" (2001), recommend it for small n.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

from retrieval_lab.errors import InputError
from retrieval_lab.evals.resampling import LEVEL, Interval, inside_0_1


@dataclass(frozen=True, slots=True)
class Share:
    """So many (`count`) of so many (`of`)."""

    count: int
    of: int

    @property
    def value(self) -> float | None:
        """The share, 0 to 1; None of nothing."""
        return self.count / self.of if self.of else None

    @property
    def interval(self) -> Interval | None:
        """The 95% Wilson interval of the share; None of nothing."""
        return wilson_interval(self.count, self.of) if self.of else None

    def to_dict(self) -> dict[str, Any]:
        """The share as JSON has it."""
        interval = self.interval
        return {
            "count": self.count,
            "of": self.of,
            "share": self.value,
            "interval": None if interval is None else asdict(interval),
        }


def wilson_interval(count: int, of: int, *, level: float = LEVEL) -> Interval:
    """The Wilson score interval of `count` successes in `of` trials, without continuity correction.

    Its ends are (p + z^2 / 2n -+ z * sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n), with p the share, n the trials
    and z the (1 + level) / 2 quantile of the normal distribution. Raises InputError when there is no trial, count is
    not within 0 to `of`, or the level is outside 0 to 1.
    """
    if of < 1 or not 0 <= count <= of:
        raise InputError(f"{count} of {of}; expected a count from 0 to the number of trials, which is 1 or more")
    inside_0_1(level, "level")
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, spread = count / of, z * z / of
    middle = share + spread / 2
    half = z * math.sqrt(share * (1 - share) / of + spread / (4 * of))
    # The ends of none and all are exact; rounding would put them a hair off.
    low = 0.0 if count == 0 else (middle - half) / (1 + spread)
    high = 1.0 if count == of else (middle + half) / (1 + spread)
    return Interval(low, high)
