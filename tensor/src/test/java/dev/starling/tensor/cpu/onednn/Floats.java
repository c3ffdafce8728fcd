package dev.starling.tensor.cpu.onednn;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Random;

/** Off-heap single-precision numbers of a test, initialised or not. */
record Floats(MemorySegment memory) {
    static Floats random(Arena arena, long count, long seed) {
        Random random = new Random(seed);
        Floats floats = filled(arena, count, 0);
        for (long i = 0; i < count; i++) {
            floats.set(i, (float) (random.nextDouble() * 2 - 1));
        }
        return floats;
    }

    static Floats filled(Arena arena, long count, float value) {
        Floats floats = new Floats(arena.allocate(ValueLayout.JAVA_FLOAT, Math.max(1, count)));
        for (long i = 0; i < count; i++) {
            floats.set(i, value);
        }
        return floats;
    }

    long address() {
        return memory.address();
    }

    float get(long index) {
        return memory.getAtIndex(ValueLayout.JAVA_FLOAT, index);
    }

    void set(long index, float value) {
        memory.setAtIndex(ValueLayout.JAVA_FLOAT, index, value);
    }

    /** Returns these numbers rounded to bfloat16, to nearest even. */
    MemorySegment toBf16(Arena arena) {
        long count = memory.byteSize() / 4;
        MemorySegment half = arena.allocate(count * 2, 64);
        for (long i = 0; i < count; i++) {
            int bits = Float.floatToRawIntBits(get(i));
            bits += 0x7fff + (bits >>> 16 & 1);
            half.setAtIndex(ValueLayout.JAVA_SHORT, i, (short) (bits >>> 16));
            set(i, Float.intBitsToFloat(bits & 0xffff0000));
        }
        return half;
    }

    static float bf16At(MemorySegment half, long index) {
        return Float.intBitsToFloat(half.getAtIndex(ValueLayout.JAVA_SHORT, index) << 16);
    }
}
