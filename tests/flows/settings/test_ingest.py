"""Settings of flow ``ingest``."""

import pytest

from flows.settings import Settings


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({}, "exactly one of folder, url, query, hub, not none"),
        ({"folder": "data/labelled", "url": "https://host/labels.csv"}, "not folder and url"),
        ({"folder": "/data/labelled"}, "outside the repository"),
        ({"folder": "../labelled"}, "outside the repository"),
        ({"query": "conf/tickets.sql"}, "query needs database"),
        (
            {"query": "conf/tickets.sql", "database": "postgresql://reader:secret@host/db"},
            "should match pattern",
        ),
        ({"query": "conf/tickets.sql", "database": "URL", "watermark": "closed"}, "watermark needs since"),
        ({"url": "https://reader:secret@host/labels.csv"}, "contains a password"),
        ({"url": "s3://bucket/labels.csv", "options": {"secret": "se/cret+"}}, "should match pattern"),
    ],
)
def test_source_that_cannot_be_read_is_an_error(source, reason):
    with pytest.raises(ValueError, match=reason):
        Settings.model_validate({"ingest": {"sources": [{"name": "tickets", **source}]}})


def test_names_of_sources_must_differ():
    source = {"name": "tickets", "folder": "data/labelled"}
    with pytest.raises(ValueError, match="'tickets'"):
        Settings.model_validate({"ingest": {"sources": [source, source]}})
