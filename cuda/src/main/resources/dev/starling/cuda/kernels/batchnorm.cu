// The gradient of batch normalisation for x. Macros: TX, C (the type to compute in), RELU, whether relu followed; WIDTH
// neighbours are a vector.

DEVICE Vec<TX, WIDTH> load(const TX* x) { return *(const Vec<TX, WIDTH>*) x; }

// Made of g, x, the table of BatchSums in normalization.cu and, behind relu, y.
extern "C" __global__ void batch_gradient(TX* dx, const TX* g, const TX* x, const C* table, const TX* y, i64 channels,
        Layout<4 + RELU> layout) {
    u32 i = (u32) THREAD * WIDTH;
    if (i >= layout.count) {
        return;
    }
    i64 at[4 + RELU];
    layout.offsets(i, at);
    i64 step = WIDTH == 1 ? 1 : layout.step(3);
    Vec<TX, WIDTH> gs = load(g + at[1]), xs = load(x + at[2]), ys = gs;
    if (RELU) {
        ys = load(y + at[RELU ? 4 : 0]);
    }
    table += at[3];
    Vec<TX, WIDTH> result;
    for (int k = 0; k < WIDTH; k++) {
        C gradient = RELU && !(widen(ys.at[k]) > 0) ? C(0) : widen(gs.at[k]);
        const C* own = table + k * step;
        result.at[k] = narrow<TX>(gradient * own[0] + (widen(xs.at[k]) * own[channels] + own[2 * channels]));
    }
    *(Vec<TX, WIDTH>*) (dx + at[0]) = result;
}
