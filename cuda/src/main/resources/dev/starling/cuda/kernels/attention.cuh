// Code shared by attention and its gradients: attention by tiles of 64 queries and 64 keys (Dao, 2023), whose scores
// stay in registers and shared memory. A block computes CHUNKS·64 columns of a result; for further columns, other
// blocks compute the scores again. Macros: T (type in memory), C (type to compute in), CHUNKS.

struct Attention {
    const T* q;
    const T* k;
    const T* v;
    const void* mask;
    i64 q_row, q_column, k_row, k_column, v_row, v_column, mask_row, mask_column;
    i64 queries, keys, width, depth;
    f64 scale;
    // 1 if the mask selects, 2 if it is added.
    i32 masked, causal;
};
// The offsets of a head's operands: the result or its gradient, then q, k, v, mask.
typedef i64 Heads[5];

// A block's shared memory: the depth of a product, and weights of queries (down) and keys (across).
typedef Steps<T, C, OnUnits<T>::value ? TILE : 64 / sizeof(C)> Staged;
typedef C Tile[TILE][TILE + 1];
// A thread's share of a tile.
typedef C Part[4][4];
#define SHARED \
    __shared__ Staged staged; \
    __shared__ Tile tile; \
    u32 row = threadIdx.x / 16 * 4; \
    u32 column = threadIdx.x % 16 * 4

DEVICE C infinity() { return C(float_of(0x7f800000u)); }

// The maximum (or the sum) over the 16 threads that share four rows.
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

// One head's matrix in memory.
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

// An element, or 0 outside of the matrix.
DEVICE C element(const Matrix& m, i64 i, i64 j) {
    return i < m.rows && j < m.columns ? C(widen(m.x[i * m.row + j * m.column])) : C(0);
}

// Adds a tile of a·bᵀ, given the first rows of a and b.
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

// Products that the compiler does not fuse with a sum: gradients subtract what the forward pass has made of the same
// scores, and the exponential of a difference in the last bit of large scores is infinite.
DEVICE f32 scaled(f32 score, f32 scale) { return __fmul_rn(score, scale); }
DEVICE f64 scaled(f64 score, f64 scale) { return __dmul_rn(score, scale); }

// Turns the product of a query and a key into a score; returns whether the query attends to the key.
DEVICE bool finish(C& score, const Attention& p, const Heads& at, i64 query, i64 key) {
    if (query >= p.queries || key >= p.keys || p.causal && key > query) {
        return false;
    }
    score = scaled(score, C(p.scale));
    i64 place = at[4] + query * p.mask_row + key * p.mask_column;
    if (p.masked == 2) {
        score += C(widen(((const T*) p.mask)[place]));
    }
    return p.masked != 1 || widen(((const boolean*) p.mask)[place]) != 0;
}
