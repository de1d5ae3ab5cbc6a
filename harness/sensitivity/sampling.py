"""Designs and Sobol indices, computed with chaospy.

The rules this module lives by:

- Points come from a latin hypercube, which spreads each parameter evenly over its range. It is the only rule
  of chaospy that respects its seed, so a design is repeatable.
- The degree of a discrete parameter stays below the number of its values: beyond that the terms are not
  linearly independent, and the indices are wrong without an error.
- Each fit is tested: every value is predicted from all others (leave-one-out, exact for least squares). Q² is
  the share of the variance that is predicted. The degree with the best Q² is used.
- Sobol indices follow from the coefficients of an orthonormal expansion; they are exact for the polynomial.

chaospy takes most of a second to import, so only the functions that compute with it import it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

import numpy
from numpy.typing import NDArray

from onceproof.harness.sensitivity.parameters import Marginal, Point, Space, Whole

Values: TypeAlias = NDArray[numpy.float64]

MOST_DEGREE: Final = 3
POINTS_PER_TERM: Final = 2
"""With fewer points a polynomial overfits."""
LEVERAGE_MARGIN: Final = 1e-9
"""A value with a leverage closer to 1 than this is predicted by itself alone."""


class DesignTooSmall(Exception):
    """There are too few points for a linear fit; the message names the least number."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The influence of one parameter on a value."""

    first_order: float
    """The first-order Sobol index: the share of the variance that the parameter explains alone."""
    total: float
    """The total Sobol index: its share alone and in interactions with other parameters."""
    low: float
    """The mean of the value at the parameter's low end, over all other parameters."""
    high: float
    """The mean of the value at the parameter's high end, over all other parameters."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A polynomial model of a value, with the influence of each parameter."""

    mean: float
    deviation: float
    """The standard deviation over the points."""
    degree: int
    """The degree of the polynomial; 0 if the value is constant."""
    most_degree: int
    """The highest degree for which there were enough points."""
    q2: float | None
    """The share of the variance that leave-one-out predicts; None if the value is constant."""
    effects: dict[str, Effect]


def least_points(space: Space) -> int:
    """Return the least number of points for a linear fit."""
    return POINTS_PER_TERM * (len(space) + 1)


def design(space: Space, points: int, seed: int) -> list[Point]:
    """Return a latin hypercube of points; equal seeds give equal points on any machine."""
    # chaospy returns one row for each parameter, but a flat array for a space of one parameter.
    columns = numpy.reshape(
        _joint(space.values()).sample(points, rule="latin_hypercube", seed=seed), (len(space), points)
    )
    return [dict(zip(space, map(float, column), strict=True)) for column in columns.T]


def explain_values(
    space: Space, points: Sequence[Point], values: Sequence[float], most_degree: int = MOST_DEGREE
) -> Explained:
    """Fit a polynomial to the values, one for each point of a design, and return the influences.

    Raises:
        DesignTooSmall: there are too few points.
    """
    if len(points) < least_points(space):
        raise DesignTooSmall(
            f"{len(points)} points are too few for {len(space)} parameters: at least"
            f" {least_points(space)} are needed"
        )
    observed = numpy.asarray(values, dtype=float)
    mean, deviation = float(observed.mean()), float(observed.std(ddof=1))
    if deviation == 0:
        return Explained(mean, 0.0, 0, 0, None, {})
    nodes = numpy.array([[point[name] for point in points] for name in space])
    tried = [_fit(space, nodes, observed, degree) for degree in range(1, most_degree + 1)]
    fits = [fit for fit in tried if fit is not None]
    if not fits:
        raise DesignTooSmall(f"{len(points)} points do not separate {len(space)} parameters")
    best = max(fits, key=lambda fit: fit.q2)
    return Explained(mean, deviation, best.degree, fits[-1].degree, best.q2, _effects(space, best))


@dataclass(frozen=True, slots=True)
class _Fit:
    """A fitted polynomial and its Q²."""

    degree: int
    expansion: Any
    coefficients: Values
    q2: float


def _fit(space: Space, nodes: Values, observed: Values, degree: int) -> _Fit | None:
    """Fit a polynomial of a degree; None if the points are too few or do not separate its terms."""
    expansion = _expansion(tuple(space.values()), degree)
    count = len(observed)
    if count < POINTS_PER_TERM * len(expansion):
        return None
    basis = numpy.asarray(expansion(*nodes), dtype=float).T
    orthogonal, triangular = numpy.linalg.qr(basis)
    if numpy.linalg.matrix_rank(triangular) < len(expansion):
        return None
    # The leverage of each value: its weight in its own prediction.
    weights = (orthogonal**2).sum(axis=1)
    if weights.max() > 1 - LEVERAGE_MARGIN:
        return None
    projected = orthogonal.T @ observed
    left_out = (observed - orthogonal @ projected) / (1 - weights)
    # The leave-one-out residuals of the mean, which is the model without any parameter.
    around_mean = (observed - observed.mean()) * count / (count - 1)
    q2 = 1 - float((left_out**2).sum() / (around_mean**2).sum())
    return _Fit(degree, expansion, numpy.linalg.solve(triangular, projected), q2)


def _effects(space: Space, fit: _Fit) -> dict[str, Effect]:
    import chaospy

    first = chaospy.FirstOrderSobol(fit.expansion, fit.coefficients)
    total = chaospy.TotalOrderSobol(fit.expansion, fit.coefficients)
    degrees = _degrees(fit.expansion)
    middle = numpy.array([sum(marginal.ends) / 2 for marginal in space.values()])
    effects = {}
    for index, (name, marginal) in enumerate(space.items()):
        # Averaged over the other parameters, all terms that contain another parameter vanish.
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
    """Return the polynomials up to a total degree that are orthonormal over a space.

    A degree limit for each parameter would drop interaction terms. So all polynomials are generated; those
    whose degree is too high for a discrete parameter are 0 / 0, and are filtered out.
    """
    import chaospy

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
    import chaospy

    return chaospy.J(*map(_distribution, marginals))


def _distribution(marginal: Marginal) -> Any:
    import chaospy

    if isinstance(marginal, Whole):
        return chaospy.DiscreteUniform(marginal.low, marginal.high)
    return chaospy.Uniform(marginal.low, marginal.high)
