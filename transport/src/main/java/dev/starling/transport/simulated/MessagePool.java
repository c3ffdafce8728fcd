package dev.starling.transport.simulated;

import java.util.SplittableRandom;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/** Messages in flight, which are reused. */
final class MessagePool {
    private static final int MIN_SIZE_BITS = 7;

    private final @Nullable Message[] free = new Message[Integer.SIZE];

    /** A message in flight. */
    static final class Message {
        final UnsafeBuffer buffer;
        final int sizeBits;
        int length;
        long arrivalNs;
        /** How much later a copy of the message arrives; {@code Long.MAX_VALUE} if there is none. */
        long copyDelayNs;
        @Nullable Message next;

        private Message(int sizeBits) {
            this.sizeBits = sizeBits;
            buffer = new UnsafeBuffer(new byte[1 << sizeBits]);
        }
    }

    Message acquire(int length) {
        int sizeBits = Math.max(MIN_SIZE_BITS, Integer.SIZE - Integer.numberOfLeadingZeros(Math.max(length, 1) - 1));
        Message message = free[sizeBits];
        if (message == null) {
            message = new Message(sizeBits);
        } else {
            free[sizeBits] = message.next;
            message.next = null;
        }
        message.length = length;
        return message;
    }

    void release(Message message) {
        message.next = free[message.sizeBits];
        free[message.sizeBits] = message;
    }

    Message copyOf(Message original, long arrivalNs) {
        Message copy = acquire(original.length);
        copy.buffer.putBytes(0, original.buffer, 0, original.length);
        copy.arrivalNs = arrivalNs;
        return copy;
    }

    /** Returns a corrupted copy: with a flipped bit, with bytes overwritten, or truncated. */
    Message corrupted(Message original, long arrivalNs, SplittableRandom random) {
        Message copy = copyOf(original, arrivalNs);
        int at = random.nextInt(copy.length);
        switch (random.nextInt(3)) {
            case 0 -> copy.buffer.putByte(at, (byte) (copy.buffer.getByte(at) ^ 1 << random.nextInt(8)));
            case 1 -> {
                for (int i = at; i < Math.min(copy.length, at + 8); i++) {
                    copy.buffer.putByte(i, (byte) (copy.buffer.getByte(i) ^ 1 + random.nextInt(255)));
                }
            }
            default -> copy.length = at;
        }
        return copy;
    }
}
