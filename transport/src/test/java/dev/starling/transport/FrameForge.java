package dev.starling.transport;

import dev.starling.transport.frame.BodyChecksum;
import dev.starling.transport.frame.Frame;
import org.agrona.concurrent.UnsafeBuffer;

/** Makes frames as an attacker would, and gives tests access to internals of the transport. */
public final class FrameForge {
    /** Types of frames. */
    public static final byte HELLO = Frame.HELLO;
    public static final byte CHALLENGE = Frame.CHALLENGE;
    public static final byte PROOF = Frame.PROOF;
    public static final byte MESSAGE = Frame.MESSAGE;
    public static final byte PUT = Frame.PUT;
    public static final byte GOODBYE = Frame.GOODBYE;

    private FrameForge() { }

    /** Writes a well-formed header of this version over the first 8 bytes of a message. */
    public static void putStart(byte[] message, byte type) {
        UnsafeBuffer start = new UnsafeBuffer(new byte[Frame.HEADER]);
        Frame.putHeader(start, type, 0, 0, message.length);
        start.getBytes(0, message, 0, Long.BYTES);
    }

    /** Returns how many bytes of a put fit into one frame. */
    public static int pieceLength(Endpoint endpoint) {
        return endpoint.pieceLength();
    }

    /** Sends an acknowledgement of puts that holds no number, as a faulty member would. */
    public static void acknowledgeNothing(Endpoint endpoint) {
        endpoint.frame(Frame.PUT_DONE, Frame.HEADER, null, 0, 0);
    }

    /** Returns a sealed frame. */
    public static byte[] frame(byte type, long session, long sequence, long key, byte[] body) {
        UnsafeBuffer frame = new UnsafeBuffer(new byte[Frame.HEADER + body.length]);
        Frame.seal(new BodyChecksum(), frame, Frame.HEADER, type, session, sequence, key,
                new UnsafeBuffer(body), 0, body.length);
        frame.putBytes(Frame.HEADER, body);
        return frame.byteArray();
    }

    /** Returns a HELLO that a process with the secret would send. */
    public static byte[] hello(Secret secret, long session, String address) {
        return frame(Frame.HELLO, 0, 0, 0, new Authentication(secret,
                new ProtectionOffer(Protection.ENCRYPTED, false)).hello(session, address));
    }

    /** Returns the type of a frame. */
    public static byte type(byte[] frame) {
        return frame.length > 3 ? frame[3] : 0;
    }

    /** Returns a frame's session. */
    public static long session(byte[] frame) {
        return Frame.session(new UnsafeBuffer(frame), 0);
    }
}
