// Reads and writes at indices. Additions happen in the order of the index: one thread owns all additions to an element.
// A bad index reads 0 and writes nothing. Macros: T (type in memory), INDEX (type of indices), ADD (0 or 1).

DEVICE f32 plus(f32 a, f32 b) { return a + b; }
DEVICE f64 plus(f64 a, f64 b) { return a + b; }
DEVICE i64 plus(i64 a, i64 b) { return (i64) ((u64) a + (u64) b); }

// y [outer, indices, inner] = x [outer, size, inner] at the indices, all dense; elements of any type of T's size.
template <class N> DEVICE void take_one(T* y, const T* x, const INDEX* index, N i, u32 indices, i64 size, u32 inner,
        Fault fault) {
    N row = i / inner;
    N outer = row / indices;
    u32 j = (u32) (row - outer * indices);
    i64 k = checked_index(index[j], size, j, fault);
    y[i] = k < 0 ? T() : x[((i64) outer * size + k) * inner + (u32) (i - row * inner)];
}
extern "C" __global__ void take(T* y, const T* x, const INDEX* index, i64 count, u32 indices, i64 size, u32 inner,
        Fault fault) {
    u64 i = THREAD;
    if (i >= count) {
        return;
    }
    // 64-bit divisions would take longer than everything else.
    if (count <= 0xffffffffll) {
        take_one(y, x, index, (u32) i, indices, size, inner, fault);
    } else {
        take_one(y, x, index, i, indices, size, inner, fault);
    }
}

// Sets y at each element of a piece of the index, of which `first` precede it. The layout has y, index and x, whose
// stride along the dimension is 0.
extern "C" __global__ void gather(T* y, const INDEX* index, const T* x, i64 size, i64 step, i64 first, Fault fault,
        Layout<3> layout) {
    u32 i = (u32) THREAD;
    if (i >= layout.count) {
        return;
    }
    i64 at[3];
    layout.offsets(i, at);
    i64 k = checked_index(index[at[1]], size, first + i, fault);
    y[at[0]] = k < 0 ? T() : x[at[2] + k * step];
}

// Converts indices to count from the front, along lines: to [lines, n]. Positions are reported as in the index.
extern "C" __global__ void from_front(i64* to, const INDEX* index, i64 count, u32 n, i64 size, i64 step, i64 after,
        Fault fault, Layout<1> lines) {
    i64 i = (i64) THREAD;
    if (i >= count) {
        return;
    }
    i64 line = i / n;
    u32 j = (u32) (i % n);
    i64 at[1];
    lines.offsets((u32) line, at);
    to[i] = checked_index(index[at[0] + j * step], size, (line / after * n + j) * after + line % after, fault);
}

// Adds or copies the source to y at indices, in lines of n along a dimension; `places` are the positions sorted by
// index. The thread of the first of equal indices adds all of them; of copies, the last one wins. The layout has y and
// source.
extern "C" __global__ void scatter(T* y, const T* source, const i64* index, const u32* places, i64 count, u32 n,
        i64 y_step, i64 source_step, Layout<2> lines) {
    i64 i = (i64) THREAD;
    if (i >= count) {
        return;
    }
    u32 line = (u32) (i / n);
    u32 j = (u32) (i % n);
    index += (i64) line * n;
    places += (i64) line * n;
    i64 k = index[places[j]];
    if (k < 0 || (ADD ? j > 0 && index[places[j - 1]] == k : j + 1 < n && index[places[j + 1]] == k)) {
        return;
    }
    i64 at[2];
    lines.offsets(line, at);
    T* to = y + at[0] + k * y_step;
    source += at[1];
    if (ADD) {
        auto sum = widen(*to);
        for (; j < n && index[places[j]] == k; j++) {
            sum = plus(sum, widen(source[places[j] * source_step]));
        }
        *to = narrow<T>(sum);
    } else {
        *to = source[places[j] * source_step];
    }
}

