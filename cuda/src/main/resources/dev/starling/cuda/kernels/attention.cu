// Attention by tiles of 64 queries and 64 keys (Dao, 2023): scores live in registers and shared memory only. A block
// makes CHUNKS·64 columns of a result; where there are more, others compute the scores again.
// Macros: T (type in memory), C (type to compute in), CHUNKS.
#include "tiles.cuh"

struct Attention {
    const T* q;
    const T* k;
    const T* v;
    const void* mask;
    i64 q_row, q_column, k_row, k_column, v_row, v_column, mask_row, mask_column;
    i64 queries, keys, width, depth;
    f64 scale;
    // 1 if the mask chooses, 2 if it is added.
    i32 masked, causal;
};
// Where a head's operands begin: the result or its gradient, then q, k, v, mask.
typedef i64 Heads[5];

// A block's shared memory: what a product is deep in, and weights of queries (down) and keys (across).
typedef Steps<T, C, OnUnits<T>::value ? TILE : 64 / sizeof(C)> Staged;
typedef C Tile[TILE][TILE + 1];
// A thread's part of a tile.
typedef C Part[4][4];
#define SHARED \
    __shared__ Staged staged; \
    __shared__ Tile tile; \
    u32 row = threadIdx.x / 16 * 4; \
    u32 column = threadIdx.x % 16 * 4

DEVICE C infinity() { return C(float_of(0x7f800000u)); }

// The largest (or the sum) over the 16 threads that share four rows.
DEVICE C row_max(C x) {
    for (int lane = 8; lane > 0; lane >>= 1) {
        x = maximum(x, __shfl_xor_sync(0xffffffffu, x, lane));
    }
    return x;
}
DEVICE C row_sum(C x) {
    for (int lane = 8; lane > 0; lane >>= 1) {
        x += __shfl_xor_sync(0xffffffffu, x, lane);
    }
    return x;
}

// A head's matrix in memory.
struct Matrix {
    const T* x;
    i64 rows, columns, row, column;
};
DEVICE Matrix queries(const Attention& p, const Heads& at) {
    return {p.q + at[1], p.queries, p.width, p.q_row, p.q_column};
}
DEVICE Matrix keys(const Attention& p, const Heads& at) {
    return {p.k + at[2], p.keys, p.width, p.k_row, p.k_column};
}
DEVICE Matrix values(const Attention& p, const Heads& at) {
    return {p.v + at[3], p.keys, p.depth, p.v_row, p.v_column};
}

// An element, 0 outside of the matrix.
DEVICE C element(const Matrix& m, i64 i, i64 j) {
    return i < m.rows && j < m.columns ? C(widen(m.x[i * m.row + j * m.column])) : C(0);
}

// Adds a tile of a·bᵀ, whose first rows of a and b are given.
DEVICE void multiply(Staged& staged, Part& sum, const Matrix& a, i64 a_first, const Matrix& b, i64 b_first) {
    tile_product(staged, sum, (i64) 0, a.columns,
        [&](u32 i, i64 d) { return element(a, a_first + i, d); }, a.column == 1,
        [&](i64 d, u32 j) { return element(b, b_first + j, d); }, b.column == 1);
}

// Adds a tile of weights, transposed or not, times 64 rows of x, to columns from base on.
template <bool TRANSPOSED> DEVICE void weigh(Staged& staged, const Tile& tile, Part (&sum)[CHUNKS],
        const Matrix& x, i64 first, i64 base) {
    i64 seen = x.rows - first < TILE ? x.rows - first : TILE;
    for (int c = 0; c < CHUNKS; c++) {
        i64 begin = base + c * TILE;
        tile_product(staged, sum[c], (i64) 0, seen,
            [&](u32 i, i64 d) { return TRANSPOSED ? tile[d][i] : tile[i][d]; }, !TRANSPOSED,
            [&](i64 d, u32 j) { return element(x, first + d, begin + j); }, x.row == 1);
    }
}

