package dev.starling.tensor.cpu.rows;

import dev.starling.tensor.host.HostMemory;
import java.lang.foreign.ValueLayout;

/** Short names for the elements of rows of f32 at raw addresses. */
final class RowElements {
    private RowElements() { }

    static float get(long address) {
        return HostMemory.getFloat(address);
    }

    static void set(long address, float value) {
        HostMemory.putFloat(address, value);
    }

    static float get(long row, int column) {
        return get(row + 4L * column);
    }

    static void set(long row, int column, float value) {
        set(row + 4L * column, value);
    }

    static void set(long row, int column, double value) {
        set(row, column, (float) value);
    }

    static void setInteger(long row, int column, int value) {
        HostMemory.ALL.set(ValueLayout.JAVA_INT_UNALIGNED, row + 4L * column, value);
    }
}
