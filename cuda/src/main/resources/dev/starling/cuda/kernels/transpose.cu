// Copies a tensor that is contiguous along one dimension, "across", to one that is contiguous along another, "down".
// Tiles of 64 by 64 pass through shared memory, so that both sides are accessed contiguously. Macro: T, a type of the
// elements' size. Blocks have 256 threads.

#define TILE 64
#define ROWS (256 / TILE)

// At least as wide as a bank, so that columns of a tile are read without conflicts.
struct alignas(sizeof(T) < 4 ? 4 : sizeof(T)) Slot { T value; };

// One block for each tile; the layout has y and x in all other dimensions.
extern "C" __global__ void __launch_bounds__(256) transpose(T* __restrict__ y, const T* __restrict__ x, u32 across,
        u32 down, i64 y_step, i64 x_step, Layout<2> others) {
    __shared__ Slot tile[TILE][TILE + 1];
    u32 lane = threadIdx.x % TILE, row = threadIdx.x / TILE;
    u32 tiles_across = (across + TILE - 1) / TILE, tiles_down = (down + TILE - 1) / TILE;
    u32 rest = blockIdx.x / tiles_across;
    u32 left = (blockIdx.x - rest * tiles_across) * TILE;
    u32 top = rest % tiles_down * TILE;
    i64 at[2];
    others.offsets(rest / tiles_down, at);
    const T* from = x + at[1] + (top + row) * x_step + left + lane;
    T* to = y + at[0] + (left + row) * y_step + top + lane;
    T values[TILE / ROWS];
    u32 rows = left + lane < across ? down - top : 0;
    for (u32 k = 0; k < TILE / ROWS; k++, from += ROWS * x_step) {
        if (row + k * ROWS < rows) {
            values[k] = *from;
        }
    }
    for (u32 k = 0; k < TILE / ROWS; k++) {
        tile[row + k * ROWS][lane].value = values[k];
    }
    __syncthreads();
    for (u32 k = 0; k < TILE / ROWS; k++) {
        values[k] = tile[lane][row + k * ROWS].value;
    }
    rows = top + lane < down ? across - left : 0;
    for (u32 k = 0; k < TILE / ROWS; k++, to += ROWS * y_step) {
        if (row + k * ROWS < rows) {
            *to = values[k];
        }
    }
}
