// Running sums along a line. Macros: TX and TY, the types of operand and result; A, the type to sum in.

static const u32 THREADS = 256, ITEMS = 4;

// The sum of a piece of a line, computed by block (line, piece).
extern "C" __global__ void totals(A* totals, const TX* x, i64 step, u32 size, u32 length, Layout<2> lines) {
    i64 at[2];
    lines.offsets(blockIdx.x, at);
    u32 begin = blockIdx.y * length;
    u32 end = size - begin < length ? size : begin + length;
    A sum = 0;
    for (u32 i = begin + threadIdx.x; i < end; i += THREADS) {
        sum += (A) widen(x[at[1] + i * step]);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        totals[(u64) blockIdx.x * gridDim.y + blockIdx.y] = sum;
    }
}

// The running sum of a piece: over ITEMS neighbours in each thread, over threads by shuffles, over warps in shared
// memory.
extern "C" __global__ void rows(TY* y, const TX* x, const A* totals, i64 step_y, i64 step_x, u32 size, u32 length,
        Layout<2> lines) {
    __shared__ A warps[THREADS / 32];
    i64 at[2];
    lines.offsets(blockIdx.x, at);
    y += at[0];
    x += at[1];
    A carry = 0;
    if (gridDim.y > 1) {
        for (u32 p = threadIdx.x; p < blockIdx.y; p += THREADS) {
            carry += totals[(u64) blockIdx.x * gridDim.y + p];
        }
        carry = block_sum(carry);
    }
    u32 begin = blockIdx.y * length;
    u32 end = size - begin < length ? size : begin + length;
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (u32 base = begin; base < end; base += THREADS * ITEMS) {
        u32 first = base + threadIdx.x * ITEMS;
        A sums[ITEMS], sum = 0;
        for (u32 k = 0; k < ITEMS; k++) {
            sum += first + k < end ? (A) widen(x[(first + k) * step_x]) : A(0);
            sums[k] = sum;
        }
        A running = sum;
        for (u32 lanes = 1; lanes < 32; lanes *= 2) {
            A before = __shfl_up_sync(0xffffffffu, running, lanes);
            running += lane >= lanes ? before : A(0);
        }
        // Not running - sum: that loses digits, and all of them if the sum is infinite.
        A ahead = __shfl_up_sync(0xffffffffu, running, 1);
        ahead = lane > 0 ? ahead : A(0);
        if (lane == 31) {
            warps[warp] = running;
        }
        __syncthreads();
        A all = 0, earlier = 0;
        for (u32 w = 0; w < THREADS / 32; w++) {
            earlier = w == warp ? all : earlier;
            all += warps[w];
        }
        earlier += carry;
        for (u32 k = 0; k < ITEMS && first + k < end; k++) {
            y[(first + k) * step_y] = narrow<TY>(earlier + (ahead + sums[k]));
        }
        carry += all;
        __syncthreads();
    }
}

// One thread for each line, for lines that are neighbours in memory.
extern "C" __global__ void columns(TY* y, const TX* x, i64 step_y, i64 step_x, u32 size, Layout<2> lines) {
    u32 line = (u32) THREAD;
    if (line >= lines.count) {
        return;
    }
    i64 at[2];
    lines.offsets(line, at);
    A sum = 0;
#pragma unroll 4
    for (u32 i = 0; i < size; i++) {
        sum += (A) widen(x[at[1] + i * step_x]);
        y[at[0] + i * step_y] = narrow<TY>(sum);
    }
}
