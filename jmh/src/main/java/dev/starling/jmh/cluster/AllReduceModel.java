package dev.starling.jmh.cluster;

/**
 * Predicts how long an all-reduce over the network takes, from how long a message of each size takes between two
 * processes. The algorithms and the sizes at which they change are those of Starling's network collectives.
 *
 * @param hop time of a step in which neighbours send each other a message
 */
record AllReduceModel(Hop hop) {
    /** The sizes up to which small all-reduces are gathered, and larger ones exchange halves. */
    private static final int MAX_GATHERED = 16 << 10;
    private static final int MAX_PAYLOAD = 24 << 10;
    private static final int MAX_HALVED = 256 << 10;
    /** Bytes of a piece of a ring. */
    private static final int MIN_PIECE = 64 << 10;
    private static final int MAX_PIECE = 392_576;

    /** The cost of a message. */
    interface Hop {
        /** Returns the nanoseconds from the beginning of a step until a message of this size was received and added. */
        double nanos(double bytes);
    }

    /** Returns the costs on a link of a latency and a bandwidth. */
    static Hop link(double latencyNanos, double bytesPerNano) {
        return bytes -> latencyNanos + bytes / bytesPerNano;
    }

    /** Returns costs that were measured at some sizes, in ascending order, with straight lines between them. */
    static Hop measured(double[] sizes, double[] nanos) {
        return bytes -> {
            int i = 1;
            while (i < sizes.length - 1 && bytes > sizes[i]) {
                i++;
            }
            double slope = (nanos[i] - nanos[i - 1]) / (sizes[i] - sizes[i - 1]);
            return bytes <= sizes[0] ? nanos[0] : nanos[i - 1] + (bytes - sizes[i - 1]) * slope;
        };
    }

    /** Returns the costs on processors that each serve several processes. */
    AllReduceModel sharedBy(double processesOfAProcessor) {
        return new AllReduceModel(bytes -> Math.max(1, processesOfAProcessor) * hop.nanos(bytes));
    }

    /** Returns the nanoseconds of an all-reduce of f32 among ranks that are each on a host of their own. */
    double nanos(int ranks, double bytes) {
        if (bytes <= maxGathered(ranks)) {
            return gather(ranks, bytes);
        }
        return ranks > 2 && bytes <= MAX_HALVED ? halving(ranks, bytes) : ring(ranks, bytes);
    }

    private static int maxGathered(int ranks) {
        return Math.min(MAX_GATHERED, MAX_PAYLOAD / Math.max(1, ranks / 2) / 64 * 64);
    }

    /** In round i a rank sends the elements of 2^i ranks. */
    private double gather(int ranks, double bytes) {
        double sum = 0;
        for (int blocks = 1; blocks < ranks; blocks *= 2) {
            sum += hop.nanos(Math.min(blocks, ranks - blocks) * bytes);
        }
        return sum;
    }

    /** A half, a quarter and so on, and back; if the ranks are no power of two, some first send all to a neighbour. */
    private double halving(int ranks, double bytes) {
        // The ranks agree on the call while the first message is on its way.
        double sum = Integer.bitCount(ranks) == 1 ? 0 : 2 * hop.nanos(bytes);
        double part = bytes;
        for (int others = Integer.highestOneBit(ranks); others > 1; others /= 2) {
            part /= 2;
            sum += 2 * hop.nanos(part);
        }
        return sum;
    }

    /**
     * A segment crosses every link twice, but for one. The ranks agree on the call while the first segments are on
     * their way. Segments of several pieces overlap: then either the links are always busy, or a piece is always under
     * way.
     */
    double ring(int ranks, double bytes) {
        double segment = bytes / ranks;
        double busy = hop.nanos(segment) - hop.nanos(0);
        double piece = Math.clamp(segment / 2, MIN_PIECE, MAX_PIECE);
        return overlaps(segment) ? 2 * (ranks - 1) * Math.max(busy, hop.nanos(piece)) + hop.nanos(0)
                : 2 * (ranks - 1) * hop.nanos(segment);
    }

    /** Returns whether a segment of a ring has several pieces, which overlap. */
    static boolean overlaps(double segmentBytes) {
        return segmentBytes > MIN_PIECE;
    }

    /**
     * Returns the nanoseconds of an all-reduce by host.
     *
     * @param bytesPerNano at which the ranks of a host add up, or copy, in the memory that they share
     */
    double byHost(int hosts, double bytes, double bytesPerNano) {
        return 2 * bytes / bytesPerNano + ring(hosts, bytes);
    }
}
