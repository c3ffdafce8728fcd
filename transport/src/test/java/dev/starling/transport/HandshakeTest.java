package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.transport.frame.BodyChecksum;
import dev.starling.transport.frame.Frame;
import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Queue;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.CachedNanoClock;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;

/** The states of a handshake, driven frame by frame and by a clock of the test's own. */
class HandshakeTest {
    private static final Secret SECRET = Secret.ofText("the secret of the members");
    private static final byte[] GREETING = "rank 3".getBytes(StandardCharsets.US_ASCII);
    private static final long MILLISECOND = 1_000_000;
    private static final long LIVENESS_NS = 10_000 * MILLISECOND;

    private final CachedNanoClock clock = new CachedNanoClock();
    private final Side a = new Side("a", SECRET);
    private final Side b = new Side("b", SECRET);

    /** One end: a link that keeps what is sent, and the handshake over it. */
    private final class Side implements Link {
        final Queue<byte[]> sent = new ArrayDeque<>();
        final TransportCounters counters = new TransportCounters();
        final TransportContext context;
        Session session;
        Handshake handshake;
        int code = Wire.SENT;

        Side(String address, Secret secret) {
            this(address, secret, Protection.ENCRYPTED, false);
        }

        Side(String address, Secret secret, Protection protection, boolean leavesHost) {
            TransportConfig config = TransportConfig.of("local", secret).livenessTimeout(Duration.ofNanos(LIVENESS_NS))
                    .protection(protection);
            context = new TransportContext(config, new Named(address, leavesHost), clock, counters,
                    new Refusals(counters, address, clock), new Regions((_, _) -> { }), new BodyChecksum(),
                    new FrameProtection.Buffers(), new FrameProtection.Buffers(), new Handlers(),
                    new CachedNanoClock());
        }

        void initiate(String address) {
            session = new Session(context, this, address, clock.nanoTime());
            handshake = Handshake.initiate(context, session, address, GREETING, clock.nanoTime());
        }

        void answer(byte[] frame) {
            Authentication.Hello hello = Authentication.readHello(context.config().secret(), new UnsafeBuffer(frame),
                    Frame.HEADER, frame.length - Frame.HEADER);
            session = new Session(context, this, hello.address(), clock.nanoTime());
            handshake = Handshake.answer(context, session, hello, clock.nanoTime());
        }

        byte[] next(byte type) {
            assertThat(handshake.doWork(clock.nanoTime())).isEqualTo(1);
            return last(type);
        }

        byte[] last(byte type) {
            byte[] frame = sent.remove();
            assertThat(FrameForge.type(frame)).isEqualTo(type);
            assertThat(sent).isEmpty();
            return frame;
        }

        boolean receive(byte[] frame) {
            return handshake.receive(FrameForge.type(frame), new UnsafeBuffer(frame), 0, frame.length);
        }

        boolean isIdle() {
            return handshake.doWork(clock.nanoTime()) == 0 && sent.isEmpty();
        }

        @Override
        public int offer(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
                int bodyLength) {
            if (code == Wire.SENT) {
                byte[] frame = new byte[headerLength + bodyLength];
                header.getBytes(headerOffset, frame, 0, headerLength);
                if (bodyLength > 0) {
                    body.getBytes(bodyOffset, frame, headerLength, bodyLength);
                }
                sent.add(frame);
            }
            return code;
        }

        @Override
        public void close() { }
    }

    private static boolean isSealed(Side side, byte[] frame) {
        UnsafeBuffer buffer = new UnsafeBuffer(frame);
        return side.session.isSealed(buffer, 0, buffer, Frame.HEADER, frame.length - Frame.HEADER);
    }

    /** A wire of which only the address is of interest, and whether others are on another host. */
    private record Named(String address, boolean leavesHost) implements Wire {
        @Override
        public boolean leavesHost(String peer) {
            return leavesHost;
        }

        @Override
        public int maxMessageLength() {
            return 1 << 16;
        }

        @Override
        public Link open(String peer) {
            throw new UnsupportedOperationException();
        }

        @Override
        public int poll(Inbox inbox, int limit) {
            return 0;
        }

        @Override
        public void idle(long idleNs) { }

        @Override
        public void close() { }
    }

    private void pass(long ns) {
        clock.update(clock.nanoTime() + ns);
    }

    private void proveToB() {
        a.initiate("b");
        b.answer(a.next(Frame.HELLO));
        assertThat(a.receive(b.next(Frame.CHALLENGE))).isTrue();
    }

