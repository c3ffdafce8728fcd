package dev.starling.distributed.ps.server;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.ps.wire.Message;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.LongBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.agrona.DirectBuffer;

/** A slot of the ring: a request on its way through the stages, its journal record and its replies. */
final class Request {
    /** The bits of positive infinity: the smallest magnitude that is not finite. */
    private static final int INFINITY = 0x7F80_0000;
    /** Rows of one message have fewer elements than this times those of a block, with the state of any rule. */
    private static final int MAX_BLOCKS_OF_ROWS = 4;
    /** Leaves room for the header and the clocks of all workers. */
    private static final long MAX_RECORD_BYTES = Integer.MAX_VALUE - (1 << 20);

    private final ByteBuffer raw;
    private final FloatBuffer rawFloats;
    private final LongBuffer rawKeys;
    /** Its number in the ring. */
    long at;
    int length;

    // Set by decode.
    int kind;
    int worker;
    long session;
    long sequence;
    int unit;
    int count;
    double rate;
    double weight;
    /** Number of steps that led to a kept slot. */
    long steps;
    /** Whether a push of rows is the last one of its step. */
    boolean last;
    /** A slot of the rule's state, from 1; 0 for weights. */
    int slot;
    float[] gradient;
    long[] keys;

    // Set by apply.
    /** Number of the journal record, or 0 if there is none. */
    long record;
    /** One of the kinds of the journal. */
    int recordKind;
    /** Whether a snapshot was just written, so that the journal starts a new file. */
    boolean rotate;
    /** Number of the first record that is not in the snapshot. */
    long firstRecord;
    /** Number of elements of {@link #gradient}, or of rows of {@link #rows}, in the record. */
    int recorded;
    int stride;
    float[] rows;
    /** Number of rows of the table after a step on {@link #rows}. */
    long tableRows;
    /** The clocks that the request has changed, as {@link Clocks#write} has written them. */
    final ByteBuffer moved;

    /** The gradient of the recorded step. */
    float[] stepped;
    /** Replies about other units that have stepped together with that of the request. */
    final List<Reply> more = new ArrayList<>();

    int status;
    int replies;
    final int[] replyTo;
    final long[] replySession;
    final long[] replySequence;
    final float[] weights;
    int weightsCount;

    /** A reply with the weights of a unit. */
    record Reply(int worker, long session, long sequence, int unit, float[] weights) { }

