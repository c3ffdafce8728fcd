package dev.starling.transport.aeron;

import io.aeron.driver.media.ImageConnection;
import io.aeron.logbuffer.FrameDescriptor;
import io.aeron.logbuffer.LogBufferDescriptor;
import io.aeron.protocol.DataHeaderFlyweight;
import io.aeron.protocol.SetupFlyweight;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.TimeUnit;
import org.agrona.BitUtil;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * How far the stream of a sender has come that was admitted and has yet to prove that it has the secret. Positions
 * count bytes of the stream from the start of its first term, headers and alignment included.
 */
final class UnprovenSender {
    private static final int HEADER = AeronSettings.HEADER;
    /** Aeron takes some hundred milliseconds until it notices what has ended, and for removing files. */
    private static final long FREEING_NS = TimeUnit.SECONDS.toNanos(1);

    private final InetAddress address;
    private final ImageConnection[] connections;
    private final int initialTerm;
    private final int termLength;
    /** How far data may lie beyond what was consumed; Aeron drops what is further, and does not say so. */
    private final int window;
    /** Everything before this was passed on, without a gap. */
    private long next;
    /** Aeron has told the sender that everything before this was consumed. */
    private long consumed;
    private long nextAskNs;
    private long lastReceivedNs;
    private boolean ended;

    UnprovenSender(InetSocketAddress source, SetupFlyweight announcement, int maxWindow, long now) {
        address = source.getAddress();
        connections = new ImageConnection[] {new ImageConnection(now, source)};
        initialTerm = announcement.initialTermId();
        termLength = announcement.termLength();
        window = Math.min(maxWindow, termLength / 2);
        next = position(announcement.activeTermId(), announcement.termOffset());
        consumed = next;
        nextAskNs = now;
        lastReceivedNs = now;
    }

    /** Returns whether a sender may announce this; Aeron relies on it, and so does the arithmetic here. */
    static boolean isWellFormed(SetupFlyweight announcement) {
        int term = announcement.termLength();
        int offset = announcement.termOffset();
        int mtu = announcement.mtuLength();
        return Integer.bitCount(term) == 1 && term >= LogBufferDescriptor.TERM_MIN_LENGTH
                && announcement.activeTermId() - announcement.initialTermId() >= 0
                && offset >= 0 && offset < term && offset % AeronSettings.ALIGNMENT == 0
                && mtu > HEADER && mtu <= AeronSettings.MAX_MTU && mtu % AeronSettings.ALIGNMENT == 0;
    }

    InetAddress address() {
        return address;
    }

    ImageConnection[] connections() {
        return connections;
    }

    long lastReceivedNs() {
        return lastReceivedNs;
    }

    private long position(int term, int offset) {
        return (term - initialTerm) * (long) termLength + offset;
    }

    /** Returns whether an announcement says where this sender is, and its stream has not ended. */
    boolean isAt(SetupFlyweight announcement) {
        return !ended && announcement.initialTermId() == initialTerm && announcement.termLength() == termLength
                && position(announcement.activeTermId(), announcement.termOffset()) == next;
    }

    /** The term, and in it the offset, of the next byte. */
    int term() {
        return initialTerm + (int) (next / termLength);
    }

    int offset() {
        return (int) (next % termLength);
    }

    /**
     * Returns the position behind a datagram that may be passed on: one that continues the stream, consists of whole
     * frames and lies in the window, or a heartbeat that shows nothing new. Returns -1 for any other, also for data
     * that arrive again, which Aeron would write over data that were not read yet if those are zeros, and for all that
     * follow the end of the stream: Aeron then no longer has a place for this sender, and would make another.
     */
    long endOfNext(DataHeaderFlyweight header, UnsafeBuffer datagram, int length) {
        if (ended || header.termOffset() < 0 || position(header.termId(), header.termOffset()) != next) {
            return -1;
        }
        if (DataHeaderFlyweight.isHeartbeat(datagram, length)) {
            return DataHeaderFlyweight.isRevoked(datagram) ? -1 : next;
        }
        long covered = covered(datagram, length, header.termOffset());
        return covered < 0 || next + length - consumed > window ? -1 : next + covered;
    }

    /**
     * Returns how many bytes of the stream a datagram covers, or -1 if it does not consist of whole frames. Of padding
     * at the end of a term only the header is sent.
     */
    private long covered(UnsafeBuffer datagram, int length, int termOffset) {
        long offset = 0;
        while (offset <= length - HEADER) {
            int at = (int) offset;
            int frameLength = FrameDescriptor.frameLength(datagram, at);
            boolean endsTerm = at == length - HEADER && FrameDescriptor.isPaddingFrame(datagram, at);
            offset += BitUtil.align((long) frameLength, AeronSettings.ALIGNMENT);
            if (frameLength < HEADER || termOffset + offset > termLength || offset > length && !endsTerm) {
                return -1;
            }
        }
        return offset < length ? -1 : offset;
    }

    /** Returns how many bytes of the present term are missing before a datagram, or 0. */
    int missing(DataHeaderFlyweight header) {
        long begin = position(header.termId(), header.termOffset());
        return ended ? 0 : (int) Math.min(Math.max(0, begin - next), termLength - offset());
    }

    /** Returns whether it is time to ask for what is missing, and notes that it was done. */
    boolean mayAsk(long now, long everyNs) {
        if (now - nextAskNs < 0) {
            return false;
        }
        nextAskNs = now + everyNs;
        return true;
    }

    /** Notes that a datagram was passed on. */
    void passed(UnsafeBuffer datagram, int length, long end, long now) {
        next = end;
        lastReceivedNs = now;
        ended = DataHeaderFlyweight.isHeartbeat(datagram, length) && DataHeaderFlyweight.isEndOfStream(datagram);
    }

    /**
     * Returns whether Aeron has freed the memory of this sender.
     *
     * @param livenessNs how long Aeron waits for a silent sender, and then keeps its memory
     */
    boolean isForgotten(long now, long livenessNs) {
        return now - lastReceivedNs > (ended ? 1 : 2) * livenessNs + FREEING_NS;
    }

    void consumed(int term, int offset) {
        consumed = position(term, offset);
    }
}
