package dev.starling.transport;

import dev.starling.transport.frame.Frame;
import dev.starling.transport.spi.Wire;
import java.util.concurrent.TimeUnit;
import org.agrona.DirectBuffer;
import org.jspecify.annotations.Nullable;

/**
 * The handshake of one connection, as seen by one of its two ends. Each state has one method, which does what is due in
 * it; what each message contains is defined by {@link Authentication}.
 *
 * <pre>
 * initiator   GREETING     sends HELLO      until a CHALLENGE arrives
 *             PROVING      sends PROOF      until any frame under the session's key arrives → COMPLETE
 * acceptor    CHALLENGING  sends CHALLENGE  until a PROOF arrives; the peer is unproven until then
 *                                         once → CLOSED, if the peer has another protection of frames
 *             WELCOMING    sends WELCOME    once → COMPLETE; the connection may be used meanwhile
 *             REFUSING     sends REFUSAL    once → CLOSED; the peer has a different secret
 * </pre>
 */
final class Handshake {
    private static final long RETRY_NS = TimeUnit.MILLISECONDS.toNanos(100);
    private static final long RETRY_WITHOUT_ROOM_NS = TimeUnit.MILLISECONDS.toNanos(1);
    private static final long TIME_TO_REFUSE_NS = TimeUnit.SECONDS.toNanos(1);

    private final TransportContext context;
    private final Session session;
    private final String address;
    private final Authentication authentication;
    private final long beganNs;
    /** The initiator's HELLO, or {@code null} at the initiator. */
    private final Authentication.@Nullable Hello hello;
    /** The body of the CHALLENGE; empty where none is sent. */
    private final byte[] challenge;
    private State state;
    private byte[] greeting;
    private long nextTryNs;
    private long challengedNs;
    private String reason = "";

    private Handshake(TransportContext context, Session session, String address, Authentication.@Nullable Hello hello,
            byte[] greeting, State state, long now) {
        this.context = context;
        this.session = session;
        this.address = address;
        this.hello = hello;
        this.greeting = greeting;
        this.state = state;
        boolean leavesHost = (hello == null || hello.proven()) && context.wire().leavesHost(address);
        authentication = new Authentication(context.config().secret(),
                new ProtectionOffer(context.config().protection(), leavesHost));
        if (leavesHost) {
            SealWarmUp.begin(context.config().protection());
        }
        challenge = hello != null && state == State.CHALLENGING
                ? authentication.challenge(hello, session.number(), context.address()) : new byte[0];
        beganNs = now;
        nextTryNs = now;
    }

    /** The states of a handshake. */
    enum State {
        /** The initiator waits for the CHALLENGE. */
        GREETING,
        /** The initiator has verified the peer, and waits until the peer has verified it. */
        PROVING,
        /** The acceptor waits for the PROOF. */
        CHALLENGING,
        /** Both have verified each other; the acceptor has yet to confirm that. */
        WELCOMING,
        /** The acceptor has yet to answer a peer that has a different secret. */
        REFUSING,
        /** Both have verified each other. */
        COMPLETE,
        /** The peer has a different secret, address or protection: {@link Handshake#reason}. */
        REFUSED,
        /** The link failed: {@link Handshake#reason}. */
        FAILED,
        /** The acceptor gave up on a peer that did not prove that it has the secret, or the endpoint was closed. */
        CLOSED
    }

    /** Begins a handshake with the process at an address. */
    static Handshake initiate(TransportContext context, Session session, String address, byte[] greeting, long now) {
        return new Handshake(context, session, address, null, greeting, State.GREETING, now);
    }

    /** Answers a process's HELLO. */
    static Handshake answer(TransportContext context, Session session, Authentication.Hello hello, long now) {
        session.address(hello.session());
        return new Handshake(context, session, hello.address(), hello, new byte[0],
                hello.proven() ? State.CHALLENGING : State.REFUSING, now);
    }

    /** Returns whether frames of this type belong to a handshake; a WELCOME is sealed and numbered as later frames. */
    static boolean includes(byte type) {
        return type == Frame.CHALLENGE || type == Frame.PROOF || type == Frame.REFUSAL;
    }

