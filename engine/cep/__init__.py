"""Patterns of events: Flink's Pattern API on streams, on the automaton that MATCH_RECOGNIZE uses, too.

``pattern`` describes, ``compiler`` makes states of it, ``automaton`` runs them, ``matching`` gives it the
events of a key in their order, ``pattern_operator`` and ``pattern_stream`` put it on a stream. For example::

    pattern = (
        Pattern.begin("small").where(lambda payment: payment.amount < 1)
        .next("large").where(lambda payment: payment.amount > 500)
        .within(Duration.of_minutes(1))
    )
    CEP.pattern(payments.key_by(account), pattern).select(lambda match: match["large"][0].account)
"""

from onceproof.engine.cep.automaton import Match
from onceproof.engine.cep.conditions import ConditionContext, IterativeCondition
from onceproof.engine.cep.pattern import MalformedPatternException, Pattern, WithinType
from onceproof.engine.cep.pattern_functions import PatternProcessFunction, TimedOutPartialMatchHandler
from onceproof.engine.cep.pattern_stream import CEP, PatternStream
from onceproof.engine.cep.skipping import AfterMatchSkipStrategy

__all__ = [
    "CEP",
    "AfterMatchSkipStrategy",
    "ConditionContext",
    "IterativeCondition",
    "MalformedPatternException",
    "Match",
    "Pattern",
    "PatternProcessFunction",
    "PatternStream",
    "TimedOutPartialMatchHandler",
    "WithinType",
]
