package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.transport.frame.Frame;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import java.util.SplittableRandom;
import javax.crypto.Cipher;
import javax.crypto.Mac;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class FrameProtectionTest {
    private static final byte[] SECRET = bytes(1, 32);
    private static final int[] LENGTHS = {0, 1, 15, 16, 17, 255, 1000, 8191, 70_000, 130_976};

    private static byte[] bytes(int seed, int length) {
        byte[] bytes = new byte[length];
        new SplittableRandom(seed).nextBytes(bytes);
        return bytes;
    }

    private static FrameProtection protection(Protection protection, byte[] secret, int framesPerKey) {
        return new FrameProtection(FrameSeal.of(protection), secret, new FrameProtection.Buffers(), framesPerKey);
    }

    private static FrameProtection protection(Protection protection) {
        return protection(protection, SECRET, FrameProtection.FRAMES_PER_KEY);
    }

    /** Returns a protected frame, whose header beyond the common one consists of sevens. */
    private static byte[] seal(FrameProtection by, byte type, long sequence, byte[] body) {
        int headLength = Frame.headLength(type);
        UnsafeBuffer head = new UnsafeBuffer(new byte[Frame.PUT_HEADER]);
        head.setMemory(Frame.HEADER, Frame.PUT_HEADER - Frame.HEADER, (byte) 7);
        return copy(by.seal(head, headLength, type, 4711, sequence, new UnsafeBuffer(body), 0, body.length));
    }

    private static byte[] copy(DirectBuffer buffer) {
        byte[] copy = new byte[buffer.capacity()];
        buffer.getBytes(0, copy);
        return copy;
    }

    private static DirectBuffer open(FrameProtection by, byte[] frame, long expected) {
        // The frame begins somewhere in the buffer.
        UnsafeBuffer buffer = new UnsafeBuffer(new byte[frame.length + 24]);
        buffer.putBytes(24, frame);
        return by.open(buffer, 24, frame.length, expected);
    }

    private static byte[] hmac(byte[] key, byte[]... parts) throws GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        for (byte[] part : parts) {
            mac.update(part);
        }
        return mac.doFinal();
    }

    /** HKDF's second step for at most 32 bytes, by its definition in RFC 5869. */
    private static byte[] expand(byte[] secret, String use, int length) throws GeneralSecurityException {
        return Arrays.copyOf(hmac(secret, use.getBytes(StandardCharsets.US_ASCII), new byte[] {1}), length);
    }

    @Test
    void derivesSecretsByHkdf() throws GeneralSecurityException {
        byte[] text = "sixteen or more bytes".getBytes(StandardCharsets.US_ASCII);
        byte[] salt = bytes(2, 64);
        byte[] use = bytes(3, 100);
        assertThat(Secret.ofText("sixteen or more bytes").derive(salt, use, 32))
                .isEqualTo(hmac(hmac(salt, text), use, new byte[] {1}));
    }

    @Test
    void encryptsByAesGcmWithTheKeyAndNonceThatItsSecretYields() throws GeneralSecurityException {
        FrameProtection ours = protection(Protection.ENCRYPTED);
        byte[] body = bytes(4, 1000);
        seal(ours, Frame.MESSAGE, 1, body);
        byte[] frame = seal(ours, Frame.MESSAGE, 2, body);
        ByteBuffer header = ByteBuffer.wrap(frame).order(ByteOrder.LITTLE_ENDIAN);
        assertThat(header.get(3)).isEqualTo(Frame.MESSAGE);
        assertThat(header.getInt(4)).isEqualTo(frame.length).isEqualTo(32 + 1000 + 16);
        assertThat(header.getLong(8)).isEqualTo(4711);
        assertThat(header.getLong(16)).isEqualTo(2);
        assertThat(header.getLong(24)).isEqualTo(2);
        byte[] iv = ByteBuffer.allocate(12).put(expand(SECRET, "nonce", 4)).putLong(2).array();
        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(Cipher.DECRYPT_MODE, new SecretKeySpec(expand(SECRET, "key", 16), "AES"),
                new GCMParameterSpec(128, iv));
        cipher.updateAAD(frame, 0, 32);
        assertThat(cipher.doFinal(frame, 32, frame.length - 32)).isEqualTo(body);
    }

    @Test
    void authenticatesByHmac() throws GeneralSecurityException {
        byte[] body = bytes(4, 1000);
        byte[] frame = seal(protection(Protection.AUTHENTICATED), Frame.MESSAGE, 1, body);
        assertThat(Arrays.copyOfRange(frame, 32, 1032)).isEqualTo(body);
        assertThat(Arrays.copyOfRange(frame, 1032, 1048)).isEqualTo(Arrays.copyOf(
                hmac(expand(SECRET, "key", 32), Arrays.copyOf(frame, 1032)), 16));
    }

    @ParameterizedTest
    @EnumSource(names = {"AUTHENTICATED", "ENCRYPTED"})
    void opensWhatItSealed(Protection protection) {
        FrameProtection from = protection(protection);
        FrameProtection to = protection(protection);
        long sequence = 0;
        for (int length : LENGTHS) {
            for (byte type : new byte[] {Frame.MESSAGE, Frame.PUT}) {
                byte[] body = bytes(length, length);
                byte[] opened = copy(open(to, seal(from, type, ++sequence, body), sequence));
                UnsafeBuffer buffer = new UnsafeBuffer(opened);
                int head = Frame.headLength(type);
                assertThat(opened).hasSize(head + length);
                assertThat(Frame.type(buffer, 0)).isEqualTo(type);
                assertThat(Frame.sequence(buffer, 0)).isEqualTo(sequence);
                assertThat(Arrays.copyOfRange(opened, 32, head)).containsOnly(type == Frame.PUT ? new byte[] {7}
                        : new byte[0]);
                assertThat(Arrays.copyOfRange(opened, head, opened.length)).isEqualTo(body);
            }
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"AUTHENTICATED", "ENCRYPTED"})
    void refusesAChangeOfAnyByteAndAnyOtherLength(Protection protection) {
        FrameProtection to = protection(protection);
        for (byte type : new byte[] {Frame.MESSAGE, Frame.PUT}) {
            byte[] frame = seal(protection(protection), type, 1, bytes(5, 40));
            for (int i = 0; i < frame.length; i++) {
                byte[] changed = frame.clone();
                changed[i] ^= 1;
                assertThat(open(to, changed, 1)).as("byte %d", i).isNull();
            }
            for (int length = 32; length < frame.length; length++) {
                assertThat(open(to, Arrays.copyOf(frame, length), 1)).as("%d bytes", length).isNull();
            }
            assertThat(open(to, Arrays.copyOf(frame, frame.length + 1), 1)).isNull();
            assertThat(open(to, frame, 1)).isNotNull();
            assertThat(open(protection(protection, bytes(6, 32), 100), frame, 1)).as("another key").isNull();
        }
    }

    @Test
    void hidesTheBodyAndTheHeadOfAPutOnlyIfItEncrypts() {
        byte[] body = "do not read this".repeat(8).getBytes(StandardCharsets.US_ASCII);
        for (Protection protection : new Protection[] {Protection.AUTHENTICATED, Protection.ENCRYPTED}) {
            String frame = new String(seal(protection(protection), Frame.PUT, 1, body), StandardCharsets.ISO_8859_1);
            boolean readable = protection == Protection.AUTHENTICATED;
            assertThat(frame.contains("do not")).isEqualTo(readable);
            assertThat(frame.contains("\7\7\7\7")).isEqualTo(readable);
        }
    }

    /** As after back-pressure: the frame that was not sent has the number of the next one, but not its nonce. */
    @ParameterizedTest
    @EnumSource(names = {"AUTHENTICATED", "ENCRYPTED"})
    void sealsTwoFramesOfOneNumberWithTwoNonces(Protection protection) {
        FrameProtection from = protection(protection);
        FrameProtection to = protection(protection);
        byte[] unsent = seal(from, Frame.MESSAGE, 1, bytes(7, 100));
        byte[] sent = seal(from, Frame.MESSAGE, 1, bytes(7, 100));
        assertThat(Arrays.copyOfRange(unsent, 24, 32)).isNotEqualTo(Arrays.copyOfRange(sent, 24, 32));
        if (protection == Protection.ENCRYPTED) {
            assertThat(Arrays.copyOfRange(unsent, 32, 132)).isNotEqualTo(Arrays.copyOfRange(sent, 32, 132));
        }
        assertThat(open(to, sent, 1)).isNotNull();
    }

    @ParameterizedTest
    @EnumSource(names = {"AUTHENTICATED", "ENCRYPTED"})
    void changesItsKeyAtTheSameFrameOnBothSides(Protection protection) throws GeneralSecurityException {
        FrameProtection from = protection(protection, SECRET, 4);
        FrameProtection to = protection(protection, SECRET, 4);
        byte[][] frames = new byte[14][];
        for (int i = 1; i < frames.length; i++) {
            frames[i] = seal(from, Frame.MESSAGE, i, bytes(i, 50));
        }
        for (int i = 1; i < frames.length; i++) {
            if (i / 4 < (frames.length - 1) / 4) {
                assertThat(open(to, frames[(i / 4 + 1) * 4], i)).as("a frame of the next key").isNull();
            }
            assertThat(copy(open(to, frames[i], i))).endsWith(bytes(i, 50));
        }
        assertThat(open(to, frames[3], 13)).as("a frame of the first key").isNull();
        FrameProtection third = protection(protection, expand(expand(SECRET, "next", 32), "next", 32), 100);
        assertThat(copy(open(third, frames[9], 9))).endsWith(bytes(9, 50));
        assertThat(open(protection(protection, SECRET, 100), frames[9], 9)).isNull();
    }
}