// Makes a score of a product of a query and a key; returns whether the one sees the other.
DEVICE bool finish(C& score, const Attention& p, const Heads& at, i64 query, i64 key) {
    if (query >= p.queries || key >= p.keys || p.causal && key > query) {
        return false;
    }
    score *= C(p.scale);
    i64 place = at[4] + query * p.mask_row + key * p.mask_column;
    if (p.masked == 2) {
        score += C(widen(((const T*) p.mask)[place]));
    }
    return p.masked != 1 || widen(((const boolean*) p.mask)[place]) != 0;
}

extern "C" __global__ void __launch_bounds__(256) attention(Attention p, T* y, C* logs, i64 y_row, Layout<5> heads) {
    SHARED;
    i64 first = (i64) blockIdx.x * TILE;
    i64 base = (i64) blockIdx.z * CHUNKS * TILE;
    for (u32 head = blockIdx.y; head < heads.count; head += gridDim.y) {
        Heads at;
        heads.offsets(head, at);
        Matrix q = queries(p, at), k = keys(p, at), v = values(p, at);
        Part result[CHUNKS] = {};
        C greatest[4], sum[4];
        for (int i = 0; i < 4; i++) {
            greatest[i] = -infinity();
            sum[i] = 0;
        }
        i64 end = p.causal && first + TILE < p.keys ? first + TILE : p.keys;
        for (i64 from = 0; from < end; from += TILE) {
            Part s = {};
            multiply(staged, s, q, first, k, from);
            for (int i = 0; i < 4; i++) {
                C best = greatest[i];
                for (int j = 0; j < 4; j++) {
                    bool seen = finish(s[i][j], p, at, first + row + i, from + column + j);
                    s[i][j] = seen ? s[i][j] : -infinity();
                    best = maximum(best, s[i][j]);
                }
                best = row_max(best);
                C shift = best == -infinity() ? C(0) : best;
                C decay = exp(greatest[i] - shift);
                C total = 0;
                for (int j = 0; j < 4; j++) {
                    C weight = exp(s[i][j] - shift);
                    tile[row + i][column + j] = weight;
                    total += weight;
                    for (int c = 0; c < CHUNKS; c++) {
                        result[c][i][j] *= decay;
                    }
                }
                sum[i] = sum[i] * decay + row_sum(total);
                greatest[i] = best;
            }
            __syncthreads();
            weigh<false>(staged, tile, result, v, from, base);
        }
        for (int i = 0; i < 4; i++) {
            i64 query = first + row + i;
            if (query >= p.queries) {
                continue;
            }
            for (int c = 0; c < CHUNKS; c++) {
                for (int j = 0; j < 4; j++) {
                    i64 place = base + c * TILE + column + j;
                    if (place < p.depth) {
                        C x = sum[i] == 0 ? C(0) : result[c][i][j] / sum[i];
                        y[at[0] + query * y_row + place] = narrow<T>(x);
                    }
                }
            }
            if (column == 0 && blockIdx.z == 0) {
                C log_sum = greatest[i] + log(sum[i]);
                logs[head * p.queries + query] = sum[i] == 0 ? -infinity() : log_sum;
            }
        }
    }
}

// Σ g·y of each query, a warp for each.
extern "C" __global__ void dots(C* dots, const T* g, const T* y, i64 g_column, i64 y_column, i64 depth,
        Layout<2> queries) {
    u64 query = THREAD / 32;
    if (query >= queries.count) {
        return;
    }
    i64 at[2];
    queries.offsets((u32) query, at);
    C sum = 0;
    for (i64 i = threadIdx.x % 32; i < depth; i += 32) {
        sum += C(widen(g[at[0] + i * g_column])) * C(widen(y[at[1] + i * y_column]));
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) {
        dots[query] = sum;
    }
}

// What gradients need beside the operands.
struct Slopes {
    const T* g;
    i64 g_row, g_column;
    const C* logs;
    const C* dots;
};

DEVICE Matrix result_slopes(const Attention& p, const Slopes& s, const Heads& at) {
    return {s.g + at[0], p.queries, p.depth, s.g_row, s.g_column};
}

