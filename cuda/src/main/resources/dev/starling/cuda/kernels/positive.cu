// Which elements are greater than 0: a bit each, the lowest of a byte first. Macro: T. Elements lie at multiples of 16
// bytes; a thread takes eight of them.

extern "C" __global__ void positive(u8* bits, const T* y, u32 count) {
    u32 i = (u32) THREAD;
    if (i >= (count + 7) / 8) {
        return;
    }
    u32 n = count - 8 * i < 8 ? count - 8 * i : 8, byte = 0;
    const u32 width = 16 / sizeof(T);
    if (n == 8) {
        for (u32 v = 0; v < 8; v += width) {
            Vec<T, width> values = *(const Vec<T, width>*) (y + 8 * i + v);
            for (u32 k = 0; k < width; k++) {
                byte |= (u32) (widen(values.at[k]) > 0) << (v + k);
            }
        }
    } else {
        for (u32 k = 0; k < n; k++) {
            byte |= (u32) (widen(y[8 * i + k]) > 0) << k;
        }
    }
    bits[i] = (u8) byte;
}
