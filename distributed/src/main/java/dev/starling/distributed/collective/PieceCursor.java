package dev.starling.distributed.collective;

/**
 * Walks over the pieces that one rank sends or receives around a ring. The elements are divided into chunks and each
 * chunk into pieces; in step s a rank sends the chunk that it received in step s - 1. Pieces are divided into segments,
 * so that what a rank receives is sent on soon. Sender and receiver walk alike, by turns; in turn t, one step after the
 * other, segment t - s goes through step s if segments overlap. If they do not, each goes through all steps before the
 * next, one a turn: that bounds how much is on its way between two steps.
 */
final class PieceCursor {
    private static final long LINE = 64;

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
    /** Pieces that have yet to be walked over. */
    private long left;

    /**
     * Begins.
     *
     * @param isEqual whether chunks are equal, or else alike in length but begin on cache lines
     * @param chunk that goes in step 0; the one before it in step 1, and so on
     * @param from first step
     * @param to step behind the last
     * @param pieceLength in bytes, of the longest pieces
     * @param segmentLength in pieces of each chunk
     * @param segmentsOverlap whether a segment begins before the one before it has gone through all steps
     */
    void begin(long totalBytes, int chunkCount, boolean isEqual, int chunk, int from, int to, long pieceLength,
            int segmentLength, boolean segmentsOverlap) {
        pieceBytes = pieceLength;
        bytes = totalBytes;
        chunks = chunkCount;
        equal = isEqual;
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
            left += (start(its + 1) - start(its) + pieceBytes - 1) / pieceBytes;
        }
        if (left > 0) {
            enter();
            settle();
        }
    }

    /** Begins with nothing to walk over. */
    void beginEmpty() {
        left = 0;
    }

    private void enter() {
        segment = overlapped ? turn - (step - firstStep) : turn;
        int chunk = Math.floorMod(base - step, chunks);
        chunkStart = start(chunk);
        chunkEnd = start(chunk + 1);
        piece = segment * segmentPieces;
    }

    private long start(int chunk) {
        if (chunk == chunks) {
            return bytes;
        }
        if (equal) {
            return bytes / chunks * chunk;
        }
        long lines = (bytes + LINE - 1) / LINE;
        return Math.min(bytes, lines * chunk / chunks * LINE);
    }

    /** Goes on to the next step that has a piece, if there is one. */
    private void settle() {
        while (left > 0 && (segment < 0 || offset() >= chunkEnd || piece >= (segment + 1) * segmentPieces)) {
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

    /** Returns whether no other piece comes after this one. */
    boolean isLast() {
        return left == 1;
    }

    int step() {
        return step;
    }

    /** Returns the byte at which the piece begins. */
    long offset() {
        return chunkStart + piece * pieceBytes;
    }

    /** Returns the number of bytes of the piece. */
    long length() {
        return Math.min(pieceBytes, chunkEnd - offset());
    }

    /** Returns whether the piece that the other sends next has been walked over here, one step before. */
    boolean isPast(PieceCursor other) {
        int before = other.step - 1;
        long then = overlapped ? other.turn - 1 : other.turn;
        if (left == 0 || turn != then) {
            return left == 0 || turn > then;
        }
        return step != before ? step > before : piece > other.piece;
    }
}
