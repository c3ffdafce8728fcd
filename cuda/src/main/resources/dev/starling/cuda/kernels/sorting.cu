// Stable sorting of lines by keys that order like the elements: blocks sort runs in shared memory, further launches
// merge neighbouring runs. Equal keys are ordered by position, so that all pairs differ. Macros: T (type in memory),
// RUN (length of a run, a power of two; sorting blocks have half as many threads), DESCENDING (0 or 1).

DEVICE u64 key_of(f32 x) {
    u32 bits = x == 0 ? 0u : bits_of(x);
    return is_nan(x) ? 0xffffffffu : bits >> 31 ? ~bits : bits | 0x80000000u;
}
DEVICE u64 key_of(f64 x) {
    u64 bits = x == 0 ? 0ull : bits_of(x);
    return is_nan(x) ? ~0ull : bits >> 63 ? ~bits : bits | 1ull << 63;
}
DEVICE u64 key_of(i64 x) { return (u64) x ^ 1ull << 63; }

DEVICE bool precedes(u64 key, u32 place, u64 other_key, u32 other_place) {
    return key < other_key || key == other_key && place < other_place;
}

// Sorts one run of a line of x. The last run of a line of n elements may be shorter.
extern "C" __global__ void __launch_bounds__(RUN / 2) sort_runs(u64* keys, u32* places, const T* x, u32 n, i64 step,
        Layout<1> lines) {
    __shared__ u64 key[RUN];
    __shared__ u32 place[RUN];
    u32 runs = (n + RUN - 1) / RUN;
    u32 line = blockIdx.x / runs;
    u32 first = blockIdx.x % runs * RUN;
    i64 at[1];
    lines.offsets(line, at);
    for (u32 i = threadIdx.x; i < RUN; i += blockDim.x) {
        bool real = first + i < n;
        u64 k = real ? key_of(widen(x[at[0] + (first + i) * step])) : 0;
        key[i] = !real ? ~0ull : DESCENDING ? ~k : k;
        place[i] = real ? first + i : ~0u;
    }
    // Batcher's bitonic sorting network.
    for (u32 size = 2; size <= RUN; size *= 2) {
        for (u32 distance = size / 2; distance > 0; distance /= 2) {
            __syncthreads();
            u32 i = 2 * threadIdx.x - (threadIdx.x & (distance - 1));
            u32 j = i + distance;
            bool up = (i & size) == 0;
            if (precedes(key[j], place[j], key[i], place[i]) == up) {
                u64 k = key[i];
                key[i] = key[j];
                key[j] = k;
                u32 p = place[i];
                place[i] = place[j];
                place[j] = p;
            }
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < RUN && first + i < n; i += blockDim.x) {
        keys[(i64) line * n + first + i] = key[i];
        places[(i64) line * n + first + i] = place[i];
    }
}

// Merges pairs of runs of the given length: a thread counts how many elements of the other run precede its own.
extern "C" __global__ void merge_runs(u64* keys_to, u32* places_to, const u64* keys, const u32* places, i64 count,
        u32 n, u32 length) {
    i64 i = (i64) THREAD;
    if (i >= count) {
        return;
    }
    u32 j = (u32) (i % n);
    i64 line = i - j;
    u32 run = j / length;
    u32 begin = min((run ^ 1) * length, n);
    u32 low = begin;
    u32 high = min(begin + length, n);
    while (low < high) {
        u32 middle = low + (high - low) / 2;
        if (precedes(keys[line + middle], places[line + middle], keys[i], places[i])) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    i64 to = line + (run & ~1u) * length + (j - run * length) + (low - begin);
    keys_to[to] = keys[i];
    places_to[to] = places[i];
}

// Writes the first k of the n sorted elements of each line. The layout has x, values and indices.
extern "C" __global__ void take_first(T* values, i64* indices, const T* x, const u32* places, i64 count, u32 n, u32 k,
        i64 x_step, i64 values_step, i64 indices_step, Layout<3> lines) {
    i64 i = (i64) THREAD;
    if (i >= count) {
        return;
    }
    u32 line = (u32) (i / k);
    u32 j = (u32) (i % k);
    u32 place = places[(i64) line * n + j];
    i64 at[3];
    lines.offsets(line, at);
    values[at[1] + j * values_step] = x[at[0] + place * x_step];
    indices[at[2] + j * indices_step] = place;
}
