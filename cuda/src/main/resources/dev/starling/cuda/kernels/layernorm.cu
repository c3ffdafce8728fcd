// Layer normalisation of rows, and its gradient with respect to x; see rows.cuh for the macros. TW is the type of
// weights and statistics.

#include "rows.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK) normalize(TX* __restrict__ y, TW* means, TW* inverses,
        const TX* x, const TW* gamma, const TW* beta, f64 epsilon, u32 rows, u32 size) {
    u32 line = ROW;
    i64 first = (i64) (line < rows ? line : 0) * size;
    Row row(x + first, 1, line < rows ? size : 0);
    TX* to = y + first;
    C sum = 0, squares = 0;
    row.each([&](u32 v, u32 i, auto& values) {
        for (int k = 0; k < values.width; k++) {
            sum += values.at[k];
        }
    });
    C mean = row_sum(sum) / (C) size;
    row.each([&](u32 v, u32 i, auto& values) {
        for (int k = 0; k < values.width; k++) {
            squares += (values.at[k] - mean) * (values.at[k] - mean);
        }
    });
    C inverse = C(1) / sqrt(row_sum(squares) / (C) size + (C) epsilon);
    row.each([&](u32 v, u32 i, auto& values) {
        auto scale = values_of(gamma, 1, i, values), shift = values_of(beta, 1, i, values);
        for (int k = 0; k < values.width; k++) {
            values.at[k] = (values.at[k] - mean) * inverse * scale.at[k] + shift.at[k];
        }
        write_values(to, 1, i, values);
    });
    if (line < rows && LANE == 0) {
        means[line] = narrow<TW>(mean);
        inverses[line] = narrow<TW>(inverse);
    }
}

// With h = g·gamma: dx = (h - mean(h) - x̂·mean(h·x̂))/deviation.
extern "C" __global__ void __launch_bounds__(BLOCK) gradient(TX* __restrict__ dx, const TX* g, const TX* x,
        const TW* gamma, const TW* means, const TW* inverses, u32 rows, u32 size) {
    u32 line = ROW;
    u32 n = line < rows ? size : 0;
    u32 own = line < rows ? line : 0;
    Row row(x + (i64) own * size, 1, n);
    Row gradients(g + (i64) own * size, 1, n);
    TX* to = dx + (i64) own * size;
    C mean = widen(means[own]), inverse = widen(inverses[own]);
    C sum = 0, products = 0;
    row.each([&](u32 v, u32 i, auto& values) {
        auto h = gradients.beside(values, v, i), scale = values_of(gamma, 1, i, values);
        for (int k = 0; k < values.width; k++) {
            C scaled = h.at[k] * scale.at[k];
            sum += scaled;
            products += scaled * ((values.at[k] - mean) * inverse);
        }
    });
    sum = row_sum(sum) / (C) size;
    products = row_sum(products) / (C) size;
    row.each([&](u32 v, u32 i, auto& values) {
        auto h = gradients.beside(values, v, i), scale = values_of(gamma, 1, i, values);
        for (int k = 0; k < values.width; k++) {
            C normal = (values.at[k] - mean) * inverse;
            values.at[k] = (h.at[k] * scale.at[k] - sum - normal * products) * inverse;
        }
        write_values(to, 1, i, values);
    });
}
