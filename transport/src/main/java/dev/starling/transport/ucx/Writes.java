package dev.starling.transport.ucx;

import dev.starling.transport.TransportException;
import dev.starling.transport.spi.RemoteWrites;
import dev.starling.transport.spi.Wire;
import java.lang.foreign.MemorySegment;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Puts of one link that travel as messages, in pieces, straight from the source; for networks that cannot write by
 * themselves. The peer reports how many puts have arrived.
 */
final class Writes {
    private static final int CAPACITY = 1024;

    private final UcxLink link;
    private final Put[] puts = new Put[CAPACITY];
    /** Numbers of puts: those below {@code completed} are completed, those below {@code sent} completely sent. */
    private long completed;
    private long sent;
    private long added;
    private long arrived;

    private static final class Put {
        private MessageTarget target;
        private long offset;
        private MemorySegment source;
        private long done;
        private RemoteWrites.Completion completion;
        private long tag;
        private final UnsafeBuffer message = new UnsafeBuffer(new byte[UcxWire.MAX_MESSAGE_BEHIND]);
        private int messageLength;
    }

    Writes(UcxLink link) {
        this.link = link;
    }

    RemoteWrites.Target attach(UcxKey key) {
        return new MessageTarget(key, key.rest().getLong(), key.rest().getLong());
    }

    private int put(MessageTarget target, long offset, MemorySegment source, RemoteWrites.Completion completion,
            long tag, DirectBuffer message, int messageOffset, int messageLength) {
        if (!link.isConnected()) {
            return Wire.CLOSED;
        }
        if (added - completed == CAPACITY) {
            return Wire.BACK_PRESSURED;
        }
        int slot = (int) (added % CAPACITY);
        if (puts[slot] == null) {
            puts[slot] = new Put();
        }
        Put put = puts[slot];
        put.target = target;
        put.offset = offset;
        put.source = source;
        put.done = 0;
        put.completion = completion;
        put.tag = tag;
        put.messageLength = messageLength;
        if (messageLength > 0) {
            put.message.putBytes(0, message, messageOffset, messageLength);
        }
        added++;
        send();
        return Wire.SENT;
    }

    /** Sends as many pieces as there is room for. Returns whether nothing is left to send. */
    boolean send() {
        while (sent < added) {
            Put put = puts[(int) (sent % CAPACITY)];
            long bytes = put.source.byteSize();
            int length = (int) Math.min(bytes - put.done, link.pieceLength());
            boolean last = put.done + length == bytes;
            if (link.write(put.target.number, put.target.token, put.offset + put.done, last,
                    put.source.address() + put.done, length, put.message, last ? put.messageLength : 0) != Wire.SENT) {
                return false;
            }
            put.done += length;
            if (last) {
                sent++;
            }
        }
        return true;
    }

    /** Notes how many puts have arrived at the peer. */
    void arrived(long count) {
        if (count > arrived && count <= sent) {
            arrived = count;
        }
    }

    /** Calls the completions of puts that have arrived and sends more; returns the number of completions. */
    int work() {
        int work = 0;
        while (completed < arrived) {
            complete(true);
            work++;
        }
        if (sent < added && link.isAlive()) {
            send();
        }
        return work;
    }

    /** Completes all puts after the link has ended and UCX no longer reads the sources; returns how many. */
    int fail() {
        int work = 0;
        while (completed < added) {
            complete(completed < arrived);
            work++;
        }
        sent = added;
        return work;
    }

    private void complete(boolean written) {
        Put put = puts[(int) (completed++ % CAPACITY)];
        RemoteWrites.Completion completion = put.completion;
        put.completion = null;
        put.source = null;
        put.target = null;
        completion.onComplete(put.tag, written);
    }

    boolean isEmpty() {
        return completed == added;
    }

    /** Memory that a peer registered. */
    private final class MessageTarget implements RemoteWrites.Target {
        private final UcxKey key;
        private final long number;
        private final long token;

        MessageTarget(UcxKey key, long number, long token) {
            this.key = key;
            this.number = number;
            this.token = token;
        }

        @Override
        public int put(long offset, MemorySegment source, RemoteWrites.Completion completion, long tag) {
            key.check(offset, source.byteSize());
            return Writes.this.put(this, offset, source, completion, tag, null, 0, 0);
        }

        @Override
        public int putAndSend(long offset, MemorySegment source, RemoteWrites.Completion completion, long tag,
                DirectBuffer message, int messageOffset, int messageLength) {
            key.check(offset, source.byteSize());
            if (messageLength > UcxWire.MAX_MESSAGE_BEHIND) {
                throw new TransportException(TransportException.Problem.ARGUMENT, "a message behind a write must have "
                        + "at most " + UcxWire.MAX_MESSAGE_BEHIND + " bytes, got " + messageLength,
                        "send it as a message of its own");
            }
            return Writes.this.put(this, offset, source, completion, tag, message, messageOffset, messageLength);
        }

        @Override
        public boolean isOrdered() {
            return true;
        }

        @Override
        public void close() { }
    }
}
