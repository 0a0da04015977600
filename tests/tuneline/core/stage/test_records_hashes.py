import hashlib
import shutil
import subprocess

from tuneline.core.stage.records import file_hash, split_hash


def test_hash_of_a_split_is_that_of_its_file_or_of_the_list_of_its_shards(root):
    shards = [root / f"train-{number:05d}-of-00002.parquet" for number in range(2)]
    for number, path in enumerate(shards):
        path.write_bytes(bytes([number]))
    assert split_hash(shards[:1]) == file_hash(shards[0])
    listed = subprocess.run(
        ["sha256sum", *(path.name for path in shards)], cwd=root, capture_output=True, check=True
    ).stdout
    assert split_hash(shards) == hashlib.sha256(listed).hexdigest()
    shutil.copy(shards[0], shards[1])
    assert split_hash(shards) != hashlib.sha256(listed).hexdigest()
