package dev.starling.transport;

import dev.starling.transport.frame.Frame;
import java.util.Objects;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/**
 * Protects the frames of one direction of a connection. The header stays readable, and in place of the checksum has a
 * number that the sender uses once with each key; the rest of the head and the body are protected, and a tag follows:
 *
 * <pre>
 *  0 header  with the nonce's number, i64, at 24
 * 32 the rest of a PUT's head, and the body; encrypted or not
 *    tag     16 bytes
 * </pre>
 *
 * <p>The keys come from a secret of this direction, by HKDF. After {@value #FRAMES_PER_KEY} frames both ends replace it
 * by one that it yields, far before AES-GCM's limits: 2^20 frames of 128 KiB are 2^33 blocks. (RFC 8446, section 5.5)
 */
final class FrameProtection {
    static final int TAG = FrameSeal.TAG;
    static final int FRAMES_PER_KEY = 1 << 20;

    private static final int SECRET = 32;

    private final FrameSeal seal;
    private final Buffers buffers;
    private final int framesPerKey;
    private final UnsafeBuffer body = new UnsafeBuffer(0, 0);
    private final UnsafeBuffer result = new UnsafeBuffer(0, 0);
    private byte[] secret;
    /** Number of the secret: a frame's sequence divided by the frames for which a secret lasts. */
    private long epoch;
    private long nonce;

    FrameProtection(FrameSeal seal, byte[] secret, Buffers buffers, int framesPerKey) {
        this.seal = seal;
        this.secret = secret;
        this.buffers = buffers;
        this.framesPerKey = framesPerKey;
        seal.use(secret);
    }

    /** Arrays for one frame, which all connections of a transport share: one for what is sent, one for arrivals. */
    static final class Buffers {
        private byte[] in = new byte[1 << 12];
        private byte[] out = new byte[1 << 12];

        private void reserve(int length) {
            if (in.length < length) {
                int newLength = Integer.highestOneBit(length - 1) << 1;
                in = new byte[newLength];
                out = new byte[newLength];
            }
        }
    }

    /**
     * Returns the protected form of a frame, valid until the next call. It need not be sent: the next frame may have
     * the same number.
     *
     * @param head whose bytes behind the common header are in place
     */
    DirectBuffer seal(DirectBuffer head, int headLength, byte type, long session, long sequence,
            @Nullable DirectBuffer from, int offset, int length) {
        renew(sequence);
        int more = headLength - Frame.HEADER;
        int total = headLength + length + TAG;
        buffers.reserve(total);
        body.wrap(buffers.in);
        head.getBytes(Frame.HEADER, body, 0, more);
        if (length > 0) {
            Objects.requireNonNull(from).getBytes(offset, body, more, length);
        }
        result.wrap(buffers.out, 0, total);
        Frame.putHeader(result, type, session, sequence, total);
        Frame.putNonce(result, ++nonce);
        seal.seal(buffers.in, more + length, nonce, buffers.out);
        return result;
    }

    /**
     * Returns the frame as it was before {@link #seal} except for the checksum, valid until the next call; {@code null}
     * if it is not authentic.
     *
     * @param expected number of the next frame in this direction
     */
    @Nullable DirectBuffer open(DirectBuffer frame, int at, int length, long expected) {
        renew(expected);
        int opened = length - TAG;
        if (Frame.sequence(frame, at) / framesPerKey != epoch || opened < Frame.headLength(Frame.type(frame, at))) {
            return null;
        }
        buffers.reserve(length);
        frame.getBytes(at, buffers.in, 0, length);
        result.wrap(buffers.out, 0, opened);
        if (!seal.open(buffers.in, length, Frame.nonce(frame, at), buffers.out)) {
            return null;
        }
        result.putBytes(0, buffers.in, 0, Frame.HEADER);
        return result;
    }

    /** Replaces the secret when its time is over. */
    private void renew(long sequence) {
        while (epoch < sequence / framesPerKey) {
            secret = Secret.expand(secret, "next", SECRET);
            seal.use(secret);
            epoch++;
        }
    }
}
