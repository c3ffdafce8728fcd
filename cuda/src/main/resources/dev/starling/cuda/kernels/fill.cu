// Element i is start + i·step, in double precision. Macro: type T.

extern "C" __global__ void progression(T* y, i64 n, f64 start, f64 step) {
    i64 i = (i64) THREAD;
    if (i < n) {
        // No sum where nothing is added: 0·step of an infinite step is NaN, and so is what starts there.
        y[i] = narrow<T>(step == 0 ? start : __dadd_rn(start, __dmul_rn((f64) i, step)));
    }
}
