// Updates in place, of all tensors of a table in one launch. Macros: T, the type; C, the type to compute in; WIDTH of a
// vector; CHUNK, the elements of a block; ENTRIES of a table; OPERANDS; RULE, statements that set some of the operands
// x[0], x[1] and so on from all of them and the PARAMETERS s.at[0], s.at[1] and so on; CHANGED, a bit for each operand
// that it sets.

#include "scalar.cuh"

// For each entry the addresses of its operands, the number of elements, and the first block that works on them.
template <int N> struct Table {
    T* at[N][ENTRIES];
    u32 count[ENTRIES], first[ENTRIES], entries;
};

// Prevents all changes if a flag is set, or if a number is infinite or NaN: then all bits of its exponent, among its
// highest bits, are ones. Each pointer may be null.
struct Guard {
    const u16* highest;
    const u32* broken;
    u32 exponent;
    __device__ bool holds() const {
        return !(broken && *broken) && !(highest && (*highest & exponent) == exponent);
    }
};

// The parameters of the rule.
struct Parameters { C at[PARAMETERS]; };

template <int N> DEVICE void rule(C (&x)[N], const Parameters& s) { RULE }

// One update of W neighbours.
template <int W, int N> DEVICE void step(T* const (&at)[N], u32 i, const Parameters& s) {
    Vec<T, W> values[N];
    for (int k = 0; k < N; k++) {
        values[k] = *(const Vec<T, W>*) (at[k] + i);
    }
    for (int w = 0; w < W; w++) {
        C x[N];
        for (int k = 0; k < N; k++) {
            x[k] = widen(values[k].at[w]);
        }
        rule(x, s);
        for (int k = 0; k < N; k++) {
            values[k].at[w] = narrow<T>(x[k]);
        }
    }
    for (int k = 0; k < N; k++) {
        if (CHANGED >> k & 1) {
            *(Vec<T, W>*) (at[k] + i) = values[k];
        }
    }
}

template <int N> DEVICE void steps(const Table<N>& table, const Guard& guard, const Parameters& s) {
    if (!guard.holds()) {
        return;
    }
    u32 entry = 0;
    for (u32 end = ENTRIES > 1 ? table.entries : 1; end - entry > 1;) {
        u32 middle = (entry + end) / 2;
        if (table.first[middle] <= blockIdx.x) {
            entry = middle;
        } else {
            end = middle;
        }
    }
    u32 from = (blockIdx.x - table.first[entry]) * CHUNK;
    u32 count = table.count[entry] - from;
    count = count < CHUNK ? count : CHUNK;
    T* at[N];
    u64 bits = 0;
    for (int k = 0; k < N; k++) {
        at[k] = table.at[k][entry] + from;
        bits |= (u64) at[k];
    }
    u32 vectors = bits % (WIDTH * sizeof(T)) == 0 ? count / WIDTH : 0;
    for (u32 i = threadIdx.x; i < vectors; i += blockDim.x) {
        step<WIDTH>(at, i * WIDTH, s);
    }
    for (u32 i = vectors * WIDTH + threadIdx.x; i < count; i += blockDim.x) {
        step<1>(at, i, s);
    }
}

extern "C" __global__ void update(Table<OPERANDS> table, Guard guard, Parameters s) { steps(table, guard, s); }
