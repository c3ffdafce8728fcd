// Softmax along a line. Macros: LOGARITHMS, 0 or 1; OPERANDS, 1 for values, 2 for gradients; those of rows.cuh.

#include "rows.cuh"

// The result for x, and for g in a gradient, given the sum of a line.
DEVICE C value_of(C x, const Exponentials& line, C inverse, C log) {
    return LOGARITHMS ? x - line.greatest - log : power_of_e(x - line.greatest) * inverse;
}
DEVICE C summand_of(C x, C g) { return LOGARITHMS ? g : x * g; }
DEVICE C gradient_of(C x, C g, C sum) { return LOGARITHMS ? g - power_of_e(x) * sum : x * (g - sum); }

// One group of threads for each line.
extern "C" __global__ void __launch_bounds__(BLOCK) rows(TX* __restrict__ y, const TX* a, const TX* b, i64 step_y,
        i64 step_a, i64 step_b, u32 size, Layout<1 + OPERANDS> lines) {
    u32 line = ROW;
    i64 at[1 + OPERANDS];
    lines.offsets(line < lines.count ? line : 0, at);
    u32 n = line < lines.count ? size : 0;
    Row row(a + at[1], step_a, n);
    TX* to = y + at[0];
#if OPERANDS == 1
    const bool powers = ITEMS > 0 && !LOGARITHMS;
    Exponentials all = exponentials<powers>(row);
    C inverse = C(1) / all.sum, log_sum = log(all.sum);
    row.each([&](u32 v, u32 i, auto& x) {
        for (int k = 0; k < x.width; k++) {
            x.at[k] = powers ? x.at[k] * inverse : value_of(x.at[k], all, inverse, log_sum);
        }
        write_values(to, step_y, i, x);
    });
#else
    Row gradients(b + at[2], step_b, n);
    C sum = 0;
    row.each([&](u32 v, u32 i, auto& x) {
        auto g = gradients.beside(x, v, i);
        for (int k = 0; k < x.width; k++) {
            sum += summand_of(x.at[k], g.at[k]);
        }
    });
    sum = row_sum(sum);
    row.each([&](u32 v, u32 i, auto& x) {
        auto g = gradients.beside(x, v, i);
        for (int k = 0; k < x.width; k++) {
            x.at[k] = gradient_of(x.at[k], g.at[k], sum);
        }
        write_values(to, step_y, i, x);
    });
#endif
}

// One thread for each line, for lines that are neighbours in memory.
extern "C" __global__ void columns(TX* y, const TX* a, const TX* b, i64 step_y, i64 step_a, i64 step_b, u32 size,
        Layout<1 + OPERANDS> lines) {
    u32 line = (u32) THREAD;
    if (line >= lines.count) {
        return;
    }
    i64 at[1 + OPERANDS];
    lines.offsets(line, at);
    y += at[0];
    a += at[1];
#if OPERANDS == 1
    Exponentials all;
    for (u32 i = 0; i < size; i++) {
        all.take(Values<1> {widen(a[i * step_a])});
    }
    all.close();
    C inverse = C(1) / all.sum, log_sum = log(all.sum);
    for (u32 i = 0; i < size; i++) {
        y[i * step_y] = narrow<TX>(value_of(widen(a[i * step_a]), all, inverse, log_sum));
    }
#else
    b += at[2];
    C sum = 0;
    for (u32 i = 0; i < size; i++) {
        sum += summand_of(widen(a[i * step_a]), widen(b[i * step_b]));
    }
    for (u32 i = 0; i < size; i++) {
        y[i * step_y] = narrow<TX>(gradient_of(widen(a[i * step_a]), widen(b[i * step_b]), sum));
    }
#endif
}
