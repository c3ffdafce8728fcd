package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.Movement;
import dev.starling.tensor.op.Philox;
import dev.starling.tensor.op.Random;
import java.lang.foreign.ValueLayout;

/** Kernels of {@link Random} operations: a block of {@link Philox} makes four elements. */
final class RandomKernels implements RangeTask {
    private static final long GRAIN_BLOCKS = 1 << 11;

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

    /** Returns the results, row-major: elements are numbered in that order. */
    static Tensor[] run(Random op, Tensor[] inputs, Spec output) {
        Tensor y = Tensor.allocate(output);
        Tensor x = inputs.length == 0 ? null
                : inputs[0].isContiguous() ? inputs[0]
                : CopyKernels.run(new Movement.Copy(), inputs, inputs[0].spec())[0];
        long source = x == null ? 0 : x.address();
        long blocks = Philox.counters(y.count());
        Parallel.forRange(blocks, GRAIN_BLOCKS, new RandomKernels(op, output.dtype(), source, y.address(), y.count()));
        if (x != null && x != inputs[0]) {
            x.close();
        }
        return new Tensor[] {y};
    }

    @Override
    public void run(long from, long to) {
        int[] words = new int[4];
        float[] values = new float[4];
        for (long block = from; block < to; block++) {
            Philox.block(op.seed(), op.counter() + block, words);
            int n = (int) Math.min(4, count - 4 * block);
            if (op instanceof Random.Integers integers) {
                integers(integers, words, 4 * block, n);
            } else {
                draw(words, values);
                write(values, 4 * block, n);
            }
        }
    }

    private void draw(int[] words, float[] values) {
        switch (op) {
            case Random.Uniform(_, double low, double high, _, _) -> {
                float below = Math.nextDown((float) high);
                for (int i = 0; i < 4; i++) {
                    values[i] = Math.min(Math.fma(Philox.uniform(words[i]), (float) (high - low), (float) low), below);
                }
            }
            case Random.Normal(_, double mean, double deviation, _, _) -> {
                for (int i = 0; i < 4; i++) {
                    float normal = Philox.normal(words[i & 2], words[i | 1], (i & 1) != 0);
                    values[i] = Math.fma(normal, (float) deviation, (float) mean);
                }
            }
            case Random.Bernoulli(_, double probability, _, _) -> {
                for (int i = 0; i < 4; i++) {
                    values[i] = Philox.uniform(words[i]) < (float) probability ? 1 : 0;
                }
            }
            case Random.Dropout(double probability, _, _) -> {
                for (int i = 0; i < 4; i++) {
                    values[i] = Philox.uniform(words[i]) < (float) probability ? 0 : 1;
                }
            }
            case Random.Integers _ -> throw new IllegalArgumentException(op.toString());
        }
    }

    private void write(float[] values, long at, int n) {
        boolean isDropout = op instanceof Random.Dropout;
        double scale = op instanceof Random.Dropout dropout ? 1 / (1 - dropout.probability()) : 1;
        if (type == DType.F32) {
            for (int i = 0; i < n; i++) {
                float value = values[i];
                if (isDropout) {
                    float x = ALL.get(ValueLayout.JAVA_FLOAT_UNALIGNED, source + 4 * (at + i));
                    value = value != 0 ? x * (float) scale : 0;
                }
                ALL.set(ValueLayout.JAVA_FLOAT_UNALIGNED, target + 4 * (at + i), value);
            }
            return;
        }
        for (int i = 0; i < n; i++) {
            long offset = (at + i) * type.bytes();
            double value = values[i];
            if (isDropout) {
                value = value != 0 ? HostMemory.getDouble(type, source + offset) * scale : 0;
            }
            HostMemory.putDouble(type, target + offset, value);
        }
    }

    private void integers(Random.Integers integers, int[] words, long at, int n) {
        long range = integers.high() - integers.low();
        for (int i = 0; i < n; i++) {
            long value = integers.low() + ((words[i] & 0xFFFFFFFFL) * range >>> 32);
            HostMemory.putLong(type, target + (at + i) * type.bytes(), value);
        }
    }
}
