"""Real texts with several labels each: the descriptions of Debian's packages, with the tags people gave them.

``python -m benchmarks.package_tags packages.csv`` writes rows that ``tuneline init packages.csv`` sets up. It
reads the package lists of a Debian machine (``apt-cache dumpavail``), so it needs no network.
"""

import argparse
import csv
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

FACETS = ("field", "implemented-in", "interface", "use", "works-with")
"""Parts of Debian's vocabulary whose tags say something about the description."""
LABELS = 25
"""The most frequent tags are the labels."""
UNLABELLED = 0.08
"""Fraction of the rows that have none of them."""
LISTS = "/usr/bin/apt-cache"


def paragraphs() -> Iterator[dict[str, str]]:
    """Yield the fields of each package with a description."""
    dump = subprocess.run([LISTS, "dumpavail"], check=True, capture_output=True, text=True).stdout
    for fields in parsed(dump):
        if "Description" in fields:
            yield fields


def parsed(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each paragraph of a list of packages."""
    for paragraph in text.split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in paragraph.splitlines():
            if line.startswith((" ", "\t")):  # the value of the line before goes on
                fields[name] += line
            else:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        if fields:
            yield fields


def described(fields: dict[str, str]) -> str:
    """Return the text of a package."""
    return f"{fields['Package']}: {fields['Description']}"


def packages() -> Iterator[tuple[str, list[str]]]:
    """Yield the description of each package with tags, and its tags without their facet."""
    for fields in paragraphs():
        if "Tag" not in fields:
            continue
        yield described(fields), tags_of(fields)


def tags_of(fields: dict[str, str]) -> list[str]:
    """Return the tags of a package without their facet; none where it has no field for them."""
    tags = []
    for tag in fields.get("Tag", "").split(","):
        facet, _, label = tag.strip().partition("::")
        if facet in FACETS:
            tags.append(label.replace(":", "-"))
    return tags


def main() -> None:
    """Write the file, and say how often each label occurs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    # labels
    tagged = list(packages())
    counts: Counter[str] = Counter()
    for _, tags in tagged:
        counts.update(set(tags))
    labels = {label for label, _ in counts.most_common(LABELS)}

    # rows, some of them without a label
    generator = random.Random(arguments.seed)  # noqa: S311 - no secret depends on it
    generator.shuffle(tagged)
    labelled = []
    unlabelled = []
    for text, tags in tagged:
        kept = sorted(labels.intersection(tags))
        (labelled if kept else unlabelled).append((text, kept))
    without = round(UNLABELLED * arguments.rows)
    rows = labelled[: arguments.rows - without] + unlabelled[:without]
    generator.shuffle(rows)

    with arguments.file.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["description", "tags"])
        for text, kept in rows:
            writer.writerow([text, ", ".join(kept)])

    table = Table("label", "rows", title=f"{arguments.file}, {len(rows):,} rows")
    for label, count in Counter(label for _, kept in rows for label in kept).most_common():
        table.add_row(label, f"{count:,}")
    Console().print(table)


if __name__ == "__main__":
    main()
