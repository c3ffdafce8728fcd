// The work of a recurrent layer's steps between products, for N sequences and H units, with a thread for each pair of
// them. Macros: T (type in memory), C (type to compute in), CELL: one of these.

#define TANH 0
#define RELU 1
#define GRU 2
#define LSTM 3
#define GATES (CELL == LSTM ? 4 : CELL == GRU ? 3 : 1)
#define RESERVED (CELL == LSTM ? 5 : CELL == GRU ? 4 : 0)

DEVICE C sigmoid(C x) { return C(1) / (C(1) + exp(-x)); }

struct Sizes { u32 steps, batch, units; };

// The number of steps of a sequence; without lengths, all steps.
DEVICE i64 length_of(const i64* lengths, u32 n, u32 steps) {
    return lengths == 0 ? steps : lengths[n] < 0 ? 0 : lengths[n] > steps ? steps : lengths[n];
}

// Value k of unit j in a row of blocks of H values.
template <class X> DEVICE C part(const X* row, u32 k, u32 j, u32 units) { return widen(row[(i64) k * units + j]); }

// Step t: `a` [T, N, G·H] holds the sums from x, `u` [N, G·H] those from h; the states h and c are updated in place.
// Biases, reserve [T, N, R·H] and lengths may be null. A sequence that lacks the step keeps its states.
extern "C" __global__ void step(T* y, T* h, C* c, T* reserve, const T* a, const T* u, const T* bias,
        const T* recurrent_bias, const i64* lengths, u32 t, Sizes sizes) {
    u32 units = sizes.units;
    if (THREAD >= (u64) sizes.batch * units) {
        return;
    }
    u32 n = (u32) THREAD / units, j = (u32) THREAD % units;
    i64 row = (i64) t * sizes.batch + n;
    T* kept = reserve + row * RESERVED * units + j;
    if (t >= length_of(lengths, n, sizes.steps)) {
        y[row * units + j] = narrow<T>(C(0));
        for (u32 k = 0; reserve && k < RESERVED; k++) {
            kept[(i64) k * units] = narrow<T>(C(0));
        }
        return;
    }
    C by_x[GATES], by_h[GATES], values[RESERVED + 1];
    for (u32 g = 0; g < GATES; g++) {
        by_x[g] = part(a + row * GATES * units, g, j, units) + (bias ? part(bias, g, j, units) : C(0));
        by_h[g] = part(u + (i64) n * GATES * units, g, j, units)
                + (recurrent_bias ? part(recurrent_bias, g, j, units) : C(0));
    }
    C state;
#if CELL == TANH
    state = tanh(by_x[0] + by_h[0]);
#elif CELL == RELU
    state = maximum(by_x[0] + by_h[0], C(0));
#elif CELL == GRU
    values[0] = sigmoid(by_x[0] + by_h[0]);
    values[1] = sigmoid(by_x[1] + by_h[1]);
    values[2] = tanh(by_x[2] + values[0] * by_h[2]);
    values[3] = by_h[2];
    state = (C(1) - values[1]) * values[2] + values[1] * widen(h[THREAD]);
#else
    values[0] = sigmoid(by_x[0] + by_h[0]);
    values[1] = sigmoid(by_x[1] + by_h[1]);
    values[2] = tanh(by_x[2] + by_h[2]);
    values[3] = sigmoid(by_x[3] + by_h[3]);
    values[4] = values[1] * c[THREAD] + values[0] * values[2];
    c[THREAD] = values[4];
    state = values[3] * tanh(values[4]);
#endif
    h[THREAD] = narrow<T>(state);
    y[row * units + j] = narrow<T>(state);
    for (u32 k = 0; reserve && k < RESERVED; k++) {
        kept[(i64) k * units] = narrow<T>(values[k]);
    }
}

