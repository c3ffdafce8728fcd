// y [batches, m, n] = epilogue(a [batches, m, k] · b [batches, k, n] + bias [n]); y is dense, the operands are strided.
// Macros: T (type in memory), C (type to sum in), RELU (0 or 1).
#include "tiles.cuh"

extern "C" __global__ void __launch_bounds__(256) product(T* y, const T* a, const T* b, const T* bias, i64 m, i64 n,
        i64 k, i64 a_row, i64 a_column, i64 b_row, i64 b_column, i64 bias_step, Layout<2> batches) {
    i64 tiles = (n + TILE - 1) / TILE;
    i64 row = blockIdx.x / tiles * TILE;
    i64 column = blockIdx.x % tiles * TILE;
    for (u32 batch = blockIdx.y; batch < batches.count; batch += gridDim.y) {
        i64 at[2];
        batches.offsets(batch, at);
        C sum[4][4] = {};
        tile_product(sum, (i64) 0, k,
            [&](u32 i, i64 d) {
                return row + i < m ? C(widen(a[at[0] + (row + i) * a_row + d * a_column])) : C(0);
            }, a_column == 1,
            [&](i64 d, u32 j) {
                return column + j < n ? C(widen(b[at[1] + d * b_row + (column + j) * b_column])) : C(0);
            }, b_row == 1);
        tile_results(sum, row, column, m, n, [&](i64 i, i64 j, C value) {
            C x = bias ? value + C(widen(bias[j * bias_step])) : value;
            y[(batch * m + i) * n + j] = narrow<T>(RELU ? rectified(x) : x);
        });
    }
}

// Stores where ReLU was above 0 in the form that libraries expect: bit i of row r of bits [rows, words·32] says whether
// element i of row r of x [rows, columns] is positive; bits past the last element are 0. A warp computes up to 32 words
// of a row.
extern "C" __global__ void positive(u32* bits, const T* x, i64 rows, i64 columns, i64 row_step, i64 column_step,
        i64 words) {
    i64 parts = (words + 31) / 32;
    i64 row = i64(THREAD / 32) / parts;
    i64 first = i64(THREAD / 32) % parts * 32;
    u32 lane = threadIdx.x % 32;
    if (row >= rows) {
        return;
    }
    u32 own = 0;
    for (u32 w = 0; w < 32; w++) {
        i64 column = (first + w) * 32 + lane;
        u32 word = __ballot_sync(0xffffffffu, column < columns
                && widen(x[row * row_step + column * column_step]) > 0);
        own = lane == w ? word : own;
    }
    if (first + lane < words) {
        bits[row * words + first + lane] = own;
    }
}
