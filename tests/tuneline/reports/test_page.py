import re

import numpy as np
import pytest

from tuneline.analysis.drift import Distribution
from tuneline.reports import page
from tuneline.reports.page import (
    BAD,
    FIRST,
    VARIABLES,
    canvas,
    draw_histograms,
    format_number,
    to_svg,
)


def drawn(name="curve", label="A curve"):
    with canvas() as (figure, axes):
        axes.plot([0, 1], [0, 1], color=FIRST, label="$5 <b>")
        axes.scatter([0, 1], [1, 0], color=BAD)
        axes.legend()
        return to_svg(figure, name, label)


@pytest.fixture
def figure(monkeypatch):
    """Return the figure of matplotlib instead of SVG."""
    monkeypatch.setattr(page, "to_svg", lambda figure, *_: figure)


def test_svg_has_a_label_and_no_fixed_size():
    head = re.match(r"<svg[^>]*>", drawn(label='1 "quoted" & <b> \\1'))[0]
    assert 'role="img" aria-label="1 &quot;quoted&quot; &amp; &lt;b&gt; \\1"' in head
    assert "viewBox=" in head
    assert "width=" not in head


def test_svg_uses_colours_of_the_page():
    svg = drawn()
    assert {"var(--first)", "var(--bad)", "var(--ink)"} <= set(re.findall(r"var\(--\w+\)", svg))
    assert not any(placeholder in svg for placeholder in VARIABLES)


def test_svg_ids_have_the_prefix_of_the_figure():
    svg = drawn("roc")
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert ids
    assert all(name.startswith("roc-") for name in [*ids, *re.findall(r'(?:url\(#|href="#)([\w-]+)', svg)])


def test_svg_text_is_text_and_escaped():
    assert "$5 &lt;b&gt;" in drawn()


def test_svg_is_deterministic():
    assert drawn() == drawn()


def test_histograms_of_splits_share_one_axis(figure):
    draw = np.random.default_rng(0)
    short, long = (
        Distribution.of_numbers(np.exp(draw.normal(middle, 0.2, 5000)).astype(int)) for middle in (3, 6)
    )
    splits = {"train": short, "test": long, "empty": Distribution((), (0,))}
    axes = draw_histograms("length", "Length", splits, logarithmic=True).axes
    assert [one.get_title(loc="left").partition(":")[0] for one in axes] == ["train", "test"]
    train, test = (one.patches[0].get_data() for one in axes)
    assert np.argmax(train.values) < 10
    assert np.argmax(test.values) > 25
    assert np.array_equal(train.edges, test.edges)
    assert {50, 100, 500} <= set(axes[-1].get_xticks())


@pytest.mark.parametrize("logarithmic", [True, False])
def test_histogram_of_equal_numbers_is_one_bar(figure, logarithmic):
    (axes,) = draw_histograms(
        "x", "X", {"train": Distribution.of_numbers(np.full(50, 7))}, logarithmic=logarithmic
    ).axes
    assert sorted(axes.patches[0].get_data().values)[-2:] == [0, 1]
    assert axes.get_title(loc="left") == "train: median 7, 90 % in 7 to 7"


def test_histograms_without_rows_are_not_drawn():
    assert draw_histograms("x", "X", {"train": Distribution((), (0,))}, logarithmic=True) is None


def test_numbers_have_three_digits_or_are_whole():
    assert [format_number(value) for value in (0, 7.0, 0.1234, 12345.6, 2.5)] == [
        "0",
        "7",
        "0.123",
        "12,346",
        "2.5",
    ]
