"""Designs and Sobol indices, on functions with known indices."""

from __future__ import annotations

import math
from random import Random

import numpy
import pytest

from onceproof.harness.sensitivity.parameters import SPACE, Point, Range, Space, Whole
from onceproof.harness.sensitivity.sampling import (
    DesignTooSmall,
    Explained,
    design,
    explain_values,
    least_points,
)


def explained(space: Space, count: int, function: object, most_degree: int = 3, seed: int = 3) -> Explained:
    points = design(space, count, seed)
    return explain_values(space, points, [function(point) for point in points], most_degree)  # type: ignore[operator]


def test_the_indices_of_the_ishigami_function_are_right() -> None:
    """Of sin a + 7 sin² b + 0.1 c⁴ sin a, each from -π to π, the indices are known in closed form."""
    space = {name: Range(-math.pi, math.pi) for name in "abc"}

    def ishigami(point: Point) -> float:
        a, b, c = point["a"], point["b"], point["c"]
        return math.sin(a) + 7 * math.sin(b) ** 2 + 0.1 * c**4 * math.sin(a)

    found = explained(space, 800, ishigami, most_degree=9)
    of_a = 0.5 * (1 + 0.1 * math.pi**4 / 5) ** 2
    of_b = 7**2 / 8
    of_a_and_c = 0.1**2 * math.pi**8 * (1 / 18 - 1 / 50)
    variance = of_a + of_b + of_a_and_c
    assert found.q2 is not None
    assert found.q2 > 0.999
    assert found.mean == pytest.approx(3.5, abs=0.1)
    for name, first, total in (
        ("a", of_a / variance, (of_a + of_a_and_c) / variance),
        ("b", of_b / variance, of_b / variance),
        ("c", 0.0, of_a_and_c / variance),
    ):
        assert found.effects[name].first_order == pytest.approx(first, abs=0.002)
        assert found.effects[name].total == pytest.approx(total, abs=0.002)


def test_a_polynomial_of_discrete_and_continuous_parameters_is_found_exactly() -> None:
    """It is x + x y + 3 z, with x of 4 values and y of 2, which allow degrees up to 3 and 1."""
    space = {"x": Whole(1, 4), "y": Whole(0, 1), "z": Range(0, 1)}
    found = explained(space, 80, lambda point: point["x"] * (1 + point["y"]) + 3 * point["z"])
    of_x, of_y, of_both, of_z = 1.5**2 * 1.25, 2.5**2 * 0.25, 1.25 * 0.25, 9 / 12
    variance = of_x + of_y + of_both + of_z
    assert found.q2 == pytest.approx(1)
    assert {name: (effect.first_order, effect.total) for name, effect in found.effects.items()} == {
        "x": pytest.approx((of_x / variance, (of_x + of_both) / variance)),
        "y": pytest.approx((of_y / variance, (of_y + of_both) / variance)),
        "z": pytest.approx((of_z / variance, of_z / variance)),
    }
    # At the ends of what is discrete, and a tenth away from those of what is not; means over the others.
    assert (found.effects["x"].low, found.effects["x"].high) == pytest.approx((3.0, 7.5))
    assert (found.effects["y"].low, found.effects["y"].high) == pytest.approx((4.0, 6.5))
    assert (found.effects["z"].low, found.effects["z"].high) == pytest.approx((4.05, 6.45))


def test_the_degree_of_a_discrete_parameter_is_below_its_number_of_values() -> None:
    """Where a discrete parameter has two values its square says nothing that it does not say itself."""
    space = {"coin": Whole(0, 1), "x": Range(-1, 1)}
    found = explained(space, 200, lambda point: 5 * point["coin"] + point["x"] ** 3)
    assert found.degree == 3
    assert found.q2 == pytest.approx(1)
    variance = 25 / 4 + 1 / 7
    assert found.effects["coin"].total == pytest.approx(25 / 4 / variance)
    assert found.effects["x"].total == pytest.approx(1 / 7 / variance)


def test_q2_equals_leave_one_out_by_refitting() -> None:
    space = {"x": Range(0, 1), "y": Range(0, 1)}
    points, random = design(space, 30, 1), Random(1)
    values = [point["x"] + 0.3 * random.random() for point in points]
    found = explain_values(space, points, values, most_degree=1)
    rows = numpy.array([[1.0, point["x"], point["y"]] for point in points])
    observed = numpy.array(values)
    errors, around = [], []
    for index in range(len(values)):
        others = numpy.arange(len(values)) != index
        coefficients, *_ = numpy.linalg.lstsq(rows[others], observed[others], rcond=None)
        errors.append(observed[index] - rows[index] @ coefficients)
        around.append(observed[index] - observed[others].mean())
    assert found.q2 == pytest.approx(1 - numpy.square(errors).sum() / numpy.square(around).sum())


def test_pure_chance_is_not_explained() -> None:
    random = Random(5)
    found = explained({"x": Range(0, 1), "y": Whole(1, 4)}, 400, lambda point: random.random())
    assert found.q2 is not None
    assert found.q2 < 0.1


def test_a_function_of_high_degree_is_not_explained() -> None:
    found = explained({"x": Range(0, 20)}, 400, lambda point: point["x"] % 1)
    assert found.q2 is not None
    assert found.q2 < 0.1


def test_a_constant_value_has_no_effects() -> None:
    found = explained({"x": Range(0, 1)}, 20, lambda point: 7.0)
    assert (found.mean, found.deviation, found.q2, found.effects) == (7.0, 0.0, None, {})


def test_a_design_covers_each_range_evenly_and_is_repeatable() -> None:
    points = design(SPACE, 80, 11)
    assert points == design(SPACE, 80, 11)
    assert points != design(SPACE, 80, 12)
    for name, marginal in SPACE.items():
        values = sorted(point[name] for point in points)
        if isinstance(marginal, Whole):
            counts = [values.count(value) for value in range(marginal.low, marginal.high + 1)]
            assert counts == [80 // marginal.atoms] * marginal.atoms
        else:
            width = (marginal.high - marginal.low) / 80
            assert [int((value - marginal.low) / width) for value in values] == list(range(80))


def test_too_few_points_are_refused_and_more_raise_the_degree() -> None:
    least = least_points(SPACE)
    with pytest.raises(DesignTooSmall, match=f"at least {least} are needed"):
        explained(SPACE, least - 1, lambda point: point["skew"])
    # 8, 36 and 120 terms.
    degrees = [explained(SPACE, count, lambda point: point["skew"]).most_degree for count in (least, 72, 240)]
    assert degrees == [1, 2, 3]
