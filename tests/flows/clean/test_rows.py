from flows.clean import Removed, removal_summary

ROWS = [
    Removed("branches runs/*", [f"runs/{n}" for n in range(5)]),
    Removed("objects", bytes=1_500_000, count=7),
    Removed("models", note="left: a|b"),
]


def test_table_and_state_say_what_goes():
    assert ROWS[0].as_cells() == {
        "what": "branches runs/*",
        "number": 5,
        "MB": "0.0",
        "": "runs/0, runs/1, runs/2 and 2 more",
    }
    assert ROWS[1].as_cells() == {"what": "objects", "number": 7, "MB": "1.5", "": ""}
    assert ROWS[2].as_cells()[""] == "left: a|b"
    assert removal_summary(ROWS) == "1.5 MB: 5 branches runs/*, 7 objects; models: left: a|b"
    assert removal_summary([]) == "0.0 MB: nothing"
    assert str(ROWS[0]).endswith("runs/3, runs/4"), "the log has all names"
