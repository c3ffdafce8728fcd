package dev.starling.transport;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.SecureRandom;
import org.agrona.DirectBuffer;

/**
 * How two processes prove to each other that both have the cluster's secret, without sending it: a challenge each way
 * and an HMAC-SHA256 over everything exchanged. Nonces are new in each handshake, so recorded traffic cannot be
 * replayed. A HELLO is signed too: a stranger neither receives a proof nor causes a name look-up.
 *
 * <pre>
 * A → B  HELLO      A's nonce, session and address, HMAC("hello", these)
 * A ← B  REFUSAL    empty, if that HMAC is wrong; only a hint, so that a wrong secret is reported
 * A ← B  CHALLENGE  B's nonce, session and address, HMAC("challenge", both nonces, sessions and addresses)
 * A → B  PROOF      HMAC("proof", the same, greeting), greeting
 * A ← B  WELCOME    under the session's key, HMAC("session", both nonces, sessions and addresses)
 * </pre>
 */
final class Authentication {
    static final int MAX_GREETING = 4096;

    private static final int NONCE = 32;
    private static final int MAC = 32;
    private static final int MAX_ADDRESS = 512;
    private static final byte[] HELLO = "hello".getBytes(StandardCharsets.US_ASCII);
    private static final SecureRandom RANDOM = new SecureRandom();

    private final Secret secret;
    private final byte[] ownNonce = new byte[NONCE];
    private byte[] transcript;
    private String peerAddress;

    Authentication(Secret secret) {
        this.secret = secret;
        RANDOM.nextBytes(ownNonce);
    }

    static long randomLong() {
        long value = RANDOM.nextLong();
        return value == 0 ? 1 : value;
    }

    /** The content of a HELLO. */
    record Hello(byte[] nonce, long session, String address, boolean proven) {
        /** Returns a text that identifies this HELLO among others. */
        String identity() {
            return address + '/' + session + (proven ? "" : "?");
        }
    }

    byte[] hello(long session, String address) {
        byte[] name = address.getBytes(StandardCharsets.US_ASCII);
        byte[] content = ByteBuffer.allocate(NONCE + Long.BYTES + name.length).put(ownNonce).putLong(session).put(name)
                .array();
        return ByteBuffer.allocate(MAC + content.length).put(secret.sign(HELLO, content)).put(content).array();
    }

    /** Returns the content of a HELLO, or {@code null} if it is not well-formed. */
    static Hello readHello(Secret secret, DirectBuffer buffer, int offset, int length) {
        int fixed = MAC + NONCE + Long.BYTES;
        if (length <= fixed || length > fixed + MAX_ADDRESS) {
            return null;
        }
        ByteBuffer in = copy(buffer, offset, length);
        byte[] mac = new byte[MAC];
        in.get(mac);
        byte[] content = new byte[in.remaining()];
        in.get(MAC, content);
        byte[] nonce = new byte[NONCE];
        in.get(nonce);
        long session = in.getLong();
        byte[] address = new byte[in.remaining()];
        in.get(address);
        for (byte b : address) {
            if (b <= ' ' || b > '~') {
                return null;
            }
        }
        return new Hello(nonce, session, new String(address, StandardCharsets.US_ASCII),
                MessageDigest.isEqual(mac, secret.sign(HELLO, content)));
    }

    /** Returns the CHALLENGE that answers a HELLO. */
    byte[] challenge(Hello hello, long ownSession, String ownAddress) {
        transcript = transcript(hello.nonce, ownNonce, hello.session, ownSession, hello.address, ownAddress);
        byte[] name = ownAddress.getBytes(StandardCharsets.US_ASCII);
        return ByteBuffer.allocate(NONCE + Long.BYTES + MAC + name.length).put(ownNonce).putLong(ownSession)
                .put(sign("challenge")).put(name).array();
    }

    /** Returns the peer's session if its CHALLENGE proves that it has the secret, or 0. */
    long acceptChallenge(DirectBuffer buffer, int offset, int length, long ownSession, String ownAddress) {
        int fixed = NONCE + Long.BYTES + MAC;
        if (length < fixed || length > fixed + MAX_ADDRESS) {
            return 0;
        }
        ByteBuffer in = copy(buffer, offset, length);
        byte[] nonce = new byte[NONCE];
        in.get(nonce);
        long session = in.getLong();
        byte[] mac = new byte[MAC];
        in.get(mac);
        byte[] name = new byte[in.remaining()];
        in.get(name);
        peerAddress = new String(name, StandardCharsets.US_ASCII);
        transcript = transcript(ownNonce, nonce, ownSession, session, ownAddress, peerAddress);
        return MessageDigest.isEqual(mac, sign("challenge")) ? session : 0;
    }

    /** Returns the address in the accepted CHALLENGE. */
    String peerAddress() {
        return peerAddress;
    }

    byte[] proof(byte[] greeting) {
        return ByteBuffer.allocate(MAC + greeting.length).put(sign("proof", greeting)).put(greeting).array();
    }

    /** Returns the greeting if a PROOF proves that the peer has the secret, or {@code null}. */
    byte[] acceptProof(DirectBuffer buffer, int offset, int length) {
        if (length < MAC || length > MAC + MAX_GREETING) {
            return null;
        }
        ByteBuffer in = copy(buffer, offset, length);
        byte[] mac = new byte[MAC];
        in.get(mac);
        byte[] greeting = new byte[in.remaining()];
        in.get(greeting);
        return MessageDigest.isEqual(mac, sign("proof", greeting)) ? greeting : null;
    }

    /** Returns the session's key, with which both sides seed the checksums of frames. */
    long key() {
        return ByteBuffer.wrap(sign("session")).getLong();
    }

    private byte[] sign(String role, byte[]... more) {
        byte[][] parts = new byte[2 + more.length][];
        parts[0] = role.getBytes(StandardCharsets.US_ASCII);
        parts[1] = transcript;
        System.arraycopy(more, 0, parts, 2, more.length);
        return secret.sign(parts);
    }

    private static byte[] transcript(byte[] firstNonce, byte[] secondNonce, long firstSession, long secondSession,
            String firstAddress, String secondAddress) {
        byte[] a = firstAddress.getBytes(StandardCharsets.US_ASCII);
        byte[] b = secondAddress.getBytes(StandardCharsets.US_ASCII);
        return ByteBuffer.allocate(2 * NONCE + 2 * Long.BYTES + 2 * Integer.BYTES + a.length + b.length)
                .put(firstNonce).put(secondNonce).putLong(firstSession).putLong(secondSession)
                .putInt(a.length).put(a).putInt(b.length).put(b).array();
    }

    private static ByteBuffer copy(DirectBuffer buffer, int offset, int length) {
        byte[] bytes = new byte[length];
        buffer.getBytes(offset, bytes);
        return ByteBuffer.wrap(bytes);
    }
}
