package dev.starling.tensor;

import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.Philox;
import dev.starling.tensor.op.Random;

/**
 * A stream of random numbers, determined by two integers: a seed, and a counter that each draw advances. Equal states
 * give equal numbers on every device; a checkpoint stores the {@link #state}. Not thread-safe: give each thread its own
 * stream with {@link #split}.
 */
public final class Generator {
    private static final long GOLDEN = 0x9E3779B97F4A7C15L;

    private long seed;
    private long counter;

    /**
     * The complete state of a stream.
     *
     * @param seed identifies the stream
     * @param counter number of blocks of four numbers that have been used
     */
    public record State(long seed, long counter) { }

    private Generator(long seed, long counter) {
        this.seed = seed;
        this.counter = counter;
    }

    /** Starts the stream of {@code seed}. */
    public static Generator seeded(long seed) {
        return new Generator(seed, 0);
    }

    /** Resumes a stream at the given state. */
    public static Generator of(State state) {
        return new Generator(state.seed, state.counter);
    }

    /** Returns the current state. */
    public State state() {
        return new State(seed, counter);
    }

    /** Sets the current state. */
    public void restore(State state) {
        seed = state.seed;
        counter = state.counter;
    }

    /**
     * Returns another stream that depends only on this stream's seed and on {@code key}, not on what was drawn. Layers
     * of a model, ranks of a group and workers of a loader each get a stream this way.
     */
    public Generator split(long key) {
        return new Generator(mix(mix(seed + GOLDEN) + (key + 1) * GOLDEN), 0);
    }

    /** Mixes each bit of {@code z} into all 64; a bijection. (Stafford's variant 13; Steele et al., 2014) */
    private static long mix(long z) {
        long x = (z ^ z >>> 30) * 0xBF58476D1CE4E5B9L;
        x = (x ^ x >>> 27) * 0x94D049BB133111EBL;
        return x ^ x >>> 31;
    }

    /** Returns the seed. */
    public long seed() {
        return seed;
    }

    /**
     * Skips {@code elements} numbers and returns the block at which they start, for the operations of {@link Random}.
     */
    public long advance(long elements) {
        if (elements < 0) {
            throw TensorException.argument("generator", "a stream only advances, got " + elements + " elements",
                    "use restore to go back");
        }
        long first = counter;
        counter += Random.blocks(elements);
        return first;
    }

    private static Spec f32(long... shape) {
        return new Spec(DType.F32, Shape.of(shape), Device.current());
    }

    /** Returns f32 numbers uniform over [0, 1), on the current device. */
    public Tensor uniform(long... shape) {
        return uniform(f32(shape), 0, 1);
    }

    /** Returns numbers of a floating type, uniform over [low, high). */
    public Tensor uniform(Spec spec, double low, double high) {
        return Tensor.compute(new Random.Uniform(spec, low, high, seed, advance(spec.shape().count())));
    }

    /** Returns f32 numbers of the standard normal distribution, on the current device. */
    public Tensor normal(long... shape) {
        return normal(f32(shape), 0, 1);
    }

    /** Returns numbers of a floating type with a normal distribution. */
    public Tensor normal(Spec spec, double mean, double deviation) {
        return Tensor.compute(new Random.Normal(spec, mean, deviation, seed, advance(spec.shape().count())));
    }

    /** Returns booleans that are true with {@code probability}, on the current device. */
    public Tensor bernoulli(double probability, long... shape) {
        return bernoulli(new Spec(DType.BOOL, Shape.of(shape), Device.current()), probability);
    }

    /** Returns 1 with {@code probability}, else 0, of any type. */
    public Tensor bernoulli(Spec spec, double probability) {
        return Tensor.compute(new Random.Bernoulli(spec, probability, seed, advance(spec.shape().count())));
    }

    /** Returns i64 numbers uniform over [low, high), on the current device. */
    public Tensor integers(long low, long high, long... shape) {
        return integers(new Spec(DType.I64, Shape.of(shape), Device.current()), low, high);
    }

    /** Returns numbers of an integer type, uniform over [low, high); {@code high - low} is at most 2³². */
    public Tensor integers(Spec spec, long low, long high) {
        return Tensor.compute(new Random.Integers(spec, low, high, seed, advance(spec.shape().count())));
    }

    /** Returns the i64 numbers from 0 to {@code n - 1} in random order, on the current device. */
    public Tensor permutation(int n) {
        return Tensor.of(order(n), n);
    }

    /** Returns the numbers from 0 to {@code n - 1} in random order, as {@link #permutation} does. */
    public long[] order(int n) {
        if (n < 0) {
            throw TensorException.argument("permutation", "n must be >= 0, got " + n, "give a size of 0 or more");
        }
        long[] order = new long[HostMemory.arrayLength("permutation", n, Long.BYTES)];
        long first = advance(n);
        for (int i = 0; i < n; i++) {
            int j = (int) ((Philox.bitsAt(seed, first, i) & 0xFFFFFFFFL) * (i + 1) >>> 32);
            order[i] = order[j];
            order[j] = i;
        }
        return order;
    }

    @Override
    public String toString() {
        return "generator with seed " + seed + " at block " + counter;
    }
}
