"""Every numba loop of the package: arrays in and out; no printing, stopping or calling back.

All helpers of a cached kernel live in this file, for numba's cache does not notice an edit of a
helper in another file. A matrix of rows is either a C-ordered array or a `CSR` tuple: a kernel is
written once, over small functions that `on_rows` resolves by the type of the rows.

State is float64 whatever the type of the data. Loops over sparse rows take four entries at a time,
in LLVM that is written out (`dot_fours`), or use plain accumulators and unsigned indices: with
`fastmath` LLVM emits hardware gathers there, which are slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

Array = NDArray[Any]

# Reductions may be reordered (that is what vectorises them); NaN and infinity keep their meaning.
REORDERED = {"reassoc", "contract", "nsz", "arcp"}
# And where every sum is to be made in the order that is written: fused, but never another chain.
IN_ORDER = {"contract", "nsz"}
ROWS_PER_BLOCK = 4
FOLD_BELOW, FOLD_ABOVE = 1e-100, 1e100
PREFETCH_AHEAD = 4
# Of dual ascent, whose steps are short: where a row begins and its numbers, then the row.
NUMBERS_AHEAD, ROW_AHEAD = 12, 8
STEPS_BETWEEN_FOLDS = 32
PER_CACHE_LINE = 8  # numbers of 8 bytes
SUMS = 14  # of four rows with u and the gradient, and with each other
ALONE = -1
SPINS = 4096  # looks at a flag before the core is offered to others
LONG_ROW = 1750  # columns from which on four rows are read together (docs/decisions/02)
# Columns of a row that are summed up in one go: four lanes are enough for so many, or two for half.
PIECE, SHORT_PIECE = 512, 256
# An unsigned index needs no test for being negative.
ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


class CSR(NamedTuple):
    """The three arrays of a compressed sparse row matrix."""

    data: Array
    indices: Array
    indptr: Array


class Centre(NamedTuple):
    """The mean row m, subtracted implicitly; its arrays are empty when nothing is centred."""

    mean: Array  # (d,)
    row_products: Array  # (n,) x_iᵀm, of the raw rows
    squared_norm: float  # mᵀm


class Direction(NamedTuple):
    """The snapshot's gradient ḡ = ∇F(w̄), and its inner products."""

    gradient: Array  # (d,)
    in_basis: Array  # (k,) Uᵀḡ
    row_products: Array  # (n,) centred rows times ḡ; empty for dense rows, which need none
    mean_product: float  # ḡᵀm


class Channel(NamedTuple):
    """How the threads of a dense epoch, each with columns of its own, tell each other their sums.

    Everybody posts the sums over its columns, waits for the others' and adds all of them in the
    same order, so that all go on with the same numbers. Two boxes by turns suffice: who has seen
    a post of this turn knows that its sender has read all of the last one. One thread alone makes
    the sums part by part, and adds them in that order too: it gets the same numbers.
    """

    part: int  # which of the threads this is; ALONE if it sees to all parts
    bounds: Array  # (parts + 1,) int64: the columns' parts
    mail: Array  # (2, parts, SUMS)
    posted: Array  # (parts, PER_CACHE_LINE) int64: turns posted, each on a cache line of its own


class Steps(NamedTuple):
    """The scalars and weights of an epoch of m steps."""

    shrink: float  # ρ = 1 − ηaλ; 1 when the regulariser is sampled
    outside: float  # ηa, the step outside the basis
    inside: Array  # (k,) η e_j, the steps inside it
    shrink_inside: Array  # (k,) 1 − η e_j λ; 1 when the regulariser is sampled
    row_weights: Array  # (m,) weight of step t's row in the returned point
    basis_weights: Array  # (m,) weight, in the returned point, of the iterate after step t


def on_rows(dense: Callable[..., Any], sparse: Callable[..., Any]) -> Callable[..., Any]:
    """One function of two: `dense` when the first argument is an array, `sparse` when it is CSR.

    It resolves at compile time inside a kernel, and works as plain Python without the JIT.
    """

    def function(rows: Any, *arguments: Any) -> Any:
        return (sparse if isinstance(rows, CSR) else dense)(rows, *arguments)

    # Not strict: that compares annotations too. Inlined: a call that passes ten arrays costs a
    # fifth of a sparse step.
    @overload(function, strict=False, inline="always")
    def choose(rows: Any, *arguments: Any) -> Any:
        chosen = dense if isinstance(rows, types.Array) else sparse
        return getattr(chosen, "py_func", chosen)

    return function


def wide(value: Any) -> float:
    """A number of the data in float64. A byte goes by way of int32: its own way is half as fast."""
    return np.float64(value)


@overload(wide, strict=False, inline="always")
def _wide(value: Any) -> Any:
    if isinstance(value, types.Integer):
        return lambda value: np.float64(np.int32(value))
    return lambda value: np.float64(value)


# ----------------------------------------------------------------------------------------
# Prefetching: a random sparse row is a cache miss, unless it is asked for ahead of time
# ----------------------------------------------------------------------------------------


