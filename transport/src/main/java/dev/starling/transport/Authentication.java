package dev.starling.transport;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.Arrays;
import org.agrona.DirectBuffer;
import org.jspecify.annotations.Nullable;

/**
 * How two processes prove to each other that both have the cluster's secret, without sending it: a challenge each way
 * and an HMAC-SHA256 over everything exchanged. Nonces are new in each handshake, so recorded traffic cannot be
 * replayed. A HELLO is signed too: a stranger neither receives a proof nor causes a name look-up.
 *
 * <pre>
 * A → B  HELLO      A's nonce, session, offer and address, HMAC("hello", these)
 * A ← B  REFUSAL    empty, if that HMAC is wrong; only a hint, so that a wrong secret is reported
 * A ← B  CHALLENGE  B's nonce, session, offer and address, HMAC("challenge", those of both)
 * A → B  PROOF      HMAC("proof", the same, greeting), greeting
 * A ← B  WELCOME    under the session's key, HMAC("session", those of both)
 * </pre>
 *
 * <p>An offer says how its sender protects the frames that follow: with keys that come, by HKDF-SHA-256, from the
 * secret and the same transcript, one for each direction.
 */
final class Authentication {
    static final int MAX_GREETING = 4096;

    private static final int NONCE = 32;
    private static final int MAC = 32;
    private static final int MAX_ADDRESS = 512;
    private static final byte[] HELLO = "hello".getBytes(StandardCharsets.US_ASCII);
    private static final SecureRandom RANDOM = new SecureRandom();

    private static final int FRAME_SECRET = 32;

    private final Secret secret;
    private final ProtectionOffer offer;
    private final byte[] ownNonce = new byte[NONCE];
    /** Set with the challenge, which begins every proof. */
    @SuppressWarnings("NullAway.Init")
    private byte[] transcript;
    /** Set by {@link #acceptChallenge}. */
    @SuppressWarnings("NullAway.Init")
    private String peerAddress;
    /** Set with the challenge. */
    @SuppressWarnings("NullAway.Init")
    private ProtectionOffer peerOffer;

    Authentication(Secret secret, ProtectionOffer offer) {
        this.secret = secret;
        this.offer = offer;
        RANDOM.nextBytes(ownNonce);
    }

    static long randomLong() {
        long value = RANDOM.nextLong();
        return value == 0 ? 1 : value;
    }

    /** The content of a HELLO. */
    record Hello(byte[] nonce, long session, ProtectionOffer offer, String address, boolean proven) {
        /** Returns a text that identifies this HELLO among others. */
        String identity() {
            return address + '/' + session + (proven ? "" : "?");
        }
    }

    byte[] hello(long session, String address) {
        byte[] name = ascii(address);
        byte[] content = ByteBuffer.allocate(NONCE + Long.BYTES + ProtectionOffer.LENGTH + name.length).put(ownNonce)
                .putLong(session).put(offer.encode()).put(name).array();
        return ByteBuffer.allocate(MAC + content.length).put(secret.sign(HELLO, content)).put(content).array();
    }

    /** Returns the content of a HELLO, or {@code null} if it is not well-formed. */
    static @Nullable Hello readHello(Secret secret, DirectBuffer buffer, int offset, int length) {
        int fixed = MAC + NONCE + Long.BYTES + ProtectionOffer.LENGTH;
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
        ProtectionOffer offer = ProtectionOffer.decode(in.get());
        byte[] address = new byte[in.remaining()];
        in.get(address);
        if (offer == null) {
            return null;
        }
        for (byte b : address) {
            if (b <= ' ' || b > '~') {
                return null;
            }
        }
        return new Hello(nonce, session, offer, new String(address, StandardCharsets.US_ASCII),
                MessageDigest.isEqual(mac, secret.sign(HELLO, content)));
    }

