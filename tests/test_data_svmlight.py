"""LIBSVM files: against scikit-learn's reader, and every way in which they can be broken."""

import bz2
import gzip
import lzma
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from sketchridge.data import DataError, read, streams
from sketchridge.data._svmlight import parse_number


@pytest.fixture
def write(tmp_path):
    def write(content, name="data.svm"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def assert_same(dataset, X, y):
    assert dataset.X.shape == X.shape
    for mine, theirs in zip(
        (dataset.X.data, dataset.X.indices, dataset.X.indptr, dataset.y),
        (X.data, X.indices, X.indptr, y),
        strict=True,
    ):
        assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("suffix, opener", [("", open), (".gz", gzip.open), (".xz", lzma.open)])
def test_it_reads_what_scikit_learn_reads_bit_by_bit(tmp_path, zero_based, suffix, opener):
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 40), density=0.1, rng=rng, format="csr")
    X.data[:] = rng.standard_normal(X.nnz) * 10.0 ** rng.integers(-30, 30, X.nnz)
    path = tmp_path / f"data.libsvm{suffix}"
    with opener(path, "wb") as file:
        dump_svmlight_file(X, rng.standard_normal(300), file, zero_based=zero_based)
    with opener(path, "rb") as file:
        expected = load_svmlight_file(file, n_features=40, zero_based=zero_based)
    assert_same(read(path, features=40, zero_based=zero_based), *expected)


def test_blocks_meet_within_a_line(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    X = sparse.random_array((100, 30), density=0.3, rng=rng, format="csr")
    path = tmp_path / "data.svm"
    dump_svmlight_file(X, np.arange(100), str(path), zero_based=False)
    monkeypatch.setattr(streams, "BLOCK", 50)
    assert_same(read(path, features=30), *load_svmlight_file(str(path), n_features=30))


def bits(value):
    return np.float64(value).tobytes()


@settings(max_examples=700, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 10**22), st.integers(-80, 80), st.integers(0, 22))
@example(9007199254740993, 0, 0)  # halfway between two doubles
@example(9007199254740993 * 10, -1, 0)
@example(123456789012345678, -60, 3)
def test_a_number_that_is_not_left_to_float_is_what_float_says(digits, exponent, point):
    text = str(digits)
    text = f"{text[:-point] or '0'}.{text[-point:]}" if point else text
    for token in (f"{text}e{exponent}", f"-{text}E{exponent:+d}", text):
        value, stop, shape = parse_number(np.frombuffer(token.encode(), np.uint8), 0, len(token))
        assert stop == len(token)
        assert shape == 1 or bits(value) == bits(float(token))


def test_few_numbers_are_left_to_float():
    rng = np.random.default_rng(0)
    left = 0
    for value in rng.standard_normal(1000) * 10.0 ** rng.integers(-20, 20, 1000):
        token = repr(float(value)).encode()
        left += parse_number(np.frombuffer(token, np.uint8), 0, len(token))[2] != 0
    assert left == 0


LABELS = ["1", "-2.5", "+1e3", " 7", "\t.5", "x", "1:2", ""]
PAIRS = [
    " 1:2",
    " 2:.5",
    " 3:1e3",
    "\t4:-0",
    " 9:1.",
    " qid:3",
    "  ",
    "\r",
    "#c",
    " x:1",
    " 5:",
    " :1",
]
LINES = st.tuples(
    st.integers(0, 10).map(lambda i: LABELS[i] if i < len(LABELS) else "1"),
    st.lists(st.sampled_from(PAIRS), max_size=2).map("".join),
).map("".join)


def test_whatever_the_text_it_is_read_as_scikit_learn_reads_it_or_refused(tmp_path):
    path, outcomes = tmp_path / "any.svm", []

    @settings(max_examples=250, deadline=None, derandomize=True, database=None)
    @given(st.lists(LINES, max_size=3).map("\n".join))
    def check(text):
        path.write_text(text)
        try:
            dataset = read(path)
        except DataError:
            outcomes.append(False)
            return
        outcomes.append(True)
        assert_same(dataset, *load_svmlight_file(str(path)))

    check()
    assert 25 < sum(outcomes) < len(outcomes) - 25


@pytest.mark.parametrize(
    "text, base, columns",
    [("1 1:5 3:2\n", 1, 3), ("1 0:5 3:2\n", 0, 4), ("1\n2 4:1\n", 1, 4)],
)
def test_the_base_is_told_by_a_zero(write, text, base, columns):
    dataset = read(write(text))
    assert dataset.X.shape[1] == columns
    assert f"indices taken as {base}-based" in dataset.notes


def test_comments_blank_lines_queries_signs_and_line_ends_are_understood(write):
    path = write(
        "\ufeff# made by hand\r\n\r\n+1 qid:7 2:.5 3:-1e-2 # a comment 9:9\r\n-1 1:+2.\t4:0"
    )
    dataset = read(path)
    assert dataset.X.toarray().tolist() == [[0, 0.5, -0.01, 0], [2, 0, 0, 0]]
    assert dataset.y.tolist() == [1, -1]
    assert "query numbers (qid) are left out" in dataset.notes


def test_bzip2_of_several_streams(tmp_path):
    path = tmp_path / "data.txt.bz2"
    path.write_bytes(bz2.compress(b"1 1:1\n") + bz2.compress(b"2 2:1\n"))
    assert read(path).y.tolist() == [1, 2]


