// Rows of n elements, each shared by GROUP threads: a warp, or a block of 256 or 1024. A thread takes WIDTH neighbours
// at a time, GROUP·WIDTH elements apart; a row of at most ITEMS such turns is read once and kept in registers, with
// ITEMS = 0 rows are of any length and read again each time. Macros: TX, C (the type to compute in), GROUP, ITEMS,
// WIDTH, which divides n.

#define BLOCK (GROUP == 32 ? 256 : GROUP)
#define ROW (GROUP == 32 ? blockIdx.x * 8 + threadIdx.x / 32 : blockIdx.x)
#define LANE (threadIdx.x % GROUP)
#define TURNS(n) (ITEMS > 0 ? ITEMS : ((n) + GROUP * WIDTH - 1) / (GROUP * WIDTH))
// For each of a thread's turns: v is its number, i the element that it begins with.
#define EACH_TURN(n) \
    _Pragma("unroll") for (u32 v = 0, i = LANE * WIDTH; v < TURNS(n); v++, i += GROUP * WIDTH) if (i < (n))

struct Values { C at[WIDTH]; };

template <class T> DEVICE Values read_values(const T* x, i64 step, u32 i) {
    Values values;
    if (WIDTH == 1) {
        values.at[0] = widen(x[i * step]);
    } else {
        Vec<T, WIDTH> v = *(const Vec<T, WIDTH>*) (x + i);
        for (int k = 0; k < WIDTH; k++) {
            values.at[k] = widen(v.at[k]);
        }
    }
    return values;
}

DEVICE void write_values(TX* y, i64 step, u32 i, const Values& values) {
    if (WIDTH == 1) {
        y[i * step] = narrow<TX>(values.at[0]);
    } else {
        Vec<TX, WIDTH> v;
        for (int k = 0; k < WIDTH; k++) {
            v.at[k] = narrow<TX>(values.at[k]);
        }
        *(Vec<TX, WIDTH>*) (y + i) = v;
    }
}

struct Row {
    const TX* x;
    i64 step;
    Values kept[ITEMS > 0 ? ITEMS : 1];

    __device__ __forceinline__ Row(const TX* x, i64 step, u32 n) : x(x), step(step) {
        if (ITEMS > 0) {
            EACH_TURN(n) {
                kept[v] = read_values(x, step, i);
            }
        }
    }
    // The values of turn v, which begin with element i.
    __device__ __forceinline__ Values of(u32 v, u32 i) const { return ITEMS > 0 ? kept[v] : read_values(x, step, i); }
};

DEVICE C row_sum(C x) { return GROUP == 32 ? warp_sum(x) : block_sum(x); }
DEVICE C row_max(C x) { return GROUP == 32 ? warp_max(x) : block_max(x); }
DEVICE C infinity() { return sizeof(C) == 4 ? (C) float_of(0x7f800000u) : (C) double_of(0x7ff0000000000000ull); }

// The sum of the exponentials of elements' distances from the greatest so far, and that one.
struct Exponentials {
    C greatest, sum;
    __device__ __forceinline__ Exponentials() : greatest(-infinity()), sum(0) { }
    __device__ __forceinline__ void take(C x) {
        if (x > greatest) {
            sum = sum * exp(greatest - x) + 1;
            greatest = x;
        } else if (x != -infinity()) {
            sum += exp(x - greatest);
        }
    }
    __device__ __forceinline__ void move(C to) {
        sum = greatest == to ? sum : sum * exp(greatest - to);
        greatest = to;
    }
    // What infinities make of it: an infinite greatest element has distance NaN from itself.
    __device__ __forceinline__ void close() { sum = greatest == infinity() ? greatest - greatest : sum; }
};

// The same of a row, for all of its threads.
DEVICE Exponentials exponentials(const Row& row, u32 n) {
    Exponentials all;
    if (ITEMS > 0) {
        EACH_TURN(n) {
            for (int k = 0; k < WIDTH; k++) {
                all.greatest = maximum(all.greatest, row.kept[v].at[k]);
            }
        }
        all.greatest = row_max(all.greatest);
        EACH_TURN(n) {
            for (int k = 0; k < WIDTH; k++) {
                all.sum += exp(row.kept[v].at[k] - all.greatest);
            }
        }
        all.sum = row_sum(all.sum);
    } else {
        EACH_TURN(n) {
            Values x = row.of(v, i);
            for (int k = 0; k < WIDTH; k++) {
                all.take(x.at[k]);
            }
        }
        all.move(row_max(all.greatest));
        all.sum = row_sum(all.sum);
        all.close();
    }
    return all;
}
