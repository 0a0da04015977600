"""Records of the results in a folder."""

from tuneline.predict.result_folder import ResultFolder, ResultRecord


def test_folder_keeps_results_whose_names_look_like_patterns(tmp_path):
    folder = ResultFolder(tmp_path / "o[1]#x::y%20 z*")
    record = ResultRecord(command="a", source="b", version="c", part="d", rows=1, skipped=0, first=[])
    with folder.locked():
        for name in ("a[1].csv.parquet", "b*.parquet"):
            folder.file(name).write_bytes(b"")
            folder.write(name, record)
        assert folder.records() == {"a[1].csv.parquet": record, "b*.parquet": record}
        folder.remove("b*.parquet")
        assert list(folder.records()) == ["a[1].csv.parquet"]
