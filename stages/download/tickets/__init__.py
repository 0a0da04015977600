"""The embedded sample: support tickets, written from phrases that live here."""
