import re

from tuneline.checks.page import (
    BAD,
    FIRST,
    canvas,
    to_svg,
)


def drawn(name="curve", label="A curve"):
    with canvas() as (figure, axes):
        axes.plot([0, 1], [0, 1], color=FIRST, label="$5 <b>")
        axes.scatter([0, 1], [1, 0], color=BAD)
        axes.legend()
        return to_svg(figure, name, label)


def test_svg_has_a_label_and_no_fixed_size():
    head = re.match(r"<svg[^>]*>", drawn(label='1 "quoted" & <b> \\1'))[0]
    assert 'role="img" aria-label="1 &quot;quoted&quot; &amp; &lt;b&gt; \\1"' in head
    assert "viewBox=" in head
    assert "width=" not in head


def test_svg_text_is_text_and_escaped():
    assert "$5 &lt;b&gt;" in drawn()


def test_svg_is_deterministic():
    assert drawn() == drawn()
