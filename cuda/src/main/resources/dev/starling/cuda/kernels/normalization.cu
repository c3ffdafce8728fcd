// Sums over the values of a channel for normalisations, and what is computed from them. Macros: TX; TW, the type of
// weights and statistics; C, the type to compute in; RELU, whether ReLU followed; PROBLEM, one of the structs, with its
// number of OPERANDS; GROUP and WIDTH.

#include "fold.cuh"

template <class S> struct Summing {
    struct Part { S first, second; };
    DEVICE Part none() { return Part {S(0), S(0)}; }
    DEVICE Part join(Part a, Part b) { return Part {a.first + b.first, a.second + b.second}; }
};

// Mean and variance of a channel, from sums of distances from its first value; then y = x·table[c] + table[C + c]. The
// sums are in f64: if the first value is far from all others, the variance is a small difference of large numbers.
struct Moments : Summing<f64> {
    struct Lane { C pivot; };
    const TX* x;
    const TW* gamma;
    const TW* beta;
    TW* means;
    TW* inverses;
    C* table;
    i64 step, channels, size;
    f64 epsilon;
    __device__ __forceinline__ Lane lane(u32 c) const { return Lane {widen(x[c * step])}; }
    template <int W> __device__ __forceinline__ void take(Part* sums, const Lane* lanes, const i64* at, u32 i,
            u32 step) const {
        Vec<TX, W> v = load<TX, W>(x + at[0]);
        for (int k = 0; k < W; k++) {
            f64 distance = widen_at(v, k) - lanes[k].pivot;
            sums[k].first += distance;
            sums[k].second += distance * distance;
        }
    }
    __device__ __forceinline__ void end(u32 c, Part sums) const {
        f64 distance = sums.first / (f64) size;
        f64 variance = sums.second / (f64) size - distance * distance;
        f64 mean = (f64) lane(c).pivot + distance;
        f64 inverse = 1 / sqrt((variance < 0 ? 0 : variance) + epsilon);
        f64 scale = (f64) widen(gamma[c]) * inverse;
        means[c] = narrow<TW>(mean);
        inverses[c] = narrow<TW>(inverse);
        table[c] = (C) scale;
        table[channels + c] = (C) ((f64) widen(beta[c]) - mean * scale);
    }
};

// Σ g and Σ g·x̂ of a channel; then dx = g·table[c] + x·table[C + c] + table[2·C + c].
struct BatchSums : Summing<C> {
    struct Lane { C mean, inverse; };
    const TX* g;
    const TX* x;
    const TX* y;
    const TW* gamma;
    const TW* means;
    const TW* inverses;
    TW* dgamma;
    TW* dbeta;
    C* table;
    i64 channels, size;
    __device__ __forceinline__ Lane lane(u32 c) const { return Lane {widen(means[c]), widen(inverses[c])}; }
    template <int W> __device__ __forceinline__ void take(Part* sums, const Lane* lanes, const i64* at, u32 i,
            u32 step) const {
        Vec<TX, W> gs = load<TX, W>(g + at[0]), xs = load<TX, W>(x + at[1]), ys = gs;
        if (RELU) {
            ys = load<TX, W>(y + at[RELU ? 2 : 0]);
        }
        for (int k = 0; k < W; k++) {
            C gradient = RELU && !(widen_at(ys, k) > 0) ? C(0) : widen_at(gs, k);
            sums[k].first += gradient;
            sums[k].second += gradient * ((widen_at(xs, k) - lanes[k].mean) * lanes[k].inverse);
        }
    }
    __device__ __forceinline__ void end(u32 c, Part sums) const {
        dgamma[c] = narrow<TW>(sums.second);
        dbeta[c] = narrow<TW>(sums.first);
        f64 inverse = (f64) widen(inverses[c]);
        f64 scale = (f64) widen(gamma[c]) * inverse;
        f64 slope = scale * inverse * (f64) sums.second / (f64) size;
        table[c] = (C) scale;
        table[channels + c] = (C) -slope;
        table[2 * channels + c] = (C) ((f64) widen(means[c]) * slope - scale * (f64) sums.first / (f64) size);
    }
};

// Σ g·x̂ and Σ g over the rows of a matrix, for each column.
struct LayerSums : Summing<C> {
    struct Lane { };
    const TX* g;
    const TX* x;
    const TW* means;
    const TW* inverses;
    TW* dgamma;
    TW* dbeta;
    DEVICE Lane lane(u32 column) { return Lane(); }
    template <int W> __device__ __forceinline__ void take(Part* sums, const Lane* lanes, const i64* at, u32 row,
            u32 step) const {
        Vec<TX, W> gs = load<TX, W>(g + at[0]), xs = load<TX, W>(x + at[1]);
        for (int k = 0; k < W; k++) {
            C gradient = widen_at(gs, k);
            C normal = (widen_at(xs, k) - widen(means[row + k * step])) * widen(inverses[row + k * step]);
            sums[k].first += gradient;
            sums[k].second += gradient * normal;
        }
    }
    __device__ __forceinline__ void end(u32 column, Part sums) const {
        dgamma[column] = narrow<TW>(sums.second);
        dbeta[column] = narrow<TW>(sums.first);
    }
};

FOLD(PROBLEM, OPERANDS)
