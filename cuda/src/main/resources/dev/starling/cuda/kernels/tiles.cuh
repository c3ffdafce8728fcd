// Products of matrices by tiles: a block of 256 threads makes 64 × 64 results, a thread 4 × 4 of them.
#define TILE 64
#define DEPTH 16
#define TILE_THREADS 256

DEVICE f32 multiply_add(f32 a, f32 b, f32 sum) { return fma(a, b, sum); }
DEVICE f64 multiply_add(f64 a, f64 b, f64 sum) { return fma(a, b, sum); }
DEVICE i64 multiply_add(i64 a, i64 b, i64 sum) { return (i64) ((u64) a * (u64) b + (u64) sum); }

// Adds to sum[i][j] the products a(row, d)·b(d, column) for d in [from, to) where row is 4·(threadIdx.x / 16) + i and
// column is 4·(threadIdx.x % 16) + j. Neighbours among threads read along the depth where a matrix is said to have
// neighbours in memory along it. All threads of the block must call, with the same shared memory, N steps deep.
template <int N, class S, class A, class B> DEVICE void tile_product(S (&left)[N][TILE + 4], S (&right)[N][TILE + 4],
        S (&sum)[4][4], i64 from, i64 to, const A& a, bool a_along_depth, const B& b, bool b_along_depth) {
    u32 t = threadIdx.x;
    u32 row = t / 16 * 4;
    u32 column = t % 16 * 4;
    for (i64 first = from; first < to; first += N) {
        for (u32 e = t; e < TILE * N; e += TILE_THREADS) {
            u32 d = a_along_depth ? e % N : e / TILE;
            u32 at = a_along_depth ? e / N : e % TILE;
            left[d][at] = first + d < to ? a(at, first + d) : S(0);
            d = b_along_depth ? e % N : e / TILE;
            at = b_along_depth ? e / N : e % TILE;
            right[d][at] = first + d < to ? b(first + d, at) : S(0);
        }
        __syncthreads();
        for (int d = 0; d < N; d++) {
            S l[4], r[4];
            for (int i = 0; i < 4; i++) {
                l[i] = left[d][row + i];
                r[i] = right[d][column + i];
            }
            for (int i = 0; i < 4; i++) {
                for (int j = 0; j < 4; j++) {
                    sum[i][j] = multiply_add(l[i], r[j], sum[i][j]);
                }
            }
        }
        __syncthreads();
    }
}

// The same, DEPTH steps deep, in shared memory of its own.
template <class S, class A, class B> DEVICE void tile_product(S (&sum)[4][4], i64 from, i64 to, const A& a,
        bool a_along_depth, const B& b, bool b_along_depth) {
    __shared__ S left[DEPTH][TILE + 4];
    __shared__ S right[DEPTH][TILE + 4];
    tile_product(left, right, sum, from, to, a, a_along_depth, b, b_along_depth);
}

// Calls put(row, column, sum) for those of a thread's sums that lie within rows and columns; the block's tile begins at
// row and column.
template <class S, class Put> DEVICE void tile_results(const S (&sum)[4][4], i64 row, i64 column, i64 rows, i64 columns,
        const Put& put) {
    row += threadIdx.x / 16 * 4;
    column += threadIdx.x % 16 * 4;
    for (u32 i = 0; i < 4 && row + i < rows; i++) {
        for (u32 j = 0; j < 4 && column + j < columns; j++) {
            put(row + i, column + j, sum[i][j]);
        }
    }
}

template <class S> DEVICE S rectified(S x) { return x <= 0 ? S(0) : x; }
