package dev.starling.tensor.cpu.jit;

import java.lang.foreign.MemorySegment;

/**
 * What a kernel's loop reads: for each operand its address, then for each its row stride and for each its column stride
 * in bytes, then the parameters, each as a long. An array, because the JVM compiles access to it in less time than
 * access to other memory.
 */
final class Frame {
    private long[] words = new long[64];
    private MemorySegment memory = MemorySegment.ofArray(words);

    /** Returns the memory, for a call of machine code. */
    MemorySegment memory() {
        return memory;
    }

    /** Makes room; what the frame holds is lost if it grows. */
    void ensure(int longs) {
        if (longs > words.length) {
            words = new long[longs];
            memory = MemorySegment.ofArray(words);
        }
    }

    long get(int index) {
        return words[index];
    }

    void set(int index, long value) {
        words[index] = value;
    }

    void set(int index, long[] values, int count) {
        System.arraycopy(values, 0, words, index, count);
    }

    void add(int index, long value) {
        words[index] += value;
    }

    void copy(Frame other) {
        ensure(other.words.length);
        System.arraycopy(other.words, 0, words, 0, other.words.length);
    }
}
