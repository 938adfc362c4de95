"""Tables, numpy's files, and how `read` chooses between the formats."""

import gzip
import io
import os
import sys
import zipfile

import numpy as np
import pyarrow as arrow
import pytest
from pyarrow import parquet
from scipy import sparse

from sketchridge import solve
from sketchridge.data import DataError, read, streams, tables

TABLE = "rooms,age,price\n3,20,1.5\n5,3,4.0\n2,0.5,-1e3\n"


@pytest.fixture
def write(tmp_path):
    def write(content, name):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def saved(save, *arrays, **named):
    buffer = io.BytesIO()
    save(buffer, *arrays, **named)
    return buffer.getvalue()


# -- which format --------------------------------------------------------------------------------


def test_the_suffix_tells_the_format_and_format_overrides_it(write):
    assert read(write("1 1:2\n", "a.txt")).X.shape == (1, 1)
    assert read(write("1 1:2\n", "rcv1_train.binary"), format="svmlight").X.shape == (1, 1)
    assert read(write("1,2\n", "table.txt"), format="csv").X.shape == (1, 2)


def test_a_name_without_a_format_is_refused_with_the_formats(write):
    with pytest.raises(DataError, match=r"tells no format; give format=… \(--format\), one of"):
        read(write("1 1:2\n", "a9a"))
    with pytest.raises(ValueError, match="format='arff' is unknown: choose one of svmlight"):
        read(write("1 1:2\n", "a.arff"), format="arff")


@pytest.mark.parametrize("name", ["a.svm", "a.npy", "a.npz", "a.csv", "a.tsv", "a.parquet"])
def test_a_file_that_is_missing_empty_or_a_folder_is_refused(tmp_path, name):
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / name)
    (tmp_path / name).touch()
    with pytest.raises(DataError, match="is empty"):
        read(tmp_path / name)
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        read(tmp_path / "folder", format="csv")


def test_a_compressed_binary_file_is_refused(write):
    with pytest.raises(DataError, match="decompress it first"):
        read(write(gzip.compress(saved(np.save, np.ones((2, 2)))), "a.npy.gz"))


def test_y_comes_from_a_second_file_with_every_format(write):
    y = write(saved(np.save, np.array([7.0, 8.0, 9.0])), "y.npy")
    for path in (
        write(saved(np.save, np.ones((3, 2))), "a.npy"),
        write(saved(np.savez, X=np.ones((3, 2)), y=np.zeros(3)), "a.npz"),
        write("1 1:1\n1 1:1\n1 2:1\n", "a.svm"),
        write("1,2\n3,4\n5,6\n", "a.csv"),
    ):
        dataset = read(path, target=y)
        assert dataset.X.shape == (3, 2)
        assert dataset.y.tolist() == [7, 8, 9]
        assert f"y is from {y}" in dataset.notes
    with pytest.raises(DataError, match=r"y has shape \(3,\) and X has 1 rows"):
        read(write("1 1:1\n", "b.svm"), target=str(y))


def test_a_column_means_nothing_outside_tables(write):
    with pytest.raises(DataError, match="is no table, so target='price' names nothing"):
        read(write("1 1:1\n", "b.svm"), target="price")
    with pytest.raises(DataError, match="has no named columns"):
        read(write("1 1:1\n", "b.svm"), features=["price"])
    with pytest.raises(TypeError, match="neither a column nor a path"):
        read(write(TABLE, "b.csv"), target=1.5)


# -- csv -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["price", 2, -1, "2"])
def test_the_target_of_a_table_is_a_name_or_a_number(write, target):
    dataset = read(write(TABLE, "houses.csv"), target=target)
    assert dataset.X.tolist() == [[3, 20], [5, 3], [2, 0.5]]
    assert dataset.y.tolist() == [1.5, 4, -1000]
    assert dataset.feature_names == ("rooms", "age")


def test_features_are_chosen_and_ordered_and_text_elsewhere_does_not_matter(write):
    path = write("a,city,b\n1,Rome,2\n3,'Paris',4\n", "cities.csv")
    dataset = read(path, features=["b", "a"])
    assert dataset.X.tolist() == [[2, 1], [4, 3]]
    assert dataset.y is None
    with pytest.raises(DataError, match=r"line 2: column 'city' holds 'Rome', not a number"):
        read(path, target="a")


