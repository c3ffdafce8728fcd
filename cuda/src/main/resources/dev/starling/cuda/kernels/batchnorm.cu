// The gradient of batch normalisation with respect to x. Macros: TX; C, the type to compute in; RELU, whether ReLU
// followed; WIDTH, the elements of a vector.

DEVICE Vec<TX, WIDTH> load(const TX* x) { return *(const Vec<TX, WIDTH>*) x; }

// Computed from g, x, the table of BatchSums in normalization.cu and, with RELU, y.
extern "C" __global__ void batch_gradient(TX* dx, const TX* g, const TX* x, const C* table, const TX* y, i64 channels,
        Layout<4 + RELU> layout) {
    u32 i = (u32) THREAD * WIDTH;
    if (i >= layout.count) {
        return;
    }
    i64 at[4 + RELU];
    layout.offsets(i, at);
    Vec<TX, WIDTH> gs = load(g + at[1]), xs = load(x + at[2]), ys = gs;
    if (RELU) {
        ys = load(y + at[RELU ? 4 : 0]);
    }
    // Either neighbours have successive channels, or all elements of a vector have one channel.
    bool neighbours = WIDTH == 1 || layout.step(3) == 1;
    Vec<C, WIDTH> coefficients[3];
    for (int row = 0; row < 3; row++) {
        const C* own = table + at[3] + row * channels;
        if (neighbours) {
            coefficients[row] = *(const Vec<C, WIDTH>*) own;
        } else {
            for (int k = 0; k < WIDTH; k++) {
                coefficients[row].at[k] = *own;
            }
        }
    }
    C values[WIDTH];
    for (int k = 0; k < WIDTH; k++) {
        C gradient = RELU && !(widen_at(ys, k) > 0) ? C(0) : widen_at(gs, k);
        values[k] = gradient * coefficients[0].at[k]
                + (widen_at(xs, k) * coefficients[1].at[k] + coefficients[2].at[k]);
    }
    *(Vec<TX, WIDTH>*) (dx + at[0]) = narrow_all<TX>(values);
}
