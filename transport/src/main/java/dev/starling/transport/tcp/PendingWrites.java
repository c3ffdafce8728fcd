package dev.starling.transport.tcp;

import dev.starling.transport.spi.RemoteWrites;

/** The writes of a link whose completions have yet to be called, in order. Its arrays are reused. */
final class PendingWrites {
    private static final int CAPACITY = 1024;
    private static final long NEVER = Long.MAX_VALUE;

    private final RemoteWrites.Completion[] completions = new RemoteWrites.Completion[CAPACITY];
    private final long[] tags = new long[CAPACITY];
    /** By write, how many pieces of registered memory must have been sent before the source may change. */
    private final long[] pieces = new long[CAPACITY];
    private long added;
    private long completed;
    /** Writes below this number were sent before the connection broke, the others were not. */
    private long failedFrom = NEVER;
    private long failedBelow;

    boolean isFull() {
        return added - completed == CAPACITY;
    }

    boolean isEmpty() {
        return added == completed;
    }

    void add(RemoteWrites.Completion completion, long tag, long piece) {
        int slot = (int) (added++ % CAPACITY);
        completions[slot] = completion;
        tags[slot] = tag;
        pieces[slot] = piece;
    }

    /** Notes that the connection broke, after a number of pieces were sent. */
    void breakOff(long piecesSent) {
        long number = completed;
        while (number < added && pieces[(int) (number % CAPACITY)] <= piecesSent) {
            number++;
        }
        failedFrom = number;
        failedBelow = added;
    }

    /** Calls the completions of writes whose sources may change again; returns how many. */
    int complete(long piecesSent) {
        int work = 0;
        while (completed < added && (completed < failedBelow
                || pieces[(int) (completed % CAPACITY)] <= piecesSent)) {
            int slot = (int) (completed % CAPACITY);
            RemoteWrites.Completion completion = completions[slot];
            boolean sent = completed < failedFrom || completed >= failedBelow;
            completions[slot] = null;
            completed++;
            work++;
            completion.onComplete(tags[slot], sent);
        }
        return work;
    }
}
