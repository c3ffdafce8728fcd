package dev.starling.nn.data;

import dev.starling.tensor.TensorException;

/**
 * What one of several processes takes of the data. An epoch is a sequence of examples that depends on seed and number
 * alone, cut into batches; all shares speak of that sequence.
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
        public int examples(int size) {
            return size;
        }

        @Override
        public int rows(int rows) {
            return bound(to, rows) - bound(from, rows);
        }

        @Override
        public int place(int first, int rows, int i) {
            return first + bound(from, rows) + i;
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
        public int examples(int size) {
            return size / count;
        }

        @Override
        public int rows(int rows) {
            return rows;
        }

        @Override
        public int place(int first, int rows, int i) {
            return (first + i) * count + number;
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

    /** Returns how many examples of {@code size} the batches of an epoch are cut from. */
    int examples(int size);

    /** Returns how many rows of a batch of {@code rows} rows belong to this share. */
    int rows(int rows);

    /**
     * Returns the place in the epoch's sequence of row {@code i} of this share.
     *
     * @param first of the batch: its number times the size of batches
     * @param rows of the batch
     */
    int place(int first, int rows, int i);
}
