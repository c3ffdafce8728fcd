package dev.starling.transport.simulated;

import java.util.SplittableRandom;
import org.agrona.concurrent.UnsafeBuffer;

/** Messages under way, used again and again. */
final class MessagePool {
    private static final int SMALLEST = 7;

    private final Message[] free = new Message[Integer.SIZE];

    /** A message under way. */
    static final class Message {
        final UnsafeBuffer buffer;
        final int room;
        int length;
        long arrivalNs;
        /** How much later than the message a copy of it comes; the greatest number if none does. */
        long copyDelayNs;
        Message next;

        private Message(int room) {
            this.room = room;
            buffer = new UnsafeBuffer(new byte[1 << room]);
        }
    }

    Message take(int length) {
        int room = Math.max(SMALLEST, Integer.SIZE - Integer.numberOfLeadingZeros(Math.max(length, 1) - 1));
        Message message = free[room];
        if (message == null) {
            message = new Message(room);
        } else {
            free[room] = message.next;
            message.next = null;
        }
        message.length = length;
        return message;
    }

    void give(Message message) {
        message.next = free[message.room];
        free[message.room] = message;
    }

    Message copyOf(Message original, long arrivalNs) {
        Message copy = take(original.length);
        copy.buffer.putBytes(0, original.buffer, 0, original.length);
        copy.arrivalNs = arrivalNs;
        return copy;
    }

    /** Returns a copy with something wrong: a flipped bit, bytes overwritten, or the end missing. */
    Message mangled(Message original, long arrivalNs, SplittableRandom random) {
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
