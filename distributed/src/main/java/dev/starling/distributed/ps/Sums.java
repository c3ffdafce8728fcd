package dev.starling.distributed.ps;

/** Adds up numbers of all workers, round by round, in the order of their numbers. */
final class Sums {
    private final double[][] given;
    private long round = -1;
    private double[] total;

    Sums(int workers) {
        given = new double[workers][];
    }

    /** Returns the round that {@link #total} is of, or -1. */
    long round() {
        return round;
    }

    double[] total() {
        return total;
    }

    /**
     * Takes a worker's numbers; returns whether they are the last of their round. Repetitions change nothing, nor do
     * numbers of any round but the next.
     */
    boolean add(int worker, long ofRound, double[] values) {
        if (ofRound != round + 1) {
            return false;
        }
        given[worker] = values;
        for (double[] each : given) {
            if (each == null || each.length != values.length) {
                return false;
            }
        }
        total = new double[values.length];
        for (int w = 0; w < given.length; w++) {
            for (int i = 0; i < values.length; i++) {
                total[i] += given[w][i];
            }
            given[w] = null;
        }
        round = ofRound;
        return true;
    }
}
