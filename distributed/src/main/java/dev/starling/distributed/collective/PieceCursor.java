package dev.starling.distributed.collective;

/**
 * Walks over the pieces that one rank sends or receives around a ring. The elements are divided into chunks and each
 * chunk into pieces; in step s a rank sends the chunk that it received in step s - 1. To bound how much is on its way
 * between two steps, the pieces may be divided into segments, each of which goes through all steps before the next.
 * Sender and receiver walk alike: by segment, then by step, then by piece.
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
    private long segmentPieces;

    private long segment;
    private int step;
    private long piece;
    private long chunkStart;
    private long chunkEnd;
    private boolean ended;

    /**
     * Begins.
     *
     * @param isEqual whether chunks are equal, or else alike in length but begin on cache lines
     * @param chunk that goes in step 0; the one before it in step 1, and so on
     * @param from first step
     * @param to step behind the last
     * @param pieceLength in bytes, of the longest pieces
     * @param segmentLength in pieces of each chunk
     */
    void begin(long totalBytes, int chunkCount, boolean isEqual, int chunk, int from, int to, long pieceLength,
            long segmentLength) {
        pieceBytes = pieceLength;
        bytes = totalBytes;
        chunks = chunkCount;
        equal = isEqual;
        base = chunk;
        firstStep = from;
        steps = to;
        segmentPieces = segmentLength;
        segment = 0;
        step = from;
        ended = from >= to;
        if (!ended) {
            enter();
            settle();
        }
    }

    /** Begins with nothing to walk over. */
    void beginEmpty() {
        ended = true;
    }

    private void enter() {
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

    /** Goes on to the next step that has a piece, or to the end. */
    private void settle() {
        while (!ended && (offset() >= chunkEnd || piece >= (segment + 1) * segmentPieces)) {
            step++;
            if (step == steps) {
                step = firstStep;
                segment++;
                ended = segment * segmentPieces * pieceBytes >= longest();
            }
            enter();
        }
    }

    private long longest() {
        return equal ? bytes / chunks : ((bytes + LINE - 1) / LINE + chunks - 1) / chunks * LINE;
    }

    void next() {
        piece++;
        settle();
    }

    boolean isAtEnd() {
        return ended;
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
        if (ended || segment != other.segment) {
            return ended || segment > other.segment;
        }
        int before = other.step - 1;
        return step != before ? step > before : piece > other.piece;
    }
}