    Request(int blockLength, int workers) {
        raw = ByteBuffer.allocateDirect(Message.HEADER + 4 * blockLength).order(ByteOrder.LITTLE_ENDIAN);
        ByteBuffer payload = raw.slice(Message.HEADER, 4 * blockLength).order(ByteOrder.LITTLE_ENDIAN);
        rawFloats = payload.asFloatBuffer();
        rawKeys = payload.asLongBuffer();
        gradient = new float[blockLength];
        stepped = gradient;
        keys = new long[blockLength / 2];
        rows = new float[0];
        weights = new float[blockLength];
        moved = ByteBuffer.allocate(workers * Clocks.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        replyTo = new int[workers];
        replySession = new long[workers];
        replySequence = new long[workers];
    }

    /** Copies the bytes of a request. */
    void receive(DirectBuffer buffer, int offset, int bytes) {
        buffer.getBytes(offset, raw.clear(), bytes);
        length = bytes;
    }

    /** Makes this an internal request. */
    void internal(int newKind, int newWorker, int newUnit) {
        raw.clear();
        raw.putInt(Message.KIND, newKind).putInt(Message.WORKER, newWorker).putInt(Message.UNIT, newUnit)
                .putInt(Message.COUNT, 0);
        length = Message.HEADER;
    }

    // ---- decode ----

    /** Decodes header and payload; the kind is 0 if the request is malformed or does not fit the plan. */
    void decode(Shard shard) {
        kind = 0;
        record = 0;
        rotate = false;
        recorded = 0;
        moved.clear();
        replies = 0;
        weightsCount = 0;
        status = Message.DONE;
        if (length < Message.HEADER) {
            return;
        }
        worker = raw.getInt(Message.WORKER);
        session = raw.getLong(Message.SESSION);
        sequence = raw.getLong(Message.SEQUENCE);
        unit = raw.getInt(Message.UNIT);
        count = raw.getInt(Message.COUNT);
        rate = raw.getDouble(Message.RATE);
        weight = raw.getDouble(Message.WEIGHT);
        steps = raw.getLong(Message.STEPS);
        last = raw.getInt(Message.LAST) != 0;
        slot = raw.getInt(Message.SLOT);
        int asked = raw.getInt(Message.KIND);
        if (worker < 0 || worker >= replyTo.length || unit < 0 || unit >= shard.units || count < 0) {
            return;
        }
        kind = payload(asked, shard) ? asked : 0;
    }

    private boolean payload(int asked, Shard shard) {
        boolean ofTable = unit >= shard.blocks;
        long bytes = length - Message.HEADER;
        switch (asked) {
            case Message.JOIN, Message.PUSH, Message.PULL -> {
                if (ofTable && (asked != Message.JOIN || count != 0)
                        || !ofTable && count != 0 && (asked == Message.PULL || count != shard.lengthOf(unit))
                        || bytes != 4L * count || asked == Message.PULL && !shard.keeps(unit, slot)) {
                    return false;
                }
                rawFloats.get(0, gradient, 0, count);
            }
            case Message.KEPT -> {
                if (ofTable || count != shard.lengthOf(unit) || bytes != 4L * count || slot == 0
                        || !shard.keeps(unit, slot) || steps < 0) {
                    return false;
                }
                rawFloats.get(0, gradient, 0, count);
            }
            case Message.PUSH_ROWS, Message.PULL_ROWS -> {
                if (!ofTable) {
                    return false;
                }
                int width = shard.tableOf(unit).width();
                boolean pushing = asked == Message.PUSH_ROWS;
                if (bytes != count * (pushing ? 8L + 4L * width : 8L) || bytes > 4L * weights.length
                        || (long) count * width > weights.length) {
                    return false;
                }
                rawKeys.get(0, keys, 0, count);
                if (pushing) {
                    rawFloats.get(2 * count, gradient, 0, count * width);
                }
            }
            case Message.LEAVE, Message.CUT, Message.ROWS_READY -> {
                return bytes == 0;
            }
            default -> {
                return false;
            }
        }
        return asked != Message.PUSH && asked != Message.PUSH_ROWS
                || rate >= 0 && weight >= 0 && rate < Double.POSITIVE_INFINITY && weight < Double.POSITIVE_INFINITY;
    }

    // ---- apply ----

    /** Returns whether the first {@code n} elements of the gradient are finite. */
    boolean isFinite(int n) {
        int max = 0;
        for (int i = 0; i < n; i++) {
            max = Math.max(max, Float.floatToRawIntBits(gradient[i]) & Integer.MAX_VALUE);
        }
        return max < INFINITY;
    }

    /**
     * Frees what a step on a whole parameter has allocated, or one on the rows of many messages: each slot of the ring
     * would otherwise keep as much memory as the largest step.
     */
    void release() {
        stepped = gradient;
        more.clear();
        if (rows.length > MAX_BLOCKS_OF_ROWS * weights.length) {
            rows = new float[0];
            keys = new long[weights.length / 2];
        }
    }

    void reply(int to, long toSession, long toSequence) {
        replyTo[replies] = to;
        replySession[replies] = toSession;
        replySequence[replies++] = toSequence;
    }

    /** Allocates memory for the updated rows of the record, which must fit into a record of the journal. */
    void reserveRows(int n, int newStride) {
        if (n * (8 + 4L * newStride) > MAX_RECORD_BYTES) {
            throw new DistributedException("a step changes " + n + " rows of a table, each with " + newStride
                    + " elements and moments, more than the 2 GiB of a record of the journal; use smaller batches or "
                    + "more servers");
        }
        stride = newStride;
        if (rows.length < n * newStride) {
            rows = new float[n * newStride];
        }
        if (keys.length < n) {
            keys = Arrays.copyOf(keys, n);
        }
    }
}
