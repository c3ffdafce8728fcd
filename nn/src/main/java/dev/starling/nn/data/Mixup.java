package dev.starling.nn.data;

import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.random.RandomGenerator;

/**
 * Mixes each example with another one of the data set, drawn at random: {@code l·x + (1 - l)·x'}, and the classes in
 * the same shares. The class, i64, becomes a distribution over classes, f32 {@code [classes]}, which
 * {@link dev.starling.nn.loss.Loss#crossEntropy()} accepts as a target. The share {@code l} is drawn from the beta
 * distribution with both parameters {@code alpha}. Every example is read twice on average. (Zhang et al., 2018)
 */
public final class Mixup implements Dataset {
    /** Separates these random numbers from others that are drawn with the same seed. */
    private static final long STREAM = 0x4d69787570212121L;

    private final Dataset dataset;
    private final int classes;
    private final double alpha;
    private final List<Field> fields;
    private final ThreadLocal<ScratchExample[]> scratch;

    private Mixup(Dataset dataset, int classes, double alpha) {
        Lengths.requireFixed("mixup", dataset);
        List<Field> inner = dataset.fields();
        Field last = inner.isEmpty() ? Field.of(DType.F32) : inner.getLast();
        boolean inputs = inner.stream().limit(Math.max(0, inner.size() - 1)).allMatch(f -> f.dtype() == DType.F32);
        if (dataset.isSequential() || !inputs || last.dtype() != DType.I64 || last.shape().count() != 1 || classes < 1
                || !(alpha > 0 && alpha <= 1)) {
            throw TensorException.argument("mixup", "needs f32 inputs, an i64 class as the last field, examples in any "
                    + "order, a class, and 0 < alpha <= 1, got " + inner + ", " + classes + " classes and alpha "
                    + alpha, "use for example alpha 0.2");
        }
        this.dataset = dataset;
        this.classes = classes;
        this.alpha = alpha;
        List<Field> mixed = new ArrayList<>(inner);
        mixed.set(inner.size() - 1, Field.of(last.name(), DType.F32, classes));
        fields = List.copyOf(mixed);
        scratch = ThreadLocal.withInitial(() -> new ScratchExample[] {new ScratchExample(inner),
            new ScratchExample(inner)});
    }

    /**
     * Returns mixed examples.
     *
     * @param classes number of classes
     * @param alpha in (0, 1]: the smaller, the more examples are nearly unmixed
     */
    public static Mixup of(Dataset dataset, int classes, double alpha) {
        return new Mixup(dataset, classes, alpha);
    }

    @Override
    public int size() {
        return dataset.size();
    }

    @Override
    public List<Field> fields() {
        return fields;
    }

    @Override
    public void write(int index, Example target) throws Exception {
        RandomGenerator random = ExampleRandom.of(target.seed() ^ STREAM, target.epoch(), index);
        float share = (float) beta(random);
        ScratchExample[] both = scratch.get();
        both[0].read(dataset, index, target);
        both[1].read(dataset, random.nextInt(size()), target);
        int last = fields.size() - 1;
        for (int field = 0; field < last; field++) {
            float[] x = target.floats(field);
            for (int i = 0; i < x.length; i++) {
                x[i] = share * both[0].segment(field).getAtIndex(ValueLayout.JAVA_FLOAT, i)
                        + (1 - share) * both[1].segment(field).getAtIndex(ValueLayout.JAVA_FLOAT, i);
            }
            target.put(field, x);
        }
        float[] shares = target.floats(last);
        Arrays.fill(shares, 0);
        shares[classOf(both[0].segment(last))] += share;
        shares[classOf(both[1].segment(last))] += 1 - share;
        target.put(last, shares);
    }

    private int classOf(MemorySegment target) {
        long found = target.get(ValueLayout.JAVA_LONG, 0);
        if (found < 0 || found >= classes) {
            throw TensorException.argument("mixup", "classes must be below " + classes + ", got " + found,
                    "give the number of classes");
        }
        return (int) found;
    }

    /** Draws from the beta distribution with equal parameters of at most 1. (Jöhnk, 1964) */
    private double beta(RandomGenerator random) {
        while (true) {
            double u = random.nextDouble();
            double v = random.nextDouble();
            double x = Math.pow(u, 1 / alpha);
            double y = Math.pow(v, 1 / alpha);
            if (x + y == 0) {
                // For a small alpha both powers are below the smallest double, but not their ratio.
                return 1 / (1 + Math.exp((Math.log(v) - Math.log(u)) / alpha));
            }
            if (x + y <= 1) {
                return x / (x + y);
            }
        }
    }
}
