package dev.starling.nn.data;

import dev.starling.tensor.TensorException;
import java.util.List;

/**
 * What one of several processes takes of the data. An epoch is a sequence of examples that depends on seed and number
 * alone, cut into batches. {@link Part} and {@link Shard} speak of one sequence that all processes have;
 * {@link OwnPart} and {@link Own} are for processes that each have rows of their own.
 */
public sealed interface Share {
    /** All rows of all batches: what a process that trains alone takes. */
    Share WHOLE = new Part(0, 1, 1);

    /**
     * Some rows of every batch. The parts of all ranks make up exactly the batches of a single process, and a place in
     * the epoch means the same whatever the number of ranks. A part may be empty where a batch is small.
     *
     * @param from where the rows begin, in units of {@code 1/of} of a batch
     * @param to where they end: the next rank's {@code from}
     * @param of units in a batch
     */
    record Part(int from, int to, int of) implements Share {
        /** Checks the bounds. */
        public Part {
            if (from < 0 || to < from || of < to || of == 0) {
                throw TensorException.argument("share", "0 <= from <= to <= of and of > 0 must hold, got " + from + ", "
                        + to + " and " + of, "change them");
            }
        }

        private int bound(int units, int rows) {
            return (int) ((long) rows * units / of);
        }

        @Override
        public long examples(int size) {
            return size;
        }

        @Override
        public int rows(long first, int rows) {
            return bound(to, rows) - bound(from, rows);
        }

        @Override
        public int place(long first, int rows, int i) {
            return (int) first + bound(from, rows) + i;
        }

        @Override
        public double weight() {
            return (to - from) / (double) of;
        }
    }

    /**
     * Every {@code count}-th example, in full batches of its own, the same number on all ranks: for processes that do
     * not wait for each other.
     *
     * @param number of this shard, from 0
     * @param count how many shards there are
     */
    record Shard(int number, int count) implements Share {
        /** Checks the bounds. */
        public Shard {
            if (number < 0 || count <= number) {
                throw TensorException.argument("share", "0 <= number < count must hold, got " + number + " and "
                        + count,
                        "change them");
            }
        }

        @Override
        public long examples(int size) {
            return size / count;
        }

        @Override
        public int rows(long first, int rows) {
            return rows;
        }

        @Override
        public int place(long first, int rows, int i) {
            return (int) ((first + i) * count + number);
        }

        @Override
        public boolean isSynchronous() {
            return false;
        }
    }

    /**
     * This rank's rows of every batch where each rank has rows of its own. A batch takes of each rank's rows the same
     * fraction as of all rows, so that all ranks come to the end of their rows in the same batch and each row is taken
     * once an epoch. By rounding, a batch may differ from the size that was set by less than the number of ranks, and
     * the part of a rank with few rows is empty in most batches.
     *
     * @param rank whose rows these are
     * @param sizes how many rows each rank has
     */
    record OwnPart(int rank, List<Integer> sizes) implements Share {
        /** Products of a size and a number of rows are below 2⁶³. */
        private static final long MAX_ROWS = 1L << 32;

        /** Checks and copies the sizes. */
        public OwnPart {
            sizes = List.copyOf(sizes);
            if (rank < 0 || rank >= sizes.size() || sizes.stream().anyMatch(size -> size < 0)) {
                throw TensorException.argument("share", "there must be a size >= 0 for each rank, got " + sizes
                        + " and rank " + rank, "give the number of rows of each rank");
            }
            if (sum(sizes) > MAX_ROWS) {
                throw TensorException.argument("share", "all ranks together must have at most 2^32 rows, got "
                        + sum(sizes), "train on a sample, or with a strategy whose ranks do not share batches");
            }
        }

        private long all() {
            return sum(sizes);
        }

        private static long sum(List<Integer> sizes) {
            long sum = 0;
            for (int size : sizes) {
                sum += size;
            }
            return sum;
        }

        /** Returns how many of {@code size} rows are taken when {@code taken} of {@code all} rows are. */
        private static long bound(int size, long taken, long all) {
            return all == 0 ? 0 : size * taken / all;
        }