// The gradient of step t. `flow` [N, H] is the gradient of h that came through the weights from the step after it, null
// at the last step. `carried` [N, H] is the gradient that bypassed the weights: on entry that of the state after step
// t, on return that of the state before it; `dc` likewise. Writes the gradients of the sums from x and, for a GRU, from
// h, [T, N, G·H], and the state before the step to `before` [T, N, H].
extern "C" __global__ void gradient(T* slopes, T* recurrent_slopes, T* before, C* carried, C* dc, const T* flow,
        const T* dy, const T* y, const T* reserve, const T* h0, const T* c0, const i64* lengths, u32 t, bool reverse,
        Sizes sizes) {
    u32 units = sizes.units;
    if (THREAD >= (u64) sizes.batch * units) {
        return;
    }
    u32 n = (u32) THREAD / units, j = (u32) THREAD % units;
    i64 row = (i64) t * sizes.batch + n, at = row * units + j, slope = row * GATES * units + j;
    i64 length = length_of(lengths, n, sizes.steps);
    C past = carried[THREAD] + (flow ? widen(flow[THREAD]) : C(0));
    if (t >= length) {
        carried[THREAD] = past;
        before[at] = narrow<T>(C(0));
        for (u32 g = 0; g < GATES; g++) {
            slopes[slope + (i64) g * units] = narrow<T>(C(0));
            if (CELL == GRU) {
                recurrent_slopes[slope + (i64) g * units] = narrow<T>(C(0));
            }
        }
        return;
    }
    bool first = reverse ? t == length - 1 : t == 0;
    i64 previous = reverse ? row + sizes.batch : row - sizes.batch;
    T h = first ? h0[THREAD] : y[previous * units + j];
    before[at] = h;
    C d = past + widen(dy[at]), left = 0, by_x[GATES], k[RESERVED + 1];
    for (u32 i = 0; i < RESERVED; i++) {
        k[i] = part(reserve + row * RESERVED * units, i, j, units);
    }
#if CELL == TANH
    by_x[0] = d * (C(1) - widen(y[at]) * widen(y[at]));
#elif CELL == RELU
    by_x[0] = widen(y[at]) > C(0) ? d : C(0);
#elif CELL == GRU
    by_x[1] = d * (widen(h) - k[2]) * k[1] * (C(1) - k[1]);
    by_x[2] = d * (C(1) - k[1]) * (C(1) - k[2] * k[2]);
    by_x[0] = by_x[2] * k[3] * k[0] * (C(1) - k[0]);
    left = d * k[1];
#else
    C c = first ? widen(c0[THREAD]) : part(reserve + previous * RESERVED * units, 4, j, units);
    C squashed = tanh(k[4]);
    C slope_of_c = dc[THREAD] + d * k[3] * (C(1) - squashed * squashed);
    by_x[0] = slope_of_c * k[2] * k[0] * (C(1) - k[0]);
    by_x[1] = slope_of_c * c * k[1] * (C(1) - k[1]);
    by_x[2] = slope_of_c * k[0] * (C(1) - k[2] * k[2]);
    by_x[3] = d * squashed * k[3] * (C(1) - k[3]);
    dc[THREAD] = slope_of_c * k[1];
#endif
    carried[THREAD] = left;
    for (u32 g = 0; g < GATES; g++) {
        slopes[slope + (i64) g * units] = narrow<T>(by_x[g]);
        if (CELL == GRU) {
            recurrent_slopes[slope + (i64) g * units] = narrow<T>(g == 2 ? by_x[g] * k[0] : by_x[g]);
        }
    }
}

// The gradient of h before the first step: the part that came through the weights plus the part that bypassed them.
extern "C" __global__ void join(T* dh, const C* carried, const T* flow, Sizes sizes) {
    if (THREAD < (u64) sizes.batch * sizes.units) {
        dh[THREAD] = narrow<T>(carried[THREAD] + widen(flow[THREAD]));
    }
}

// Copies x [T, N, width], with 0 in the steps that a sequence lacks.
extern "C" __global__ void present(T* copy, const T* x, const i64* lengths, u32 width, Sizes sizes) {
    i64 i = (i64) THREAD;
    if (i < (i64) sizes.steps * sizes.batch * width) {
        i64 row = i / width;
        bool has = row / sizes.batch < length_of(lengths, (u32) (row % sizes.batch), sizes.steps);
        copy[i] = has ? x[i] : narrow<T>(C(0));
    }
}