BROKEN = {
    "duplicate": ("1 1:1\n1 2:1 2:3\n", 2, "'2:3' repeats the index before it"),
    "descending": ("1 1:1\n\n1 3:1 2:3\n", 3, "'2:3' has a smaller index"),
    "beyond int32": ("1 2147483647:1\n", 1, "beyond 2147483646"),
    "far beyond": ("1 99999999999999999999999:1\n", 1, "beyond 2147483646"),
    "NaN": ("1 1:1\n1 1:nan\n", 2, "'nan' is not finite"),
    "infinite": ("1 1:1 2:-inf\n", 1, "'-inf' is not finite"),
    "overflowing": ("1 1:1e999\n", 1, "'1e999' is not finite"),
    "NaN label": ("NaN 1:1\n", 1, "'NaN' is not finite"),
    "several labels": ("1,2 1:1\n", 1, "'1,2' is several"),
    "no label": ("1 1:1\n2:1 3:1\n", 2, "'2:1', without a label"),
    "word": ("1 1:one\n", 1, "'one' is not a number"),
    "Python's notation": ("1 1:1_0\n", 1, "'1_0' is not a number"),
    "no value": ("1 1:1 2:\n", 1, "'2:' is no index:value pair"),
    "no colon": ("1 1:1 2\n", 1, "'2' is no index:value pair"),
    "two colons": ("1 1:2:3\n", 1, "'1:2:3' is no index:value pair"),
    "negative index": ("1 -1:1\n", 1, "'-1:1' is no integer"),
    "name": ("1 age:1\n", 1, "'age:1' is no integer"),
    "binary": (b"1 1:1\n\x00\xff\x01\n", 2, "is not a number"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_line_is_refused_with_its_number(write, kind):
    content, line, problem = BROKEN[kind]
    path = write(content)
    with pytest.raises(DataError) as caught:
        read(path)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert problem in str(caught.value) and "; " in str(caught.value)


def test_the_line_number_counts_over_blocks(write, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK", 64)
    with pytest.raises(DataError, match="line 501: "):
        read(write("1 1:1 2:2\n" * 500 + "1 2:1 1:1\n"))


def flipped(content, position):
    return content[:position] + bytes([content[position] ^ 255]) + content[position + 1 :]


REFUSED = {
    "empty": (b"", "data.svm", "is empty"),
    "blank": (b"\n\n# nothing\n", "data.svm", "holds no samples"),
    "labels only": (b"1\n2\n", "data.svm", "labels and no values"),
    "compressed": (gzip.compress(b"1 1:1\n"), "data.svm", "is gzip-compressed; give it the suffix"),
    "not compressed": (b"1 1:1\n", "data.svm.gz", "is not gzip-compressed"),
    "zip": (b"PK\x03\x04....", "data.svm", "a zip archive, not text"),
    "cut gzip": (gzip.compress(b"1 1:1\n" * 99)[:-9], "data.svm.gz", "is cut short"),
    "cut bzip2": (bz2.compress(b"1 1:1\n" * 99)[:-9], "data.svm.bz2", "is cut short"),
    "cut xz": (lzma.compress(b"1 1:1\n" * 99)[:-9], "data.svm.xz", "is cut short"),
    "bad gzip": (gzip.compress(b"1 1:1\n" * 99)[:12] + b"\0" * 40, "a.svm.gz", "is damaged"),
    "bad bzip2": (bz2.compress(b"1 1:1\n" * 99)[:12] + b"\1" * 40, "a.svm.bz2", "is damaged"),
    "bad xz": (flipped(lzma.compress(b"1 1:1\n" * 99), 30), "a.svm.xz", "is damaged"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_broken_file_is_refused(write, kind):
    content, name, problem = REFUSED[kind]
    path = write(content, name)
    with pytest.raises(DataError, match=problem) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_an_index_zero_contradicts_one_based(write):
    with pytest.raises(DataError, match="zero_based=True"):
        read(write("1 0:1\n"), zero_based=False)


def test_more_columns_than_asked_for_are_refused_and_fewer_are_filled(write):
    path = write("1 1:1 7:1\n")
    assert read(path, features=9).X.shape == (1, 9)
    with pytest.raises(DataError, match="has 7 columns and 5 were asked for"):
        read(path, features=5)


def test_progress_is_in_bytes_of_the_file_and_ends_at_all_of_them(write):
    path, seen = write(gzip.compress(b"1 1:1\n" * 100_000), "data.svm.gz"), []
    read(path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (path.stat().st_size,) * 2
    assert seen == sorted(seen)


READ_IN_LITTLE_MEMORY = """
import resource, sys
from sketchridge.data import DataError, read
read(sys.argv[2])  # compile
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    print(read(sys.argv[1]).X.nnz)
except DataError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def read_apart(path, small):
    """What reading said, and the MiB that it took beyond a small file's."""
    command = [sys.executable, "-c", READ_IN_LITTLE_MEMORY, path, small]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    said, kilobytes = result.stdout.splitlines()
    return said, int(kilobytes) / 1024


@pytest.mark.parametrize("compressed", [False, True])
def test_a_gigabyte_of_one_line_is_refused_in_little_memory(write, compressed):
    small = write("1 1:1\n", "small.svm")
    if compressed:
        zeros = gzip.compress(b"0" * 2**24, compresslevel=1)
        path = write(zeros * 64, "long.svm.gz")  # the streams follow each other
    else:
        path = write("7", "long.svm")
        with path.open("r+") as file:
            file.truncate(2**30)
    said, used = read_apart(path, small)
    assert "line 1: the line is longer than 64 MiB" in said
    assert used < 300


def test_reading_takes_little_more_memory_than_the_result(write):
    small = write("1 1:1\n", "small.svm")
    entries = 4_000_000
    path = write(b"1 1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:1\n" * (entries // 8))
    said, used = read_apart(path, small)
    assert int(said) == entries
    result = (entries * 12 + entries // 8 * 20) / 2**20
    assert used < 1.6 * result + 60
