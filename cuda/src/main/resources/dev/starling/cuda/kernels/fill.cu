// Element i is start + i·step, computed in double precision. Macro: T, the type. A thread writes 16 bytes.

extern "C" __global__ void progression(T* y, i64 n, f64 start, f64 step) {
    const int width = 16 / sizeof(T);
    i64 i = (i64) THREAD * width;
    T first = narrow<T>(start);
    Vec<T, width> values;
    for (int k = 0; k < width; k++) {
        // A constant is not computed as a sum: -0 + 0 is 0.
        values.at[k] = step == 0 ? first : narrow<T>(__dadd_rn(start, __dmul_rn((f64) (i + k), step)));
    }
    if (i + width <= n && (u64) y % 16 == 0) {
        *(Vec<T, width>*) (y + i) = values;
        return;
    }
    for (int k = 0; k < width; k++) {
        if (i + k < n) {
            y[i + k] = values.at[k];
        }
    }
}