def test_quotes_semicolons_tabs_blank_lines_a_mark_and_no_header(write):
    assert read(write('\ufeff"a,b",c\r\n"1","2"\r\n\r\n3,4\r\n', "q.csv")).feature_names == (
        "a,b",
        "c",
    )
    semicolons = read(write("a;b\n1;2\n", "s.csv"))
    assert semicolons.X.tolist() == [[1, 2]]
    assert semicolons.notes == ("columns are separated by semicolons",)
    assert read(write("1\t2\n", "t.tsv")).X.tolist() == [[1, 2]]
    assert read(write(gzip.compress(b"1,2\n3,4\n"), "z.csv.gz"), target=0).y.tolist() == [1, 3]


BROKEN_TABLES = {
    "short": ("a,b\n1,2\n3\n", "line 3: has 1 columns where the first line has 2"),
    "long": ("a,b\n1,2\n\n3,4,5\n", "line 4: has 3 columns where the first line has 2"),
    "long with quotes": ('a,b\n1,"2"\n3,"4",5\n', "line 3: has 3 columns where the first"),
    "text": ("a,b\n1,two\n", "line 2: column 'b' holds 'two', not a number"),
    "empty field": ("a,b\n1,2\n,2\n", "line 3: column 'a' is empty"),
    "NaN": ("1,2\n1,nan\n", "line 2: column 1 holds 'nan'"),
    "infinite": ("1,2\n-inf,2\n", "line 2: column 0 holds '-inf'"),
    "overflowing": ("1,2\n1e999,2\n", "line 2: column 0 holds '1e999'"),
    "header only": ("a,b\n", "has a header and no rows"),
    "blank": ("\n\n", "holds only blank lines"),
    "latin": (b"a,b\n1,2\n\xe9,2\n", "line 3: is not UTF-8"),
    "npy": (saved(np.save, np.ones(3)), "is a .npy file, not text"),
    "cut": (gzip.compress(b"1,2\n" * 99)[:-9], "is not|is gzip-compressed"),
}


@pytest.mark.parametrize("kind", BROKEN_TABLES)
def test_a_broken_table_is_refused(write, kind):
    content, problem = BROKEN_TABLES[kind]
    path = write(content, "table.csv")
    with pytest.raises(DataError, match=problem) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))


def test_quoted_delimiters_are_no_columns(write):
    table = read(write('a,b\n"1","2"\n3,"4"\n', "quoted.csv"))
    assert table.X.tolist() == [[1, 2], [3, 4]]


def test_a_first_row_with_a_gap_is_not_taken_for_names_in_silence(write):
    (note,) = read(write("1,NA\n1,2\n3,4\n", "gap.csv")).notes
    assert "'1' among them" in note
    assert read(write("a,b\n1,2\n", "names.csv")).notes == ()


@pytest.mark.parametrize("name", ["cut.csv", "cut.svm", "cut.csv.gz"])
def test_a_text_that_ends_within_a_line_is_told(write, name):
    """Cut short, 0.25 reads as 0.2."""
    text = "1,0.25\n3,0.25\n" if "csv" in name else "1 1:0.25\n3 1:0.25\n"
    packed = gzip.compress if name.endswith(".gz") else bytes
    whole, cut = packed(text.encode()), packed(text[:-2].encode())
    assert not any("cut short" in note for note in read(write(whole, name)).notes)
    assert any("cut short" in note for note in read(write(cut, name)).notes)


def test_names_that_columns_share_are_not_used_as_names(write):
    table = read(write("a,a,b\n1,2,3\n", "shared.csv"), target="b")
    assert table.feature_names is None and table.target_name == "b"
    assert table.notes == ("several columns are called 'a': columns go by number",)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes by name here")
