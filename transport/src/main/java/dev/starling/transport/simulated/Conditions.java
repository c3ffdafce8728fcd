package dev.starling.transport.simulated;

import dev.starling.transport.TransportException;
import java.time.Duration;

/**
 * How a simulated network behaves. In every case a link delivers messages in order and once, or breaks: a lost message
 * is retransmitted later, and copies and noise are extra messages.
 *
 * @param latency shortest time from sending to arrival
 * @param jitter longest extra time of a message; it lets messages on different links overtake each other
 * @param loss share of transmissions that are lost; each costs {@code retransmission} and delays the messages that
 *     follow
 * @param retransmission time until a lost message is sent again; doubles with each loss of the same message
 * @param bytesPerSecond bandwidth of a link
 * @param windowBytes maximum number of bytes in flight on a link; more is back-pressure
 * @param backPressure share of offers that are refused even though there is room
 * @param copies share of messages of which a second copy arrives later
 * @param noise share of messages that are accompanied by a corrupted copy
 */
public record Conditions(Duration latency, Duration jitter, double loss, Duration retransmission, long bytesPerSecond,
        int windowBytes, double backPressure, double copies, double noise) {
    /** A good network: 20 µs, 2 µs of jitter, 2 GB/s, nothing lost. */
    public static final Conditions GOOD = new Conditions(Duration.ofNanos(20_000), Duration.ofNanos(2_000), 0,
            Duration.ofMillis(1), 2_000_000_000L, 1 << 20, 0, 0, 0);

    /** Checks the values. */
    public Conditions {
        TransportException.require(!latency.isNegative() && !jitter.isNegative() && !retransmission.isNegative()
                && bytesPerSecond > 0 && windowBytes > 0
                && isShare(loss) && isShare(backPressure) && isShare(copies) && isShare(noise),
                "durations >= 0, bytes > 0 and 0 <= shares < 1 must hold", "change the simulated conditions");
    }

    /** Returns a copy with another latency and jitter. */
    public Conditions delay(Duration newLatency, Duration newJitter) {
        return new Conditions(newLatency, newJitter, loss, retransmission, bytesPerSecond, windowBytes, backPressure,
                copies, noise);
    }

    /** Returns a copy with another share of lost transmissions. */
    public Conditions loss(double newLoss) {
        return new Conditions(latency, jitter, newLoss, retransmission, bytesPerSecond, windowBytes, backPressure,
                copies, noise);
    }

    /** Returns a copy with another bandwidth and window. */
    public Conditions room(long newBytesPerSecond, int newWindowBytes) {
        return new Conditions(latency, jitter, loss, retransmission, newBytesPerSecond, newWindowBytes, backPressure,
                copies, noise);
    }

    /** Returns a copy with another share of refused offers. */
    public Conditions backPressure(double newBackPressure) {
        return new Conditions(latency, jitter, loss, retransmission, bytesPerSecond, windowBytes, newBackPressure,
                copies, noise);
    }

    /** Returns a copy with other shares of messages that are copied, and accompanied by corrupted ones. */
    public Conditions disturbed(double newCopies, double newNoise) {
        return new Conditions(latency, jitter, loss, retransmission, bytesPerSecond, windowBytes, backPressure,
                newCopies, newNoise);
    }

    private static boolean isShare(double value) {
        return value >= 0 && value < 1;
    }
}