// Adds g [outer, n, inner] to y [outer, size, inner], which is zero, at n indices; `places` are their positions sorted
// by index. All are dense. The thread of the first of equal indices adds W neighbours for all of them, in order. It
// reads four positions ahead, since each read waits for memory twice.
template <int W, class N> DEVICE void take_gradient_of(T* y, const T* g, const i64* index, const u32* places, N i,
        u32 n, i64 size, u32 inner) {
    N row = i / (inner / W);
    u32 within = (u32) (i - row * (inner / W)) * W;
    N outer = row / n;
    u32 j = (u32) (row - outer * n);
    i64 k = index[places[j]];
    if (k < 0 || (j > 0 && index[places[j - 1]] == k)) {
        return;
    }
    g += (i64) outer * n * inner + within;
    decltype(widen(T())) sum[W] = {};
    bool first = true, more = true;
    while (more) {
        u32 place[4];
        Vec<T, W> values[4];
        bool same[4];
        for (u32 u = 0; u < 4; u++) {
            place[u] = places[j + u < n ? j + u : n - 1];
        }
        for (u32 u = 0; u < 4; u++) {
            same[u] = j + u < n && index[place[u]] == k;
        }
        for (u32 u = 0; u < 4; u++) {
            if (same[u]) {
                values[u] = *(const Vec<T, W>*) (g + (i64) place[u] * inner);
            }
        }
        for (u32 u = 0; u < 4; u++) {
            if (same[u]) {
                for (int w = 0; w < W; w++) {
                    sum[w] = first ? widen(values[u].at[w]) : plus(sum[w], widen(values[u].at[w]));
                }
            }
            first = false;
        }
        more = same[3];
        j += 4;
    }
    *(Vec<T, W>*) (y + ((i64) outer * size + k) * inner + within) = narrow_all<T>(sum);
}
// One thread for each element or, if all slices allow it, for 16 bytes.
extern "C" __global__ void take_gradient(T* y, const T* g, const i64* index, const u32* places, i64 count, u32 n,
        i64 size, u32 inner, bool vectors) {
    const int width = 16 / sizeof(T);
    u64 i = THREAD;
    if (i >= (vectors ? count / width : count)) {
        return;
    }
    if (!vectors) {
        take_gradient_of<1>(y, g, index, places, i, n, size, inner);
    } else if (count <= 0xffffffffll) {
        take_gradient_of<width>(y, g, index, places, (u32) i, n, size, inner);
    } else {
        take_gradient_of<width>(y, g, index, places, i, n, size, inner);
    }
}

#define CHUNK 1024
DEVICE bool is_nonzero(T x) { return widen(x) != 0; }

// Counts the nonzero elements of each chunk; x is dense. Blocks have 256 threads.
extern "C" __global__ void count_nonzero(i64* counts, const T* x, i64 count) {
    i64 from = (i64) blockIdx.x * CHUNK;
    i64 found = 0;
    for (u32 i = threadIdx.x; i < CHUNK && from + i < count; i += blockDim.x) {
        found += is_nonzero(x[from + i]);
    }
    found = block_sum(found);
    if (threadIdx.x == 0) {
        counts[blockIdx.x] = found;
    }
}

// Replaces each count by the sum of those before it, and stores the total. Each thread of the only block has a piece.
extern "C" __global__ void sum_counts(i64* counts, i64 chunks, i64* total) {
    __shared__ i64 sums[256];
    i64 length = (chunks + blockDim.x - 1) / blockDim.x;
    i64 begin = threadIdx.x * length;
    i64 end = begin + length < chunks ? begin + length : chunks;
    i64 sum = 0;
    for (i64 i = begin; i < end; i++) {
        sum += counts[i];
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    sum = 0;
    for (u32 t = 0; t < threadIdx.x; t++) {
        sum += sums[t];
    }
    for (i64 i = begin; i < end; i++) {
        i64 own = counts[i];
        counts[i] = sum;
        sum += own;
    }
    if (threadIdx.x == blockDim.x - 1) {
        *total = sum;
    }
}

// Writes the coordinates of each chunk's nonzero elements, with a warp for each chunk. Sizes are those of x.
struct Sizes { i64 at[16]; };
extern "C" __global__ void write_nonzero(i64* y, const T* x, i64 count, i64 chunks, const i64* starts, i64 limit,
        i32 rank, Sizes sizes) {
    i64 chunk = (i64) (THREAD / 32);
    if (chunk >= chunks) {
        return;
    }
    u32 lane = threadIdx.x % 32;
    i64 to = starts[chunk];
    for (i64 i = chunk * CHUNK + lane; i < (chunk + 1) * CHUNK; i += 32) {
        bool found = i < count && is_nonzero(x[i]);
        u32 votes = __ballot_sync(0xffffffffu, found);
        i64 row = to + __popc(votes & ((1u << lane) - 1));
        if (found && row < limit) {
            i64 rest = i;
            for (i32 d = rank - 1; d >= 0; d--) {
                y[row * rank + d] = rest % sizes.at[d];
                rest /= sizes.at[d];
            }
        }
        to += __popc(votes);
    }
}
