package dev.starling.nn.data;

import dev.starling.tensor.TensorException;
import java.util.List;

/**
 * The share of the data that one of several processes reads. An epoch is a sequence of examples that depends only on
 * the seed and the epoch's number and is divided into batches. {@link Part} and {@link Shard} divide one sequence that
 * all processes have. {@link OwnPart} and {@link Own} are for processes that each have rows of their own.
 */
public sealed interface Share {
    /**
     * Some rows of every batch. The parts of all ranks together are exactly the batches of a single process, and a
     * position in the epoch has the same meaning for any number of ranks. A part may be empty if a batch is small.
     *
     * @param from where the rows start, in units of {@code 1/of} of a batch
     * @param to where they end, which is the next rank's {@code from}
     * @param of units in a batch
     */
    record Part(int from, int to, int of) implements Share {
        /** Checks the bounds. */
        public Part {
            if (from < 0 || to < from || of < to || of == 0) {
                throw TensorException.argument("share", "0 <= from <= to <= of and of > 0 must hold, got " + from + ", "
                        + to + " and " + of, "correct them");
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
     * Every {@code count}-th example, in full batches of this process alone. The number of batches is equal on all
     * ranks. This is for processes that do not wait for each other.
     *
     * @param number number of this shard, from 0
     * @param count number of shards
     */
    record Shard(int number, int count) implements Share {
        /** Checks the bounds. */
        public Shard {
            if (number < 0 || count <= number) {
                throw TensorException.argument("share", "0 <= number < count must hold, got " + number + " and "
                        + count, "correct them");
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
     * This rank's rows of every batch if each rank has rows of its own. A batch contains the same fraction of each
     * rank's rows as of all rows. All ranks therefore reach the end of their rows in the same batch, and each row is
     * read once per epoch. By rounding, the size of a batch may differ from the configured size by less than the number
     * of ranks, and the part of a rank with few rows is empty in most batches.
     *
     * @param rank the rank that has these rows
     * @param sizes the number of rows of each rank
     */
    record OwnPart(int rank, List<Integer> sizes) implements Share {
        /** Limits products of a size and a number of rows to less than 2⁶³. */
        private static final long MAX_ROWS = 1L << 32;

        /** Checks and copies the sizes. */
        public OwnPart {
            sizes = List.copyOf(sizes);
            if (rank < 0 || rank >= sizes.size() || sizes.stream().anyMatch(size -> size < 0)) {
                throw TensorException.argument("share", "there must be a size >= 0 for each rank, got " + sizes
                        + " and rank " + rank, "pass the number of rows of each rank");
            }
            if (sum(sizes) > MAX_ROWS) {
                throw TensorException.argument("share", "all ranks together may have at most 2^32 rows, got "
                        + sum(sizes), "train on a sample, or with a strategy whose ranks do not share batches");
            }
        }

        private long totalRows() {
            return sum(sizes);
        }

        private static long sum(List<Integer> sizes) {
            long sum = 0;
            for (int size : sizes) {
                sum += size;
            }
            return sum;
        }

        /**
         * Returns how many of {@code size} rows have been read when {@code taken} of {@code all} rows have been read.
         */
        private static long bound(int size, long read, long all) {
            return all == 0 ? 0 : size * read / all;
        }

        private static int between(int size, long first, int rows, long all) {
            return (int) (bound(size, first + rows, all) - bound(size, first, all));
        }

        @Override
        public long examples(int size) {
            if (size != sizes.get(rank)) {
                throw TensorException.argument("share", "rank " + rank + " announced " + sizes.get(rank)
                        + " rows, but its data set has " + size, "do not change the data set during a run");
            }
            return totalRows();
        }

        @Override
        public int rows(long first, int rows) {
            return between(sizes.get(rank), first, rows, totalRows());
        }

        @Override
        public int total(long first, int rows) {
            long all = totalRows();
            int total = 0;
            for (int size : sizes) {
                total += between(size, first, rows, all);
            }
            return total;
        }

        @Override
        public int place(long first, int rows, int i) {
            return (int) bound(sizes.get(rank), first, totalRows()) + i;
        }

        @Override
        public boolean isOwn() {
            return true;
        }

        @Override
        public double weight() {
            long all = totalRows();
            return all == 0 ? 0 : sizes.get(rank) / (double) all;
        }
    }

    /** All rows of this process, in batches of its own. This is for processes that do not wait for each other. */
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

    /** Returns all rows of all batches: the share of a process that trains alone. */
    static Share whole() {
        return new Part(0, 1, 1);
    }

    /** Divides every batch evenly among the ranks. */
    static Share part(int rank, int world) {
        return new Part(rank, rank + 1, world);
    }

    /**
     * Divides every batch in proportion to {@code weights}, one for each rank, none negative and not all 0.
     *
     * @throws TensorException if a weight is negative, the weights add up to more than an int can hold, or there is
     *     none for {@code rank}
     */
    static Share part(int rank, int[] weights) {
        if (rank < 0 || rank >= weights.length) {
            throw TensorException.argument("share", "there must be a weight for rank " + rank + ", got "
                    + weights.length, "pass one weight for each rank");
        }
        long from = 0;
        long of = 0;
        for (int i = 0; i < weights.length; i++) {
            if (weights[i] < 0) {
                throw TensorException.argument("share", "weights must be >= 0, got " + weights[i] + " for rank " + i,
                        "use a weight of 0 or more");
            }
            from = i == rank ? of : from;
            of += weights[i];
        }
        if (of > Integer.MAX_VALUE) {
            throw TensorException.argument("share", "weights must add up to less than 2^31, got " + of,
                    "divide all weights by the same number");
        }
        return new Part((int) from, (int) from + weights[rank], (int) of);
    }

    /** Returns a shard that consists of every {@code world}-th example. */
    static Share shard(int rank, int world) {
        return new Shard(rank, world);
    }

    /**
     * Returns the number of examples that an epoch divides into batches; on all ranks together if they share batches.
     */
    long examples(int size);

    /**
     * Returns the number of rows of a batch that belong to this share.
     *
     * @param first first row of the batch: its number times the batch size
     * @param rows configured number of rows of the batch
     */
    int rows(long first, int rows);

    /** Returns the number of rows that a batch has on all ranks that share it. */
    default int total(long first, int rows) {
        return rows;
    }

    /**
     * Returns the position of row {@code i} of this share in the sequence of examples of this process.
     *
     * @param first first row of the batch: its number times the batch size
     * @param rows configured number of rows of the batch
     */
    int place(long first, int rows, int i);

    /** Returns whether the ranks share batches, so that all of them are at the same step. */
    default boolean isSynchronous() {
        return true;
    }

    /** Returns whether each process has rows of its own that no other process knows. */
    default boolean isOwn() {
        return false;
    }

    /**
     * Returns the share of held-out data that this process evaluates: its part, or all of it if the rows are its own.
     */
    default Share ofHeldOut() {
        return isSynchronous() && !isOwn() ? this : whole();
    }

    /** Returns the fraction of the rows of a batch that belongs to this share, on average. */
    default double weight() {
        return 1;
    }
}
