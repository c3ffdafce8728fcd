// Rows of n elements, each shared by GROUP threads: a warp, or a block of 128 to 1024. In each turn a thread handles
// WIDTH neighbours; turns are GROUP·WIDTH elements apart. A row of at most ITEMS turns is read once and kept in
// registers. With ITEMS = 0, rows have any length, are read again each time, and need not begin at a vector's
// alignment: the elements before the first and after the last vector are handled one by one. Macros: TX; C, the type to
// compute in; GROUP; ITEMS; WIDTH, which divides n unless ITEMS is 0.

#define BLOCK (GROUP == 32 ? 256 : GROUP)
#define ROW (GROUP == 32 ? blockIdx.x * 8 + threadIdx.x / 32 : blockIdx.x)
#define LANE (threadIdx.x % GROUP)
// How many turns' memory is read ahead of the computation if rows are not kept.
#define AHEAD 4

template <int W> struct Values {
    static const int width = W;
    C at[W];
};

template <int W, class T> DEVICE Vec<T, W> load(const T* x, i64 step, u32 i) {
    return *(const Vec<T, W>*) (x + (W == 1 ? i * step : i));
}
template <int W, class T> DEVICE Values<W> widened(const Vec<T, W>& v) {
    Values<W> values;
    for (int k = 0; k < W; k++) {
        values.at[k] = widen_at(v, k);
    }
    return values;
}
// The values of x from element i on, as many as `like` has.
template <int W, class T> DEVICE Values<W> values_of(const T* x, i64 step, u32 i, const Values<W>& like) {
    return widened(load<W>(x, step, i));
}
template <int W> DEVICE void write_values(TX* y, i64 step, u32 i, const Values<W>& values) {
    *(Vec<TX, W>*) (y + (W == 1 ? i * step : i)) = narrow_all<TX>(values.at);
}

struct Row {
    const TX* x;
    i64 step;
    u32 n;
    Values<WIDTH> kept[ITEMS > 0 ? ITEMS : 1];

    __device__ __forceinline__ Row(const TX* x, i64 step, u32 n) : x(x), step(step), n(n) {
        _Pragma("unroll") for (u32 v = 0, i = LANE * WIDTH; v < ITEMS; v++, i += GROUP * WIDTH) {
            if (i < n) {
                kept[v] = widened(load<WIDTH>(x, step, i));
            }
        }
    }

    // Calls take(v, i, values) for each of a thread's turns: the turn's number, its first element and its values, which
    // the call may change; the changes are kept if the row is.
    template <class F> __device__ __forceinline__ void each(F take) {
        _Pragma("unroll") for (u32 v = 0, i = LANE * WIDTH; v < ITEMS; v++, i += GROUP * WIDTH) {
            if (i < n) {
                take(v, i, kept[v]);
            }
        }
        if constexpr (ITEMS == 0) {
            u32 head = (u32) (0 - (u64) x / sizeof(TX)) % WIDTH;
            head = head < n ? head : n;
            u32 end = n - (n - head) % WIDTH;
            for (u32 begin = head + LANE * WIDTH; begin < end; begin += AHEAD * GROUP * WIDTH) {
                Vec<TX, WIDTH> read[AHEAD];
                _Pragma("unroll") for (u32 v = 0; v < AHEAD; v++) {
                    u32 i = begin + v * GROUP * WIDTH;
                    if (i < end) {
                        read[v] = load<WIDTH>(x, step, i);
                    }
                }
                _Pragma("unroll") for (u32 v = 0; v < AHEAD; v++) {
                    u32 i = begin + v * GROUP * WIDTH;
                    if (i < end) {
                        Values<WIDTH> values = widened(read[v]);
                        take(v, i, values);
                    }
                }
            }
            u32 i = LANE < head ? LANE : end + LANE - head;
            if (WIDTH > 1 && i < n) {
                Values<1> value = widened(load<1>(x, step, i));
                take(0u, i, value);
            }
        }
    }

    // The corresponding values of another row, for turn v, which begins at element i.
    template <int W> __device__ __forceinline__ Values<W> beside(const Values<W>& other, u32 v, u32 i) const {
        if constexpr (ITEMS > 0) {
            return kept[v];
        } else {
            return values_of(x, step, i, other);
        }
    }
};

DEVICE C row_sum(C x) { return GROUP == 32 ? warp_sum(x) : block_sum(x); }
DEVICE C row_max(C x) { return GROUP == 32 ? warp_max(x) : block_max(x); }
DEVICE C infinity() { return sizeof(C) == 4 ? (C) float_of(0x7f800000u) : (C) double_of(0x7ff0000000000000ull); }
// For elements stored in 16 bits, the device's fast power of 2 is accurate enough.
DEVICE C power_of_e(C x) { return sizeof(TX) == 2 ? (C) quick_exp2(1.44269504f * (f32) x) : exp(x); }

// The running maximum, and the sum of exp(element - maximum).
struct Exponentials {
    C greatest, sum;
    __device__ __forceinline__ Exponentials() : greatest(-infinity()), sum(0) { }
    template <int W> __device__ __forceinline__ void take(const Values<W>& x) {
        C most = greatest;
        for (int k = 0; k < W; k++) {
            most = fmax(most, x.at[k]);
        }
        // As long as all elements are -∞, distances are measured from 0.
        C from = most == -infinity() ? C(0) : most;
        sum *= power_of_e(greatest - from);
        greatest = most;
        for (int k = 0; k < W; k++) {
            sum += power_of_e(x.at[k] - from);
        }
    }
    __device__ __forceinline__ void move(C to) {
        sum = greatest == to ? sum : sum * power_of_e(greatest - to);
        greatest = to;
    }
    // With an infinite maximum the sum is NaN: the maximum's distance from itself.
    __device__ __forceinline__ void close() { sum = greatest == infinity() ? greatest - greatest : sum; }
};

// The same for a row, in all of its threads. If KEEP, and the row is kept, its values become their exponentials.
template <bool KEEP> DEVICE Exponentials exponentials(Row& row) {
    Exponentials all;
    if (ITEMS > 0) {
        row.each([&](u32 v, u32 i, auto& x) {
            for (int k = 0; k < x.width; k++) {
                all.greatest = maximum(all.greatest, x.at[k]);
            }
        });
        all.greatest = row_max(all.greatest);
        row.each([&](u32 v, u32 i, auto& x) {
            for (int k = 0; k < x.width; k++) {
                C power = power_of_e(x.at[k] - all.greatest);
                all.sum += power;
                x.at[k] = KEEP ? power : x.at[k];
            }
        });
        all.sum = row_sum(all.sum);
    } else {
        row.each([&](u32 v, u32 i, auto& x) { all.take(x); });
        all.move(row_max(all.greatest));
        all.sum = row_sum(all.sum);
        all.close();
    }
    return all;
}