// Replaces a product of a query and a key by its weight.
DEVICE void soften(C& score, const Attention& p, const Slopes& s, const Heads& at, u32 head, i64 query, i64 key) {
    bool seen = finish(score, p, at, query, key);
    C log = seen ? s.logs[head * p.queries + query] : C(0);
    score = seen && log != -infinity() ? exp(score - log) : C(0);
}

// The score's gradient from its weight and that one's gradient.
DEVICE C tilted(C weight, C slope, const Attention& p, const Slopes& s, u32 head, i64 query) {
    return query < p.queries ? weight * (slope - s.dots[head * p.queries + query]) * C(p.scale) : C(0);
}

// Stores what lies within a dense matrix.
DEVICE void store(T* y, const Part (&x)[CHUNKS], i64 first, i64 base, i64 rows, i64 columns) {
    for (int c = 0; c < CHUNKS; c++) {
        tile_results(x[c], first, base + c * TILE, rows, columns,
            [&](i64 row, i64 column, C value) { y[row * columns + column] = narrow<T>(value); });
    }
}

extern "C" __global__ void __launch_bounds__(256) query_gradients(Attention p, Slopes s, T* dq, Layout<5> heads) {
    SHARED;
    i64 first = (i64) blockIdx.x * TILE;
    i64 base = (i64) blockIdx.z * CHUNKS * TILE;
    for (u32 head = blockIdx.y; head < heads.count; head += gridDim.y) {
        Heads at;
        heads.offsets(head, at);
        Matrix q = queries(p, at), k = keys(p, at), v = values(p, at), g = result_slopes(p, s, at);
        Part result[CHUNKS] = {};
        i64 end = p.causal && first + TILE < p.keys ? first + TILE : p.keys;
        for (i64 from = 0; from < end; from += TILE) {
            Part weights = {};
            multiply(staged, weights, q, first, k, from);
            Part slopes = {};
            multiply(staged, slopes, g, first, v, from);
            for (int i = 0; i < 4; i++) {
                for (int j = 0; j < 4; j++) {
                    i64 query = first + row + i;
                    soften(weights[i][j], p, s, at, head, query, from + column + j);
                    tile[row + i][column + j] = tilted(weights[i][j], slopes[i][j], p, s, head, query);
                }
            }
            __syncthreads();
            weigh<false>(staged, tile, result, k, from, base);
        }
        store(dq + head * p.queries * p.width, result, first, base, p.queries, p.width);
    }
}

extern "C" __global__ void __launch_bounds__(256) key_gradients(Attention p, Slopes s, T* dk, T* dv, Layout<5> heads) {
    SHARED;
    i64 first = (i64) blockIdx.x * TILE;
    i64 base = (i64) blockIdx.z * CHUNKS * TILE;
    for (u32 head = blockIdx.y; head < heads.count; head += gridDim.y) {
        Heads at;
        heads.offsets(head, at);
        Matrix q = queries(p, at), k = keys(p, at), v = values(p, at), g = result_slopes(p, s, at);
        Part of_keys[CHUNKS] = {}, of_values[CHUNKS] = {};
        for (i64 from = p.causal ? first : 0; from < p.queries; from += TILE) {
            Part weights = {};
            multiply(staged, weights, q, from, k, first);
            Part slopes = {};
            multiply(staged, slopes, g, from, v, first);
            for (int i = 0; i < 4; i++) {
                for (int j = 0; j < 4; j++) {
                    soften(weights[i][j], p, s, at, head, from + row + i, first + column + j);
                    tile[row + i][column + j] = weights[i][j];
                }
            }
            __syncthreads();
            weigh<true>(staged, tile, of_values, g, from, base);
            for (int i = 0; i < 4; i++) {
                for (int j = 0; j < 4; j++) {
                    tile[row + i][column + j] = tilted(weights[i][j], slopes[i][j], p, s, head, from + row + i);
                }
            }
            __syncthreads();
            weigh<true>(staged, tile, of_keys, q, from, base);
        }
        store(dk + head * p.keys * p.width, of_keys, first, base, p.keys, p.width);
        store(dv + head * p.keys * p.depth, of_values, first, base, p.keys, p.depth);
    }
}