@intrinsic
def _prefetch_address(typing_context: Any, array: Any, index: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        pointer = builder.bitcast(builder.gep(values.data, [arguments[1]]), byte_pointer)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32]),
            "llvm.prefetch.p0i8",
        )
        builder.call(function, [pointer, int32(0), int32(2), int32(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


def prefetch(array: Array, index: int) -> None:
    """Ask for the cache line of a contiguous array's flat element (nothing without the JIT)."""


@overload(prefetch, strict=False)
def _prefetch(array: Any, index: Any) -> Any:
    return lambda array, index: _prefetch_address(array, index)


# ----------------------------------------------------------------------------------------
# Between threads: what was written before a flag is set is seen by whoever sees the flag
# ----------------------------------------------------------------------------------------


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, row: Any) -> Any:
    values = context.make_array(array_type)(context, builder, array)
    position = builder.mul(row, context.get_constant(types.intp, PER_CACHE_LINE))
    return builder.gep(values.data, [position])


@intrinsic
def _atomic_store(typing_context: Any, array: Any, row: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        builder.store_atomic(arguments[2], pointer, "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), codegen


@intrinsic
def _atomic_load(typing_context: Any, array: Any, row: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(array, types.intp), codegen


@intrinsic
def _offer_core(typing_context: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), codegen


def post(posted: Array, part: int, turn: int) -> None:
    """Say that a part has posted its sums of this turn (without the JIT there is one thread)."""


def wait_for(posted: Array, part: int, turn: int) -> None:
    """Wait until a part has posted its sums of this turn."""


@overload(post, strict=False)
def _post(posted: Any, part: Any, turn: Any) -> Any:
    return lambda posted, part, turn: _atomic_store(posted, part, turn)


@overload(wait_for, strict=False)
def _wait_for(posted: Any, part: Any, turn: Any) -> Any:
    def wait(posted: Array, part: int, turn: int) -> None:
        spins = 0
        while _atomic_load(posted, part) < turn:
            spins += 1
            if spins % SPINS == 0:
                _offer_core()

    return wait


@njit(nogil=True, cache=True)
def _prefetch_coordinates(coordinates: Array, i: int) -> None:
    rank = coordinates.shape[1]
    for position in range(i * rank, (i + 1) * rank, PER_CACHE_LINE):
        prefetch(coordinates, position)


@njit(nogil=True, cache=True)
def _prefetch_csr_row(rows: CSR, coordinates: Array, i: int) -> None:
    start, stop = rows.indptr[i], rows.indptr[i + 1]
    for position in range(start, stop, PER_CACHE_LINE):
        prefetch(rows.data, position)
        prefetch(rows.indices, position)
    _prefetch_coordinates(coordinates, i)


@njit(nogil=True, cache=True)
def _prefetch_csr(rows: CSR, coordinates: Array, order: Array, t: int) -> None:
    n = rows.indptr.size - 1
    if t + 2 * PREFETCH_AHEAD < order.size and order[t + 2 * PREFETCH_AHEAD] < n:
        prefetch(rows.indptr, order[t + 2 * PREFETCH_AHEAD])
    if t + PREFETCH_AHEAD < order.size and order[t + PREFETCH_AHEAD] < n:
        _prefetch_csr_row(rows, coordinates, order[t + PREFETCH_AHEAD])


@njit(nogil=True, cache=True)
def _prefetch_dense(rows: Array, coordinates: Array, order: Array, t: int) -> None:
    """The coordinates alone: a dense row is long, and the hardware reads ahead in it by itself."""
    for later in range(t + ROWS_PER_BLOCK, min(t + 2 * ROWS_PER_BLOCK, order.size)):
        _prefetch_coordinates(coordinates, order[later])


@njit(nogil=True, cache=True)
def _prefetch_dense_row(rows: Array, coordinates: Array, i: int) -> None:
    _prefetch_coordinates(coordinates, i)


@njit(nogil=True, cache=True)
def _prefetch_no_pointer(rows: Array, i: int) -> None:
    pass


@njit(nogil=True, cache=True)
def _prefetch_csr_pointer(rows: CSR, i: int) -> None:
    prefetch(rows.indptr, i)


prefetch_rows = on_rows(_prefetch_dense, _prefetch_csr)
prefetch_row = on_rows(_prefetch_dense_row, _prefetch_csr_row)
prefetch_pointer = on_rows(_prefetch_no_pointer, _prefetch_csr_pointer)

# ----------------------------------------------------------------------------------------
# Entries of a sparse row, four at a time
#
# Their values are widened and multiplied as one vector, their places are read one by one: LLVM by
# itself does everything one by one, or else gathers. Where v is a pair (d, 2), products are those
# with its first column, and sums go to its second.
# ----------------------------------------------------------------------------------------

FOUR_NUMBERS = ir.VectorType(ir.DoubleType(), 4)
LANES = [ir.Constant(ir.IntType(32), lane) for lane in range(4)]
MAY_FUSE = ("contract",)


def _items(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    """Where the items of an array begin."""
    return context.make_array(array_type)(context, builder, array).data


def _four_values(context: Any, builder: Any, array_type: Any, items: Any, q: Any) -> Any:
    """The items from q on, as a vector in float64."""
    kind, size = context.get_data_type(array_type.dtype), array_type.dtype.bitwidth // 8
    pointer = builder.bitcast(builder.gep(items, [q]), ir.VectorType(kind, 4).as_pointer())
    values = builder.load(pointer, align=size)
    return values if array_type.dtype == types.float64 else builder.fpext(values, FOUR_NUMBERS)


def _places(builder: Any, indices: Any, q: Any, vector: Any, pair: bool, column: int) -> list[Any]:
    """Where a vector, or a column of a pair, has the items that four indices from q on name."""
    places, long = [], ir.IntType(64)
    for lane in range(4):
        index = builder.load(builder.gep(indices, [builder.add(q, ir.Constant(q.type, lane))]))
        if index.type.width < long.width:
            index = builder.zext(index, long)
        if pair:
            index = builder.add(builder.mul(index, long(2)), long(column))
        places.append(builder.gep(vector, [index]))
    return places


def _each_four(builder: Any, start: Any, stop: Any) -> Any:
    """A loop over the first of every four entries."""
    return cgutils.for_range_slice(builder, start, stop, ir.Constant(start.type, 4), start.type)


@intrinsic
def _dot_fours(
    typing_context: Any, data: Any, indices: Any, start: Any, stop: Any, vector: Any
) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, (first, last) = signature.args, arguments[2:4]
        values = _items(context, builder, kinds[0], arguments[0])
        columns = _items(context, builder, kinds[1], arguments[1])
        v = _items(context, builder, kinds[4], arguments[4])
        sums = cgutils.alloca_once_value(builder, ir.Constant(FOUR_NUMBERS, [0.0] * 4))
        with _each_four(builder, first, last) as (q, _):
            others = ir.Constant(FOUR_NUMBERS, ir.Undefined)
            places = _places(builder, columns, q, v, kinds[4].ndim == 2, 0)
            for lane, place in zip(LANES, places, strict=True):
                others = builder.insert_element(others, builder.load(place), lane)
            some = _four_values(context, builder, kinds[0], values, q)
            products = builder.fmul(some, others, flags=MAY_FUSE)
            builder.store(builder.fadd(builder.load(sums), products, flags=MAY_FUSE), sums)
        a, b, c, d = (builder.extract_element(builder.load(sums), lane) for lane in LANES)
        return builder.fadd(builder.fadd(a, b), builder.fadd(c, d))

    return types.float64(data, indices, types.int64, types.int64, vector), codegen


@intrinsic
def _add_fours(
    typing_context: Any,
    data: Any,
    indices: Any,
    start: Any,
    stop: Any,
    factor: Any,
    vector: Any,
) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, (first, last, number) = signature.args, arguments[2:5]
        values = _items(context, builder, kinds[0], arguments[0])
        columns = _items(context, builder, kinds[1], arguments[1])
        v = _items(context, builder, kinds[5], arguments[5])
        factors = ir.Constant(FOUR_NUMBERS, ir.Undefined)
        for lane in LANES:
            factors = builder.insert_element(factors, number, lane)
        with _each_four(builder, first, last) as (q, _):
            some = _four_values(context, builder, kinds[0], values, q)
            products = builder.fmul(some, factors)
            places = _places(builder, columns, q, v, kinds[5].ndim == 2, 1)
            # One after the other: zeros that fill a row up are all in one place.
            for lane, place in zip(LANES, places, strict=True):
                product = builder.extract_element(products, lane)
                builder.store(builder.fadd(builder.load(place), product), place)
        return context.get_dummy_value()

    kinds = data, indices, types.int64, types.int64, types.float64, vector
    return types.void(*kinds), codegen


@njit(nogil=True, cache=True)
def _entry_product(data: Array, indices: Array, q: int, v: Array) -> float:
    """data_q v[indices_q], where v may be a pair."""
    j = np.uint64(indices[q])
    return np.float64(data[q]) * (v[j] if v.ndim == 1 else v[j, 0])


def dot_fours(data: Array, indices: Array, start: Any, stop: Any, v: Array) -> float:
    """Σ data_q v[indices_q], q from start to stop, a whole number of fours; in four lanes."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for q in range(start, stop, FOUR):
        a += _entry_product(data, indices, q, v)
        b += _entry_product(data, indices, q + ONE, v)
        c += _entry_product(data, indices, q + TWO, v)
        d += _entry_product(data, indices, q + THREE, v)
    return (a + b) + (c + d)


@overload(dot_fours, strict=False)
def _choose_dot_fours(data: Any, indices: Any, start: Any, stop: Any, v: Any) -> Any:
    if not _are_plain(data, indices, v):
        return dot_fours
    return lambda data, indices, start, stop, v: _dot_fours(data, indices, start, stop, v)


def add_fours(data: Array, indices: Array, start: Any, stop: Any, factor: float, v: Array) -> None:
    """v[indices_q] += factor · data_q, q from start to stop, a whole number of fours."""
    for q in range(start, stop):
        if v.ndim == 1:
            v[indices[q]] += factor * np.float64(data[q])
        else:
            v[indices[q], 1] += factor * np.float64(data[q])


@overload(add_fours, strict=False)
def _choose_add_fours(data: Any, indices: Any, start: Any, stop: Any, factor: Any, v: Any) -> Any:
    if not _are_plain(data, indices, v):
        return add_fours
    return lambda data, indices, start, stop, factor, v: _add_fours(
        data, indices, start, stop, factor, v
    )


def _are_plain(data: Any, indices: Any, v: Any) -> bool:
    """Whether vectors can be loaded: floats, for a v in float64, and no gaps between the items."""
    floats = isinstance(data.dtype, types.Float) and v.dtype == types.float64
    return floats and all(array.layout == "C" for array in (data, indices, v))


# ----------------------------------------------------------------------------------------
# One row and a vector
# ----------------------------------------------------------------------------------------


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _dense_dot(x: Array, v: Array) -> float:
    """Inner product of x and v (d,), piece by piece: LLVM may make the sums in few lanes."""
    total = 0.0
    for start in range(0, x.size, PIECE):
        some = 0.0
        for j in range(np.uint64(start), np.uint64(min(start + PIECE, x.size))):
            some += wide(x[j]) * wide(v[j])
        total += some
    return total


@njit(nogil=True, cache=True)
def _csr_dot(rows: CSR, i: int, v: Array) -> float:
    """Inner product of row i and v (d,)."""
    data, indices = rows.data, rows.indices
    start, stop = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
    whole = start + (stop - start) // FOUR * FOUR
    total = dot_fours(data, indices, start, whole, v)
    for q in range(whole, stop):
        total += data[q] * v[np.uint64(indices[q])]
    return total


@njit(nogil=True, cache=True)
def _csr_add(rows: CSR, i: int, factor: float, v: Array) -> None:
    """Add factor · row i to v (d,)."""
    data, indices = rows.data, rows.indices
    start, stop = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
    whole = start + (stop - start) // FOUR * FOUR
    add_fours(data, indices, start, whole, factor, v)
    for q in range(whole, stop):
        v[np.uint64(indices[q])] += factor * data[q]


# ----------------------------------------------------------------------------------------
# One row and a pair of vectors: side by side for sparse rows, which touch both at an index, and
# each contiguous for dense rows, which sweep them.
# ----------------------------------------------------------------------------------------


def bundle(rows: Any, *vectors: Array) -> Array:
    """Vectors (d,) in one array, laid out as these rows touch them."""
    return np.ascontiguousarray(np.stack(vectors, axis=int(isinstance(rows, CSR))))


def unbundle(rows: Any, bundled: Array) -> list[Array]:
    """The vectors (d,) of a bundle."""
    return [np.ascontiguousarray(v) for v in (bundled.T if isinstance(rows, CSR) else bundled)]


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _dense_pair_dot(rows: Array, i: int, pair: Array) -> tuple[float, float]:
    first, second = 0.0, 0.0
    for j in range(rows.shape[1]):
        x = np.float64(rows[i, j])
        first += x * pair[0, j]
        second += x * pair[1, j]
    return first, second


@njit(nogil=True, cache=True)
def _csr_pair_dot(rows: CSR, i: int, pair: Array) -> tuple[float, float]:
    data, indices = rows.data, rows.indices
    first, second = 0.0, 0.0
    for q in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
        j, x = np.uint64(indices[q]), data[q]
        first += x * pair[j, 0]
        second += x * pair[j, 1]
    return first, second


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _dense_pair_add(rows: Array, i: int, first: float, second: float, pair: Array) -> None:
    for j in range(rows.shape[1]):
        pair[0, j] += first * rows[i, j]
        pair[1, j] += second * rows[i, j]


@njit(nogil=True, cache=True)
def _csr_pair_add(rows: CSR, i: int, first: float, second: float, pair: Array) -> None:
    for q in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
        j, x = np.uint64(rows.indices[q]), rows.data[q]
        pair[j, 0] += first * x
        pair[j, 1] += second * x


@njit(nogil=True, cache=True)
def _dense_pair_scale(rows: Array, first: float, second: float, pair: Array) -> None:
    for j in range(pair.shape[1]):
        pair[0, j] *= first
        pair[1, j] *= second


@njit(nogil=True, cache=True)
def _csr_pair_scale(rows: CSR, first: float, second: float, pair: Array) -> None:
    for j in range(pair.shape[0]):
        pair[j, 0] *= first
        pair[j, 1] *= second


@njit(nogil=True, cache=True)
def _dense_pair_mix(rows: Array, first: float, second: float, pair: Array) -> None:
    for j in range(pair.shape[1]):
        pair[0, j] = first * pair[0, j] + second * pair[1, j]


@njit(nogil=True, cache=True)
def _csr_pair_mix(rows: CSR, first: float, second: float, pair: Array) -> None:
    for j in range(pair.shape[0]):
        pair[j, 0] = first * pair[j, 0] + second * pair[j, 1]


@njit(nogil=True, cache=True)
def _dense_pair_shift(rows: Array, factor: float, v: Array, pair: Array) -> None:
    for j in range(v.size):
        pair[0, j] += factor * v[j]


@njit(nogil=True, cache=True)
def _csr_pair_shift(rows: CSR, factor: float, v: Array, pair: Array) -> None:
    for j in range(v.size):
        pair[j, 0] += factor * v[j]


@njit(nogil=True, cache=True)
def _dense_pair_mean(rows: Array, mean: Array, pair: Array) -> tuple[float, float]:
    first, second = 0.0, 0.0
    for j in range(mean.size):
        first += mean[j] * pair[0, j]
        second += mean[j] * pair[1, j]
    return first, second


@njit(nogil=True, cache=True)
def _csr_pair_mean(rows: CSR, mean: Array, pair: Array) -> tuple[float, float]:
    first, second = 0.0, 0.0
    for j in range(mean.size):
        first += mean[j] * pair[j, 0]
        second += mean[j] * pair[j, 1]
    return first, second


pair_dot = on_rows(_dense_pair_dot, _csr_pair_dot)
pair_mean = on_rows(_dense_pair_mean, _csr_pair_mean)  # the mean row times both
pair_add = on_rows(_dense_pair_add, _csr_pair_add)
pair_scale = on_rows(_dense_pair_scale, _csr_pair_scale)  # both vectors, each by its factor
pair_mix = on_rows(_dense_pair_mix, _csr_pair_mix)  # the first becomes a mixture of both
pair_shift = on_rows(_dense_pair_shift, _csr_pair_shift)  # add a vector to the first


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _dense_row_dot(rows: Array, i: int, v: Array) -> float:
    return _dense_dot(rows[i], v)


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _dense_row_add(rows: Array, i: int, factor: float, v: Array) -> None:
    for j in range(v.size):
        v[j] += factor * wide(rows[i, j])


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _dense_slope(rows: Array, i: int, gradient: Array, products: Array) -> float:
    return _dense_dot(rows[i], gradient)


@njit(nogil=True, cache=True)
def _csr_slope(rows: CSR, i: int, gradient: Array, products: Array) -> float:
    return products[i]


@njit(nogil=True, cache=True)
def _prefetch_next_dense(rows: Array, coordinates: Array, order: Array, t: int) -> None:
    if t + PREFETCH_AHEAD < order.size:
        _prefetch_coordinates(coordinates, order[t + PREFETCH_AHEAD])


row_dot = on_rows(_dense_row_dot, _csr_dot)
row_add = on_rows(_dense_row_add, _csr_add)
slope_of = on_rows(_dense_slope, _csr_slope)  # a row times the gradient; sparse: made before
prefetch_next = on_rows(_prefetch_next_dense, _prefetch_csr)


# ----------------------------------------------------------------------------------------
# SVRG: the state of an epoch
#
# The move Δ = w − w̄ since the snapshot is s + U(b − h), with b = UᵀΔ and h = Uᵀs. The vector s
# is kept as θu + φḡ + ψm, so that a sparse step touches the entries of its row alone. The state
# bundles u and the point to return, and for sparse rows ḡ between them, which they touch beside u.
# ----------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _dense_add_to_point(
    rows: Array, start: int, stop: int, factor: float, v: Array, state: Array
) -> None:
    for j in range(np.uint64(start), np.uint64(stop)):
        state[1, j] += factor * v[j]


@njit(nogil=True, cache=True)
def _csr_add_to_point(
    rows: CSR, start: int, stop: int, factor: float, v: Array, state: Array
) -> None:
    for j in range(np.uint64(start), np.uint64(stop)):
        state[j, 2] += factor * v[j]


@njit(nogil=True, cache=True)
def _dense_row_count(rows: Array) -> int:
    return rows.shape[0]


@njit(nogil=True, cache=True)
def _csr_row_count(rows: CSR) -> int:
    return rows.indptr.size - 1


row_count = on_rows(_dense_row_count, _csr_row_count)
add_to_point = on_rows(_dense_add_to_point, _csr_add_to_point)

# ----------------------------------------------------------------------------------------
# SVRG: a block of steps. Four dense rows are read at once: inside the block the steps follow from
# the rows' Gram matrix, and the dense vectors are swept once for four steps. Sparse rows, and the
# regulariser's components (indices from n on, the unit vectors), are taken one by one.
#
# Arrays are passed one by one and rows by number: unpacking a tuple or making a view inside the
# loop costs reference counts, which took a third of the time of a sparse step.
# ----------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _dense_block_size(rows: Array, order: Array, t: int) -> int:
    if t + ROWS_PER_BLOCK > order.size:
        return 1
    for later in range(t, t + ROWS_PER_BLOCK):
        if order[later] >= rows.shape[0]:
            return 1
    return ROWS_PER_BLOCK


@njit(nogil=True, cache=True)
def _csr_block_size(rows: CSR, order: Array, t: int) -> int:
    return 1


block_size = on_rows(_dense_block_size, _csr_block_size)


@njit(nogil=True, cache=True)
def _read_csr_block(
    rows: CSR,
    order: Array,
    t: int,
    size: int,
    pending: bool,
    pushes: Array,
    weighted: Array,
    start: int,
    stop: int,
    state: Array,
    gradient: Array,
    inner: Array,
    slope: Array,
    gram: Array,
) -> None:
    i, n = order[t], rows.indptr.size - 1
    if i < n:
        inner[0], slope[0] = _csr_state_dot(rows, i, state)
    else:
        inner[0], slope[0] = state[i - n, 0], state[i - n, 1]


@njit(nogil=True, cache=True)
def _csr_state_dot(rows: CSR, i: int, state: Array) -> tuple[float, float]:
    """The row's products with u and ḡ."""
    data, indices = rows.data, rows.indices
    start, stop = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
    even = start + (stop - start) // TWO * TWO
    inner, other_inner, slope, other_slope = 0.0, 0.0, 0.0, 0.0
    for q in range(start, even, TWO):
        j, other_j = np.uint64(indices[q]), np.uint64(indices[q + ONE])
        inner += data[q] * state[j, 0]
        other_inner += data[q + ONE] * state[other_j, 0]
        slope += data[q] * state[j, 1]
        other_slope += data[q + ONE] * state[other_j, 1]
    if even < stop:
        j = np.uint64(indices[even])
        inner += data[even] * state[j, 0]
        slope += data[even] * state[j, 1]
    return inner + other_inner, slope + other_slope


@njit(nogil=True, cache=True)
def _read_dense_block(
    rows: Array,
    order: Array,
    t: int,
    size: int,
    pending: bool,
    pushes: Array,
    weighted: Array,
    start: int,
    stop: int,
    state: Array,
    gradient: Array,
    inner: Array,
    slope: Array,
    gram: Array,
) -> None:
    """The block's inner products, after the last block's rows were added if that is pending."""
    i, n = order[t], rows.shape[0]
    if pending and size > 1:
        _add_and_read_four_rows(
            rows, order, t, pushes, weighted, start, stop, state, gradient, inner, slope, gram
        )
        return
    if pending:
        _add_four_rows(rows, order, t - ROWS_PER_BLOCK, start, stop, pushes, weighted, state)
    if size > 1:
        _read_four_rows(rows, order, t, start, stop, state, gradient, inner, slope, gram)
    elif i < n:
        inner[0], slope[0] = _read_one_row(rows, i, start, stop, state, gradient)
    elif start <= i - n < stop:
        inner[0], slope[0] = state[0, i - n], gradient[i - n]
    else:
        inner[0], slope[0] = 0.0, 0.0


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _read_one_row(
    rows: Array, i: int, start: int, stop: int, state: Array, gradient: Array
) -> tuple[float, float]:
    inner, slope = 0.0, 0.0
    for j in range(np.uint64(start), np.uint64(stop)):
        inner += rows[i, j] * state[0, j]
        slope += rows[i, j] * gradient[j]
    return inner, slope


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _read_four_rows(
    rows: Array,
    order: Array,
    t: int,
    start: int,
    stop: int,
    state: Array,
    gradient: Array,
    inner: Array,
    slope: Array,
    gram: Array,
) -> None:
    """Fourteen inner products of four rows, u and the gradient, in one sweep."""
    i0, i1, i2, i3 = order[t], order[t + 1], order[t + 2], order[t + 3]
    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
    b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0
    c01, c02, c03, c12, c13, c23 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(np.uint64(start), np.uint64(stop)):
        uj, gj = state[0, j], gradient[j]
        x0, x1 = np.float64(rows[i0, j]), np.float64(rows[i1, j])
        x2, x3 = np.float64(rows[i2, j]), np.float64(rows[i3, j])
        a0 += x0 * uj
        a1 += x1 * uj
        a2 += x2 * uj
        a3 += x3 * uj
        b0 += x0 * gj
        b1 += x1 * gj
        b2 += x2 * gj
        b3 += x3 * gj
        c01 += x0 * x1
        c02 += x0 * x2
        c03 += x0 * x3
        c12 += x1 * x2
        c13 += x1 * x3
        c23 += x2 * x3
    inner[0], inner[1], inner[2], inner[3] = a0, a1, a2, a3
    slope[0], slope[1], slope[2], slope[3] = b0, b1, b2, b3
    gram[0, 1], gram[0, 2], gram[0, 3] = c01, c02, c03
    gram[1, 2], gram[1, 3], gram[2, 3] = c12, c13, c23


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _add_and_read_four_rows(
    rows: Array,
    order: Array,
    t: int,
    pushes: Array,
    weighted: Array,
    start: int,
    stop: int,
    state: Array,
    gradient: Array,
    inner: Array,
    slope: Array,
    gram: Array,
) -> None:
    """`_add_four_rows` of the block before, and `_read_four_rows`, in one sweep."""
    k0, k1, k2, k3 = order[t - 4], order[t - 3], order[t - 2], order[t - 1]
    p0, p1, p2, p3 = pushes[0], pushes[1], pushes[2], pushes[3]
    w0, w1, w2, w3 = weighted[0], weighted[1], weighted[2], weighted[3]
    i0, i1, i2, i3 = order[t], order[t + 1], order[t + 2], order[t + 3]
    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
    b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0
    c01, c02, c03, c12, c13, c23 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(np.uint64(start), np.uint64(stop)):
        y0, y1 = np.float64(rows[k0, j]), np.float64(rows[k1, j])
        y2, y3 = np.float64(rows[k2, j]), np.float64(rows[k3, j])
        uj = state[0, j] + (p0 * y0 + p1 * y1 + p2 * y2 + p3 * y3)
        state[0, j] = uj
        state[1, j] += w0 * y0 + w1 * y1 + w2 * y2 + w3 * y3
        gj = gradient[j]
        x0, x1 = np.float64(rows[i0, j]), np.float64(rows[i1, j])
        x2, x3 = np.float64(rows[i2, j]), np.float64(rows[i3, j])
        a0 += x0 * uj
        a1 += x1 * uj
        a2 += x2 * uj
        a3 += x3 * uj
        b0 += x0 * gj
        b1 += x1 * gj
        b2 += x2 * gj
        b3 += x3 * gj
        c01 += x0 * x1
        c02 += x0 * x2
        c03 += x0 * x3
        c12 += x1 * x2
        c13 += x1 * x3
        c23 += x2 * x3
    inner[0], inner[1], inner[2], inner[3] = a0, a1, a2, a3
    slope[0], slope[1], slope[2], slope[3] = b0, b1, b2, b3
    gram[0, 1], gram[0, 2], gram[0, 3] = c01, c02, c03
    gram[1, 2], gram[1, 3], gram[2, 3] = c12, c13, c23


read_block = on_rows(_read_dense_block, _read_csr_block)


@njit(nogil=True, cache=True)
def _put_sums(mail: Array, box: int, part: int, inner: Array, slope: Array, gram: Array) -> None:
    pair = 2 * ROWS_PER_BLOCK
    for p in range(ROWS_PER_BLOCK):
        mail[box, part, p], mail[box, part, ROWS_PER_BLOCK + p] = inner[p], slope[p]
        for q in range(p + 1, ROWS_PER_BLOCK):
            mail[box, part, pair] = gram[p, q]
            pair += 1


@njit(nogil=True, cache=True)
def _collect_sums(mail: Array, box: int, inner: Array, slope: Array, gram: Array) -> None:
    """The sums over all columns, added in the order of the parts."""
    inner[:], slope[:], gram[:] = 0.0, 0.0, 0.0
    for part in range(mail.shape[1]):
        pair = 2 * ROWS_PER_BLOCK
        for p in range(ROWS_PER_BLOCK):
            inner[p] += mail[box, part, p]
            slope[p] += mail[box, part, ROWS_PER_BLOCK + p]
            for q in range(p + 1, ROWS_PER_BLOCK):
                gram[p, q] += mail[box, part, pair]
                pair += 1


@njit(nogil=True, cache=True)
def _share_sums(
    turn: int, part: int, mail: Array, posted: Array, inner: Array, slope: Array, gram: Array
) -> None:
    """Turn the sums over the parts that this thread has put into the mail into those over all."""
    if part != ALONE:
        post(posted, part, turn + 1)
        for other in range(mail.shape[1]):
            if other != part:
                wait_for(posted, other, turn + 1)
    _collect_sums(mail, turn % 2, inner, slope, gram)


@njit(nogil=True, cache=True)
def _write_csr_block(
    rows: CSR,
    order: Array,
    t: int,
    size: int,
    start: int,
    stop: int,
    pushes: Array,
    weighted: Array,
    state: Array,
) -> None:
    """Add the step's row to u and to the returned point."""
    i, n = order[t], rows.indptr.size - 1
    push, weight = pushes[0], weighted[0]
    if i >= n:
        state[i - n, 0] += push
        state[i - n, 2] += weight
        return
    for q in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
        j, x = np.uint64(rows.indices[q]), rows.data[q]
        state[j, 0] += push * x
        state[j, 2] += weight * x


@njit(nogil=True, cache=True)
def _write_dense_block(
    rows: Array,
    order: Array,
    t: int,
    size: int,
    start: int,
    stop: int,
    pushes: Array,
    weighted: Array,
    state: Array,
) -> None:
    """Add the block's rows to u and to the returned point."""
    i, n = order[t], rows.shape[0]
    if size > 1:
        _add_four_rows(rows, order, t, start, stop, pushes, weighted, state)
    elif i < n:
        _add_one_row(rows, i, start, stop, pushes[0], weighted[0], state)
    elif start <= i - n < stop:
        state[0, i - n] += pushes[0]
        state[1, i - n] += weighted[0]


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _add_one_row(
    rows: Array, i: int, start: int, stop: int, push: float, weight: float, state: Array
) -> None:
    for j in range(np.uint64(start), np.uint64(stop)):
        state[0, j] += push * rows[i, j]
        state[1, j] += weight * rows[i, j]


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _add_four_rows(
    rows: Array,
    order: Array,
    t: int,
    start: int,
    stop: int,
    pushes: Array,
    weighted: Array,
    state: Array,
) -> None:
    i0, i1, i2, i3 = order[t], order[t + 1], order[t + 2], order[t + 3]
    p0, p1, p2, p3 = pushes[0], pushes[1], pushes[2], pushes[3]
    w0, w1, w2, w3 = weighted[0], weighted[1], weighted[2], weighted[3]
    for j in range(np.uint64(start), np.uint64(stop)):
        x0, x1 = np.float64(rows[i0, j]), np.float64(rows[i1, j])
        x2, x3 = np.float64(rows[i2, j]), np.float64(rows[i3, j])
        state[0, j] += p0 * x0 + p1 * x1 + p2 * x2 + p3 * x3
        state[1, j] += w0 * x0 + w1 * x1 + w2 * x2 + w3 * x3


write_block = on_rows(_write_dense_block, _write_csr_block)


@njit(nogil=True, cache=True)
def _must_fold(theta: float) -> bool:
    return abs(theta) < FOLD_BELOW or abs(theta) > FOLD_ABOVE


@njit(nogil=True, cache=True)
def _fold_dense(
    rows: Array,
    t: int,
    start: int,
    stop: int,
    lazy: Array,
    state: Array,
    gradient: Array,
    mean: Array,
    gradient_mean: float,
    mean_mean: float,
) -> None:
    """Put θ, φḡ and ψm into u every few steps: left apart, they grow and cancel each other."""
    if t - lazy[4] < STEPS_BETWEEN_FOLDS and not _must_fold(lazy[0]):
        return
    lazy[4] = t
    for j in range(np.uint64(start), np.uint64(stop)):
        state[0, j] = lazy[0] * state[0, j] + lazy[1] * gradient[j]
    if mean.size > 0:
        for j in range(np.uint64(start), np.uint64(stop)):
            state[0, j] += lazy[2] * mean[j]
    lazy[3] = lazy[0] * lazy[3] + lazy[1] * gradient_mean + lazy[2] * mean_mean
    lazy[0], lazy[1], lazy[2] = 1.0, 0.0, 0.0


@njit(nogil=True, cache=True)
def _fold_csr(
    rows: CSR,
    t: int,
    start: int,
    stop: int,
    lazy: Array,
    state: Array,
    gradient: Array,
    mean: Array,
    gradient_mean: float,
    mean_mean: float,
) -> None:
    """Put θ into u before it underflows; a sparse step must not touch all of u more often."""
    if _must_fold(lazy[0]):
        state[:, 0] *= lazy[0]
        lazy[3] *= lazy[0]
        lazy[0] = 1.0


fold = on_rows(_fold_dense, _fold_csr)


@njit(nogil=True, cache=True)
def _centre_block(
    order: Array,
    t: int,
    size: int,
    n: int,
    lazy: Array,
    mean: Array,
    mean_products: Array,
    mean_mean: float,
    gradient_mean: float,
    inner: Array,
    slope: Array,
    gram: Array,
) -> None:
    """Turn the block's products with raw rows into those with centred ones."""
    for p in range(size):
        i = order[t + p]
        if i >= n:
            inner[p] += lazy[2] / lazy[0] * mean[i - n]
            continue
        inner[p] += lazy[2] / lazy[0] * (mean_products[i] - mean_mean) - lazy[3]
        slope[p] -= gradient_mean
        for q in range(p + 1, size):
            gram[p, q] += mean_mean - (mean_products[i] + mean_products[order[t + q]])


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _basis_inner(b: Array, h: Array, coordinates: Array, i: int) -> float:
    total = 0.0
    for j in range(b.size):
        total += (b[j] - h[j]) * coordinates[i, j]
    return total


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _basis_step(
    delta: float,
    coordinates: Array,
    i: int,
    gradient_basis: Array,
    inside: Array,
    shrink_inside: Array,
    outside: float,
    shrink: float,
    weight: float,
    b: Array,
    h: Array,
    returned: Array,
) -> None:
    for j in range(b.size):
        slope = delta * coordinates[i, j] + gradient_basis[j]
        bj = shrink_inside[j] * b[j] - inside[j] * slope
        hj = shrink * h[j] - outside * slope
        b[j], h[j] = bj, hj
        returned[j] += weight * (bj - hj)


@njit(nogil=True, cache=True)
def svrg_epoch(
    rows: Any,
    order: Array,
    scales: Array,
    coordinates: Array,
    centre: Centre,
    direction: Direction,
    steps: Steps,
    channel: Channel,
    state: Array,
) -> Array:
    """Run the steps `order` (m,) from the snapshot: the move is state's last, and U times (k,).

    Step t draws component i = order[t] and moves Δ by −ηP⁻¹(δ x_i + ḡ + λΔ), with
    δ = scales[i]·⟨Δ, x_i⟩, scales[i] being the component's weight over its probability.
    coordinates (n, k) are the centred rows times U; (n + d, k), with U below, if the
    regulariser is sampled. state bundles two vectors of zeros, with the gradient in between for
    sparse rows. Of dense rows each thread of the channel sees to its own columns; what is small
    they all compute alike.
    """
    mean, mean_products, mean_mean = centre.mean, centre.row_products, centre.squared_norm
    gradient, gradient_mean = direction.gradient, direction.mean_product
    gradient_basis = direction.in_basis
    inside, shrink_inside = steps.inside, steps.shrink_inside
    outside, shrink = steps.outside, steps.shrink
    row_weights, basis_weights = steps.row_weights, steps.basis_weights
    n, rank = row_count(rows), coordinates.shape[1]
    centred = mean.size > 0
    part, bounds, mail, posted = channel.part, channel.bounds, channel.mail, channel.posted
    parts = bounds.size - 1
    first, last = (0, parts) if part == ALONE else (part, part + 1)
    start, stop = bounds[first], bounds[last]  # the columns that this thread sees to

    b, h, basis_point = np.zeros(rank), np.zeros(rank), np.zeros(rank)
    inner, slope = np.zeros(ROWS_PER_BLOCK), np.zeros(ROWS_PER_BLOCK)
    pushes, weighted = np.zeros(ROWS_PER_BLOCK), np.zeros(ROWS_PER_BLOCK)
    gram = np.zeros((ROWS_PER_BLOCK, ROWS_PER_BLOCK))
    lazy = np.array([1.0, 0.0, 0.0, 0.0, 0.0])  # θ, φ, ψ, ⟨u, m⟩ and the step of the last fold
    gradient_weight, mean_weight = 0.0, 0.0
    t, turn, size = 0, 0, 0
    # Threads that share the columns add a block's rows while they read the next one's.
    pending = False
    while t < order.size:
        prefetch_rows(rows, coordinates, order, t)
        size = block_size(rows, order, t)
        for mine in range(first, last):
            read_block(
                rows,
                order,
                t,
                size,
                pending,
                pushes,
                weighted,
                bounds[mine],
                bounds[mine + 1],
                state,
                gradient,
                inner,
                slope,
                gram,
            )
            if parts > 1:
                _put_sums(mail, turn % 2, mine, inner, slope, gram)
        if parts > 1:
            _share_sums(turn, part, mail, posted, inner, slope, gram)
        if centred:
            _centre_block(
                order,
                t,
                size,
                n,
                lazy,
                mean,
                mean_products,
                mean_mean,
                gradient_mean,
                inner,
                slope,
                gram,
            )
        for p in range(size):
            inner[p] = lazy[0] * inner[p] + lazy[1] * slope[p]
        for p in range(size):
            i = order[t + p]
            delta = (inner[p] + _basis_inner(b, h, coordinates, i)) * scales[i]
            _basis_step(
                delta,
                coordinates,
                i,
                gradient_basis,
                inside,
                shrink_inside,
                outside,
                shrink,
                basis_weights[t + p],
                b,
                h,
                basis_point,
            )
            push = -outside * delta
            for later in range(p + 1, size):
                inner[later] = (
                    shrink * inner[later] + push * gram[p, later] - outside * slope[later]
                )
            for earlier in range(p):
                pushes[earlier] *= shrink
            pushes[p], weighted[p] = push, row_weights[t + p] * push
            gradient_weight -= row_weights[t + p] * outside
            lazy[0] *= shrink
            lazy[1] = shrink * lazy[1] - outside
            lazy[2] *= shrink
            if centred and i < n:
                lazy[2] -= push
                mean_weight -= weighted[p]
        fold(rows, t, start, stop, lazy, state, gradient, mean, gradient_mean, mean_mean)
        for p in range(size):
            pushes[p] /= lazy[0]
        pending = parts > 1 and size > 1
        if not pending:
            write_block(rows, order, t, size, start, stop, pushes, weighted, state)
        if centred:
            for p in range(size):
                i = order[t + p]
                lazy[3] += pushes[p] * (mean_products[i] if i < n else mean[i - n])
        t += size
        turn += 1

    if pending:
        write_block(rows, order, t - size, size, start, stop, pushes, weighted, state)
    add_to_point(rows, start, stop, gradient_weight, gradient, state)
    if centred:
        add_to_point(rows, start, stop, mean_weight, mean, state)
    return basis_point


# ----------------------------------------------------------------------------------------
# SAGA and SAG: the table of residuals
#
# s = θu + φv + ψm, where v = Σ ω_i α_i x_i is the table's mean gradient (of raw rows), which moves
# with every step; w = s + U(b − h). The pair is (u, v).
# ----------------------------------------------------------------------------------------


class ConstantSteps(NamedTuple):
    """The scalars of steps that stay the same, with absolute step η."""

    shrink: float  # ρ = 1 − ηaλ
    outside: float  # ηa
    inside: Array  # (k,) η e_j
    shrink_inside: Array  # (k,) 1 − η e_j λ


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _table_basis_step(
    pull: float,
    refresh: float,
    coordinates: Array,
    i: int,
    inside: Array,
    shrink_inside: Array,
    outside: float,
    shrink: float,
    b: Array,
    h: Array,
    table_basis: Array,
) -> None:
    for j in range(b.size):
        z = coordinates[i, j]
        slope = pull * z + table_basis[j]
        b[j] = shrink_inside[j] * b[j] - inside[j] * slope
        h[j] = shrink * h[j] - outside * slope
        table_basis[j] += refresh * z


@njit(nogil=True, cache=True)
def table_epoch(
    rows: Any,
    order: Array,
    weights: Array,
    scales: Array,
    targets: Array,
    residuals: Array,
    coordinates: Array,
    centre: Centre,
    steps: ConstantSteps,
    pair: Array,
    basis: Array,
    total: float,
) -> float:
    """Run the steps `order` (m,) of SAGA or SAG, changing residuals (n,), pair and basis (3, k).

    Step t draws row i, and with δ = x_iᵀw − y_i − α_i moves w by −ηP⁻¹(scales_i δ x_i + v̄ + λw);
    then α_i += δ and v̄ += ω_i δ x_i. SAGA has scales ω_i / p_i, and SAG ω_i. The pair is (w, v)
    before, and (s, v) after; basis holds b = Uᵀw, h = Uᵀs and Uᵀv̄; total is Σ ω_i α_i.
    """
    mean, mean_products, mean_mean = centre.mean, centre.row_products, centre.squared_norm
    inside, shrink_inside = steps.inside, steps.shrink_inside
    outside, shrink = steps.outside, steps.shrink
    b, h, table_basis = basis[0], basis[1], basis[2]
    centred = mean.size > 0
    theta, phi, psi = 1.0, 0.0, 0.0
    first_mean, second_mean = pair_mean(rows, mean, pair)
    for t in range(order.size):
        prefetch_next(rows, coordinates, order, t)
        i = order[t]
        first, second = pair_dot(rows, i, pair)
        fitted = theta * first + phi * second + _basis_inner(b, h, coordinates, i)
        if centred:
            fitted += psi * (mean_products[i] - mean_mean) - theta * first_mean - phi * second_mean
        delta = fitted - targets[i] - residuals[i]
        pull, refresh = scales[i] * delta, weights[i] * delta
        _table_basis_step(
            pull,
            refresh,
            coordinates,
            i,
            inside,
            shrink_inside,
            outside,
            shrink,
            b,
            h,
            table_basis,
        )
        theta, phi = shrink * theta, shrink * phi - outside
        if centred:
            psi = shrink * psi + outside * (pull + total)
        if _must_fold(theta):
            pair_mix(rows, theta, phi, pair)
            pair_shift(rows, psi, mean, pair)
            first_mean = theta * first_mean + phi * second_mean + psi * mean_mean
            theta, phi, psi = 1.0, 0.0, 0.0
        push = -(outside * pull + phi * refresh) / theta
        pair_add(rows, i, push, refresh, pair)
        if centred:
            first_mean += push * mean_products[i]
            second_mean += refresh * mean_products[i]
        total += refresh
        residuals[i] += delta
    pair_mix(rows, theta, phi, pair)
    pair_shift(rows, psi, mean, pair)
    return total


# ----------------------------------------------------------------------------------------
# SDCA and Kaczmarz: a dual number a row (and, with a preconditioner, k more)
# ----------------------------------------------------------------------------------------


class DualMetric(NamedTuple):
    """The preconditioner's eigenvalues, as the dual steps need them."""

    outside: float  # a
    inside: Array  # (k,) e_j
    concave: Array  # (k,) λ(e_j − a), what strong convexity λa outside leaves of the penalty inside
    convexity: float  # λa


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _dual_basis_step(
    slope: float,
    push: float,
    rate: float,
    weight: float,
    coordinates: Array,
    i: int,
    inside: Array,
    concave: Array,
    convexity: float,
    b: Array,
    h: Array,
    basis_duals: Array,
) -> None:
    for j in range(b.size):
        z = coordinates[i, j]
        dual = concave[j] * b[j] + basis_duals[i, j]
        b[j] -= rate * weight * (inside[j] * slope * z + dual)
        h[j] += push * z
        basis_duals[i, j] -= rate * convexity * dual


@njit(nogil=True, cache=True)
def dual_epoch(
    rows: Any,
    order: Array,
    weights: Array,
    rates: Array,
    targets: Array,
    duals: Array,
    basis_duals: Array,
    coordinates: Array,
    centre: Centre,
    metric: DualMetric,
    last: Array,
    point: Array,
    basis: Array,
) -> tuple[float, float, float, float, float, float, float]:
    """Run the steps `order` (m,) of SDCA, changing duals (n,) and (n, k), point and basis (2, k).

    The shifted objective is Σ ω_i f_i(w̃) + μ/2 ‖w̃‖² in the preconditioned coordinates, μ = λa,
    and w̃ = Σ ω_i α_i / μ. Step t draws row i, and with v = ∇f_i(w̃) + α_i moves w̃ by −τ_i ω_i v
    and α_i by −τ_i μ v. Without a basis and with τ_i a = 1/(λ + ω_i‖x_i‖²) that is the exact
    maximisation of the dual in α_i. point is w before and s after; basis holds b = Uᵀw, h = Uᵀs.

    Returns Σ ω_i (y_i − x_iᵀw − α_i)² as each row was met, and Σ |τ_i ω_i a (…)|, how far the rows'
    multiples in w were moved. With a last move (n,) also, of every α_i and its change Δ_i:
    Σ ω_i Δ_i², Σ ω_i Δ_i last_i, Σ ω_i Δ_i (y_i − α_i) and the same of its terms' sizes, and
    Σ ω_i |α_i (y_i − α_i)|.
    """
    mean, mean_products, mean_mean = centre.mean, centre.row_products, centre.squared_norm
    outside, inside = metric.outside, metric.inside
    concave, convexity = metric.concave, metric.convexity
    b, h = basis[0], basis[1]
    centred = mean.size > 0
    with_basis = inside.size > 0  # without it a step is short, and a call costs a fifth of it
    ahead = PREFETCH_AHEAD if with_basis else ROW_AHEAD
    psi, point_mean = 0.0, _dense_dot(mean, point[: mean.size])
    squares, moved = 0.0, 0.0
    square, across, gain, size, level = 0.0, 0.0, 0.0, 0.0, 0.0
    for t in range(order.size):
        i, end = order[t], order.size - 1
        far, near = min(t + NUMBERS_AHEAD, end), min(t + ahead, end)
        if order[far] - i != far - t:  # neighbours are found by the hardware
            later = order[far]
            prefetch_pointer(rows, later)
            prefetch(weights, later)
            prefetch(rates, later)
            prefetch(targets, later)
            prefetch(duals, later)
            if last.size > 0:
                prefetch(last, later)
        if order[near] - i != near - t:
            prefetch_row(rows, coordinates, order[near])
        fitted = row_dot(rows, i, point)
        if with_basis:
            fitted += _basis_inner(b, h, coordinates, i)
        if centred:
            fitted += psi * (mean_products[i] - mean_mean) - point_mean
        slope = fitted - targets[i] + duals[i]
        rate, weight = rates[i], weights[i]
        push = -rate * weight * outside * slope
        if with_basis:
            _dual_basis_step(
                slope,
                push,
                rate,
                weight,
                coordinates,
                i,
                inside,
                concave,
                convexity,
                b,
                h,
                basis_duals,
            )
        row_add(rows, i, push, point)
        if centred:
            psi -= push
            point_mean += push * mean_products[i]
        step = -rate * convexity * slope
        if last.size > 0:
            left, weighted = targets[i] - duals[i], weight * step
            square += weighted * step
            across += weighted * last[i]
            gain += weighted * left
            size += abs(weighted * left)
            level += weight * abs(duals[i] * left)
        duals[i] += step
        squares += weight * slope * slope
        moved += abs(push)
    for j in range(mean.size):
        point[j] += psi * mean[j]
    return squares, moved, square, across, gain, size, level


@njit(nogil=True, cache=True, fastmath=REORDERED)
def dual_gain(weights: Array, targets: Array, duals: Array) -> float:
    """Σ ω_i α_i (y_i − α_i/2)."""
    gained = 0.0
    for i in range(duals.size):
        gained += weights[i] * duals[i] * (targets[i] - 0.5 * duals[i])
    return gained


@njit(nogil=True, cache=True)
def add_dual_steps(order: Array, factor: float, before: Array, after: Array, move: Array) -> None:
    """Add factor·Δ to move (n,), for the rows of `order` (m,)."""
    for t in range(order.size):
        i = order[t]
        move[i] += factor * (after[i] - before[i])


# ----------------------------------------------------------------------------------------
# Accelerated SVRG: loopless Katyusha between two snapshots
#
# Measured from the snapshot, z ← γz − ηaD and y ← θy + τz with D = δx_i + ḡ (outside the basis; the
# regulariser's strong convexity λa is what γ is made of). y = cz + f with c = τ/(1 − θ/γ) parts
# the slow z from the fast f ← θf + (θc/γ)ηaD. Each is a lazy vector: z = Θu + φḡ + ψm, and f
# alike. The pair is (u of z, u of f).
# ----------------------------------------------------------------------------------------


class Momentum(NamedTuple):
    """The scalars of an accelerated epoch."""

    coupling: float  # τ, the share of z in the point where the gradient is taken
    rest: float  # θ, that of y; what is left of 1 is the snapshot's
    decay: float  # γ
    outside: float  # γηa
    inside: Array  # (k,) γη e_j
    convexity: float  # γημ
    lam: float


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _momentum_inner(
    zb: Array,
    yb: Array,
    zh: Array,
    fh: Array,
    coupling: float,
    rest: float,
    slow: float,
    coordinates: Array,
    i: int,
) -> float:
    total = 0.0
    for j in range(zb.size):
        outer = coupling * zb[j] + rest * yb[j] - slow * zh[j] - rest * fh[j]
        total += outer * coordinates[i, j]
    return total


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _momentum_basis_step(
    delta: float,
    coordinates: Array,
    i: int,
    gradient_basis: Array,
    coupling: float,
    rest: float,
    decay: float,
    outside: float,
    inside: Array,
    convexity: float,
    lam: float,
    drive: float,
    zb: Array,
    yb: Array,
    zh: Array,
    fh: Array,
) -> None:
    for j in range(zb.size):
        slope = delta * coordinates[i, j] + gradient_basis[j]
        x = coupling * zb[j] + rest * yb[j]
        z = decay * zb[j] + convexity * x - inside[j] * (slope + lam * x)
        yb[j] = x + coupling * (z - zb[j])
        zb[j] = z
        zh[j] = decay * zh[j] - outside * slope
        fh[j] = rest * fh[j] + drive * slope


@njit(nogil=True, cache=True)
def accelerated_epoch(
    rows: Any,
    order: Array,
    scales: Array,
    coordinates: Array,
    centre: Centre,
    direction: Direction,
    momentum: Momentum,
    pair: Array,
    basis: Array,
) -> tuple[Array, Array]:
    """Run the steps `order` (m,) from the snapshot; changes pair and basis.

    Before, the pair is (z, −cz), z being measured from the snapshot, and y is the snapshot; basis
    (4, k) holds Uᵀz, Uᵀy and U times the pair. After, the pair and its basis parts are those of
    the lazy vectors; returned are their weights: Θ, φ and ψ of z, and of f.
    """
    mean, mean_products, mean_mean = centre.mean, centre.row_products, centre.squared_norm
    gradient, gradient_products = direction.gradient, direction.row_products
    gradient_basis, gradient_mean = direction.in_basis, direction.mean_product
    coupling, rest, decay = momentum.coupling, momentum.rest, momentum.decay
    outside, inside = momentum.outside, momentum.inside
    convexity, lam = momentum.convexity, momentum.lam
    share = coupling / (1.0 - rest / decay)  # c
    slow, drive = coupling + rest * share, rest * share * outside / decay
    zb, yb, zh, fh = basis[0], basis[1], basis[2], basis[3]
    centred, raw_slope = mean.size > 0, gradient_products.size == 0
    first_mean, second_mean = pair_mean(rows, mean, pair)
    z_scale, z_gradient, z_mean = 1.0, 0.0, 0.0
    f_scale, f_gradient, f_mean = 1.0, 0.0, 0.0
    for t in range(order.size):
        prefetch_next(rows, coordinates, order, t)
        i = order[t]
        first, second = pair_dot(rows, i, pair)
        slope = slope_of(rows, i, gradient, gradient_products)
        if centred:
            first, second = first - first_mean, second - second_mean
            if raw_slope:
                slope -= gradient_mean
        inner = slow * (z_scale * first + z_gradient * slope)
        inner += rest * (f_scale * second + f_gradient * slope)
        if centred:
            inner += (slow * z_mean + rest * f_mean) * (mean_products[i] - mean_mean)
        inner += _momentum_inner(zb, yb, zh, fh, coupling, rest, slow, coordinates, i)
        delta = scales[i] * inner
        _momentum_basis_step(
            delta,
            coordinates,
            i,
            gradient_basis,
            coupling,
            rest,
            decay,
            outside,
            inside,
            convexity,
            lam,
            drive,
            zb,
            yb,
            zh,
            fh,
        )
        z_scale, f_scale = decay * z_scale, rest * f_scale
        z_gradient, f_gradient = decay * z_gradient - outside, rest * f_gradient + drive
        if _must_fold(z_scale) or _must_fold(f_scale):
            pair_scale(rows, z_scale, f_scale, pair)
            first_mean, second_mean = first_mean * z_scale, second_mean * f_scale
            z_scale, f_scale = 1.0, 1.0
        z_push, f_push = -outside * delta, drive * delta
        pair_add(rows, i, z_push / z_scale, f_push / f_scale, pair)
        if centred:
            z_mean, f_mean = decay * z_mean - z_push, rest * f_mean - f_push
            first_mean += z_push / z_scale * mean_products[i]
            second_mean += f_push / f_scale * mean_products[i]
    return (
        np.array([z_scale, z_gradient, z_mean]),
        np.array([f_scale, f_gradient, f_mean]),
    )


# ----------------------------------------------------------------------------------------
# Sampling
# ----------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def alias_table(probabilities: Array) -> tuple[Array, Array]:
    """Vose's tables for sampling from N probabilities in constant time: thresholds and aliases."""
    count = probabilities.size
    threshold = probabilities * (count / probabilities.sum())
    alias = np.arange(count)
    small, large = np.empty(count, np.int64), np.empty(count, np.int64)
    smalls, larges = 0, 0
    for i in range(count):
        if threshold[i] < 1.0:
            small[smalls] = i
            smalls += 1
        else:
            large[larges] = i
            larges += 1
    while smalls > 0 and larges > 0:
        smalls -= 1
        low, high = small[smalls], large[larges - 1]
        alias[low] = high
        threshold[high] -= 1.0 - threshold[low]
        if threshold[high] < 1.0:
            larges -= 1
            small[smalls] = high
            smalls += 1
    # What remains differs from 1 by rounding alone.
    for i in range(larges):
        threshold[large[i]] = 1.0
    for i in range(smalls):
        if probabilities[small[i]] > 0.0:
            threshold[small[i]] = 1.0
    return threshold, alias


# ----------------------------------------------------------------------------------------
# Full products with sparse rows, and of dense rows with one vector: one read of the data serves
# both X V and Xᵀ(X V). They release the GIL; the caller splits the rows among its threads.
# ----------------------------------------------------------------------------------------


@njit(nogil=True, cache=True, fastmath=REORDERED)
def csr_row_squares(rows: CSR, factors: Array, start: int, stop: int, norms: Array) -> None:
    """norms_i = ‖x_i ∘ factors‖² for a range of rows; factors are 1 if there are none."""
    data, indices = rows.data, rows.indices
    for i in range(start, stop):
        first, last, total = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1]), 0.0
        if factors.size == 0:  # a loop of its own, which is vectorised
            for q in range(first, last):
                total += np.float64(data[q]) * np.float64(data[q])
        else:
            for q in range(first, last):
                value = data[q] * factors[np.uint64(indices[q])]
                total += value * value
        norms[i] = total


@njit(nogil=True, cache=True)
def csr_column_sums(
    rows: CSR, weights: Array, factors: Array, start: int, stop: int, sums: Array
) -> None:
    """sums_j (2,) += Σ weights_i x_ij² and Σ factors_i x_ij, for a range of rows."""
    for i in range(start, stop):
        for q in range(rows.indptr[i], rows.indptr[i + 1]):
            value, j = float(rows.data[q]), np.uint64(rows.indices[q])
            sums[j, 0] += weights[i] * value * value
            sums[j, 1] += factors[i] * value


@njit(nogil=True, cache=True, fastmath=REORDERED)
def dense_row_squares(X: Array, start: int, stop: int, norms: Array) -> None:
    """norms_i = ‖x_i‖² for a range of rows."""
    for i in range(start, stop):
        norms[i] = _dense_dot(X[i], X[i])


@njit(nogil=True, cache=True, fastmath=REORDERED)
def dense_column_squares(
    X: Array, weights: Array, mean: Array, start: int, stop: int, total: Array
) -> None:
    """total_j += Σ weights_i (x_ij − mean_j)² for a range of rows, long ones four at a time."""
    whole = start + (stop - start) // 4 * 4 if X.shape[1] >= LONG_ROW else start
    for i in range(start, whole, 4):
        w0, w1, w2, w3 = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for j in range(X.shape[1]):
            x0, x1 = np.float64(X[i, j]) - mean[j], np.float64(X[i + 1, j]) - mean[j]
            x2, x3 = np.float64(X[i + 2, j]) - mean[j], np.float64(X[i + 3, j]) - mean[j]
            total[j] += w0 * x0 * x0 + w1 * x1 * x1 + w2 * x2 * x2 + w3 * x3 * x3
    for i in range(whole, stop):
        for j in range(X.shape[1]):
            value = np.float64(X[i, j]) - mean[j]
            total[j] += weights[i] * value * value


@njit(nogil=True, cache=True)
def count_indices(indices: Array, start: int, stop: int, counts: Array) -> None:
    """counts_j += how often j is among a range of the indices."""
    for q in range(start, stop):
        counts[np.uint64(indices[q])] += 1


@njit(nogil=True, cache=True)
def renumber_indices(indices: Array, places: Array, start: int, stop: int, out: Array) -> None:
    """out_q = the place of the q-th index, for a range."""
    for q in range(start, stop):
        out[q] = places[np.uint64(indices[q])]


@njit(nogil=True, cache=True)
def _fill_with_zeros(rows: CSR, i: int, first: int) -> None:
    """What row i has from an entry on: zeros, in the first column."""
    for q in range(first, rows.indptr[i + 1]):
        rows.data[q] = 0.0
        rows.indices[q] = 0


@njit(nogil=True, cache=True)
def compact_rows(rows: CSR, places: Array, start: int, stop: int, compact: CSR) -> None:
    """A range of rows, as the types of `compact` hold them, with the places of their columns.

    Its indptr is given; where it has room for more entries, these are zeros.
    """
    for i in range(start, stop):
        q = compact.indptr[i]
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            compact.data[q] = rows.data[p]
            compact.indices[q] = places[np.uint64(rows.indices[p])]
            q += 1
        _fill_with_zeros(compact, i, q)


@njit(nogil=True, cache=True)
def count_kept(rows: CSR, places: Array, kept: int, start: int, stop: int, counts: Array) -> None:
    """counts_i = how many entries of row i are in columns whose place is below kept."""
    for i in range(start, stop):
        count = 0
        for q in range(rows.indptr[i], rows.indptr[i + 1]):
            count += places[np.uint64(rows.indices[q])] < kept
        counts[i] = count


@njit(nogil=True, cache=True)
def keep_columns(
    rows: CSR,
    places: Array,
    kept: int,
    before: Array,
    start: int,
    stop: int,
    smaller: CSR,
    values: Array,
    columns: Array,
    numbers: Array,
) -> None:
    """Entries of a range of rows: to `smaller`, whose indptr is given, if their columns are kept.

    The others go to values, with their columns and the numbers of their rows. Of all kept entries
    before_i are of the rows before row i; `smaller` may have room for more, which are zeros.
    """
    for i in range(start, stop):
        q, r = smaller.indptr[i], rows.indptr[i] - before[i]
        for p in range(rows.indptr[i], rows.indptr[i + 1]):
            place = places[np.uint64(rows.indices[p])]
            if place < kept:
                smaller.data[q] = rows.data[p]
                smaller.indices[q] = place
                q += 1
            else:
                values[r], columns[r], numbers[r] = rows.data[p], rows.indices[p], i
                r += 1
        _fill_with_zeros(smaller, i, q)


@njit(nogil=True, cache=True)
def csr_scale_columns(
    rows: CSR, factors: Array, start: int, stop: int, scaled: Array, norms: Array
) -> None:
    """scaled = the values times the factors of their columns, and the rows' squared norms then."""
    for i in range(start, stop):
        total = 0.0
        for q in range(rows.indptr[i], rows.indptr[i + 1]):
            value = rows.data[q] * factors[np.uint64(rows.indices[q])]
            scaled[q] = value
            total += value * value
        norms[i] = total


@njit(nogil=True, cache=True, fastmath=REORDERED)
def dense_scale_columns(
    X: Array, factors: Array, start: int, stop: int, scaled: Array, norms: Array
) -> None:
    """`csr_scale_columns` for dense rows."""
    for i in range(start, stop):
        total = 0.0
        for j in range(X.shape[1]):
            value = X[i, j] * factors[j]
            scaled[i, j] = value
            total += value * value
        norms[i] = total


@njit(nogil=True, cache=True, fastmath=REORDERED)
def encode_rows(
    X: Array,
    step: float,
    low: float,
    high: float,
    slip: float,
    start: int,
    stop: int,
    codes: Array,
    norms: Array,
) -> bool:
    """codes_ij = x_ij / step, for a range of rows, and norms_i = ‖x_i‖².

    False if a code is not a whole number between low and high: x may be off by a slip, a share.
    """
    inverse, good = 1.0 / step, True
    for i in range(start, stop):
        total = 0.0
        for j in range(X.shape[1]):
            x = np.float64(X[i, j])
            code = np.rint(x * inverse)
            good &= (abs(x - step * code) <= slip * abs(x)) & (low <= code) & (code <= high)
            codes[i, j] = np.int32(code)
            total += x * x
        norms[i] = total
    return good


@njit(nogil=True, cache=True)
def _csr_normal_turn(
    rows: CSR,
    pair: Array,
    shifts: Array,
    weights: Array,
    start: int,
    stop: int,
    every: bool,
    residual: Array,
) -> None:
    """`csr_normal_vector` for so few rows that they are summed one after another."""
    data, indices = rows.data, rows.indices
    for i in range(start, stop):
        if weights[i] == 0.0 and not every:
            residual[i] = 0.0
            continue
        first, last = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        whole = first + (last - first) // FOUR * FOUR
        inner = dot_fours(data, indices, first, whole, pair)
        for q in range(whole, last):
            inner += data[q] * pair[np.uint64(indices[q]), 0]
        residual[i] = inner - shifts[i]
        factor = weights[i] * residual[i]
        add_fours(data, indices, first, whole, factor, pair)
        for q in range(whole, last):
            pair[np.uint64(indices[q]), 1] += factor * data[q]


@njit(nogil=True, cache=True)
def csr_normal_vector(
    rows: CSR,
    v: Array,
    shifts: Array,
    weights: Array,
    start: int,
    stop: int,
    every: bool,
    longest: int,
    pair: Array,
    total: Array,
    residual: Array,
) -> None:
    """residual_i = x_iᵀv − shifts_i and pair_j1 = Σ weights_i residual_i x_ij, for a range of rows.

    v and the sums are the columns of pair (d, 2): what a row adds to lies where it was read. Of the
    first columns, as many as total has, no more than `longest` rows are summed one after another.
    Unless every residual is wanted, rows of weight zero (held out, say) are not read: theirs is 0.
    """
    for j in range(v.size):
        pair[j, 0] = v[j]
        pair[j, 1] = 0.0
    total[:] = 0.0
    for first in range(start, stop, longest):
        last = min(first + longest, stop)
        _csr_normal_turn(rows, pair, shifts, weights, first, last, every, residual)
        for j in range(total.size):
            total[j] += pair[j, 1]
            pair[j, 1] = 0.0
    for j in range(total.size):
        pair[j, 1] = total[j]


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _four_products(rows: Array, i: int, v: Array) -> tuple[float, float, float, float]:
    """x_iᵀv of four dense rows from i on.

    Short rows are read one after the other, as they lie in memory: four places that are few lines
    apart keep the hardware from reading ahead. Long ones together, for v is no longer at hand, and
    bytes, which are bound by arithmetic.
    """
    if v.size < LONG_ROW and rows.itemsize > 1:
        return (
            _dense_dot(rows[i], v),
            _dense_dot(rows[i + 1], v),
            _dense_dot(rows[i + 2], v),
            _dense_dot(rows[i + 3], v),
        )
    i0 = np.uint64(i)
    i1, i2, i3 = i0 + ONE, i0 + TWO, i0 + THREE
    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
    for start in range(0, v.size, PIECE):
        b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0
        for j in range(np.uint64(start), np.uint64(min(start + PIECE, v.size))):
            b0 += wide(rows[i0, j]) * v[j]
            b1 += wide(rows[i1, j]) * v[j]
            b2 += wide(rows[i2, j]) * v[j]
            b3 += wide(rows[i3, j]) * v[j]
        a0, a1, a2, a3 = a0 + b0, a1 + b1, a2 + b2, a3 + b3
    return a0, a1, a2, a3


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _add_four(
    rows: Array, i: int, s0: float, s1: float, s2: float, s3: float, product: Array
) -> None:
    """Add multiples of four dense rows from i on to product (d,)."""
    for j in range(product.size):
        first = s0 * wide(rows[i, j]) + s1 * wide(rows[i + 1, j])
        product[j] += first + s2 * wide(rows[i + 2, j]) + s3 * wide(rows[i + 3, j])


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _add_and_multiply_four(
    rows: Array,
    i: int,
    following: int,
    apart: int,
    s0: float,
    s1: float,
    s2: float,
    s3: float,
    v: Array,
    product: Array,
) -> tuple[float, float, float, float]:
    """Add multiples of four dense rows to product (d,), and multiply four others with v.

    Those that are added begin with i, the others with `following`; each four are so far apart.
    """
    i0, k0, step = np.uint64(i), np.uint64(following), np.uint64(apart)
    i1, i2, i3 = i0 + step, i0 + TWO * step, i0 + THREE * step
    k1, k2, k3 = k0 + step, k0 + TWO * step, k0 + THREE * step
    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
    for start in range(0, v.size, SHORT_PIECE):
        b0, b1, b2, b3 = 0.0, 0.0, 0.0, 0.0
        for j in range(np.uint64(start), np.uint64(min(start + SHORT_PIECE, v.size))):
            first = s0 * wide(rows[i0, j]) + s1 * wide(rows[i1, j])
            product[j] += first + s2 * wide(rows[i2, j]) + s3 * wide(rows[i3, j])
            b0 += wide(rows[k0, j]) * v[j]
            b1 += wide(rows[k1, j]) * v[j]
            b2 += wide(rows[k2, j]) * v[j]
            b3 += wide(rows[k3, j]) * v[j]
        a0, a1, a2, a3 = a0 + b0, a1 + b1, a2 + b2, a3 + b3
    return a0, a1, a2, a3


@njit(nogil=True, cache=True)
def _weighed_residual(
    product: float, i: int, shifts: Array, weights: Array, residual: Array
) -> float:
    """Keep the residual of row i, whose product with v this is; weighed."""
    residual[i] = product - shifts[i]
    return weights[i] * residual[i]


@njit(nogil=True, cache=True)
def _normal_by_quarters(
    rows: Array,
    v: Array,
    shifts: Array,
    weights: Array,
    start: int,
    quarter: int,
    residual: Array,
    product: Array,
) -> None:
    """`dense_normal_vector` for four quarters of so many rows each, from start on.

    The next row of each quarter is read while this one is added. Each quarter is read onwards, to
    its end: places that are far apart do not keep the hardware from reading ahead.
    """
    last = start + quarter - 1
    i1, i2, i3 = start + quarter, start + 2 * quarter, start + 3 * quarter
    a0, a1 = _dense_dot(rows[start], v), _dense_dot(rows[i1], v)
    a2, a3 = _dense_dot(rows[i2], v), _dense_dot(rows[i3], v)
    for i in range(start, start + quarter):
        s0 = _weighed_residual(a0, i, shifts, weights, residual)
        s1 = _weighed_residual(a1, i + quarter, shifts, weights, residual)
        s2 = _weighed_residual(a2, i + 2 * quarter, shifts, weights, residual)
        s3 = _weighed_residual(a3, i + 3 * quarter, shifts, weights, residual)
        following = min(i + 1, last)  # the last one once more, for nothing
        a0, a1, a2, a3 = _add_and_multiply_four(
            rows, i, following, quarter, s0, s1, s2, s3, v, product
        )


@njit(nogil=True, cache=True)
def dense_normal_vector(
    rows: Array,
    ahead: bool,
    v: Array,
    shifts: Array,
    weights: Array,
    start: int,
    stop: int,
    residual: Array,
    product: Array,
) -> None:
    """`csr_normal_vector` for dense rows, four at a time: they are added while in the cache.

    If `ahead`, the next four are read meanwhile: where the cache holds eight (docs/decisions/02).
    """
    i = start
    if ahead and stop - start >= 4:
        quarter = (stop - start) // 4
        _normal_by_quarters(rows, v, shifts, weights, start, quarter, residual, product)
        i = start + 4 * quarter
    while i + 4 <= stop:
        a0, a1, a2, a3 = _four_products(rows, i, v)
        s0 = _weighed_residual(a0, i, shifts, weights, residual)
        s1 = _weighed_residual(a1, i + 1, shifts, weights, residual)
        s2 = _weighed_residual(a2, i + 2, shifts, weights, residual)
        s3 = _weighed_residual(a3, i + 3, shifts, weights, residual)
        _add_four(rows, i, s0, s1, s2, s3, product)
        i += 4
    for last in range(i, stop):
        inner = _dense_dot(rows[last], v)
        factor = _weighed_residual(inner, last, shifts, weights, residual)
        _dense_row_add(rows, last, factor, product)


@njit(nogil=True, cache=True)
def dense_multiply_vector(rows: Array, v: Array, start: int, stop: int, product: Array) -> None:
    """product_i = x_iᵀv for a range of dense rows; in float64."""
    i = start
    while i + 4 <= stop:
        a0, a1, a2, a3 = _four_products(rows, i, v)
        product[i], product[i + 1], product[i + 2], product[i + 3] = a0, a1, a2, a3
        i += 4
    for last in range(i, stop):
        product[last] = _dense_dot(rows[last], v)


@njit(nogil=True, cache=True)
def dense_adjoint_vector(rows: Array, r: Array, start: int, stop: int, product: Array) -> None:
    """product (d,) += Σ r_i x_i for a range of dense rows, in float64; long ones four at a time."""
    i = start
    while i + 4 <= stop and product.size >= LONG_ROW:
        _add_four(rows, i, r[i], r[i + 1], r[i + 2], r[i + 3], product)
        i += 4
    for last in range(i, stop):
        _dense_row_add(rows, last, r[last], product)


@njit(nogil=True, cache=True)
def dense_first_sums(
    rows: Array, factors: Array, start: int, stop: int, norms: Array, sums: Array
) -> None:
    """norms_i = ‖x_i‖² and sums (m, d) += Σ factors_i x_iᵀ for a range of dense rows.

    Four at a time are squared and added while they are in the cache; factors are (n, m).
    """
    i = start
    while i + 4 <= stop:
        dense_row_squares(rows, i, i + 4, norms)
        for c in range(sums.shape[0]):
            f0, f1, f2, f3 = factors[i, c], factors[i + 1, c], factors[i + 2, c], factors[i + 3, c]
            _add_four(rows, i, f0, f1, f2, f3, sums[c])
        i += 4
    for last in range(i, stop):
        dense_row_squares(rows, last, last + 1, norms)
        for c in range(sums.shape[0]):
            _dense_row_add(rows, last, factors[last, c], sums[c])


# ----------------------------------------------------------------------------------------
# Dense data that lies column after column: `columns` (d, n) is its transpose
# ----------------------------------------------------------------------------------------

# Rows at a time. Their columns are long enough to be read ahead, and a sum over them is short
# enough for the certificate's rounding even in two lanes.
TILE = 512


@njit(nogil=True, cache=True, fastmath=IN_ORDER)
def _add_columns(columns: Array, first: int, v: Array, into: Array) -> None:
    """Add the products of v (d,) with rows from the first on to into (m,), four columns a time.

    The four are added up first: the chain of additions is a quarter of d, as the rounding counts.
    """
    d, m, j = columns.shape[0], into.size, 0
    while j + 4 <= d:
        c0, c1 = columns[j, first : first + m], columns[j + 1, first : first + m]
        c2, c3 = columns[j + 2, first : first + m], columns[j + 3, first : first + m]
        v0, v1, v2, v3 = v[j], v[j + 1], v[j + 2], v[j + 3]
        for i in range(m):
            front = v0 * wide(c0[i]) + v1 * wide(c1[i])
            into[i] += front + (v2 * wide(c2[i]) + v3 * wide(c3[i]))
        j += 4
    for last in range(j, d):
        column = columns[last, first : first + m]
        for i in range(m):
            into[i] += v[last] * wide(column[i])


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _add_column_products(columns: Array, first: int, r: Array, product: Array) -> None:
    """Add the products of r (m,) with columns, of the rows from the first on, to product (d,)."""
    d, m, j = columns.shape[0], r.size, 0
    while j + 4 <= d:
        c0, c1 = columns[j, first : first + m], columns[j + 1, first : first + m]
        c2, c3 = columns[j + 2, first : first + m], columns[j + 3, first : first + m]
        a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
        for i in range(m):
            a0 += r[i] * wide(c0[i])
            a1 += r[i] * wide(c1[i])
            a2 += r[i] * wide(c2[i])
            a3 += r[i] * wide(c3[i])
        product[j] += a0
        product[j + 1] += a1
        product[j + 2] += a2
        product[j + 3] += a3
        j += 4
    for last in range(j, d):
        product[last] += _dense_dot(columns[last, first : first + m], r)


@njit(nogil=True, cache=True)
def column_normal_vector(
    columns: Array,
    v: Array,
    shifts: Array,
    weights: Array,
    start: int,
    stop: int,
    residual: Array,
    product: Array,
) -> None:
    """`dense_normal_vector` for columns: two reads of some rows at a time."""
    for first in range(start, stop, TILE):
        last = min(first + TILE, stop)
        r = -shifts[first:last]
        _add_columns(columns, first, v, r)
        residual[first:last] = r
        _add_column_products(columns, first, r * weights[first:last], product)


@njit(nogil=True, cache=True, fastmath=IN_ORDER)
def _add_squares(columns: Array, first: int, norms: Array) -> None:
    """Add the squares of every row from the first on to norms (m,), four columns a time."""
    d, m, j = columns.shape[0], norms.size, 0
    while j + 4 <= d:
        c0, c1 = columns[j, first : first + m], columns[j + 1, first : first + m]
        c2, c3 = columns[j + 2, first : first + m], columns[j + 3, first : first + m]
        for i in range(m):
            x0, x1, x2, x3 = wide(c0[i]), wide(c1[i]), wide(c2[i]), wide(c3[i])
            norms[i] += (x0 * x0 + x1 * x1) + (x2 * x2 + x3 * x3)
        j += 4
    for last in range(j, d):
        column = columns[last, first : first + m]
        for i in range(m):
            norms[i] += wide(column[i]) * wide(column[i])


@njit(nogil=True, cache=True)
def column_first_sums(
    columns: Array, factors: Array, start: int, stop: int, norms: Array, sums: Array
) -> None:
    """`dense_first_sums` for columns."""
    for first in range(start, stop, TILE):
        last = min(first + TILE, stop)
        norms[first:last] = 0.0
        _add_squares(columns, first, norms[first:last])
        for c in range(sums.shape[0]):
            _add_column_products(columns, first, factors[first:last, c].copy(), sums[c])


@njit(nogil=True, cache=True, fastmath=REORDERED)
def scattered_columns(
    columns: Array,
    buckets: Array,
    factors: Array,
    shift: Array,
    mean: Array,
    targets: Array,
    probe: Array,
    start: int,
    stop: int,
    product: Array,
    image: Array,
    slope: Array,
    filled: Array,
) -> float:
    """`gathered_narrow_rows` for a range of columns: row i goes to one bucket, times factors_i.

    Their sums go to product (s, d), of any type. Of what they are before they are rounded, image
    (s,) gets the products with the probe (d,) added, slope (t, d) those with targets (s, t).
    """
    s, size = product.shape[0], 0.0
    sums = np.empty((s, 4))
    for j in range(start, stop, 4):
        count = min(4, stop - j)
        sums[:] = 0.0
        c0, c1 = columns[j], columns[min(j + 1, stop - 1)]
        c2, c3 = columns[min(j + 2, stop - 1)], columns[min(j + 3, stop - 1)]
        for i in range(buckets.size):
            into, factor = sums[buckets[i]], factors[i]
            into[0] += factor * wide(c0[i])
            into[1] += factor * wide(c1[i])
            into[2] += factor * wide(c2[i])
            into[3] += factor * wide(c3[i])
        for q in range(count):
            if mean.size > 0:
                for b in range(s):
                    sums[b, q] -= shift[b] * mean[j + q]
            for b in range(s):
                value = sums[b, q]
                filled[j + q] |= value != 0.0
                image[b] += value * probe[j + q]
                size += value * value
            for c in range(slope.shape[0]):
                total = 0.0
                for b in range(s):
                    total += targets[b, c] * sums[b, q]
                slope[c, j + q] = total
        for b in range(s):
            for q in range(count):
                product[b, j + q] = sums[b, q]
    return size


@njit(nogil=True, cache=True)
def _csr_row_product(rows: CSR, i: int, v: Array, product: Array) -> None:
    """Add x_iᵀv to product (k,)."""
    width = product.size
    for q in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
        x, j = np.float64(rows.data[q]), np.uint64(rows.indices[q])
        for c in range(width):
            product[c] += x * v[j, c]


@njit(nogil=True, cache=True)
def _csr_row_outer(rows: CSR, i: int, factors: Array, product: Array) -> None:
    """Add x_i factorsᵀ to product (d, k)."""
    width = factors.size
    for q in range(np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])):
        x, j = np.float64(rows.data[q]), np.uint64(rows.indices[q])
        for c in range(width):
            product[j, c] += x * factors[c]


@njit(nogil=True, cache=True)
def csr_normal(
    rows: CSR,
    v: Array,
    weights: Array,
    shift: Array,
    start: int,
    stop: int,
    product: Array,
    total: Array,
) -> None:
    """product += Xᵀ diag(weights) R, total += weightsᵀR, R = X v − 1 shiftᵀ; a range of rows."""
    row_product = np.empty(v.shape[1])
    for i in range(start, stop):
        if weights[i] == 0.0:
            continue
        row_product[:] = -shift
        _csr_row_product(rows, i, v, row_product)
        row_product *= weights[i]
        total += row_product
        _csr_row_outer(rows, i, row_product, product)


@njit(nogil=True, cache=True)
def csr_multiply(rows: CSR, v: Array, start: int, stop: int, product: Array) -> None:
    """product_i (k,) = x_iᵀv for a range of rows."""
    if v.shape[1] == 1:
        vector = v.reshape(v.size)
        for i in range(start, stop):
            product[i, 0] = _csr_dot(rows, i, vector)
        return
    for i in range(start, stop):
        product[i] = 0.0
        _csr_row_product(rows, i, v, product[i])


@njit(nogil=True, cache=True, fastmath=REORDERED)
def _gather(sums: CSR, i: int, rows: Array, into: Array, norms: Array) -> None:
    """into (d,) = Σ_q sums_iq rows_q, four rows at a time; norms_q = ‖rows_q‖²."""
    d, q, last = rows.shape[1], sums.indptr[i], sums.indptr[i + 1]
    into[:] = 0.0
    while q + 4 <= last:
        k0, s0 = sums.indices[q], sums.data[q]
        k1, s1 = sums.indices[q + 1], sums.data[q + 1]
        k2, s2 = sums.indices[q + 2], sums.data[q + 2]
        k3, s3 = sums.indices[q + 3], sums.data[q + 3]
        n0, n1, n2, n3 = 0.0, 0.0, 0.0, 0.0
        for j in range(d):
            x0, x1 = wide(rows[k0, j]), wide(rows[k1, j])
            x2, x3 = wide(rows[k2, j]), wide(rows[k3, j])
            into[j] += s0 * x0 + s1 * x1 + s2 * x2 + s3 * x3
            n0 += x0 * x0
            n1 += x1 * x1
            n2 += x2 * x2
            n3 += x3 * x3
        norms[k0], norms[k1], norms[k2], norms[k3] = n0, n1, n2, n3
        q += 4
    for single in range(q, last):
        k, s = sums.indices[single], sums.data[single]
        total = 0.0
        for j in range(d):
            x = wide(rows[k, j])
            into[j] += s * x
            total += x * x
        norms[k] = total


@njit(nogil=True, cache=True)
def gathered_rows(
    sums: CSR, rows: Array, start: int, stop: int, product: Array, norms: Array
) -> None:
    """product_i (d,) = Σ_q sums_iq rows_q for a range; norms_q = ‖rows_q‖²."""
    for i in range(start, stop):
        _gather(sums, i, rows, product[i], norms)


@njit(nogil=True, cache=True, fastmath=REORDERED)
def gathered_narrow_rows(
    sums: CSR,
    rows: Array,
    shift: Array,
    mean: Array,
    targets: Array,
    probe: Array,
    start: int,
    stop: int,
    product: Array,
    norms: Array,
    image: Array,
    slope: Array,
    filled: Array,
) -> float:
    """`gathered_rows`, less shift_i times the mean (if there is one), to float32.

    Of the rows before they are rounded: image_i is their product with the probe (d,), slope (t, d)
    gets targets_i (t,) times them added, and filled (d,) tells the columns that are not all zero.
    Returns the sum of their squares.
    """
    d, size = rows.shape[1], 0.0
    row = np.empty(d)
    for i in range(start, stop):
        _gather(sums, i, rows, row, norms)
        if mean.size > 0:
            for j in range(d):
                row[j] -= shift[i] * mean[j]
        total = 0.0
        for j in range(d):
            product[i, j] = row[j]
            filled[j] |= row[j] != 0.0
            total += row[j] * probe[j]
            size += row[j] * row[j]
        image[i] = total
        for c in range(slope.shape[0]):
            target = targets[i, c]
            for j in range(d):
                slope[c, j] += target * row[j]
    return size


@njit(nogil=True, cache=True)
def pack_columns(numbers: Array, rows: int, width: int, columns: Array) -> None:
    """Of rows one after the other, keep some columns, ascending, at the beginning.

    No number is overwritten before it is read: it moves to the front, and so did those before it.
    """
    for i in range(rows):
        first, place = i * width, i * columns.size
        for j in range(columns.size):
            numbers[place + j] = numbers[first + columns[j]]


@njit(nogil=True, cache=True)
def csr_adjoint(rows: CSR, r: Array, start: int, stop: int, product: Array) -> None:
    """product (d, k) += Xᵀ r (n, k), for a range of rows."""
    for i in range(start, stop):
        _csr_row_outer(rows, i, r[i], product)


@njit(nogil=True, cache=True, fastmath=REORDERED)
def eight_products(rows: Array, v: Array, start: int, stop: int, product: Array) -> None:
    """product_i (8,) = v (8, d) x_i for a range of dense rows, in float64."""
    v0, v1, v2, v3, v4, v5, v6, v7 = v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]
    for i in range(start, stop):
        a0, a1, a2, a3, a4, a5, a6, a7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(rows.shape[1]):
            x = np.float64(rows[i, j])
            a0 += x * v0[j]
            a1 += x * v1[j]
            a2 += x * v2[j]
            a3 += x * v3[j]
            a4 += x * v4[j]
            a5 += x * v5[j]
            a6 += x * v6[j]
            a7 += x * v7[j]
        into = product[i]
        into[0], into[1], into[2], into[3] = a0, a1, a2, a3
        into[4], into[5], into[6], into[7] = a4, a5, a6, a7


@njit(nogil=True, cache=True, fastmath=REORDERED)
def subtract_eight(rows: Array, factors: Array, v: Array, out: Array) -> None:
    """out = rows − factors (s, 8) v (8, d), in float64, and then rounded to what out holds."""
    v0, v1, v2, v3, v4, v5, v6, v7 = v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]
    for i in range(rows.shape[0]):
        f = factors[i]
        f0, f1, f2, f3, f4, f5, f6, f7 = f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]
        for j in range(rows.shape[1]):
            first = f0 * v0[j] + f1 * v1[j] + f2 * v2[j] + f3 * v3[j]
            second = f4 * v4[j] + f5 * v5[j] + f6 * v6[j] + f7 * v7[j]
            out[i, j] = np.float64(rows[i, j]) - (first + second)


