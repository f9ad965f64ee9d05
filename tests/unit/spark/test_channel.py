"""A stream over a channel: its options, and the folder where messages wait for their batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.core.errors import LockedError, StorageError
from penstock.spark.channel.channel_settings import COLUMNS, ChannelSettings
from penstock.spark.channel.folder import Folder, StagedFile, file_path, missing, read
from penstock.spark.errors import LostError, OptionError, SourceError
from penstock.spark.source_settings import is_channel
from penstock.storage.files.disk import OsDisk

GIVEN = {
    "mode": "channel", "topic": "t", "channel": "c", "stagingLocation": "/shared/t",
    "nsqd_tcp_address": "h:4150",
}  # fmt: skip


def test_a_consumer_gives_no_message_up_and_has_the_options_of_tls() -> None:
    settings = ChannelSettings.parse(
        GIVEN | {"tls_root_ca_file": "/ca.pem", "tls_server_name": "n", "auth_secret": "s"}
    )
    config = settings.client_config()
    assert (config.max_attempts, config.max_in_flight) == (0, 2500)
    assert (config.tls_v1, config.tls_root_ca_file) == (True, "/ca.pem")
    assert (config.tls_server_name, config.auth_secret) == ("n", "s")
    assert "secret" not in repr(settings).replace("auth_secret", "")


def test_names_of_kafkas_users_and_a_folder_as_a_uri() -> None:
    renamed = {key: value for key, value in GIVEN.items() if key != "topic"}
    settings = ChannelSettings.parse(renamed | {"subscribe": "t", "maxOffsetsPerTrigger": "5"})
    assert (settings.topic, settings.records_max) == ("t", 5)
    for given in ("file:///shared/t", "file:/shared/t/", " /shared/t "):
        assert ChannelSettings.parse(GIVEN | {"stagingLocation": given}).staging == "/shared/t"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": ""}, 'the option "topic" is missing'),
        ({"channel": ""}, 'the option "channel" is missing'),
        ({"topic": "a,b"}, "mode=channel reads one topic"),
        ({"stagingLocation": None}, 'the option "stagingLocation" is missing'),
        ({"stagingLocation": "s3://b/t"}, "must be an absolute path of a folder that driver and"),
        ({"stagingLocation": "staging"}, "must be an absolute path"),
        ({"nsqd_tcp_address": "h"}, "must be host:port"),
        ({"lookupd_http_address": "l:4161"}, "one of the two"),
        ({"nsqd_http_address": "h:4151"}, "did you mean"),
        ({"startingOffsets": "latest"}, "format nsq with mode=channel knows no option startingO"),
        ({"columns": "body,offset"}, "columns must be some of topic, body, id"),
        ({"maxFileBytes": "2000000000"}, "maxFileBytes is more than 1073741824"),
        ({"tls_key": "k"}, "of no use without tls_cert"),
    ],
)
def test_what_cannot_be_used_is_named(options: dict[str, str | None], said: str) -> None:
    given = {name: value for name, value in {**GIVEN, **options}.items() if value is not None}
    with pytest.raises(OptionError, match=said):
        ChannelSettings.parse(given)


def test_columns_and_mode_are_known_before_the_rest_is() -> None:
    assert ChannelSettings.columns_in({"MODE": "channel"}) == COLUMNS
    assert ChannelSettings.columns_in({"Columns": "body, id"}) == ("body", "id")
    assert is_channel({"Mode": "channel"})
    assert not is_channel({"mode": "log", "channel": "channel"})


def batch(*bodies: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(bodies, pa.binary())], ["body"])


def opened(path: Path) -> Folder:
    folder = Folder(str(path))
    folder.open("t", "c")
    return folder


def test_files_are_numbered_and_found_again_by_the_next_process(tmp_path: Path) -> None:
    first = opened(tmp_path / "deep" / "folder")
    assert [first.write(batch(b"a", b"b"), 0), first.write(batch(b"c"), 0)] == [0, 1]
    first.close()
    second = opened(tmp_path / "deep" / "folder")
    assert (second.id, second.files, second.nbytes) == (first.id, first.files, first.nbytes)
    assert [file.rows for file in second.files.values()] == [2, 1]
    (found,) = read(second.path, 0)
    assert found.column("body").to_pylist() == [b"a", b"b"]


def test_what_is_committed_is_removed_and_a_number_given_once(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    assert [folder.write(batch(b"a"), 0) for _ in range(3)] == [0, 1, 2]
    folder.remove_below(2)
    assert list(folder.files) == [2]
    assert folder.nbytes == folder.files[2].nbytes
    assert [path.name for path in tmp_path.glob("*.arrow")] == ["000000000002.arrow"]
    folder.remove_below(3)
    assert folder.write(batch(b"a"), 0) == 3
    # Nor is one below what the checkpoint has.
    assert [folder.write(batch(b"a"), 17) for _ in range(2)] == [17, 18]


def test_a_folder_belongs_to_one_process_and_one_channel(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(LockedError):
        opened(tmp_path)
    first.close()
    opened(tmp_path).close()
    with pytest.raises(SourceError) as refused:
        Folder(str(tmp_path)).open("t", "other")
    assert str(refused.value) == (
        f"stagingLocation {tmp_path} has messages of channel c of topic t: give each query a "
        "folder that no other has"
    )


def test_what_a_killed_process_left_half_written_is_removed(tmp_path: Path) -> None:
    (tmp_path / "000000000004.arrow.0123abcd.tmp").write_bytes(b"half")
    assert opened(tmp_path).files == {}
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]"])
def test_an_identity_that_is_damaged_and_a_place_that_is_no_folder(
    tmp_path: Path, content: bytes
) -> None:
    identity = tmp_path / "staging.json"
    identity.write_bytes(content)
    for _ in range(2):  # the lock is given back
        with pytest.raises(SourceError, match=r"staging\.json is damaged"):
            opened(tmp_path)
    with pytest.raises(SourceError, match="stagingLocation cannot be used: "):
        opened(identity)


def test_a_file_that_is_damaged_is_kept_and_named(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    folder.write(batch(b"a"), 0)
    path = Path(file_path(folder.path, 0))
    path.write_bytes(path.read_bytes()[:40])
    folder.close()
    assert opened(tmp_path).files == {0: StagedFile(0, 40)}
    with pytest.raises(LostError, match=f"staged file {path} cannot be read: "):
        read(folder.path, 0)


def test_files_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(LostError) as lost:
        read(str(tmp_path), 3)
    assert str(lost.value) == missing(str(tmp_path), [3])
    assert f"{tmp_path}/000000000003.arrow and 2 more is missing" in missing(
        str(tmp_path), [3, 4, 5]
    )


def test_a_disk_that_takes_no_more_leaves_no_file(tmp_path: Path) -> None:
    class Full(OsDisk):
        def replace_file(self, path: str, *data: bytes | memoryview, sync: bool = True) -> None:
            assert sync, "a message is finished when its file is on stable storage"
            if path.endswith(".arrow"):
                raise StorageError(f"{path}: no space left on device")
            super().replace_file(path, *data, sync=sync)

    folder = Folder(str(tmp_path), Full())
    folder.open("t", "c")
    with pytest.raises(StorageError, match="no space left"):
        folder.write(batch(b"a"), 0)
    assert folder.files == {}