        private static int between(int size, long first, int rows, long all) {
            return (int) (bound(size, first + rows, all) - bound(size, first, all));
        }

        @Override
        public long examples(int size) {
            if (size != sizes.get(rank)) {
                throw TensorException.argument("share", "rank " + rank + " said that it has " + sizes.get(rank)
                        + " rows, but its data set has " + size, "do not change the data set during a run");
            }
            return all();
        }

        @Override
        public int rows(long first, int rows) {
            return between(sizes.get(rank), first, rows, all());
        }

        @Override
        public int total(long first, int rows) {
            long all = all();
            int total = 0;
            for (int size : sizes) {
                total += between(size, first, rows, all);
            }
            return total;
        }

        @Override
        public int place(long first, int rows, int i) {
            return (int) bound(sizes.get(rank), first, all()) + i;
        }

        @Override
        public boolean isOwn() {
            return true;
        }

        @Override
        public double weight() {
            long all = all();
            return all == 0 ? 0 : sizes.get(rank) / (double) all;
        }
    }

    /** All rows that this process has, in batches of its own: for processes that do not wait for each other. */
    record Own() implements Share {
        @Override
        public long examples(int size) {
            return size;
        }

        @Override
        public int rows(long first, int rows) {
            return rows;
        }

        @Override
        public int place(long first, int rows, int i) {
            return (int) first + i;
        }

        @Override
        public boolean isSynchronous() {
            return false;
        }

        @Override
        public boolean isOwn() {
            return true;
        }
    }

    /** Divides every batch evenly. */
    static Share part(int rank, int world) {
        return new Part(rank, rank + 1, world);
    }

    /**
     * Divides every batch in proportion to {@code weights}, one for each rank, not negative and not all 0.
     *
     * @throws TensorException if a weight is negative, they add up to more than an int holds, or there is none for
     *     {@code rank}
     */
    static Share part(int rank, int[] weights) {
        if (rank < 0 || rank >= weights.length) {
            throw TensorException.argument("share", "there must be a weight for rank " + rank + ", got "
                    + weights.length, "give one weight for each rank");
        }
        long from = 0;
        long of = 0;
        for (int i = 0; i < weights.length; i++) {
            if (weights[i] < 0) {
                throw TensorException.argument("share", "weights must be >= 0, got " + weights[i] + " for rank " + i,
                        "change it");
            }
            from = i == rank ? of : from;
            of += weights[i];
        }
        if (of > Integer.MAX_VALUE) {
            throw TensorException.argument("share", "weights must add up to less than 2^31, got " + of,
                    "divide all by one number");
        }
        return new Part((int) from, (int) from + weights[rank], (int) of);
    }

    /** Takes every {@code world}-th example. */
    static Share shard(int rank, int world) {
        return new Shard(rank, world);
    }

    /** Returns how many examples, on all ranks that share batches, the batches of an epoch are cut from. */
    long examples(int size);

    /**
     * Returns how many rows of a batch belong to this share.
     *
     * @param first of the batch: its number times the size of batches
     * @param rows of the batch, as it was set
     */
    int rows(long first, int rows);

    /** Returns how many rows a batch has on all ranks that share it. */
    default int total(long first, int rows) {
        return rows;
    }

    /**
     * Returns the place in this process's sequence of row {@code i} of this share.
     *
     * @param first of the batch: its number times the size of batches
     * @param rows of the batch, as it was set
     */
    int place(long first, int rows, int i);

    /** Tells whether ranks share batches, so that all of them are at the same step. */
    default boolean isSynchronous() {
        return true;
    }

    /** Tells whether each process has rows of its own, of which no other knows. */
    default boolean isOwn() {
        return false;
    }

    /** Returns what this process measures of held-out data: its part, or all where the rows are its own. */
    default Share ofHeldOut() {
        return isSynchronous() && !isOwn() ? this : WHOLE;
    }

    /** Returns what fraction of the rows of a batch this share takes, on average. */
    default double weight() {
        return 1;
    }
}
