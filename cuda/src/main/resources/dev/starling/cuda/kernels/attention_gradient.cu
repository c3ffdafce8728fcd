// The gradients of attention; see attention.cuh. They have a source of their own, so that a forward pass does not have
// to compile them.
#include "tiles.cuh"
#include "attention.cuh"

// Computes Σ g·y of each query, with a warp for each.
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

// What gradients need besides the operands.
struct Slopes {
    const T* g;
    i64 g_row, g_column;
    const C* logs;
    const C* dots;
};

DEVICE Matrix result_slopes(const Attention& p, const Slopes& s, const Heads& at) {
    return {s.g + at[0], p.queries, p.depth, s.g_row, s.g_column};
}

// Replaces the product of a query and a key by its weight.
DEVICE void soften(C& score, const Attention& p, const Slopes& s, const Heads& at, u32 head, i64 query, i64 key) {
    bool seen = finish(score, p, at, query, key);
    C log = seen ? s.logs[head * p.queries + query] : C(0);
    score = seen && log != -infinity() ? exp(score - log) : C(0);
}

// The gradient of a score, given its weight and the weight's gradient.
DEVICE C tilted(C weight, C slope, const Attention& p, const Slopes& s, u32 head, i64 query) {
    return query < p.queries ? weight * (slope - s.dots[head * p.queries + query]) * C(p.scale) : C(0);
}

// Stores the elements that lie within a dense matrix.
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
