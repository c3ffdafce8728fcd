package dev.starling.distributed.collective.network;

import dev.starling.distributed.collective.call.CollectiveCall;

/**
 * Iterates over the pieces that one rank sends or receives around a ring. The elements are divided into chunks and each
 * chunk into pieces; in step s a rank sends the chunk that it received in step s - 1. The pieces of a chunk form
 * segments, so that a rank forwards received pieces soon. Sender and receiver iterate in the same order, turn by turn.
 * If segments overlap, turn t consists of segment t - s of each step s, in the order of steps. If they do not, each
 * segment passes through all steps before the next segment starts, one segment a turn, which bounds the amount of data
 * between two steps.
 */
final class PieceCursor {
    /** Up to how many bytes are left at the end of a chunk that belong to the piece before them. */
    private final long longestRemainder;
    private long pieceBytes;
    private long bytes;
    private int chunks;
    private boolean equal;
    private int base;
    private int steps;
    private int firstStep;
    private int segmentPieces;
    private boolean overlapped;

    private long turn;
    private long segment;
    private int step;
    private long piece;
    private long chunkStart;
    private long chunkEnd;
    private long chunkPieces;
    /** Number of pieces that are left. */
    private long left;

    PieceCursor(long longestRemainder) {
        this.longestRemainder = longestRemainder;
    }

    /**
     * Begins an iteration.
     *
     * @param equalChunks whether chunks have equal lengths; otherwise they have similar lengths and start on cache
     *     lines
     * @param chunk of step 0; step 1 has the chunk before it, and so on
     * @param from first step
     * @param to step after the last
     * @param pieceLength of a piece in bytes; the last of a chunk may have less, or a short remainder more
     * @param segmentLength in pieces
     * @param segmentsOverlap whether a segment starts before the previous one has passed through all steps
     */
    void begin(long totalBytes, int chunkCount, boolean equalChunks, int chunk, int from, int to, long pieceLength,
            int segmentLength, boolean segmentsOverlap) {
        pieceBytes = pieceLength;
        bytes = totalBytes;
        chunks = chunkCount;
        equal = equalChunks;
        base = chunk;
        firstStep = from;
        steps = to;
        segmentPieces = segmentLength;
        overlapped = segmentsOverlap;
        turn = 0;
        step = from;
        left = 0;
        for (int s = from; s < to; s++) {
            int its = Math.floorMod(base - s, chunks);
            left += pieces(start(its + 1) - start(its));
        }
        if (left > 0) {
            enter();
            settle();
        }
    }

    /** Begins an iteration without pieces. */
    void beginEmpty() {
        left = 0;
    }

    private void enter() {
        segment = overlapped ? turn - (step - firstStep) : turn;
        int chunk = Math.floorMod(base - step, chunks);
        chunkStart = start(chunk);
        chunkEnd = start(chunk + 1);
        chunkPieces = pieces(chunkEnd - chunkStart);
        piece = segment * segmentPieces;
    }

    private long pieces(long length) {
        return length == 0 ? 0 : Math.max(1, Math.ceilDiv(length - longestRemainder, pieceBytes));
    }

    private long start(int chunk) {
        return CollectiveCall.start(bytes, chunks, equal, chunk);
    }

    /** Advances to the next step that has a piece, if there is one. */
    private void settle() {
        while (left > 0 && (segment < 0 || piece >= chunkPieces || piece >= (segment + 1) * segmentPieces)) {
            step++;
            if (step == steps) {
                step = firstStep;
                turn++;
            }
            enter();
        }
    }

    void next() {
        left--;
        piece++;
        settle();
    }

    boolean isAtEnd() {
        return left == 0;
    }

    /** Returns whether this piece is the last. */
    boolean isLast() {
        return left == 1;
    }

    int step() {
        return step;
    }

    /** Returns the offset of the piece in bytes. */
    long offset() {
        return chunkStart + piece * pieceBytes;
    }

    /** Returns the length of the piece in bytes. */
    long length() {
        return piece == chunkPieces - 1 ? chunkEnd - offset() : pieceBytes;
    }

    /** Returns whether this iteration has passed, one step earlier, the piece at which another iteration is. */
    boolean isPast(PieceCursor other) {
        int before = other.step - 1;
        long then = overlapped ? other.turn - 1 : other.turn;
        if (left == 0 || turn != then) {
            return left == 0 || turn > then;
        }
        return step != before ? step > before : piece > other.piece;
    }
}
