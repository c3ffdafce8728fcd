package dev.starling.transport;

import dev.starling.transport.frame.BodyChecksum;
import dev.starling.transport.frame.Frame;
import dev.starling.transport.spi.Wire;
import org.agrona.concurrent.CachedNanoClock;

/**
 * What the endpoints of a transport share.
 *
 * @param clock the time at which the current call of {@link Transport#doWork} began
 * @param bodies of the transport's thread
 * @param sealing for protecting frames
 * @param opening for opening those that arrive
 * @param handlers of the application, which endpoints call
 * @param attended the time for which this process has listened to peers: the sum of the times between calls of
 *     {@link Transport#doWork}, each up to {@link #ATTENDED_PER_TIMEOUT}. In a longer one, this process was stopped, as
 *     its peers may have been: their silence is no reason to lose them before they had time to break it
 */
record TransportContext(TransportConfig config, Wire wire, CachedNanoClock clock, TransportCounters counters,
        Refusals refusals, Regions regions, BodyChecksum bodies, FrameProtection.Buffers sealing,
        FrameProtection.Buffers opening, Handlers handlers, CachedNanoClock attended) {
    /** The liveness timeout, divided by the longest time that counts. */
    private static final int ATTENDED_PER_TIMEOUT = 4;

    /** Begins a call of {@link Transport#doWork}. */
    void begin(long now) {
        attended.update(attended.nanoTime()
                + Math.min(now - clock.nanoTime(), livenessTimeoutNs() / ATTENDED_PER_TIMEOUT));
        clock.update(now);
    }

    String address() {
        return wire.address();
    }

    long now() {
        return clock.nanoTime();
    }

    long livenessTimeoutNs() {
        return config.livenessTimeout().toNanos();
    }

    int maxMessageLength() {
        return wire.maxMessageLength() - Frame.PUT_HEADER - FrameProtection.TAG;
    }

    /** Returns how many bytes of a put one frame carries. */
    int pieceLength() {
        // Where the data of a piece lie apart from its header, they have the length that suits the wire.
        return wire.sendsInPlace() ? Math.min(wire.bulkMessageLength(), maxMessageLength())
                : wire.bulkMessageLength() - Frame.PUT_HEADER - FrameProtection.TAG;
    }

    /** Returns whether peers may map this process's memory, and this process theirs. */
    boolean mapsMemory() {
        return config.sharedMemory() && wire.mapsMemory();
    }
}
