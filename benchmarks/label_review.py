"""Judge ``reports/labels/review.csv`` of the embedded sample, whose wrong labels are known.

Start, in a project with the sample: ``tuneline labels review``, then ``python -m benchmarks.label_review``.
It generates the tickets with and without wrong labels and prints how many of the first rows of the file have
one (precision), how many of all that have one are among them (recall), and how many of their proposed labels
are right.
"""

import csv
import sys
from pathlib import Path

import pyarrow as pa

from tuneline.core.params.loading import load_params
from tuneline.rows.splits.corrections import row_keys
from tuneline.rows.splits.sample import Ticket, write_tickets


def wrong_labels(rows: int, mislabelled: float, seed: int) -> dict[str, str]:
    """Return the right label of each ticket that has a wrong one, by the hash of its texts."""
    given, right = (list(write_tickets(rows, share, seed)) for share in (mislabelled, 0.0))
    keys = row_keys(
        [pa.array([getattr(ticket, name) for ticket in given]) for name in Ticket._fields[:2]]
    ).to_pylist()
    return {
        key: one.queue for key, one, other in zip(keys, right, given, strict=True) if one.queue != other.queue
    }


def main() -> None:
    """Print precision and recall of the first rows, for several numbers of rows."""
    params = load_params()
    wrong = wrong_labels(params.data.sample.rows, params.data.sample.mislabelled, params.seed)
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "reports/labels/review.csv")
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    print(f"{len(wrong)} wrong labels, {len(rows)} rows in {path}")
    for number in sorted({len(wrong) // 3, 2 * len(wrong) // 3, len(wrong), len(rows)}):
        found = [row for row in rows[:number] if row["key"] in wrong]
        right = sum(row["proposed"] == wrong[row["key"]] for row in found)
        precision, recall, proposals = (
            len(found) / min(number, len(rows)),
            len(found) / len(wrong),
            right / max(len(found), 1),
        )
        print(
            f"first {number}: precision {precision:.3f}, recall {recall:.3f}, right proposals {proposals:.3f}"
        )


if __name__ == "__main__":
    main()
