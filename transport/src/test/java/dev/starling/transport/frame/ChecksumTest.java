package dev.starling.transport.frame;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.SplittableRandom;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;

/** Compares with values from the specification of xxHash and from its reference program. */
class ChecksumTest {
    private static long of(long seed, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.US_ASCII);
        return Checksum.of(seed, new UnsafeBuffer(bytes), 0, bytes.length);
    }

    @Test
    void agreesWithTheSpecification() {
        assertThat(of(0, "")).isEqualTo(0xEF46DB3751D8E999L);
        assertThat(of(0, "a")).isEqualTo(0xD24EC4F1A98C6E5BL);
        assertThat(of(0, "abc")).isEqualTo(0x44BC2CF5AD770999L);
        assertThat(of(0, "No" + "body inspects the spammish repetition")).isEqualTo(0xFBCEA83C8A378BF1L);
    }

    @Test
    void computesTheSameChecksumForAnyKindOfBuffer() {
        BodyChecksum bodies = new BodyChecksum();
        byte[] bytes = new byte[100_000];
        new SplittableRandom(3).nextBytes(bytes);
        UnsafeBuffer direct = new UnsafeBuffer(ByteBuffer.allocateDirect(bytes.length + 13), 13, bytes.length);
        direct.putBytes(0, bytes);
        for (int length : new int[] {0, 1, 255, 256, 257, 8191, 8192, 8193, 65_536, 90_000}) {
            long expected = bodies.of(7, new UnsafeBuffer(bytes), 5, length);
            assertThat(bodies.of(7, new UnsafeBuffer(bytes, 5, length), 0, length)).isEqualTo(expected);
            assertThat(bodies.of(7, new UnsafeBuffer(ByteBuffer.wrap(bytes, 5, length).slice()), 0, length))
                    .isEqualTo(expected);
            assertThat(bodies.of(7, direct, 5, length)).isEqualTo(expected);
            assertThat(bodies.of(7, new UnsafeBuffer(direct.addressOffset() + 5, length), 0, length))
                    .isEqualTo(expected);
            assertThat(bodies.of(8, direct, 5, length)).isNotEqualTo(expected);
            assertThat(bodies.of(7, direct, 5, length + 1)).isNotEqualTo(expected);
            assertThat(bodies.of(7, direct, 6, length)).satisfies(sum -> {
                if (length > 0) {
                    assertThat(sum).isNotEqualTo(expected);
                }
            });
        }
    }

    @Test
    void detectsAnyFlippedBitOfALongBody() {
        BodyChecksum bodies = new BodyChecksum();
        UnsafeBuffer body = new UnsafeBuffer(ByteBuffer.allocateDirect(1000));
        long expected = bodies.of(1, body, 0, 1000);
        for (int bit = 0; bit < 8000; bit++) {
            body.putByte(bit >> 3, (byte) (1 << (bit & 7)));
            assertThat(bodies.of(1, body, 0, 1000)).isNotEqualTo(expected);
            body.putByte(bit >> 3, (byte) 0);
        }
    }
}
