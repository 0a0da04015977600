from flows.clean import Removed, as_markdown, summary

ROWS = [
    Removed("branches runs/*", [f"runs/{n}" for n in range(5)]),
    Removed("objects", bytes=1_500_000, count=7),
    Removed("models", note="left: a|b"),
]


def test_table_and_state_say_what_goes():
    table = as_markdown(ROWS, dry_run=True)
    assert "# Would free 1.5 MB" in table
    assert "| branches runs/* | 5 | 0.0 | `runs/0`, `runs/1`, `runs/2`, and 2 more |" in table
    assert "| models | 0 | 0.0 | left: a\\|b |" in table
    assert summary(ROWS) == "1.5 MB: 5 branches runs/*, 7 objects; models: left: a|b"
    assert summary([]) == "0.0 MB: nothing"
    assert str(ROWS[0]).endswith("runs/3, runs/4"), "the log has all names"