@njit(nogil=True, cache=True, fastmath=REORDERED)
def cholesky_solve(lower: Array, x: Array) -> None:
    """x becomes (L Lᵀ)⁻¹ x, in float64 whatever L (d, d) is; only the lower half is read."""
    for i in range(x.size):
        inner = 0.0
        for j in range(i):
            inner += np.float64(lower[i, j]) * x[j]
        x[i] = (x[i] - inner) / lower[i, i]
    for i in range(x.size - 1, -1, -1):
        x[i] /= lower[i, i]
        factor = x[i]
        for j in range(i):
            x[j] -= factor * np.float64(lower[i, j])


@njit(nogil=True, cache=True)
def add_by_rows(rows: Array, lower: Array, v: Array, factor: float, total: Array) -> None:
    """total (d,) += factor · Aᵀ (L Lᵀ)⁻¹ A v for a few rows A (s, d); L is (s, s)."""
    image = np.empty(rows.shape[0])
    dense_multiply_vector(rows, v, 0, image.size, image)
    cholesky_solve(lower, image)
    image *= factor
    dense_adjoint_vector(rows, image, 0, image.size, total)


# ----------------------------------------------------------------------------------------
# The vectors of an iteration of conjugate gradients
# ----------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def cg_turn(direction: Array, ratio: float, steepest: Array) -> None:
    """direction becomes steepest + ratio·direction."""
    for j in range(direction.size):
        direction[j] = steepest[j] + ratio * direction[j]


@njit(nogil=True, cache=True, fastmath=REORDERED)
def cg_step(
    direction: Array, image: Array, lam: float, energy: float, w: Array, gradient: Array
) -> float:
    """Move w and its gradient to the least F along the direction, of image C·direction."""
    curvature = 0.0
    for j in range(direction.size):
        image[j] += lam * direction[j]
        curvature += direction[j] * image[j]
    step = energy / curvature if curvature > 0.0 else 0.0
    for j in range(direction.size):
        w[j] -= step * direction[j]
        gradient[j] -= step * image[j]
    return step


@njit(nogil=True, cache=True, fastmath=REORDERED)
def cg_between(
    share: float,
    old_w: Array,
    new_w: Array,
    old_gradient: Array,
    new_gradient: Array,
    w: Array,
    gradient: Array,
) -> float:
    """A share of the way from old to new; returns the product of both ways."""
    product = 0.0
    for j in range(w.size):
        move, turn = new_w[j] - old_w[j], new_gradient[j] - old_gradient[j]
        product += move * turn
        w[j] = old_w[j] + share * move
        gradient[j] = old_gradient[j] + share * turn
    return product