    /** Returns the CHALLENGE that answers a HELLO. */
    byte[] challenge(Hello hello, long ownSession, String ownAddress) {
        peerOffer = hello.offer;
        transcript = transcript(hello.nonce, ownNonce, hello.session, ownSession, hello.offer, offer, hello.address,
                ownAddress);
        byte[] name = ascii(ownAddress);
        return ByteBuffer.allocate(NONCE + Long.BYTES + MAC + ProtectionOffer.LENGTH + name.length).put(ownNonce)
                .putLong(ownSession).put(sign("challenge")).put(offer.encode()).put(name).array();
    }

    /** Returns the peer's session if its CHALLENGE proves that it has the secret, or 0. */
    long acceptChallenge(DirectBuffer buffer, int offset, int length, long ownSession, String ownAddress) {
        int fixed = NONCE + Long.BYTES + MAC + ProtectionOffer.LENGTH;
        if (length < fixed || length > fixed + MAX_ADDRESS) {
            return 0;
        }
        ByteBuffer in = copy(buffer, offset, length);
        byte[] nonce = new byte[NONCE];
        in.get(nonce);
        long session = in.getLong();
        byte[] mac = new byte[MAC];
        in.get(mac);
        ProtectionOffer offered = ProtectionOffer.decode(in.get());
        byte[] name = new byte[in.remaining()];
        in.get(name);
        if (offered == null) {
            return 0;
        }
        peerOffer = offered;
        peerAddress = new String(name, StandardCharsets.US_ASCII);
        transcript = transcript(ownNonce, nonce, ownSession, session, offer, peerOffer, ownAddress, peerAddress);
        return MessageDigest.isEqual(mac, sign("challenge")) ? session : 0;
    }

    /** Returns the address in the accepted CHALLENGE. */
    String peerAddress() {
        return peerAddress;
    }

    /** Returns what this side offers. */
    ProtectionOffer offer() {
        return offer;
    }

    /** Returns the offer in the HELLO, or in the accepted CHALLENGE. */
    ProtectionOffer peerOffer() {
        return peerOffer;
    }

    byte[] proof(byte[] greeting) {
        return ByteBuffer.allocate(MAC + greeting.length).put(sign("proof", greeting)).put(greeting).array();
    }

    /** Returns the greeting if a PROOF proves that the peer has the secret, or {@code null}. */
    byte @Nullable [] acceptProof(DirectBuffer buffer, int offset, int length) {
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

    /** Returns the secret of the frames that one side sends: the one that sent the HELLO, or the other. */
    byte[] frameSecret(boolean ofInitiator) {
        byte[] use = ascii(ofInitiator ? "frames of the initiator" : "frames of the acceptor");
        return secret.derive(Arrays.copyOf(transcript, 2 * NONCE), ByteBuffer.allocate(use.length + transcript.length)
                .put(use).put(transcript).array(), FRAME_SECRET);
    }

    private byte[] sign(String role, byte[]... more) {
        byte[][] parts = new byte[2 + more.length][];
        parts[0] = ascii(role);
        parts[1] = transcript;
        System.arraycopy(more, 0, parts, 2, more.length);
        return secret.sign(parts);
    }

    private static byte[] transcript(byte[] firstNonce, byte[] secondNonce, long firstSession, long secondSession,
            ProtectionOffer firstOffer, ProtectionOffer secondOffer, String firstAddress, String secondAddress) {
        byte[] a = ascii(firstAddress);
        byte[] b = ascii(secondAddress);
        return ByteBuffer.allocate(2 * (NONCE + Long.BYTES + ProtectionOffer.LENGTH + Integer.BYTES) + a.length
                + b.length).put(firstNonce).put(secondNonce).putLong(firstSession).putLong(secondSession)
                .put(firstOffer.encode()).put(secondOffer.encode()).putInt(a.length).put(a)
                .putInt(b.length).put(b).array();
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    private static ByteBuffer copy(DirectBuffer buffer, int offset, int length) {
        byte[] bytes = new byte[length];
        buffer.getBytes(offset, bytes);
        return ByteBuffer.wrap(bytes);
    }
}
