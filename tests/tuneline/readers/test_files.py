"""Files of a storage: an S3-compatible server on this machine; and what is printed of addresses."""

import pytest

from tests.s3 import Bucket, refusing
from tuneline.readers.files import RemoteFile, file_system, list_files, reaching, refuse_address
from tuneline.runtime.errors import DataError, StageError, UnreadableError


def test_files_of_a_storage_are_listed_read_fetched_and_replaced(bucket: Bucket, tmp_path):
    bucket.put("in/b.csv", b"b" * 100)
    bucket.put("in/a.csv", b"a")
    bucket.put("in/train/c.csv", b"c")
    assert [file.url for file in list_files(f"{bucket.url}/in")] == [
        f"{bucket.url}/in/a.csv",
        f"{bucket.url}/in/b.csv",
    ]
    assert [file.name for file in list_files(f"{bucket.url}/in/", depth=2)] == ["a.csv", "b.csv", "c.csv"]
    (found,) = list_files(f"{bucket.url}/in/b*.csv")
    assert (found.name, found.suffix, found.size, bool(found.version)) == ("b.csv", ".csv", 100, True)
    with found.open_bytes() as file:
        assert file.peek(1)[:1] == b"b"
        assert file.read() == b"b" * 100
    found.fetch(tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"b" * 100
    found.replace(tmp_path / "copy")
    bucket.put("in/b.csv", b"shorter")
    with pytest.raises(UnreadableError, match="changed, or was cut off"):
        found.fetch(tmp_path / "copy")
    with (
        pytest.raises(DataError, match="does not exist"),
        RemoteFile(f"{bucket.url}/nowhere.csv").open_bytes(),
    ):
        pass
    for nothing in ("empty/", "empty/*.csv", "in/*.jsonl"):
        with pytest.raises(DataError, match=r"has no files|does not exist"):
            list_files(f"{bucket.url}/{nothing}")
    for folder in ("in/", "in"):
        with (
            refusing(bucket.endpoint),
            pytest.raises(UnreadableError, match="PermissionError"),
        ):
            list_files(f"{bucket.url}/{folder}")


def test_storage_that_is_away_or_needs_a_package_is_explained(monkeypatch):
    for credentials in ("me:secret", "me:secret/+1", "me:sec#ret", "secret"):
        with pytest.raises(DataError, match=r"s3://\*\*\*@bucket/a") as refused:
            file_system(f"s3://{credentials}@bucket/a")
        assert "secret" not in str(refused.value)
    assert file_system("s3://arn:aws:s3:x:1:accesspoint/a")
    with pytest.raises(StageError, match="is not installed"):
        file_system("gs://bucket/a.csv")
    with pytest.raises(DataError, match="nothing://a"):
        file_system("nothing://a")
    with pytest.raises(UnreadableError, match=r"no https://host/a\n") as away, reaching("x"):
        raise OSError("no https://host/a?token=secret\nmore")
    assert "run the same command again" in str(away.value)
    with pytest.raises(UnreadableError, match="ParamValidationError"):
        list_files("s3://My bucket/a")


@pytest.mark.slow
def test_upload_that_is_cut_off_leaves_nothing(bucket: Bucket, tmp_path, monkeypatch):
    import s3fs

    send, sent = s3fs.S3FileSystem._call_s3, []

    async def cut(self, method, *words, **options):
        sent.append(method)
        if method == "upload_part" and sent.count(method) > 1:
            raise ConnectionResetError("connection reset")
        return await send(self, method, *words, **options)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", cut)
    with (tmp_path / "large").open("wb") as file:
        file.truncate(120 << 20)
    with pytest.raises(UnreadableError, match="ConnectionResetError"):
        RemoteFile(f"{bucket.url}/out.parquet").replace(tmp_path / "large")
    assert "upload_part" in sent
    assert bucket.keys() == []
    assert bucket.uploads() == 0


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc/",
        "http://169.254.169.254/",
        "s3://a/../b",
        "s3://a/%2e%2e/b",
        "simplecache::s3://a",
        "memory://a",
    ],
)
def test_address_outside_an_object_store_is_refused(address):
    refuse_address("data.path", "s3://bucket/tickets")
    with pytest.raises(DataError, match=r"data\.path: .* object store"):
        refuse_address("data.path", address)
