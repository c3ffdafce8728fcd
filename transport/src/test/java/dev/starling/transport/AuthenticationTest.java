package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;

class AuthenticationTest {
    private static final Secret SECRET = Secret.ofText("the secret of the members");
    private static final Secret OTHER = Secret.ofText("the secret of a stranger");
    private static final ProtectionOffer OFFER = new ProtectionOffer(Protection.ENCRYPTED, true);
    private static final byte[] GREETING = "rank 3".getBytes(StandardCharsets.US_ASCII);

    private final Authentication a = new Authentication(SECRET, OFFER);
    private final Authentication b = new Authentication(SECRET, OFFER);
    private final byte[] hello = a.hello(1, "a");
    private final byte[] challenge = b.challenge(read(SECRET, hello), 2, "b");

    private static Authentication.Hello read(Secret secret, byte[] hello) {
        return Authentication.readHello(secret, new UnsafeBuffer(hello), 0, hello.length);
    }

    private static long accept(Authentication by, byte[] challenge, long session, String address) {
        return by.acceptChallenge(new UnsafeBuffer(challenge), 0, challenge.length, session, address);
    }

    private static byte[] accept(Authentication by, byte[] proof) {
        return by.acceptProof(new UnsafeBuffer(proof), 0, proof.length);
    }

    private static byte[] changed(byte[] bytes, int at) {
        byte[] copy = bytes.clone();
        copy[at] ^= 1;
        return copy;
    }

    @Test
    void agreesOnAKeyThatNoOtherSessionHas() {
        assertThat(read(SECRET, hello).proven()).isTrue();
        assertThat(accept(a, challenge, 1, "a")).isEqualTo(2);
        assertThat(a.peerAddress()).isEqualTo("b");
        assertThat(accept(b, a.proof(GREETING))).isEqualTo(GREETING);
        assertThat(a.key()).isEqualTo(b.key()).isNotZero();

        Authentication c = new Authentication(SECRET, OFFER);
        Authentication d = new Authentication(SECRET, OFFER);
        byte[] other = d.challenge(read(SECRET, c.hello(1, "a")), 2, "b");
        assertThat(accept(c, other, 1, "a")).isEqualTo(2);
        assertThat(c.key()).isNotEqualTo(a.key());
    }

    @Test
    void agreesOnSecretsOfFramesForEachDirectionAndSession() {
        accept(a, challenge, 1, "a");
        assertThat(a.frameSecret(true)).hasSize(32).isEqualTo(b.frameSecret(true));
        assertThat(a.frameSecret(false)).hasSize(32).isEqualTo(b.frameSecret(false));
        assertThat(a.frameSecret(true)).isNotEqualTo(a.frameSecret(false));
        Authentication c = new Authentication(SECRET, OFFER);
        Authentication d = new Authentication(SECRET, OFFER);
        accept(c, d.challenge(read(SECRET, c.hello(1, "a")), 2, "b"), 1, "a");
        assertThat(c.frameSecret(true)).isNotEqualTo(a.frameSecret(true));
    }

    @Test
    void learnsWhatThePeerOffersAndWhatBothAgreeOn() {
        for (Protection protection : Protection.values()) {
            for (boolean first : new boolean[] {true, false}) {
                for (boolean second : new boolean[] {true, false}) {
                    ProtectionOffer offer = new ProtectionOffer(protection, first);
                    ProtectionOffer answer = new ProtectionOffer(protection, second);
                    Authentication c = new Authentication(SECRET, offer);
                    Authentication d = new Authentication(SECRET, answer);
                    byte[] reply = d.challenge(read(SECRET, c.hello(1, "a")), 2, "b");
                    assertThat(accept(c, reply, 1, "a")).isEqualTo(2);
                    assertThat(c.peerOffer()).isEqualTo(answer);
                    assertThat(d.peerOffer()).isEqualTo(offer);
                    assertThat(offer.agreedWith(answer)).isEqualTo(answer.agreedWith(offer))
                            .isEqualTo(first || second ? protection : Protection.PLAIN);
                    assertThat(offer.contradicts(answer)).isFalse();
                }
            }
        }
        assertThat(OFFER.contradicts(new ProtectionOffer(Protection.PLAIN, false))).isTrue();
        assertThat(new ProtectionOffer(Protection.PLAIN, false).contradicts(OFFER)).isTrue();
        assertThat(new ProtectionOffer(Protection.PLAIN, false).contradicts(
                new ProtectionOffer(Protection.ENCRYPTED, false))).isFalse();
        for (byte encoded : new byte[] {3, 0x13, 0x20, -1, 'a'}) {
            assertThat(ProtectionOffer.decode(encoded)).isNull();
        }
    }