@pytest.mark.parametrize("name", ["pipe.svm", "pipe.csv", "pipe.npy", "pipe.npz"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="is a pipe or a device; save"):
        read(tmp_path / name)


def test_the_line_of_an_error_counts_over_chunks(write, monkeypatch):
    monkeypatch.setattr(tables, "LINES_AT_A_TIME", 7)
    assert read(write("1,2\n" * 100, "fine.csv")).X.shape == (100, 2)
    with pytest.raises(DataError, match="line 62: column 'a' holds 'x'"):
        read(write("a,b\n" + "1,2\n\n" * 30 + "x,2\n", "table.csv"))


def test_columns_that_cannot_be_are_refused(write):
    path = write(TABLE, "houses.csv")
    with pytest.raises(DataError, match="no column 'weight'; it has the columns rooms, age, price"):
        read(path, target="weight")
    with pytest.raises(DataError, match="no column 3; give a number from 0 to 2"):
        read(path, target=3)
    with pytest.raises(DataError, match="'price' is target and feature at once"):
        read(path, target="price", features=["price", "age"])
    with pytest.raises(DataError, match="has 2 columns of features and 5 were asked for"):
        read(path, target="price", features=5)
    with pytest.raises(DataError, match="leaves no column"):
        read(write("1\n2\n", "one.csv"), target=0)
    with pytest.raises(DataError, match="has 'a' more than once"):
        read(write("a,a\n1,2\n", "twice.csv"), target="a")


def test_a_line_without_end_is_refused(write, monkeypatch):
    monkeypatch.setattr(streams, "LONGEST_LINE", 1 << 12)
    with pytest.raises(DataError, match="line 2: the line is longer"):
        read(write("1,2\n" + "3" * (1 << 13), "long.csv"))


def test_a_table_with_a_target_can_be_solved_as_it_is(write):
    rng = np.random.default_rng(0)
    table = rng.standard_normal((50, 4))
    text = "\n".join(",".join(map(repr, map(float, row))) for row in table)
    dataset = read(write(text, "t.csv"), target=3)
    assert np.array_equal(dataset.X, table[:, :3]) and np.array_equal(dataset.y, table[:, 3])
    assert dataset.X.flags.c_contiguous  # so that a solve needs no copy
    assert solve(dataset.X, dataset.y, 1e-3).converged


# -- Parquet -------------------------------------------------------------------------------------


def test_parquet_is_read_by_batches(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROWS_AT_A_TIME", 7)
    rng, seen = np.random.default_rng(0), []
    columns = {"a": rng.standard_normal(30), "b": rng.integers(0, 9, 30), "city": ["x"] * 30}
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    dataset = read(
        tmp_path / "t.parquet", target="b", features=["a"], progress=lambda *at: seen.append(at)
    )
    assert np.array_equal(dataset.X[:, 0], columns["a"])
    assert np.array_equal(dataset.y, columns["b"])
    assert dataset.notes == ("columns of double, int64: cast to double",)
    assert seen[-1] == (30, 30)


@pytest.mark.parametrize(
    "values, problem",
    [
        ([1.0, None, 3.0], "column 'a' is missing or not finite in row 1"),
        ([True, None, False], "column 'a' is missing or not finite in row 1"),
        ([1.0, 2.0, np.inf], "column 'a' is missing or not finite in row 2"),
        (["x", "y", "z"], "column 'a' is of type string, not a number"),
        ([], "has no rows|is of type null"),
    ],
)
def test_a_broken_parquet_column_is_refused(tmp_path, values, problem):
    parquet.write_table(arrow.table({"a": values}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=problem):
        read(tmp_path / "t.parquet")


def test_a_damaged_parquet_file_is_refused(tmp_path, write):
    parquet.write_table(arrow.table({"a": [1.0, 2.0]}), tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    with pytest.raises(DataError, match="is cut short or damaged"):
        read(write(whole[:-20], "cut.parquet"))
    with pytest.raises(DataError, match="is not a Parquet file: it begins with b'a,b"):
        read(write("a,b\n", "text.parquet"))


def test_without_pyarrow_it_says_what_to_install(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'sketchridge\[parquet\]'"):
        read(write("PAR1", "t.parquet"))


# -- numpy's files -------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_is_mapped_and_solved_from_the_map(tmp_path, order):
    rng = np.random.default_rng(0)
    X, seen = np.array(rng.standard_normal((40, 5)), order=order), []
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", X.sum(axis=1, keepdims=True))
    dataset = read(
        tmp_path / "X.npy", target=tmp_path / "y.npy", progress=lambda *at: seen.append(at)
    )
    assert isinstance(dataset.X, np.memmap) and np.array_equal(dataset.X, X)
    assert seen[-1] == (X.nbytes, X.nbytes)
    assert np.allclose(solve(dataset.X, dataset.y, 1e-12).coef, 1)


def test_npz_dense_sparse_as_scipy_saves_it_and_as_bare_arrays(write):
    rng = np.random.default_rng(0)
    X = sparse.random_array((6, 4), density=0.5, rng=rng, format="csr")
    y = np.arange(6)
    arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    bare = read(write(saved(np.savez_compressed, **arrays, y=y), "bare.npz"))
    assert np.array_equal(bare.X.toarray(), X.toarray()) and bare.y.tolist() == y.tolist()
    for format in ("csr", "csc", "coo"):
        path = write(saved(sparse.save_npz, X.asformat(format)), f"{format}.npz")
        loaded = read(path)
        assert isinstance(loaded.X, sparse.csr_matrix) and loaded.y is None
        assert np.array_equal(loaded.X.toarray(), X.toarray())
        assert bool(loaded.notes) == (format != "csr")
    dense = read(write(saved(np.savez, X=X.toarray(), y=y, X_test=y), "dense.npz"))
    assert np.array_equal(dense.X, X.toarray()) and dense.y.dtype == np.float64
    assert dense.notes == ("arrays left out: X_test",)


def cut_zip():
    return saved(np.savez_compressed, X=np.random.default_rng(0).random((99, 9)))[:-300]


def flipped_zip():
    content = bytearray(saved(np.savez, X=np.ones((99, 9))))
    content[2000] ^= 1
    return bytes(content)


def pickled(value):
    return saved(lambda file: np.save(file, value, allow_pickle=True))


NAN = np.array([[1.0, 2.0], [np.nan, 1.0]])
CSR = {"data": np.ones(2), "indices": [0, 1], "indptr": [0, 1, 2], "shape": (2, 2)}
BROKEN_ARRAYS = {
    "npy magic": ("1,2\n3,4\n", "a.npy", "is not a .npy file: it begins with b'1,2"),
    "npy cut": (saved(np.save, np.ones((9, 9)))[:-8], "a.npy", "is cut short or damaged"),
    "npy cut in its header": (saved(np.save, np.ones((9, 9)))[:20], "a.npy", "is cut short or"),
    "npy NaN": (saved(np.save, NAN), "a.npy", "NaN or infinite value in row 1"),
    "npy vector": (saved(np.save, np.ones(3)), "a.npy", r"has shape \(3,\)"),
    "npy objects": (
        pickled(np.array([[{}]])),
        "a.npy",
        "Python objects, which are never unpickled",
    ),
    "npy complex": (saved(np.save, np.ones((2, 2), complex)), "a.npy", "dtype complex128"),
    "npy no rows": (saved(np.save, np.ones((0, 2))), "a.npy", "is cut short|is empty"),
    "npz magic": ("1,2\n3,4\n", "a.npz", "is not a .npz file"),
    "npz cut": (cut_zip(), "a.npz", "is cut short or damaged"),
    "npz flipped": (flipped_zip(), "a.npz", "is cut short or damaged"),
    "npz NaN": (saved(np.savez, X=NAN), "a.npz", "NaN or infinite value in row 1"),
    "npz y NaN": (saved(np.savez, X=np.ones((1, 1)), y=[np.nan]), "a.npz", "in entry 0"),
    "npz y short": (saved(np.savez, X=np.ones((2, 1)), y=[1]), "a.npz", r"y has shape \(1,\)"),
    "npz names": (saved(np.savez, A=np.ones(2), B=np.ones(2)), "a.npz", "holds the arrays A, B"),
    "npz objects": (saved(np.savez, X=np.array([[{}]])), "a.npz", "never unpickled"),
    "npz vector": (saved(np.savez, X=np.ones(3)), "a.npz", r"X has shape \(3,\)"),
    "npz index": (saved(np.savez, **CSR | {"indices": [0, 2]}), "a.npz", "damaged"),
    "npz negative": (saved(np.savez, **CSR | {"indices": [0, -1]}), "a.npz", "damaged"),
    "npz indptr": (saved(np.savez, **CSR | {"indptr": [0, 2, 1]}), "a.npz", "damaged"),
    "npz shape": (saved(np.savez, **CSR | {"shape": (2, 2, 2)}), "a.npz", "store two sides"),
    "npz sparse NaN": (saved(np.savez, **CSR | {"data": [1, np.nan]}), "a.npz", "in entry 1"),
}


@pytest.mark.parametrize("kind", BROKEN_ARRAYS)
def test_a_broken_array_is_refused(write, kind):
    content, name, problem = BROKEN_ARRAYS[kind]
    path = write(content, name)
    with pytest.raises(DataError, match=problem) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))


def test_a_zip_without_arrays_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("readme.txt", "hello")
    with pytest.raises(DataError, match=r"holds the arrays \(none\)"):
        read(tmp_path / "a.npz")