    @Test
    void goesThroughTheStatesOfBothEnds() {
        a.initiate("b");
        assertThat(a.handshake.state()).isEqualTo(Handshake.State.GREETING);
        b.answer(a.next(Frame.HELLO));
        assertThat(b.handshake.state()).isEqualTo(Handshake.State.CHALLENGING);
        assertThat(b.handshake.greeting()).isEmpty();
        assertThat(a.receive(b.next(Frame.CHALLENGE))).isTrue();
        assertThat(a.handshake.state()).isEqualTo(Handshake.State.PROVING);
        assertThat(b.receive(a.next(Frame.PROOF))).isTrue();
        assertThat(b.handshake.state()).isEqualTo(Handshake.State.COMPLETE);
        assertThat(b.handshake.greeting()).isEqualTo(GREETING);
        byte[] welcome = b.last(Frame.WELCOME);
        assertThat(isSealed(a, welcome)).isTrue();
        a.handshake.onSealedFrame();
        assertThat(a.handshake.state()).isEqualTo(Handshake.State.COMPLETE);
        pass(10 * LIVENESS_NS);
        assertThat(a.isIdle()).isTrue();
        assertThat(b.isIdle()).isTrue();
        assertThat(a.counters.refused() + b.counters.refused()).isZero();
    }

    @Test
    void repeatsAMessageThatIsNotAnswered() {
        a.initiate("b");
        byte[] hello = a.next(Frame.HELLO);
        pass(99 * MILLISECOND);
        assertThat(a.isIdle()).isTrue();
        pass(MILLISECOND);
        assertThat(a.next(Frame.HELLO)).isEqualTo(hello);
        a.code = Wire.BACK_PRESSURED;
        pass(100 * MILLISECOND);
        assertThat(a.isIdle()).isTrue();
        a.code = Wire.SENT;
        assertThat(a.isIdle()).as("after back-pressure it waits a millisecond").isTrue();
        pass(MILLISECOND);
        b.answer(a.next(Frame.HELLO));
        byte[] challenge = b.next(Frame.CHALLENGE);
        pass(100 * MILLISECOND);
        assertThat(b.next(Frame.CHALLENGE)).isEqualTo(challenge);
    }

    @Test
    void startsAgainIfThePeerDoesNotConfirmTheProof() {
        proveToB();
        assertThat(b.receive(a.next(Frame.PROOF))).isTrue();
        byte[] welcome = b.last(Frame.WELCOME);
        assertThat(isSealed(a, welcome)).isTrue();
        pass(LIVENESS_NS);
        a.next(Frame.PROOF);
        pass(LIVENESS_NS);
        a.next(Frame.HELLO);
        assertThat(a.handshake.state()).isEqualTo(Handshake.State.GREETING);
        assertThat(isSealed(a, welcome)).as("under the key of before").isFalse();
    }

    @Test
    void givesUpAPeerThatDoesNotProve() {
        a.initiate("b");
        b.answer(a.next(Frame.HELLO));
        pass(LIVENESS_NS + 1);
        b.handshake.doWork(clock.nanoTime());
        assertThat(b.handshake.state()).isEqualTo(Handshake.State.CLOSED);
        assertThat(b.counters.refusedStrangers()).isEqualTo(1);
        assertThat(b.sent).isEmpty();
    }

    @Test
    void sendsOneRefusalToAStranger() {
        Side stranger = new Side("stranger", Secret.ofText("the secret of a stranger"));
        stranger.initiate("b");
        b.answer(stranger.next(Frame.HELLO));
        assertThat(b.handshake.state()).isEqualTo(Handshake.State.REFUSING);
        assertThat(b.receive(FrameForge.frame(Frame.PROOF, 1, 0, 0, new byte[40]))).isFalse();
        assertThat(stranger.receive(b.next(Frame.REFUSAL))).isTrue();
        assertThat(b.handshake.state()).isEqualTo(Handshake.State.CLOSED);
        assertThat(stranger.handshake.state()).isEqualTo(Handshake.State.REFUSED);
        assertThat(stranger.handshake.reason()).contains("b refused this one").contains("same secret");
        assertThat(b.isIdle()).isTrue();
    }

    @Test
    void doesNotTryForeverToRefuse() {
        Side stranger = new Side("stranger", Secret.ofText("the secret of a stranger"));
        stranger.initiate("b");
        b.answer(stranger.next(Frame.HELLO));
        b.code = Wire.NOT_CONNECTED;
        assertThat(b.isIdle()).isTrue();
        assertThat(b.handshake.state()).isEqualTo(Handshake.State.REFUSING);
        pass(1001 * MILLISECOND);
        assertThat(b.isIdle()).isTrue();
        assertThat(b.handshake.state()).isEqualTo(Handshake.State.CLOSED);
    }