    State state() {
        return state;
    }

    /** Returns why the state is {@link State#REFUSED} or {@link State#FAILED}. */
    String reason() {
        return reason;
    }

    /** Returns the HELLO that is being answered, or {@code null} at the initiator. */
    Authentication.@Nullable Hello hello() {
        return hello;
    }

    /** Returns the initiator's greeting; at the acceptor, empty until it has arrived. */
    byte[] greeting() {
        return greeting;
    }

    /** Returns whether the peer has proven that it has the secret. */
    boolean isProven() {
        return state == State.PROVING || state == State.WELCOMING || state == State.COMPLETE;
    }

    long beganNs() {
        return beganNs;
    }

    /** Does what is due; returns the amount of work done. */
    int doWork(long now) {
        return switch (state) {
            case GREETING -> greet(now);
            case PROVING -> prove(now);
            case CHALLENGING -> challenge(now);
            case WELCOMING -> welcome();
            case REFUSING -> refuse(now);
            case COMPLETE, REFUSED, FAILED, CLOSED -> 0;
        };
    }

    private int greet(long now) {
        return now - nextTryNs < 0 ? 0
                : offer(Frame.HELLO, authentication.hello(session.number(), context.address()), now);
    }

    private int prove(long now) {
        if (now - nextTryNs < 0) {
            return 0;
        }
        if (now - challengedNs > context.livenessTimeoutNs()) {
            // The peer that sent the challenge is gone, or never received the proof: start again.
            session.forget();
            state = State.GREETING;
            return greet(now);
        }
        return offer(Frame.PROOF, authentication.proof(greeting), now);
    }

    private int challenge(long now) {
        if (now - beganNs > context.livenessTimeoutNs()) {
            giveUp("it did not prove in time that it has the cluster's secret");
            return 1;
        }
        int work = now - nextTryNs < 0 ? 0 : offer(Frame.CHALLENGE, challenge, now);
        if (work > 0 && contradicts()) {
            // The challenge says what this side has; the peer draws the same conclusion.
            context.refusals().settings(difference());
            state = State.CLOSED;
        }
        return work;
    }

    private int welcome() {
        int code = session.send(Frame.WELCOME, Frame.HEADER, null, 0, 0);
        if (code == Wire.SENT) {
            state = State.COMPLETE;
        } else if (code == Wire.CLOSED) {
            fail(session.failure());
        }
        return code == Wire.SENT ? 1 : 0;
    }

    private int refuse(long now) {
        if (now - beganNs > TIME_TO_REFUSE_NS) {
            state = State.CLOSED;
            return 0;
        }
        int work = now - nextTryNs < 0 ? 0 : offer(Frame.REFUSAL, new byte[0], now);
        if (work > 0) {
            state = State.CLOSED;
        }
        return work;
    }

    private int offer(byte type, byte[] body, long now) {
        int code = session.offer(type, body);
        nextTryNs = now + (code == Wire.SENT ? RETRY_NS : RETRY_WITHOUT_ROOM_NS);
        if (code == Wire.CLOSED) {
            fail(session.failure());
        }
        return code == Wire.SENT ? 1 : 0;
    }

    private void fail(String why) {
        switch (state) {
            case CHALLENGING -> giveUp("it did not prove that it has the secret: " + why);
            case REFUSING -> state = State.CLOSED;
            default -> end(State.FAILED, why);
        }
    }

    /** Refuses a peer that has not proven that it has the secret. */
    void giveUp(String why) {
        context.refusals().stranger(address, why);
        state = State.CLOSED;
    }

    private void end(State last, String why) {
        state = last;
        reason = why;
    }

    /** Ends the handshake, whatever its state: the endpoint is over. */
    void close() {
        state = State.CLOSED;
    }

