package dev.starling.distributed.ps.server;

import java.nio.ByteOrder;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/** Sums values of all workers, round by round, in the order of the workers' numbers. */
final class Sums {
    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;
    private static final int COUNT = 8;
    private static final int VALUES = 12;

    private final double[][] contributions;
    private long round = -1;
    private double[] total;

    Sums(int workers) {
        contributions = new double[workers][];
    }

    /** Returns the round of {@link #total}, or -1 if none is complete. */
    long round() {
        return round;
    }

    double[] total() {
        return total;
    }

    /** Decodes a worker's round, count and values, and adds them; ignores malformed messages. See {@link #add}. */
    boolean receive(int worker, DirectBuffer buffer, int offset, int length) {
        int n = count(buffer, offset, length);
        if (n < 0) {
            return false;
        }
        double[] values = new double[n];
        for (int i = 0; i < n; i++) {
            values[i] = buffer.getDouble(offset + VALUES + 8 * i, ORDER);
        }
        return add(worker, buffer.getLong(offset, ORDER), values);
    }

    /** Returns whether a message repeats values of the last complete round, whose total the worker may have missed. */
    boolean hasTotalFor(DirectBuffer buffer, int offset, int length) {
        return total != null && count(buffer, offset, length) >= 0 && buffer.getLong(offset, ORDER) == round;
    }

    private static int count(DirectBuffer buffer, int offset, int length) {
        int n = length < VALUES ? -1 : buffer.getInt(offset + COUNT, ORDER);
        return n >= 0 && length == VALUES + 8L * n ? n : -1;
    }

    /** Writes round, count and sums of the last complete round; returns the offset of their end. */
    int writeTotal(MutableDirectBuffer message, int at) {
        message.putLong(at, round, ORDER);
        message.putInt(at + COUNT, total.length, ORDER);
        for (int i = 0; i < total.length; i++) {
            message.putDouble(at + VALUES + 8 * i, total[i], ORDER);
        }
        return at + VALUES + 8 * total.length;
    }

    /**
     * Adds a worker's values; returns whether they complete their round. Repeated values, and values of a round other
     * than the next, have no effect.
     */
    boolean add(int worker, long ofRound, double[] values) {
        if (ofRound != round + 1) {
            return false;
        }
        contributions[worker] = values;
        for (double[] each : contributions) {
            if (each == null || each.length != values.length) {
                return false;
            }
        }
        total = new double[values.length];
        for (int w = 0; w < contributions.length; w++) {
            for (int i = 0; i < values.length; i++) {
                total[i] += contributions[w][i];
            }
            contributions[w] = null;
        }
        round = ofRound;
        return true;
    }
}
