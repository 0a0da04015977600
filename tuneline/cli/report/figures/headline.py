"""The headline metric on one axis with what it is held against."""

from tuneline.cli.report.figures.drawing import FIRST, MUTED, canvas, to_svg
from tuneline.cli.report.headline import Headline
from tuneline.stats import Estimate


def against(headline: Headline) -> str:
    """Dots for the baseline, the earlier commit and this model; whiskers where an interval is known."""
    rows: list[tuple[str, float, Estimate | None, str]] = []
    if headline.baseline is not None:
        rows.append(("baseline", headline.baseline, None, MUTED))
    if headline.earlier_value is not None and headline.earlier is not None:
        rows.append((headline.earlier.commit.short, headline.earlier_value, headline.earlier_interval, MUTED))
    rows.append(("this model", headline.value, headline.interval, FIRST))
    with canvas((5.2, 0.55 + 0.34 * len(rows))) as (figure, axes):
        for place, (_, value, interval, colour) in enumerate(reversed(rows)):
            if interval is not None:
                axes.plot([interval.low, interval.high], [place, place], color=colour, linewidth=5, alpha=0.3)
            axes.plot([value], [place], marker="o", markersize=7, color=colour)
            axes.annotate(f"{value:.3f}", (value, place), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=8.5)
        axes.set_yticks(range(len(rows)), [row[0] for row in reversed(rows)])
        axes.set_ylim(-0.5, len(rows) - 0.2)
        axes.margins(x=0.08)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.grid(visible=False, axis="y")
        return to_svg(figure, "headline", f"{headline.title} of the baseline, the earlier commit and this model")
