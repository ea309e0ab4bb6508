"""How batches shrink and grow, in numbers."""

from __future__ import annotations

import pytest

from qops.pace import LEAST, MAX_REST_SECONDS, STRAINED_REST_SECONDS, TARGET_BYTES, TARGET_SECONDS, Pace


def test_a_batch_that_takes_too_long_shrinks_to_what_fits_and_grows_back_by_a_quarter() -> None:
    """Four times the target time makes a quarter of the rows at once; quick full batches lead back to the most."""
    pace = Pace(1000)
    pace.took(4 * TARGET_SECONDS, 1000)
    assert pace.size == 250
    sizes = []
    while pace.size < 1000:
        pace.took(0.01, pace.size)
        sizes.append(pace.size)
    assert sizes == [312, 390, 487, 608, 760, 950, 1000]
    pace.took(0.01, 1000)
    assert pace.size == 1000


def test_a_batch_near_its_target_and_one_with_little_to_do_change_nothing() -> None:
    """Between half the target and the target the size stays; so it does after a batch that was not full."""
    pace = Pace(1000)
    pace.suffer()
    pace.took(0.75 * TARGET_SECONDS, 500)
    pace.took(0.01, 499)
    assert pace.size == 500


@pytest.mark.parametrize(("most", "least"), [(1000, LEAST), (3, 3)])
def test_no_trouble_makes_a_batch_smaller_than_is_of_use(most: int, least: int) -> None:
    """Trouble without end halves down to ten rows, or to what was asked for where that is less."""
    pace = Pace(most)
    for _ in range(20):
        pace.suffer()
    pace.took(1000 * TARGET_SECONDS, most)
    assert pace.size == least


def test_heavy_rows_begin_with_a_small_batch() -> None:
    """Rows of 700 KB on average begin with some megabytes, not with a thousand of them; light rows with all."""
    assert Pace(1000, 700_000).size == TARGET_BYTES // 700_000
    assert Pace(1000, 300).size == 1000
    assert Pace(1000, 0).size == 1000


def test_a_rest_is_eight_times_the_batch_and_never_longer_than_a_second() -> None:
    """The rest follows the length of the last batch, within its bound; before the first batch there is none."""
    pace = Pace(1000)
    assert pace.rest(0) == 0
    pace.took(0.1, 1000)
    assert pace.rest(0) == pytest.approx(0.8)
    assert pace.rest(0.5) == pytest.approx(0.8 + STRAINED_REST_SECONDS / 2)
    pace.took(10, 1000)
    assert pace.rest(0) == MAX_REST_SECONDS
