"""The published formats of MNIST and CIFAR-10, checked against their published checksums."""

from __future__ import annotations

import io
import math
import pickle
import tarfile
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchridge.data.dataset import DataError
from sketchridge.data.streams import Stream, check_file

Bytes = NDArray[np.uint8]

# Of the files as they are decompressed.
IDX_MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
}
BINARY_MD5 = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
}
PYTHON_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
}
PIXELS = 3072
BATCH = 10_000


def check_md5(path: Path | str, name: str, content: bytes, expected: str) -> None:
    """Refuse what is not the published file."""
    found = md5(content, usedforsecurity=False).hexdigest()
    if found != expected:
        raise DataError(
            path,
            f"{name} is not the published one: its MD5 is {found}, not {expected}",
            "fetch it again",
        )


# -- MNIST -------------------------------------------------------------------------------------


def read_idx(path: Path, expected_md5: str | None = None) -> Bytes:
    """An array of bytes from an idx file: 0, 0, 8, the number of sides, the sides, the data."""
    with Stream(path) as stream:
        content = b"".join(iter(stream.read, b""))
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise DataError(
            path,
            f"is not an idx file of bytes: it begins with {content[:4]!r}, not b'\\x00\\x00\\x08'",
            "fetch it again",
        )
    sides = content[3]
    header = 4 + 4 * sides
    shape = tuple(
        int.from_bytes(content[place : place + 4], "big") for place in range(4, header, 4)
    )
    expected = header + math.prod(shape)
    if len(content) != expected:
        raise DataError(
            path,
            f"has {len(content)} bytes where its header ({' × '.join(map(str, shape))}) needs "
            f"{expected}: it is cut short or damaged",
            "fetch it again",
        )
    if expected_md5 is not None:
        check_md5(path, "it", content, expected_md5)
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def read_mnist(images: Path, labels: Path) -> tuple[Bytes, Bytes]:
    """All training images (60000, 784) and their digits."""
    X = read_idx(images, IDX_MD5["train-images-idx3-ubyte"])
    y = read_idx(labels, IDX_MD5["train-labels-idx1-ubyte"])
    return X.reshape(len(X), -1), y


# -- CIFAR-10 ----------------------------------------------------------------------------------


def read_cifar(source: Path) -> tuple[Bytes, Bytes]:
    """The training images (50000, 3072) and their classes, from a folder of batches or a tar.gz."""
    batches = dict(_batches(source))
    if set(batches) >= set(BINARY_MD5):
        parts = [_binary_batch(source, name, batches[name]) for name in BINARY_MD5]
    elif set(batches) >= set(PYTHON_MD5):
        parts = [_python_batch(source, name, batches[name]) for name in PYTHON_MD5]
    else:
        raise DataError(
            source,
            f"holds {', '.join(sorted(batches)) or 'no batch'} of the five training batches",
            "unpack all of cifar-10-binary.tar.gz or cifar-10-python.tar.gz",
        )
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def _batches(source: Path) -> Iterator[tuple[str, bytes]]:
    names = {*BINARY_MD5, *PYTHON_MD5}
    if source.is_dir():
        for path in sorted(source.iterdir()):
            if path.name in names:
                check_file(path)
                yield path.name, path.read_bytes()
        return
    try:
        with tarfile.open(source) as archive:
            for member in archive:
                name = Path(member.name).name
                content = archive.extractfile(member) if name in names else None
                if content is not None:
                    yield name, content.read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(source, f"is cut short or damaged ({error})", "fetch it again") from error


def _binary_batch(source: Path, name: str, content: bytes) -> tuple[Bytes, Bytes]:
    check_md5(source, name, content, BINARY_MD5[name])
    return split_binary_batch(source, name, content)


def split_binary_batch(source: Path, name: str, content: bytes) -> tuple[Bytes, Bytes]:
    """Images and classes of a binary batch: a byte of class and 3072 of pixels, 10000 times."""
    if len(content) != BATCH * (1 + PIXELS):
        raise DataError(
            source, f"{name} has {len(content)} bytes, not {BATCH * (1 + PIXELS)}", "fetch it again"
        )
    rows = np.frombuffer(content, np.uint8).reshape(BATCH, 1 + PIXELS)
    return rows[:, 1:], rows[:, 0]


def _python_batch(source: Path, name: str, content: bytes) -> tuple[Bytes, Bytes]:
    check_md5(source, name, content, PYTHON_MD5[name])
    return unpickle_batch(source, name, content)


class ArrayUnpickler(pickle.Unpickler):
    """Unpickles numpy arrays and plain values, and nothing that could run."""

    ALLOWED = frozenset(
        {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        """Refuse all but what an array is made of."""
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        if name == "_reconstruct":
            return np._core.multiarray._reconstruct  # type: ignore[attr-defined]
        return getattr(np, name)


def unpickle_batch(source: Path, name: str, content: bytes) -> tuple[Bytes, Bytes]:
    """Images and classes of a Python batch, a pickle of Python 2."""
    try:
        batch = ArrayUnpickler(io.BytesIO(content), encoding="bytes").load()
        X, y = batch[b"data"], np.array(batch[b"labels"], np.uint8)
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            source, f"{name} is no batch of CIFAR-10 ({error})", "fetch it again"
        ) from error
    if not isinstance(X, np.ndarray) or X.dtype != np.uint8 or X.shape != (len(y), PIXELS):
        raise DataError(source, f"{name} holds no images of {PIXELS} bytes", "fetch it again")
    return X, y


def check_cifar(path: Path, X: Bytes, y: Bytes) -> None:
    """Compare images and classes from elsewhere with the published binary batches."""
    if X.shape != (5 * BATCH, PIXELS) or y.shape != (5 * BATCH,) or X.dtype != np.uint8:
        raise DataError(path, f"X has shape {X.shape} and dtype {X.dtype}", "fetch it again")
    for number, (name, expected) in enumerate(BINARY_MD5.items()):
        rows = slice(number * BATCH, (number + 1) * BATCH)
        content = np.concatenate([y[rows, None].astype(np.uint8), X[rows]], axis=1).tobytes()
        check_md5(path, name.removesuffix(".bin"), content, expected)
