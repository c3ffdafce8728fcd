package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;
import static dev.starling.tensor.host.HostMemory.getFloat;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.host.RangeTask;
import dev.starling.tensor.op.Philox;
import dev.starling.tensor.op.Random;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * Kernels of {@link Random} operations. A block of {@link Philox} makes four elements. Some hundred blocks at a time
 * are drawn into arrays, over which the JVM compiles loops to vectors, and are copied from there.
 */
final class RandomKernels implements RangeTask {
    private static final int BLOCKS = 256;
    private static final long GRAIN_BLOCKS = 8 * BLOCKS;
    private static final ThreadLocal<Batch> BATCH = ThreadLocal.withInitial(Batch::new);

    private final Random op;
    private final DType type;
    private final long source;
    private final long target;
    private final long count;

    private RandomKernels(Random op, DType type, long source, long target, long count) {
        this.op = op;
        this.type = type;
        this.source = source;
        this.target = target;
        this.count = count;
    }

    /** A thread's working memory. */
    private static final class Batch {
        private final int[] words = new int[4 * BLOCKS];
        private final float[] values = new float[4 * BLOCKS];
    }

    /** Returns the results, row-major: elements are numbered in row-major order. */
    static Tensor[] run(Random op, Tensor[] inputs, Spec output) {
        Tensor y = Storage.allocate(output);
        Tensor x = inputs.length == 0 ? null : Layout.dense(inputs[0]);
        long source = x == null ? 0 : x.address();
        long blocks = Philox.counters(y.count());
        Parallel.forRange(blocks, GRAIN_BLOCKS, new RandomKernels(op, output.dtype(), source, y.address(), y.count()));
        if (x != null) {
            Layout.release(x, inputs[0]);
        }
        return new Tensor[] {y};
    }

    @Override
    public void run(long from, long to) {
        Batch batch = BATCH.get();
        for (long block = from; block < to; block += BLOCKS) {
            int blocks = (int) Math.min(BLOCKS, to - block);
            draw(op.seed(), op.counter() + block, blocks, batch.words);
            long first = 4 * block;
            int n = (int) Math.min(4L * blocks, count - first);
            switch (op) {
                case Random.Uniform u -> {
                    uniform(batch, (float) u.low(), (float) (u.high() - u.low()), u.below());
                    write(batch.values, first, n);
                }
                case Random.Normal(_, double mean, double deviation, _, _) -> {
                    normal(batch, 4 * blocks, (float) mean, (float) deviation);
                    write(batch.values, first, n);
                }
                case Random.Bernoulli(_, double probability, _, _) -> {
                    mask(batch.words, (float) probability);
                    for (int i = 0; i < n; i++) {
                        batch.values[i] = -batch.words[i];
                    }
                    write(batch.values, first, n);
                }
                case Random.Dropout(double probability, _, _) -> {
                    mask(batch.words, (float) probability);
                    drop(batch.words, first, n, 1 / (1 - probability));
                }
                case Random.Integers integers -> integers(integers, batch.words, first, n);
            }
        }
    }

    private static void draw(long seed, long counter, int blocks, int[] words) {
        for (int b = 0; b < blocks; b++) {
            Philox.block(seed, counter + b, words, 4 * b);
        }
    }

    private static void uniform(Batch batch, float low, float range, float below) {
        int[] words = batch.words;
        float[] values = batch.values;
        for (int i = 0; i < values.length; i++) {
            values[i] = Math.min(Math.fma(Philox.uniform(words[i]), range, low), below);
        }
    }

    private static void normal(Batch batch, int n, float mean, float deviation) {
        int[] words = batch.words;
        float[] values = batch.values;
        for (int i = 0; i < n; i += 2) {
            values[i] = Math.fma(Philox.normal(words[i], words[i + 1], false), deviation, mean);
            values[i + 1] = Math.fma(Philox.normal(words[i], words[i + 1], true), deviation, mean);
        }
    }

    /** Sets to -1 the words whose uniform number is below the probability, the others to 0. */
    private static void mask(int[] words, float probability) {
        int bound = (int) Math.ceil(probability * 0x1p24f);
        for (int i = 0; i < words.length; i++) {
            words[i] = (words[i] >>> 8) - bound >> 31;
        }
    }

    private void write(float[] values, long first, int n) {
        if (type == DType.F32) {
            MemorySegment.copy(values, 0, ALL, ValueLayout.JAVA_FLOAT_UNALIGNED, target + 4 * first, n);
            return;
        }
        for (int i = 0; i < n; i++) {
            HostMemory.putDouble(type, target + (first + i) * type.bytes(), values[i]);
        }
    }

    /** Sets dropped elements to 0, even if they are not finite. */
    private void drop(int[] dropped, long first, int n, double scale) {
        if (type == DType.F32) {
            float factor = (float) scale;
            for (int i = 0; i < n; i++) {
                long offset = 4 * (first + i);
                float x = getFloat(source + offset) * factor;
                int kept = Float.floatToRawIntBits(x) & ~dropped[i];
                ALL.set(ValueLayout.JAVA_INT_UNALIGNED, target + offset, kept);
            }
            return;
        }
        for (int i = 0; i < n; i++) {
            long offset = (first + i) * type.bytes();
            double x = dropped[i] == 0 ? HostMemory.getDouble(type, source + offset) * scale : 0;
            HostMemory.putDouble(type, target + offset, x);
        }
    }

    private void integers(Random.Integers integers, int[] words, long first, int n) {
        long range = integers.high() - integers.low();
        for (int i = 0; i < n; i++) {
            long value = integers.low() + ((words[i] & 0xFFFFFFFFL) * range >>> 32);
            HostMemory.putLong(type, target + (first + i) * type.bytes(), value);
        }
    }
}
