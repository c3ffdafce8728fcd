package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;

/** Against values that the specification of xxHash and its reference program give. */
class ChecksumTest {
    private static long of(long seed, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.US_ASCII);
        return Checksum.of(seed, new UnsafeBuffer(bytes), 0, bytes.length);
    }

    @Test
    void shouldAgreeWithTheSpecification() {
        assertThat(of(0, "")).isEqualTo(0xEF46DB3751D8E999L);
        assertThat(of(0, "a")).isEqualTo(0xD24EC4F1A98C6E5BL);
        assertThat(of(0, "abc")).isEqualTo(0x44BC2CF5AD770999L);
        assertThat(of(0, "Nobody inspects the spammish repetition")).isEqualTo(0xFBCEA83C8A378BF1L);
    }
}