    @Test
    void refusesAPeerWithAnotherSecretOrAnotherAddress() {
        a.initiate("b");
        Side stranger = new Side("b", Secret.ofText("the secret of a stranger"));
        byte[] hello = a.next(Frame.HELLO);
        Authentication.Hello read = Authentication.readHello(SECRET, new UnsafeBuffer(hello), Frame.HEADER,
                hello.length - Frame.HEADER);
        byte[] forged = FrameForge.frame(Frame.CHALLENGE, read.session(), 0, 0,
                new Authentication(stranger.context.config().secret(),
                        new ProtectionOffer(Protection.ENCRYPTED, false)).challenge(read, 7, "b"));
        assertThat(a.receive(forged)).isFalse();
        assertThat(a.handshake.state()).isEqualTo(Handshake.State.REFUSED);
        assertThat(a.handshake.reason()).contains("different secret");

        a.initiate("also-b");
        b.answer(a.next(Frame.HELLO));
        assertThat(a.receive(b.next(Frame.CHALLENGE))).isFalse();
        assertThat(a.handshake.state()).isEqualTo(Handshake.State.REFUSED);
        assertThat(a.handshake.reason()).contains("the process at also-b has the address b");
    }

    @Test
    void protectsFramesIfEitherEndSeesTheOtherOnAnotherHost() {
        for (boolean atA : new boolean[] {true, false}) {
            Side from = new Side("a", SECRET, Protection.ENCRYPTED, atA);
            Side to = new Side("b", SECRET, Protection.ENCRYPTED, !atA);
            from.initiate("b");
            to.answer(from.next(Frame.HELLO));
            assertThat(from.receive(to.next(Frame.CHALLENGE))).isTrue();
            assertThat(to.receive(from.next(Frame.PROOF))).isTrue();
            byte[] welcome = to.last(Frame.WELCOME);
            assertThat(isSealed(from, welcome)).isFalse();
            assertThat(welcome).hasSize(Frame.HEADER + FrameProtection.TAG);
            assertThat(from.session.open(new UnsafeBuffer(welcome), 0).capacity()).isEqualTo(Frame.HEADER);
            welcome[Frame.HEADER + 3] ^= 1;
            assertThat(from.session.open(new UnsafeBuffer(welcome), 0)).isNull();
            assertThat(from.session.suspicion()).contains("changed on their way").endsWith(": 1");
        }
    }

    @Test
    void refusesAnotherProtectionOnBothSides() {
        Side encrypts = new Side("a", SECRET, Protection.ENCRYPTED, false);
        Side signs = new Side("b", SECRET, Protection.AUTHENTICATED, true);
        encrypts.initiate("b");
        signs.answer(encrypts.next(Frame.HELLO));
        assertThat(signs.handshake.state()).isEqualTo(Handshake.State.CHALLENGING);
        assertThat(encrypts.receive(signs.next(Frame.CHALLENGE))).isFalse();
        assertThat(signs.handshake.state()).isEqualTo(Handshake.State.CLOSED);
        assertThat(signs.counters.refusedStrangers()).isEqualTo(1);
        assertThat(encrypts.handshake.state()).isEqualTo(Handshake.State.REFUSED);
        assertThat(encrypts.handshake.reason()).isEqualTo("the process at b has the protection authenticated for its "
                + "frames, this one encrypted; give both the same protection");
    }

    @Test
    void connectsWithinAHostWhateverTheProtectionBetweenHosts() {
        Side plain = new Side("a", SECRET, Protection.PLAIN, false);
        plain.initiate("b");
        b.answer(plain.next(Frame.HELLO));
        assertThat(plain.receive(b.next(Frame.CHALLENGE))).isTrue();
        assertThat(b.receive(plain.next(Frame.PROOF))).isTrue();
        assertThat(isSealed(plain, b.last(Frame.WELCOME))).isTrue();
    }

    @Test
    void repeatsTheWelcomeUntilThereIsRoom() {
        proveToB();
        byte[] proof = a.next(Frame.PROOF);
        b.code = Wire.BACK_PRESSURED;
        assertThat(b.receive(proof)).isTrue();
        assertThat(b.handshake.state()).isEqualTo(Handshake.State.WELCOMING);
        assertThat(b.isIdle()).isTrue();
        b.code = Wire.SENT;
        b.next(Frame.WELCOME);
        assertThat(b.handshake.state()).isEqualTo(Handshake.State.COMPLETE);
        assertThat(b.receive(proof)).as("a proof that comes twice").isFalse();
        assertThat(b.counters.refusedReplays()).isEqualTo(1);
    }

    @Test
    void endsWithTheLink() {
        a.initiate("b");
        b.answer(a.next(Frame.HELLO));
        pass(100 * MILLISECOND);
        a.code = Wire.CLOSED;
        assertThat(a.isIdle()).isTrue();
        assertThat(a.handshake.state()).isEqualTo(Handshake.State.FAILED);
        assertThat(a.handshake.reason()).isEqualTo("the link to b closed");
        b.code = Wire.CLOSED;
        assertThat(b.isIdle()).isTrue();
        assertThat(b.handshake.state()).as("a peer that is gone has proven nothing").isEqualTo(
                Handshake.State.CLOSED);
        assertThat(b.counters.refusedStrangers()).isEqualTo(1);
    }
}
