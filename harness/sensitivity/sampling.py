"""Designed experiments and what they show: where chaospy is at home.

The rules this module lives by:

- Points come from a latin hypercube: each parameter is spread evenly over its range, whatever the number of
  points. It is the one rule of chaospy's that heeds its seed, so a design can be made again.
- A polynomial's degree stays below the number of values that a discrete parameter can have: beyond it there
  is nothing left to tell terms apart by, and indices come out absurd without a word.
- No result without a test of it: each value is predicted from all the others (leave-one-out, exact for least
  squares). Q² is the share of the variance that is predicted so. The degree that predicts best is taken.
- Indices are read off the coefficients of an orthonormal expansion, exact for the polynomial and as right as
  that is.

chaospy takes most of a second to import: import this module where it is needed, not before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

import chaospy
import numpy
from numpy.typing import NDArray

from onceproof.harness.sensitivity.parameters import Marginal, Point, Space, Whole

Values: TypeAlias = NDArray[numpy.float64]

MOST_DEGREE: Final = 3
POINTS_PER_TERM: Final = 2
"""With fewer, a polynomial fits what it was made of and predicts little."""
ALL_PREDICTED_BY_ITSELF: Final = 1e-9


class DesignTooSmall(Exception):
    """Too few points to fit even a straight line to; the message says how many there must be."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What one parameter does to a value."""

    first_order: float
    """The share of the variance that it explains alone."""
    total: float
    """The share that it takes part in, alone and together with others."""
    low: float
    """The mean of the value where the parameter is low, over all the others."""
    high: float
    """The same where it is high."""


@dataclass(frozen=True, slots=True)
class Explained:
    """How a value follows from the parameters."""

    mean: float
    deviation: float
    """The standard deviation over the points."""
    degree: int
    """Of the polynomial; 0 where the value is the same everywhere."""
    most_degree: int
    """The highest for which there were points enough."""
    q2: float | None
    """The part of the variance that is predicted for values left out; None where nothing varies."""
    effects: dict[str, Effect]


def least_points(space: Space) -> int:
    """Return with how many points a design begins to say anything."""
    return POINTS_PER_TERM * (len(space) + 1)


def design(space: Space, points: int, seed: int) -> list[Point]:
    """Return points spread evenly over a space; the same for the same seed, on any machine."""
    # One row a parameter, and of a space of one parameter no rows at all.
    columns = numpy.reshape(
        _joint(space.values()).sample(points, rule="latin_hypercube", seed=seed), (len(space), points)
    )
    return [dict(zip(space, map(float, column), strict=True)) for column in columns.T]


def explain_values(
    space: Space, points: Sequence[Point], values: Sequence[float], most_degree: int = MOST_DEGREE
) -> Explained:
    """Return how values, one for each point of a design, follow from the parameters.

    Raises DesignTooSmall where there are too few points.
    """
    if len(points) < least_points(space):
        raise DesignTooSmall(
            f"{len(points)} points are too few for {len(space)} parameters: there must be"
            f" {least_points(space)} at the least"
        )
    observed = numpy.asarray(values, dtype=float)
    mean, deviation = float(observed.mean()), float(observed.std(ddof=1))
    if deviation == 0:
        return Explained(mean, 0.0, 0, 0, None, {})
    nodes = numpy.array([[point[name] for point in points] for name in space])
    tried = [_fit(space, nodes, observed, degree) for degree in range(1, most_degree + 1)]
    fits = [fit for fit in tried if fit is not None]
    if not fits:
        raise DesignTooSmall(f"{len(points)} points do not tell {len(space)} parameters apart")
    best = max(fits, key=lambda fit: fit.q2)
    return Explained(mean, deviation, best.degree, fits[-1].degree, best.q2, _effects(space, best))


@dataclass(frozen=True, slots=True)
class _Fit:
    """A polynomial, and how well it predicts."""

    degree: int
    expansion: Any
    coefficients: Values
    q2: float


def _fit(space: Space, nodes: Values, observed: Values, degree: int) -> _Fit | None:
    """Fit a polynomial; None where there are too few points for it, or these do not tell its terms apart."""
    expansion = _expansion(tuple(space.values()), degree)
    count = len(observed)
    if count < POINTS_PER_TERM * len(expansion):
        return None
    basis = numpy.asarray(expansion(*nodes), dtype=float).T
    orthogonal, triangular = numpy.linalg.qr(basis)
    if numpy.linalg.matrix_rank(triangular) < len(expansion):
        return None
    # The weight of each value in its own prediction: without it, that is what the others predict.
    weights = (orthogonal**2).sum(axis=1)
    if weights.max() > 1 - ALL_PREDICTED_BY_ITSELF:
        return None
    projected = orthogonal.T @ observed
    left_out = (observed - orthogonal @ projected) / (1 - weights)
    # What the mean of the others leaves unexplained, which is what there is to be predicted.
    around_mean = (observed - observed.mean()) * count / (count - 1)
    q2 = 1 - float((left_out**2).sum() / (around_mean**2).sum())
    return _Fit(degree, expansion, numpy.linalg.solve(triangular, projected), q2)


def _effects(space: Space, fit: _Fit) -> dict[str, Effect]:
    first = chaospy.FirstOrderSobol(fit.expansion, fit.coefficients)
    total = chaospy.TotalOrderSobol(fit.expansion, fit.coefficients)
    degrees = _degrees(fit.expansion)
    middle = numpy.array([sum(marginal.ends) / 2 for marginal in space.values()])
    effects = {}
    for index, (name, marginal) in enumerate(space.items()):
        # Over all the others, each term in which another takes part comes to nothing.
        alone = degrees.sum(axis=1) == degrees[:, index]
        means = []
        for end in marginal.ends:
            node = middle.copy()
            node[index] = end
            terms = numpy.asarray(fit.expansion(*node), dtype=float)
            means.append(float(terms[alone] @ fit.coefficients[alone]))
        effects[name] = Effect(float(first[index]), float(total[index]), *means)
    return effects


@cache
def _expansion(marginals: tuple[Marginal, ...], degree: int) -> Any:
    """Return the polynomials up to a degree, all parameters together, that are orthonormal over a space.

    Orders of its own for each parameter would do for one of few values, but leave out where it goes with
    others. So all are made, of which those of too high a degree are 0 / 0, and these are left out.
    """
    with numpy.errstate(divide="ignore", invalid="ignore"):
        expansion = chaospy.generate_expansion(degree, _joint(marginals), normed=True)
    values = [marginal.atoms if isinstance(marginal, Whole) else degree + 1 for marginal in marginals]
    return expansion[(_degrees(expansion) < values).all(axis=1)]


def _degrees(expansion: Any) -> NDArray[numpy.int64]:
    """Return the degree of each parameter in each polynomial of an expansion."""
    exponents = numpy.asarray(expansion.exponents)
    coefficients = numpy.asarray(expansion.coefficients)
    leading = []
    for place in range(len(expansion)):
        present = exponents[coefficients[:, place] != 0]
        leading.append(present[present.sum(axis=1).argmax()])
    return numpy.array(leading)


def _joint(marginals: Iterable[Marginal]) -> Any:
    return chaospy.J(*map(_distribution, marginals))


def _distribution(marginal: Marginal) -> Any:
    if isinstance(marginal, Whole):
        return chaospy.DiscreteUniform(marginal.low, marginal.high)
    return chaospy.Uniform(marginal.low, marginal.high)