    /** Receives a frame that the handshake {@linkplain #includes includes}; returns whether it was accepted. */
    boolean receive(byte type, DirectBuffer buffer, int offset, int length) {
        return switch (type) {
            case Frame.CHALLENGE -> onChallenge(buffer, offset, length);
            case Frame.PROOF -> onProof(buffer, offset, length);
            case Frame.REFUSAL -> onRefusal(buffer, offset, length);
            default -> throw new IllegalArgumentException("frame of type " + type);
        };
    }

    private boolean onChallenge(DirectBuffer buffer, int offset, int length) {
        if (!Frame.isSealed(context.bodies(), buffer, offset, length, 0)) {
            return context.refusals().checksum(address);
        }
        if (state != State.GREETING) {
            return context.refusals().late();
        }
        long peer = authentication.acceptChallenge(buffer, offset + Frame.HEADER, length - Frame.HEADER,
                session.number(), context.address());
        if (peer == 0) {
            end(State.REFUSED, "the process at " + address + " has a different secret than this one; give both the same"
                    + " secret");
            return context.refusals().reportedStranger();
        }
        if (!authentication.peerAddress().equals(address)) {
            end(State.REFUSED, "the process at " + address + " has the address "
                    + authentication.peerAddress() + " in the cluster; connect to it by that address");
            return false;
        }
        if (contradicts()) {
            end(State.REFUSED, difference());
            return false;
        }
        session.address(peer);
        agree(authentication.key());
        session.renewLiveness();
        challengedNs = context.now();
        nextTryNs = challengedNs;
        state = State.PROVING;
        return true;
    }

    private boolean contradicts() {
        return authentication.offer().contradicts(authentication.peerOffer());
    }

    private String difference() {
        return "the process at " + address + " has the protection " + authentication.peerOffer().configured()
                + " for its frames, this one " + authentication.offer().configured()
                + "; give both the same protection";
    }

    /** Seals or protects frames from now on. */
    private void agree(long key) {
        session.agree(key);
        Protection protection = authentication.offer().agreedWith(authentication.peerOffer());
        if (protection != Protection.PLAIN) {
            session.protect(protection(protection, hello == null, context.sealing()),
                    protection(protection, hello != null, context.opening()));
        }
    }

    private FrameProtection protection(Protection protection, boolean ofInitiator, FrameProtection.Buffers buffers) {
        return new FrameProtection(FrameSeal.of(protection), authentication.frameSecret(ofInitiator), buffers,
                FrameProtection.FRAMES_PER_KEY);
    }

    private boolean onProof(DirectBuffer buffer, int offset, int length) {
        if (state == State.REFUSING) {
            return context.refusals().proof(address);
        }
        if (state != State.CHALLENGING) {
            return context.refusals().late();
        }
        byte[] accepted = authentication.acceptProof(buffer, offset + Frame.HEADER, length - Frame.HEADER);
        if (accepted == null) {
            // Whichever process sent this, the sender of the HELLO may yet prove that it has the secret.
            return context.refusals().proof(address);
        }
        long key = authentication.key();
        if (!Frame.isSealed(context.bodies(), buffer, offset, length, key)) {
            return context.refusals().checksum(address);
        }
        greeting = accepted;
        agree(key);
        session.renewLiveness();
        // If the WELCOME cannot be sent now, doWork tries again, and finds out if the link has failed.
        state = session.send(Frame.WELCOME, Frame.HEADER, null, 0, 0) == Wire.SENT ? State.COMPLETE : State.WELCOMING;
        return true;
    }

    /**
     * Only the receiver of the HELLO knows this session, so a refusal is as trustworthy as the absence of an answer.
     */
    private boolean onRefusal(DirectBuffer buffer, int offset, int length) {
        if (!Frame.isSealed(context.bodies(), buffer, offset, length, 0)) {
            return context.refusals().checksum(address);
        }
        if (state != State.GREETING) {
            return context.refusals().late();
        }
        end(State.REFUSED, "the process at " + address + " refused this one: they have different secrets; give both"
                + " the same secret");
        return true;
    }

    /** Accepts a frame under the session's key, with which the peer confirms the proof. */
    void onSealedFrame() {
        if (state == State.PROVING) {
            state = State.COMPLETE;
        }
    }
}
