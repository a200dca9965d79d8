"""The tables: answers compared with a dict, files, and arguments that do not fit."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import byname
from byname import FlatReader, FlatTable, PrefixTable, TagTable


def longest(rules: dict[str, int], path: str) -> tuple[int, int] | None:
    """The oracle: the deepest rule that is a prefix of the path."""
    segments = [segment for segment in path.split("/") if segment]
    for depth in range(len(segments), -1, -1):
        key = "/" + "/".join(segments[:depth])
        if key in rules:
            return rules[key], depth
    return None


def random_path(rng: random.Random, deepest: int) -> str:
    return "/" + "/".join(rng.choice("abcdef") * rng.randint(1, 3) for _ in range(rng.randint(0, deepest)))


class TestPrefix:
    def test_the_longest_prefix_wins(self) -> None:
        table = PrefixTable()
        assert table.insert("/music", 1) is None
        assert table.insert("/music/classical", 2) is None
        assert table.get("/music/classical/ninth.ogg") == (2, 2)
        assert table.get(b"/music/jazz") == (1, 1)
        assert table.get("/films") is None
        assert table.insert("/music", 3) == 1
        assert ("/music" in table, "/music/jazz" in table, len(table)) == (True, False, 2)
        assert (table.remove("/music"), table.remove("/music")) == (3, None)
        assert table.get("/music/jazz") is None

    def test_arrays_of_text_are_keys(self) -> None:
        paths = ["/müsik/ö", "", "/a", "/\U0001f3b5/x", "/a/b/c/d/e"]
        table = PrefixTable.from_rules(paths, range(5))
        array = np.array(paths)
        for same in (array, array.astype(array.dtype.newbyteorder()), np.repeat(array, 2)[::2], array.astype("U40")):
            assert same.dtype.kind == "U"
            assert table.find(same).tolist() == [0, 1, 2, 3, 4]
        assert len(table.find(np.array([], dtype="U7"))) == 0
        assert table.find(np.array(["", ""], dtype="U1")).tolist() == [1, 1]
        with pytest.raises(byname.InvalidKey, match="surrogate") as refused:
            table.find(np.array(["/a", "/\ud83c"]))
        assert refused.value.place == 1

    @pytest.mark.parametrize("matching", ["fast", "exact", "many-values"])
    def test_answers_are_those_of_an_oracle(self, matching: str, seed: int) -> None:
        rng = random.Random(seed)
        table, rules = PrefixTable(matching=matching), {}
        for _ in range(20):
            changed = {random_path(rng, 4): rng.randrange(1000) for _ in range(50)}
            table.insert_all(list(changed), list(changed.values()))
            rules.update(changed)
            gone = rng.sample(sorted(rules), 20)
            table.remove_all(gone)
            for path in gone:
                del rules[path]
            asked = [random_path(rng, 6) for _ in range(300)]
            values, depths = table.find_with_depths(asked)
            right = [longest(rules, path) or (-1, -1) for path in asked]
            assert list(zip(values.tolist(), depths.tolist())) == right
            assert len(table) == len(rules)

    def test_all_forms_of_keys_are_the_same_keys(self) -> None:
        paths = ["/a", "/a/b", "/ä/b", "/c"]
        table = PrefixTable.from_rules(paths, [1, 2, 3, 4])
        encoded = [path.encode() for path in paths]
        offsets = np.cumsum([0, *map(len, encoded)])
        blob = b"".join(encoded)
        forms = [
            table.find(paths),
            table.find(encoded),
            table.find(tuple(paths)),
            table.find(path for path in paths),
            table.find(np.array(paths)),
            table.find(np.array(encoded)),
            table.find(np.array(paths, dtype=object)),
            table.find(np.array(paths, dtype=np.dtypes.StringDType())),
            table.find(np.array([path for path in paths for _ in "xyz"])[::3]),
            table.find(blob, offsets=offsets),
            table.find(bytearray(blob), offsets=offsets.astype(np.int32)),
            table.find(np.frombuffer(blob, dtype=np.uint8), offsets=offsets.astype(">u8")),
            table.find(memoryview(blob), offsets=list(offsets)),
        ]
        for values in forms:
            assert values.dtype == np.int64
            assert values.tolist() == [1, 2, 3, 4]

    def test_urls_and_names_have_their_own_syntax(self) -> None:
        sites = PrefixTable.from_rules(["example.net", "www.example.co.uk/shop"], [1, 2], syntax="url-site")
        asked = ["https://www.example.net/x?y", "http://www.example.co.uk/shop/5", "http://www.example.co.uk/"]
        assert sites.find(asked).tolist() == [1, 2, -1]
        names = PrefixTable(syntax="name")
        names.insert("/a%2Fb", 7)
        assert (names.get("/a%2Fb/c"), names.get("/a/b")) == ((7, 1), None)
        assert PrefixTable.from_rules(["/"], [5]).find(["/x/y", ""]).tolist() == [5, 5]

    def test_bulk_is_small_and_takes_the_last_of_equal_keys(self) -> None:
        keys = [f"/{i % 100}/{i}" for i in range(100_000)]
        table = PrefixTable.from_rules([*keys, "/5/5"], [*(i % 200 for i in range(100_000)), 201])
        assert len(table) == 100_000
        assert table.memory_bytes / len(table) < 24
        assert (table.get("/5/5/x"), table.get("/7/107")) == ((201, 2), (107, 2))

    def test_a_file_has_what_was_saved(self, tmp_path: Path) -> None:
        file = tmp_path / "rules"
        table = PrefixTable.from_rules([f"/{i}" for i in range(1000)], np.arange(1000))
        table.insert("/late", 5)
        table.save(file)
        for copied in (False, True):
            opened = PrefixTable.open(file, copied=copied)
            assert opened.find(["/7/x", "/999", "/late/x", "/1000"]).tolist() == [7, 999, 5, -1]
            opened.insert("/7/x", 8)
            assert opened.get("/7/x/y") == (8, 2)
        assert PrefixTable.open(str(file)).get("/7/x/y") == (7, 1)

    @pytest.mark.parametrize("checked", [True, False])
    def test_damaged_files_raise_or_answer_wrongly_and_nothing_worse(
        self, tmp_path: Path, checked: bool, seed: int
    ) -> None:
        rng = random.Random(seed)
        file, bad = tmp_path / "rules", tmp_path / "bad"
        PrefixTable.from_rules([f"/{i}/x" for i in range(5000)], np.arange(5000) % 7).save(file)
        whole = file.read_bytes()
        for end in [0, 1, 7, 8, 4095, 4096, 4097, len(whole) // 2, len(whole) - 1]:
            bad.write_bytes(whole[:end])
            with pytest.raises(byname.InvalidFile):
                PrefixTable.open(bad, checked=checked)
        asked = [f"/{i}/x" for i in range(5000)]
        right = PrefixTable.open(file).find(asked)
        # The checksum of the header, which is a page, is always compared.
        in_header = [rng.randrange(4096) for _ in range(10)]
        for at in in_header + [rng.randrange(len(whole)) for _ in range(50)]:
            damaged = bytearray(whole)
            damaged[at] ^= 1 << rng.randrange(8)
            bad.write_bytes(damaged)
            try:
                found = PrefixTable.open(bad, checked=checked).find(asked)
            except byname.InvalidFile:
                continue
            assert at >= 4096
            # Bytes between two sections mean nothing, and are in no checksum.
            assert not checked or np.array_equal(found, right)

    def test_files_of_others_are_refused_with_their_values(self, tmp_path: Path) -> None:
        flat = tmp_path / "flat"
        FlatTable.load(np.arange(10), np.arange(10)).save(flat)
        with pytest.raises(byname.InvalidFile):
            PrefixTable.open(flat)
        with pytest.raises(byname.InvalidFile) as missing:
            PrefixTable.open(tmp_path / "missing")
        assert missing.value.path == str(tmp_path / "missing")
        assert missing.value.errno == 2
        with pytest.raises(byname.InvalidFile, match="Is a directory|no table"):
            PrefixTable.open(tmp_path)
        with pytest.raises(byname.InvalidFile, match="cannot be saved"):
            PrefixTable(matching="exact").save(tmp_path / "exact")
        with pytest.raises(byname.InvalidFile):
            PrefixTable().save(tmp_path / "no folder" / "rules")

    def test_keys_over_the_limits_are_named(self) -> None:
        table = PrefixTable.from_rules(["/a"], [1])
        asked = ["/a"] * 5000
        asked[4321] = "/x" * 9000
        with pytest.raises(byname.InvalidKey, match="key 4321: .*components") as over:
            table.find(asked)
        assert over.value.place == 4321
        with pytest.raises(byname.InvalidKey, match="takes 9[0-9]+ bytes"):
            table.get("/" + "x" * 9000)
        with pytest.raises(ValueError, match="key 1: "):
            table.insert_all(["/b", "x" * 9000], [1, 2])
        assert "/b" not in table
        with pytest.raises(byname.InvalidKey, match="key 2: .*no host"):
            PrefixTable.from_rules(["a.de", "b.de", "http:///"], [1, 2, 3], syntax="url-host")
        with pytest.raises(byname.InvalidKey, match="key 0"):
            PrefixTable(syntax="name").find(["/%"])
        with pytest.raises(byname.InvalidKey):
            PrefixTable(syntax="name").get(b"/\xff\xfe")

    def test_values_and_sizes_over_the_limits_are_named(self) -> None:
        table = PrefixTable(rules_max=3)
        table.insert_all(["/a", "/b"], 1)
        with pytest.raises(byname.TableFull) as full:
            table.insert_all(["/c", "/d"], [1, 2])
        assert full.value.size <= 3
        assert (len(table), "/c" in table) == (2, False)
        many = PrefixTable()
        with pytest.raises(byname.TableFull, match="65,?53[0-9] different values"):
            many.insert_all([f"/{i}" for i in range(70_000)], range(70_000))
        assert len(many) == 0
        wide = PrefixTable(matching="many-values")
        wide.insert_all([f"/{i}" for i in range(70_000)], range(70_000))
        assert wide.find(["/69999"]).tolist() == [69_999]
        for bad in (-1, 1 << 32, 1 << 80):
            with pytest.raises(byname.InvalidValue):
                table.insert("/x", bad)
        with pytest.raises(TypeError):
            table.insert("/x", 1.5)


class TestFlat:
    @pytest.mark.parametrize("unknown", ["anything", "refused", "exact"])
    def test_answers_are_those_of_a_dict(self, unknown: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        table, right = FlatTable(value_bits=8, unknown=unknown), {}
        for _ in range(10):
            ids = rng.integers(0, 1 << 63, 500, dtype=np.uint64)
            values = rng.integers(0, 256, 500, dtype=np.uint8)
            table.insert_all(ids, values)
            right.update(zip(ids.tolist(), values.tolist()))
            gone = rng.choice(sorted(right), 100, replace=False).astype(np.uint64)
            table.remove_all(gone)
            for key in gone.tolist():
                right.pop(key, None)
            asked = np.array(sorted(right), dtype=np.uint64)
            assert table.find(asked).tolist() == [right[key] for key in asked.tolist()]
            assert len(table) == len(right)
        if unknown != "anything":
            strangers = rng.integers(1 << 63, (1 << 64) - 1, 1000, dtype=np.uint64)
            assert (table.find(strangers) == -1).sum() >= 990

    def test_all_forms_of_keys_are_the_same_keys(self) -> None:
        ids = np.arange(1000)
        table = FlatTable.load(ids, ids % 250, value_bits=8)
        wide = np.zeros((1000, 3), dtype=np.uint64)
        wide[:, 1] = ids
        forms = [
            ids, ids.tolist(), ids.astype(np.uint64), ids.astype(np.uint16), ids.astype(">i8"), wide[:, 1], range(1000),
            [np.int32(i) for i in ids],
        ]
        for form in forms:
            assert np.array_equal(table.find(form), ids % 250)
        assert table.find(ids[::-7]).tolist() == (ids[::-7] % 250).tolist()
        assert (table.get(517), table.get(np.uint16(517))) == (17, 17)

        stations = np.array([[8, 0, 39, 1, 2, 0], [8, 0, 39, 1, 2, 3]], dtype=np.uint8)
        by_station = FlatTable.load(stations, [1, 2], value_bits=8, unknown="exact")
        assert by_station.get(b"\x08\x00\x27\x01\x02\x00") == 1
        # NumPy takes zeros at the end of an S for padding.
        assert by_station.get(b"\x08\x00\x27\x01\x02") is None
        assert by_station.find(np.asfortranarray(stations)).tolist() == [1, 2]
        assert by_station.find(stations[::-1]).tolist() == [2, 1]
        words = FlatTable.load(["alice", b"bob"], [1, 2], unknown="exact", value_bits=4)
        assert words.find(np.array(["bob", "alice", "carol"])).tolist() == [2, 1, -1]

    def test_a_file_has_what_was_saved(self, tmp_path: Path) -> None:
        file = tmp_path / "ids"
        table = FlatTable.load(np.arange(5000), np.arange(5000) % 99, value_bits=7, unknown="refused", check_bits=20)
        table.save(file)
        for copied in (False, True):
            reader = FlatReader.open(file, copied=copied)
            assert np.array_equal(reader.find(np.arange(5000)), np.arange(5000) % 99)
            assert (reader.find(np.arange(5000, 6000)) == -1).all()
            assert (reader.get(4999), reader.get("x")) == (49, None)
        whole = file.read_bytes()
        for end in [0, 8, 4096, len(whole) - 1]:
            file.write_bytes(whole[:end])
            with pytest.raises(byname.InvalidFile):
                FlatReader.open(file)
        with pytest.raises(byname.InvalidFile):
            FlatTable(unknown="exact").save(file)

    def test_options_that_contradict_each_other_are_refused(self) -> None:
        with pytest.raises(byname.InvalidValue):
            FlatTable(value_bits=0)
        with pytest.raises(byname.InvalidValue):
            FlatTable(value_bits=33)
        with pytest.raises(byname.InvalidValue, match="32"):
            FlatTable(value_bits=20, unknown="refused", check_bits=13)
        with pytest.raises(ValueError, match="anything, refused, exact"):
            FlatTable(unknown="perhaps")
        with pytest.raises(ValueError, match="check_bits"):
            FlatTable(check_bits=3)
        with pytest.raises(OverflowError):
            FlatTable(value_bits=-1)

    def test_values_over_their_bits_leave_the_table_as_it_was(self) -> None:
        table = FlatTable.load([1, 2], [3, 4], value_bits=3, unknown="exact")
        with pytest.raises(byname.InvalidValue) as wide:
            table.insert_all([5, 6], [7, 8])
        assert wide.value.value == 8
        assert table.find([1, 2, 5, 6]).tolist() == [3, 4, -1, -1]


class TestTags:
    def test_answers_are_those_of_python_sets(self, seed: int) -> None:
        rng = random.Random(seed)
        words = [f"tag{i}" for i in range(30)]
        table, right = TagTable(), {}
        for _ in range(10):
            changed = {frozenset(rng.sample(words, rng.randint(1, 4))): rng.randrange(1000) for _ in range(40)}
            table.insert_all(changed, list(changed.values()))
            right.update(changed)
            gone = rng.sample(list(right), 10)
            table.remove_all(gone)
            for tags in gone:
                del right[tags]
            asked = [rng.sample(words, 8) for _ in range(100)]
            values, offsets = table.find(asked)
            for i, tags in enumerate(asked):
                expected = sorted(value for subset, value in right.items() if subset <= set(tags))
                assert sorted(values[offsets[i]:offsets[i + 1]].tolist()) == expected
                assert sorted(table.subsets(tags)) == expected
            assert len(table) == len(right)

    def test_the_largest_set_wins(self) -> None:
        table = TagTable()
        assert table.insert(["concert"], 1) is None
        assert table.insert(["concert", b"classical"], 2) is None
        assert table.largest({"berlin", "classical", "concert"}) == 2
        assert table.insert(["classical", "concert"], 3) == 2
        assert (table.remove(["concert"]), table.largest(["concert"])) == (1, None)

    def test_sets_over_the_limits_are_refused(self) -> None:
        table = TagTable(sets_max=1)
        with pytest.raises(byname.InvalidKey):
            table.insert([str(i) for i in range(33)], 1)
        with pytest.raises(TypeError, match="not one text"):
            table.insert("concert", 1)
        with pytest.raises(TypeError):
            table.subsets([1])
        with pytest.raises(TypeError):
            table.find("concert")
        table.insert(["a"], 1)
        with pytest.raises(byname.TableFull):
            table.insert(["b"], 1)
        hard = TagTable(steps_max=1)
        hard.insert_all([["x", str(i)] for i in range(200)], 0)
        with pytest.raises(byname.SearchTooLong) as search:
            hard.subsets(["x", *(str(i) for i in range(30))])
        assert search.value.steps >= 1


BAD_KEYS = [
    np.zeros(3), np.zeros(3, dtype=complex), np.zeros(3, dtype="datetime64[s]"), np.zeros((3, 3)), np.zeros((2, 2), dtype=np.int64),
    np.zeros((2, 2, 2), dtype=np.uint8), np.array(3), np.zeros(3, dtype=[("a", "i4")]), np.array([["a"]]),
    [1.5], [None], [["a"]], ["a", 1], [1, "a"], 5, None, "text", b"bytes", object(),
]  # fmt: skip


class TestArguments:
    @pytest.mark.parametrize("keys", BAD_KEYS, ids=lambda keys: repr(keys)[:40])
    def test_keys_of_other_types_are_refused(self, keys: object) -> None:
        flat, prefix = FlatTable.load([1], [1]), PrefixTable.from_rules(["/a"], [1])
        for call in (flat.find, flat.remove_all, prefix.find, prefix.remove_all):
            with pytest.raises(TypeError):
                call(keys)

    def test_ids_are_no_paths(self) -> None:
        table = PrefixTable()
        with pytest.raises(TypeError, match="not integers"):
            table.find(np.arange(3))
        with pytest.raises(TypeError, match="not an integer"):
            table.get(3)

    @pytest.mark.parametrize("bad", [-1, 1 << 64, -(1 << 70)])
    def test_ids_out_of_range_are_refused(self, bad: int) -> None:
        table = FlatTable()
        with pytest.raises(byname.InvalidKey):
            table.get(bad)
        with pytest.raises(byname.InvalidKey, match="key 2"):
            table.find([1, 2, bad])

    def test_negative_ids_in_arrays_are_refused(self) -> None:
        with pytest.raises(byname.InvalidKey, match="-5"):
            FlatTable().find(np.array([3, -5], dtype=np.int16))

    @pytest.mark.parametrize(
        "values", [[1.0, 2.0], [1], [1, 2, 3], np.zeros((2, 1), dtype=int), ["1", "2"], None, [None, 1], [1 << 70, 1]]
    )
    def test_values_of_other_shapes_are_refused(self, values: object) -> None:
        table = FlatTable()
        with pytest.raises((TypeError, ValueError)):
            table.insert_all([1, 2], values)
        assert len(table) == 0

    @pytest.mark.parametrize("values", [[-1, 2], [1, 1 << 32]])
    def test_values_out_of_range_are_refused(self, values: object) -> None:
        with pytest.raises(byname.InvalidValue):
            FlatTable.load([1, 2], values)

    @pytest.mark.parametrize(
        "offsets", [[], [0, 4], [0, 2, 1], [-1, 2], [0.0, 1.0], [[0, 1]], ["0"], [0, 1 << 63], 5, [3, 2]]
    )
    def test_offsets_outside_of_the_buffer_are_refused(self, offsets: object) -> None:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            PrefixTable().find(b"abc", offsets=offsets)

    def test_offsets_need_a_buffer_of_bytes(self) -> None:
        for keys in (np.zeros(3), ["a"], "abc", 5):
            with pytest.raises(TypeError, match="buffer"):
                FlatTable().find(keys, offsets=[0, 1])

    def test_nothing_is_many_keys_too(self) -> None:
        table = FlatTable()
        for nothing in ([], (), np.array([], dtype=np.uint64), np.array([], dtype="S4"), np.zeros((0, 6), dtype=np.uint8)):
            table.insert_all(nothing, [])
            assert table.find(nothing).shape == (0,)
        assert PrefixTable.from_rules([], []).find(["/a"]).tolist() == [-1]
        assert FlatTable().find(b"", offsets=[0]).shape == (0,)

    def test_exceptions_keep_their_values_when_pickled(self) -> None:
        with pytest.raises(byname.InvalidKey) as error:
            FlatTable().find([1, -2])
        again = pickle.loads(pickle.dumps(error.value))
        assert (again.place, str(again)) == (1, str(error.value))

    def test_an_iterator_that_raises_is_heard(self) -> None:
        def keys():
            yield "a"
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            FlatTable().find(keys())


class TestThreads:
    def test_readers_see_old_or_new_values_while_a_writer_works(self) -> None:
        ids = np.arange(20_000, dtype=np.uint64)
        table = FlatTable.load(ids, ids % 16, value_bits=8, unknown="exact")
        stop, errors, lookups = threading.Event(), [], []

        def read() -> None:
            count = 0
            while not stop.is_set():
                found = table.find(ids)
                # A value is written whole: 0 to 15 first, then those raised by 16 each time.
                if not np.array_equal(found % 16, (ids % 16).astype(np.int64)):
                    errors.append(found)
                count += len(found)
            lookups.append(count)

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for step in range(1, 15):
            table.insert_all(ids, ids % 16 + 16 * step)
            assert np.array_equal(table.find(ids), ids % 16 + 16 * step)
        stop.set()
        for reader in readers:
            reader.join()
        assert not errors
        assert len(lookups) == 3 and all(lookups)

    def test_several_writers_take_turns(self) -> None:
        table = PrefixTable()

        def write(of: int) -> None:
            for i in range(200):
                table.insert(f"/{of}/{i}", of)
                if i % 3 == 0:
                    table.remove(f"/{of}/{i}")

        writers = [threading.Thread(target=write, args=(i,)) for i in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert len(table) == 4 * 133
        values = table.find([f"/{of}/{i}" for of in range(4) for i in range(200)])
        assert values.tolist() == [of if i % 3 else -1 for of in range(4) for i in range(200)]

    def test_an_array_that_changes_meanwhile_does_no_harm(self) -> None:
        ids = np.arange(200_000, dtype=np.uint64)
        table = FlatTable.load(ids, ids % 100, value_bits=7)
        asked, stop = ids.copy(), threading.Event()

        def disturb() -> None:
            while not stop.is_set():
                asked[:] = asked[::-1]

        thread = threading.Thread(target=disturb)
        thread.start()
        try:
            for _ in range(20):
                found = table.find(asked)
                assert found.max() < 128
        finally:
            stop.set()
            thread.join()

    def test_lookups_let_other_threads_of_python_run(self) -> None:
        ids = np.arange(2_000_000, dtype=np.uint64)
        table = FlatTable.load(ids, ids % 100, value_bits=7)
        used = []

        def look_up() -> None:
            start = time.thread_time()
            for _ in range(10):
                table.find(ids)
            used.append(time.thread_time() - start)

        thread = threading.Thread(target=look_up)
        start = time.thread_time()
        thread.start()
        while thread.is_alive():
            pass
        other = time.thread_time() - start
        thread.join()
        # If a lookup kept the interpreter, this thread would get 5 ms after each.
        assert other > 0.3 * used[0], (other, used)


def test_processes_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "ids"
    FlatTable.load(np.arange(1000), np.arange(1000) % 9, value_bits=4).save(file)
    code = (
        "import sys, numpy as np; from byname import FlatReader\n"
        "found = FlatReader.open(sys.argv[1]).find(np.arange(1000))\n"
        "assert np.array_equal(found, np.arange(1000) % 9)\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, file]) for _ in range(2)]
    assert [child.wait(60) for child in children] == [0, 0]
