// Masks in the form that libraries accept, added to the scores, and rows of results that attend to nothing. A warp for
// each row.
// Macro: T (type in memory).

// Converts a mask that selects (1) or is added (2) to rows of an added mask, in which hidden keys have -infinity. A row
// that hides all keys gets zeros instead, so that its softmax is finite, and 0 in `open`. `stride` is the distance of
// rows.
extern "C" __global__ void additive(T* added, u8* open, const void* mask, i64 queries, i64 keys, i64 stride,
        i64 column, i32 masked, i32 causal, Layout<1> rows) {
    u64 row = THREAD / 32;
    if (row >= rows.count) {
        return;
    }
    i64 at[1];
    rows.offsets((u32) row, at);
    i64 seen = causal && (i64) row % queries + 1 < keys ? (i64) row % queries + 1 : keys;
    f32 infinity = float_of(0x7f800000u);
    auto value = [&](i64 key) {
        i64 place = at[0] + key * column;
        return masked == 2 ? widen(((const T*) mask)[place])
            : widen(((const boolean*) mask)[place]) != 0 ? f32(0) : -infinity;
    };
    f32 some = 0;
    for (i64 key = threadIdx.x % 32; key < seen; key += 32) {
        some += value(key) == -infinity ? 0 : 1;
    }
    some = warp_sum(some);
    for (i64 key = threadIdx.x % 32; key < stride; key += 32) {
        added[(i64) row * stride + key] = narrow<T>(some > 0 && key < keys ? value(key) : f32(0));
    }
    if (threadIdx.x % 32 == 0) {
        open[row] = some > 0;
    }
}

// Sets the results of rows that attend to nothing to 0, and their log-sum-exp to -infinity.
extern "C" __global__ void closed(T* y, f32* logs, const u8* open, i64 depth, Layout<2> rows) {
    u64 row = THREAD / 32;
    if (row >= rows.count) {
        return;
    }
    i64 at[2];
    rows.offsets((u32) row, at);
    if (open[at[1]]) {
        return;
    }
    for (i64 i = threadIdx.x % 32; i < depth; i += 32) {
        y[at[0] + i] = narrow<T>(f32(0));
    }
    if (threadIdx.x % 32 == 0) {
        logs[row] = -float_of(0x7f800000u);
    }
}
