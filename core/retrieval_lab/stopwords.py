"""English words that carry a question's grammar and not its subject."""

from __future__ import annotations

STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any are as at be because been before being below between both
    but by can could did do does doing down during each else ever few for from further get gets give got had has have
    having he her here hers herself him himself his how i if in into is isn it its itself just let ll me more most
    much must my myself no nor not of off on once only or other our ours ourselves out over own please re s same shall
    she should so some such t tell than that the their theirs them themselves then there these they this those through
    to too under until up us very was we were what when where which while who whom whose why will with would you your
    yours yourself yourselves ve d m
    """.split()  # noqa: SIM905 (a hundred lines otherwise)
)