    @Test
    void refusesAPeerWithAnotherSecret() {
        assertThat(read(OTHER, hello).proven()).isFalse();
        Authentication stranger = new Authentication(OTHER, OFFER);
        assertThat(accept(a, stranger.challenge(read(SECRET, hello), 2, "b"), 1, "a")).isZero();
        stranger.challenge(read(SECRET, hello), 2, "b");
        assertThat(accept(b, stranger.proof(GREETING))).isNull();
    }

    @Test
    void detectsAChangeOfAnyByte() {
        for (int i = 0; i < hello.length; i++) {
            Authentication.Hello read = read(SECRET, changed(hello, i));
            assertThat(read == null || !read.proven()).as("byte %d of HELLO", i).isTrue();
        }
        for (int i = 0; i < challenge.length; i++) {
            assertThat(accept(a, changed(challenge, i), 1, "a")).as("byte %d of CHALLENGE", i).isZero();
        }
        accept(a, challenge, 1, "a");
        byte[] proof = a.proof(GREETING);
        for (int i = 0; i < proof.length; i++) {
            assertThat(accept(b, changed(proof, i))).as("byte %d of PROOF", i).isNull();
        }
    }

    @Test
    void refusesMessagesOfAnotherSession() {
        accept(a, challenge, 1, "a");
        byte[] proof = a.proof(GREETING);
        Authentication again = new Authentication(SECRET, OFFER);
        byte[] newChallenge = again.challenge(read(SECRET, hello), 3, "b");
        assertThat(accept(again, proof)).as("a proof for another challenge").isNull();
        Authentication next = new Authentication(SECRET, OFFER);
        next.hello(4, "a");
        assertThat(accept(next, challenge, 4, "a")).as("a challenge for another HELLO").isZero();
        assertThat(accept(next, newChallenge, 1, "a")).as("of the same session number").isZero();
    }

    @Test
    void refusesASubstitutedAddress() {
        // A process in the middle claims another address, or forwards a's messages as if they came from there.
        assertThat(accept(a, challenge, 1, "mallory")).isZero();
        Authentication.Hello real = read(SECRET, hello);
        Authentication fooled = new Authentication(SECRET, OFFER);
        byte[] forMallory = fooled.challenge(new Authentication.Hello(real.nonce(), 1, OFFER, "mallory", true), 2, "b");
        assertThat(accept(a, forMallory, 1, "a")).isZero();
    }

    @Test
    void refusesItsOwnMessagesReflected() {
        // b's challenge cannot serve as a's proof, nor the MAC of one role as that of another.
        byte[] mac = Arrays.copyOfRange(challenge, 40, 72);
        assertThat(accept(b, mac)).isNull();
        byte[] helloMac = Arrays.copyOf(hello, 32);
        assertThat(accept(b, helloMac)).isNull();
        Authentication self = new Authentication(SECRET, OFFER);
        byte[] ownHello = self.hello(5, "a");
        Authentication mirror = new Authentication(SECRET, OFFER);
        mirror.challenge(read(SECRET, ownHello), 5, "a");
        accept(self, mirror.challenge(read(SECRET, ownHello), 5, "a"), 5, "a");
        byte[] ownProof = self.proof(new byte[0]);
        assertThat(accept(b, ownProof)).isNull();
    }

    @Test
    void refusesMessagesOfWrongLength() {
        accept(a, challenge, 1, "a");
        assertThat(accept(b, a.proof(new byte[Authentication.MAX_GREETING]))).hasSize(Authentication.MAX_GREETING);
        assertThat(accept(b, a.proof(new byte[Authentication.MAX_GREETING + 1]))).isNull();
        assertThat(accept(b, new byte[31])).isNull();
        assertThat(read(SECRET, a.hello(1, "x".repeat(512)))).isNotNull();
        assertThat(read(SECRET, a.hello(1, "x".repeat(513)))).isNull();
        assertThat(read(SECRET, a.hello(1, ""))).isNull();
        assertThat(read(SECRET, a.hello(1, "a\nb"))).isNull();
        for (int length = 0; length < hello.length; length++) {
            Authentication.Hello cut = read(SECRET, Arrays.copyOf(hello, length));
            assertThat(cut == null || !cut.proven()).isTrue();
        }
        for (int length = 0; length < challenge.length; length++) {
            assertThat(accept(a, Arrays.copyOf(challenge, length), 1, "a")).isZero();
        }
    }
}
