package dev.starling.nn.data;

import dev.starling.tensor.op.Philox;
import java.util.random.RandomGenerator;

/**
 * Random numbers that depend only on a seed, an epoch and an example, as {@link Dataset#write} requires. Not safe for
 * concurrent use.
 */
public final class ExampleRandom implements RandomGenerator {
    private final int[] words = new int[4];
    private final long key;
    private long counter;
    private boolean upper = true;

    private ExampleRandom(long key) {
        this.key = key;
    }

    /**
     * Returns the random numbers of an example.
     *
     * @param seed of the run, {@link Example#seed}; combined with a number of one's own, it gives other numbers than
     *     those that others draw
     * @param epoch {@link Example#epoch}
     * @param index of the example
     */
    public static ExampleRandom of(long seed, int epoch, int index) {
        int[] words = new int[4];
        Philox.block(seed, (long) epoch << 32 | index, words, 0);
        return new ExampleRandom((long) words[0] << 32 | words[1] & 0xffffffffL);
    }

    @Override
    public long nextLong() {
        upper = !upper;
        if (!upper) {
            Philox.block(key, counter++, words, 0);
        }
        int at = upper ? 2 : 0;
        return (long) words[at] << 32 | words[at + 1] & 0xffffffffL;
    }
}
