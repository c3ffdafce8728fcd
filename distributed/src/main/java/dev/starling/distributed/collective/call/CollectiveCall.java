package dev.starling.distributed.collective.call;

import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.collective.reduce.ReduceKernels;
import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Locale;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** The arguments of a collective, which must be equal on all ranks. Immutable; created once and used for every step. */
public final class CollectiveCall {
    /** Maximum length in bytes of the UTF-8 text that is sent to peers; the rest is cut off. */
    public static final int MAX_TEXT = 1000;

    private static final long LINE = 64;

    private final Kind kind;
    private final DType dtype;
    /** {@code null} if elements are not reduced. */
    private final @Nullable ReduceOp op;
    private final long count;
    private final int root;
    private final String label;
    /** Contains everything that must be equal on all ranks. A different hash means a different call. */
    private final String text;
    private final byte[] textBytes;
    private final long hash;

    private CollectiveCall(Kind kind, DType dtype, @Nullable ReduceOp op, long count, int root, String label,
            String place) {
        if (count < 0) {
            throw TensorException.argument("collective", "count >= 0 must hold, got " + count,
                    "pass the number of elements");
        }
        if (op != null && !ReduceKernels.supports(dtype)) {
            throw TensorException.argument("collective", "elements of " + dtype + " cannot be reduced",
                    "convert them to i32");
        }
        this.kind = kind;
        this.dtype = dtype;
        this.op = op;
        this.count = count;
        this.root = root;
        this.label = label;
        text = describe(place);
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        long h = 0xcbf29ce484222325L;
        for (byte b : bytes) {
            h = (h ^ b) * 0x100000001b3L;
        }
        hash = h;
        textBytes = Arrays.copyOf(bytes, Math.min(bytes.length, MAX_TEXT));
    }

    /** All ranks get the reduction of {@code count} elements of all ranks, in place. */
    public static CollectiveCall allReduce(DType dtype, ReduceOp op, long count, String label) {
        return new CollectiveCall(Kind.ALL_REDUCE, dtype, Objects.requireNonNull(op), count, 0, label, "");
    }

    /**
     * Rank r gets the reduction of chunk r of {@code count} elements, in place: the chunks are equal, so
     * {@code count} is a multiple of the number of ranks.
     */
    public static CollectiveCall reduceScatter(DType dtype, ReduceOp op, long count, String label) {
        return new CollectiveCall(Kind.REDUCE_SCATTER, dtype, Objects.requireNonNull(op), count, 0, label, "");
    }

    /** All ranks get chunk r of {@code count} elements from rank r, in place: the chunks are equal. */
    public static CollectiveCall allGather(DType dtype, long count, String label) {
        return new CollectiveCall(Kind.ALL_GATHER, dtype, null, count, 0, label, "");
    }

    /** All ranks get {@code count} elements from rank {@code root}, in place. */
    public static CollectiveCall broadcast(DType dtype, long count, int root, String label) {
        return new CollectiveCall(Kind.BROADCAST, dtype, null, count, root, label, "");
    }

    /** No rank continues before all have called the barrier. */
    public static CollectiveCall barrier(String label) {
        return new CollectiveCall(Kind.BARRIER, DType.U8, null, 0, 0, label, "");
    }

    /**
     * Returns the call for elements of a buffer, so that a mismatch of buffers or offsets is detected, too.
     *
     * @param buffer number of the buffer in its epoch
     * @param offset of the elements in the buffer, in bytes
     */
    public CollectiveCall in(long buffer, long offset) {
        return new CollectiveCall(kind, dtype, op, count, root, label, " in buffer " + buffer + " at byte " + offset);
    }

    private String describe(String place) {
        String what = kind.name().toLowerCase(Locale.ROOT).replace('_', ' ');
        String operation = op == null ? "" : " (" + op.name().toLowerCase(Locale.ROOT) + ")";
        String elements = kind == Kind.BARRIER ? "" : " of " + dtype + "[" + count + "]";
        String from = kind == Kind.BROADCAST ? " from rank " + root : "";
        return what + operation + elements + from + place + (label.isEmpty() ? "" : " for " + label);
    }

    /** Returns the kind. */
    public Kind kind() {
        return kind;
    }

    /** Returns the type of the elements. */
    public DType dtype() {
        return dtype;
    }

    /** Returns whether elements are reduced. */
    public boolean reduces() {
        return op != null;
    }

    /** Returns the reduction of a call that {@linkplain #reduces reduces} elements. */
    public ReduceOp op() {
        return Objects.requireNonNull(op);
    }

    /** Returns the number of elements on each rank, of all chunks together. */
    public long count() {
        return count;
    }

    /** Returns the rank whose elements a broadcast sends. */
    public int root() {
        return root;
    }

    /** Returns the number of bytes on each rank. */
    public long bytes() {
        return count * dtype.bytes();
    }

    /**
     * Returns the byte at which a chunk begins, or the number of bytes for the number of chunks.
     *
     * @param equal whether chunks have equal lengths; otherwise they have similar lengths and start on cache lines
     */
    public static long start(long bytes, int chunks, boolean equal, int chunk) {
        if (chunk == chunks) {
            return bytes;
        }
        if (equal) {
            return bytes / chunks * chunk;
        }
        long lines = (bytes + LINE - 1) / LINE;
        return Math.min(bytes, lines * chunk / chunks * LINE);
    }

    /** Returns a hash by which ranks compare their calls. */
    public long hash() {
        return hash;
    }

    public byte[] textBytes() {
        return textBytes;
    }

    @Override
    public String toString() {
        return text;
    }

    /** Kinds of collectives. */
    public enum Kind {
        /** See {@link CollectiveCall#allReduce}. */
        ALL_REDUCE,
        /** See {@link CollectiveCall#reduceScatter}. */
        REDUCE_SCATTER,
        /** See {@link CollectiveCall#allGather}. */
        ALL_GATHER,
        /** See {@link CollectiveCall#broadcast}. */
        BROADCAST,
        /** See {@link CollectiveCall#barrier}. */
        BARRIER
    }
}
