package dev.starling.jmh.cluster;

/**
 * Predicts how long an all-reduce over the network takes, from how long a message of each size takes between two
 * processes. The algorithms and the sizes at which they change are those of Starling's network collectives. Where more
 * ranks are busy in a step than there are processors, they take turns, and the step ends with the last.
 *
 * @param hop time of a step in which neighbours send each other a message, each on a processor of its own
 * @param processors of all ranks together
 * @param waitNanos for how long a rank that needs a message waits for its turn, in addition to the turns before it:
 *     ranks with nothing to do poll, too
 * @param slowdown how many times as long a byte takes where ranks take turns, as they share caches
 */
record AllReduceModel(Hop hop, int processors, double waitNanos, double slowdown) {
    /** The sizes up to which small all-reduces are gathered, and larger ones exchange halves. */
    private static final int MAX_GATHERED = 16 << 10;
    private static final int MAX_PAYLOAD = 24 << 10;
    private static final int MAX_HALVED = 256 << 10;
    /** Bytes of a piece of a ring, and of a remainder that belongs to the piece before it. */
    private static final int MIN_PIECE = 64_768;
    private static final int MAX_PIECE = 390_528;
    private static final int REMAINDER = 8 << 10;

    /** As many corrections of the wait and of the slowdown, which depend on each other a little. */
    private static final int CALIBRATIONS = 50;

    /** A measured all-reduce. */
    record Sum(double bytes, double nanos) {
    }

    /** The cost of a message. */
    interface Hop {
        /**
         * Returns the nanoseconds of a step in which two neighbours send each other this many bytes, until both have
         * received and added them.
         */
        double nanos(double bytes);

        /** Returns the nanoseconds until bytes that only one of two neighbours sends were received and added. */
        default double oneWayNanos(double bytes) {
            return nanos(bytes);
        }
    }

    /** Returns the costs on a link of a latency and a bandwidth. */
    static Hop link(double latencyNanos, double bytesPerNano) {
        return bytes -> latencyNanos + bytes / bytesPerNano;
    }

    /**
     * Costs over the loopback device that were measured at some sizes, in ascending order, with straight lines between
     * them. Processors that copy are what costs, not the link: of two neighbours that send each other something, each
     * first copies a packet to the kernel and then another from it; if only one sends, it copies a packet while the
     * other receives the one before.
     */
    record Measured(double[] sizes, double[] nanos) implements Hop {
        /** The largest packet of the loopback device. */
        private static final int PACKET = 64 << 10;

        @Override
        public double nanos(double bytes) {
            int i = 1;
            while (i < sizes.length - 1 && bytes > sizes[i]) {
                i++;
            }
            double slope = (nanos[i] - nanos[i - 1]) / (sizes[i] - sizes[i - 1]);
            return bytes <= sizes[0] ? nanos[0] : nanos[i - 1] + (bytes - sizes[i - 1]) * slope;
        }

        @Override
        public double oneWayNanos(double bytes) {
            double packets = Math.max(1, bytes / PACKET);
            return nanos[0] + (nanos(bytes) - nanos[0]) * (packets + 1) / (2 * packets);
        }
    }

    /** Returns the model of ranks that have a processor each. */
    static AllReduceModel of(Hop hop) {
        return new AllReduceModel(hop, Integer.MAX_VALUE, 0, 1);
    }

    /**
     * Returns the model of ranks that share processors and take a measured time for a small sum and for a large one:
     * what the turns do not explain of the small one is the wait for them, and of the large one the slowdown.
     */
    AllReduceModel sharing(int sharedProcessors, int ranks, Sum small, Sum large) {
        AllReduceModel model = new AllReduceModel(hop, sharedProcessors, 0, 1);
        if (model.turns(ranks) == 1) {
            return model;
        }
        for (int i = 0; i < CALIBRATIONS; i++) {
            double turns = model.waiting(0).nanos(ranks, small.bytes);
            double waits = model.waiting(1).nanos(ranks, small.bytes) - turns;
            model = model.waiting(Math.max(0, (small.nanos - turns) / waits));
            model = new AllReduceModel(hop, sharedProcessors, model.waitNanos,
                    model.slowdown * large.nanos / model.nanos(ranks, large.bytes));
        }
        return model;
    }

    private AllReduceModel waiting(double nanos) {
        return new AllReduceModel(hop, processors, nanos, slowdown);
    }

    /** Returns the nanoseconds of an all-reduce of f32 among ranks that share nothing but their processors. */
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
            sum += step(ranks, ranks, hop.nanos(Math.min(blocks, ranks - blocks) * bytes));
        }
        return sum;
    }

    /** A half, a quarter and so on, and back; if the ranks are no power of two, some first send all to a neighbour. */
    private double halving(int ranks, double bytes) {
        // The ranks agree on the call while the first message is on its way.
        int power = Integer.highestOneBit(ranks);
        double sum = ranks == power ? 0 : 2 * step(ranks, 2 * (ranks - power), hop.oneWayNanos(bytes));
        double part = bytes;
        for (int others = power; others > 1; others /= 2) {
            part /= 2;
            sum += 2 * step(ranks, power, hop.nanos(part));
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
        if (!overlaps(segment)) {
            return 2 * (ranks - 1) * step(ranks, ranks, hop.nanos(segment));
        }
        double busy = turn(ranks, hop.nanos(segment)) - hop.nanos(0);
        double piece = Math.clamp(segment / 2, MIN_PIECE, MAX_PIECE);
        double waits = turns(ranks) > 1 ? Math.ceil((segment - REMAINDER) / piece) * waitNanos : 0;
        // No step ends with a turn: the processors are shared equally.
        double share = Math.max(1, (double) ranks / processors);
        return 2 * (ranks - 1) * (share * Math.max(busy, turn(ranks, hop.nanos(piece))) + waits) + share * hop.nanos(0);
    }

    /** Returns the nanoseconds of a step in which some of the ranks are busy, given those of two neighbours alone. */
    private double step(int ranks, int busyRanks, double nanos) {
        return turns(busyRanks) * turn(busyRanks, nanos) + (turns(ranks) > 1 ? waitNanos : 0);
    }

    /** Returns the nanoseconds of a rank's turn, given those of two neighbours alone. */
    private double turn(int busyRanks, double nanos) {
        double first = hop.nanos(0);
        return first + (turns(busyRanks) > 1 ? slowdown : 1) * (nanos - first);
    }

    /** Returns how many ranks the busiest processor serves. */
    private int turns(int busyRanks) {
        return Math.ceilDiv(busyRanks, processors);
    }

    /** Returns whether a segment of a ring has several pieces, which overlap. */
    static boolean overlaps(double segmentBytes) {
        return segmentBytes > MIN_PIECE + REMAINDER;
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
