// Layer normalisation of rows, and its gradient for x; see rows.cuh for the macros. TW is the type of
// weights and statistics.

#include "rows.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK) normalize(TX* y, TW* means, TW* inverses, const TX* x,
        const TW* gamma, const TW* beta, f64 epsilon, u32 rows, u32 size) {
    u32 line = ROW;
    u32 n = line < rows ? size : 0;
    i64 first = (i64) (line < rows ? line : 0) * size;
    Row row(x + first, 1, n);
    C sum = 0, squares = 0;
    EACH_TURN(n) {
        Values values = row.of(v, i);
        for (int k = 0; k < WIDTH; k++) {
            sum += values.at[k];
        }
    }
    C mean = row_sum(sum) / (C) size;
    EACH_TURN(n) {
        Values values = row.of(v, i);
        for (int k = 0; k < WIDTH; k++) {
            squares += (values.at[k] - mean) * (values.at[k] - mean);
        }
    }
    C inverse = C(1) / sqrt(row_sum(squares) / (C) size + (C) epsilon);
    EACH_TURN(n) {
        Values values = row.of(v, i), scale = read_values(gamma, 1, i), shift = read_values(beta, 1, i);
        for (int k = 0; k < WIDTH; k++) {
            values.at[k] = (values.at[k] - mean) * inverse * scale.at[k] + shift.at[k];
        }
        write_values(y + first, 1, i, values);
    }
    if (line < rows && LANE == 0) {
        means[line] = narrow<TW>(mean);
        inverses[line] = narrow<TW>(inverse);
    }
}

// With h = g·gamma: dx = (h - mean(h) - x̂·mean(h·x̂))/deviation.
extern "C" __global__ void __launch_bounds__(BLOCK) gradient(TX* dx, const TX* g, const TX* x, const TW* gamma,
        const TW* means, const TW* inverses, u32 rows, u32 size) {
    u32 line = ROW;
    u32 n = line < rows ? size : 0;
    u32 own = line < rows ? line : 0;
    Row row(x + (i64) own * size, 1, n);
    Row gradients(g + (i64) own * size, 1, n);
    C mean = widen(means[own]), inverse = widen(inverses[own]);
    C sum = 0, products = 0;
    EACH_TURN(n) {
        Values values = row.of(v, i), h = gradients.of(v, i), scale = read_values(gamma, 1, i);
        for (int k = 0; k < WIDTH; k++) {
            C scaled = h.at[k] * scale.at[k];
            sum += scaled;
            products += scaled * ((values.at[k] - mean) * inverse);
        }
    }
    sum = row_sum(sum) / (C) size;
    products = row_sum(products) / (C) size;
    EACH_TURN(n) {
        Values values = row.of(v, i), h = gradients.of(v, i), scale = read_values(gamma, 1, i);
        for (int k = 0; k < WIDTH; k++) {
            C normal = (values.at[k] - mean) * inverse;
            h.at[k] = (h.at[k] * scale.at[k] - sum - normal * products) * inverse;
        }
        write_values(dx + (i64) own * size, 1, i, h);
    }
}
