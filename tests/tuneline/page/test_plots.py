import numpy as np

from tuneline.drift import Distribution
from tuneline.page.plots import Histograms, Lines, number


def heights(shape: str) -> list[float]:
    """Return the height of each bar of an outline, in percent of its box."""
    return [100 - float(step.partition("H")[0]) for step in shape.removeprefix("M0 100V").removesuffix("V100Z").split("V")]


def test_histograms_of_splits_share_one_axis():
    draw = np.random.default_rng(0)
    short, long = (Distribution.of_numbers(np.exp(draw.normal(middle, 0.2, 5000)).astype(int)) for middle in (3, 6))
    drawn = Histograms.of({"train": short, "test": long, "empty": Distribution((), (0,))}, logarithmic=True)
    assert list(drawn.shapes) == ["train", "test"]
    train, test = (heights(drawn.shapes[split]) for split in ("train", "test"))
    assert max(train) == max(test) == 100
    assert np.argmax(train) < 10
    assert np.argmax(test) > 25
    assert [tick.label for tick in drawn.ticks] == ["20", "50", "100", "200", "500"]
    at = [tick.at for tick in drawn.ticks]
    assert at == sorted(at)
    assert 0 < at[0] < at[-1] < 100


def test_histogram_of_equal_numbers_is_one_bar():
    equal = Distribution.of_numbers(np.full(50, 7))
    for logarithmic in (True, False):
        drawn = Histograms.of({"train": equal}, logarithmic=logarithmic)
        (shape,) = drawn.shapes.values()
        assert "7" in [tick.label for tick in drawn.ticks]
        assert sorted(heights(shape))[-2:] == [0, 100]
    assert Histograms.of({}, logarithmic=True).shapes == {}


def test_lines_are_interrupted_where_a_version_has_no_value():
    plot = Lines("Rows", "", {"train": [100, None, 250], "test": [None, None, None]}, ["a", "b"], {"limit": 150})
    (train,) = plot.drawn
    assert train.path == "M16.7 66.7M83.3 16.7"
    assert train.dots == "M16.7 66.7h0M83.3 16.7h0"
    assert [(tick.at, tick.label) for tick in plot.y_ticks] == [(100.0, "0"), (66.7, "100"), (33.3, "200"), (0.0, "300")]
    assert [tick.at for tick in plot.limits] == [50.0]
    assert plot.description == "Rows by version. Newest: train 250"


def test_lines_of_nothing_but_zeros_have_an_axis():
    plot = Lines("Failed checks", "", {"checks": [0, 0]}, [], {})
    assert [tick.label for tick in plot.y_ticks] == ["0", "1"]
    assert plot.drawn[0].path == "M25 100L75 100"


def test_numbers_have_three_digits_or_are_whole():
    assert [number(value) for value in (0, 7.0, 0.1234, 12345.6, 2.5)] == ["0", "7", "0.123", "12,346", "2.5"]
