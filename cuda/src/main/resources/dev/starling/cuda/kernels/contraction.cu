// y [batches, m, n] = epilogue(a [batches, m, k] · b [batches, k, n] + bias [n]), y dense, the others by their strides.
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
