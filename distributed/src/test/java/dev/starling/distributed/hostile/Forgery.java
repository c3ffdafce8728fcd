package dev.starling.distributed.hostile;

import dev.starling.transport.frame.BodyChecksum;
import dev.starling.transport.frame.Frame;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.agrona.concurrent.UnsafeBuffer;

/** Frames that a process without the secret can make: well-formed ones, and those that it has seen, also changed. */
final class Forgery {
    private static final int MAX_BODY = 2000;
    private static final int HELLO_FIXED = 32 + 32 + Long.BYTES + 1;
    private static final byte LAST_TYPE = 12;
    /** Names that a resolver would be asked for; some look like addresses. */
    private static final List<String> NAMES = List.of("a.name.that.does.not.exist:9", "[beef.invalid.cc]:9",
            "999.999.999.999:9", "[dead.beef]:9");

    private final BodyChecksum bodies = new BodyChecksum();
    private final List<byte[]> recorded;
    /** Where the stranger listens: a HELLO names it. */
    private final String address;

    Forgery(List<byte[]> recorded, String address) {
        this.recorded = recorded;
        this.address = address;
    }

    int recorded() {
        return recorded.size();
    }

    byte[] recorded(int number) {
        return recorded.get(number).clone();
    }

    /** Returns a recorded frame with a few changes. */
    byte[] mutant(SplittableRandom random) {
        byte[] frame = recorded(random.nextInt(recorded.size()));
        if (random.nextInt(4) == 0) {
            frame = Arrays.copyOf(frame, 1 + random.nextInt(2 * frame.length));
        }
        for (int i = random.nextInt(4); i > 0; i--) {
            frame[random.nextInt(frame.length)] ^= (byte) (1 << random.nextInt(8));
        }
        if (random.nextInt(3) == 0) {
            frame[random.nextInt(Math.min(Frame.HEADER, frame.length))] = (byte) random.nextInt();
        }
        return frame;
    }

    /** Returns a frame of any type with a valid header, and a valid checksum where that needs no key. */
    byte[] frame(SplittableRandom random) {
        return frame((byte) (1 + random.nextInt(LAST_TYPE)), random);
    }

    /** Returns a HELLO that is well-formed and not signed. */
    byte[] greeting(SplittableRandom random) {
        return frame(Frame.HELLO, random);
    }

    private byte[] frame(byte type, SplittableRandom random) {
        byte[] body = type == Frame.HELLO && random.nextInt(4) > 0 ? hello(random) : noise(random, MAX_BODY);
        int headLength = Frame.headLength(type);
        UnsafeBuffer frame = new UnsafeBuffer(new byte[headLength + body.length]);
        for (int at = Frame.HEADER; at < headLength; at += Long.BYTES) {
            frame.putLong(at, random.nextInt(3) == 0 ? random.nextInt(4) : random.nextLong());
        }
        frame.putBytes(headLength, body);
        long session = random.nextInt(3) == 0 ? someSession(random) : random.nextInt(3) == 0 ? 0 : random.nextLong();
        Frame.seal(bodies, frame, headLength, type, session, random.nextInt(4), type != Frame.HELLO
                && random.nextInt(3) == 0 ? random.nextLong() : 0, frame, headLength, body.length);
        return frame.byteArray();
    }

    /** Returns the session of a recorded frame. */
    private long someSession(SplittableRandom random) {
        return recorded.isEmpty() ? 1 : Frame.session(new UnsafeBuffer(recorded(random.nextInt(recorded.size()))), 0);
    }

    private byte[] hello(SplittableRandom random) {
        byte[] name = (random.nextInt(8) > 0 ? address : random.nextInt(2) > 0 ? "127.0.0.1:" + random.nextInt(70_000)
                : NAMES.get(random.nextInt(NAMES.size()))).getBytes(StandardCharsets.US_ASCII);
        byte[] fixed = new byte[HELLO_FIXED];
        random.nextBytes(fixed);
        fixed[HELLO_FIXED - 1] = (byte) (random.nextInt(3) | random.nextInt(2) << 4);
        return ByteBuffer.allocate(fixed.length + name.length).put(fixed).put(name).array();
    }

    static byte[] noise(SplittableRandom random, int max) {
        byte[] noise = new byte[random.nextInt(max)];
        random.nextBytes(noise);
        return noise;
    }
}
