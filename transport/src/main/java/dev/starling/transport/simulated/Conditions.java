package dev.starling.transport.simulated;

import dev.starling.transport.TransportException;
import java.time.Duration;

/**
 * How a simulated network behaves. Whatever it does, a link delivers what was sent in order and once, or breaks: what
 * is lost is sent again, later; copies and noise come beside what was sent.
 *
 * @param latency from sending to arrival at best
 * @param jitter longest extra time of a message; messages on different links overtake each other by it
 * @param loss share of transmissions that are lost; each costs {@code retransmission} and holds up what follows
 * @param retransmission time until a lost message is sent again; doubles with each loss of the same message
 * @param bytesPerSecond what a link carries
 * @param windowBytes what may be under way on a link; more is back-pressure
 * @param backPressure share of offers that are refused though there would be room
 * @param copies share of messages of which a second copy comes later
 * @param noise share of messages beside which a mangled copy comes
 */
public record Conditions(Duration latency, Duration jitter, double loss, Duration retransmission, long bytesPerSecond,
        int windowBytes, double backPressure, double copies, double noise) {
    /** A good network: 20 µs, 2 µs of jitter, 2 GB/s, nothing lost. */
    public static final Conditions GOOD = new Conditions(Duration.ofNanos(20_000), Duration.ofNanos(2_000), 0,
            Duration.ofMillis(1), 2_000_000_000L, 1 << 20, 0, 0, 0);

    /** Checks. */
    public Conditions {
        if (latency.isNegative() || jitter.isNegative() || retransmission.isNegative() || bytesPerSecond <= 0
                || windowBytes <= 0 || !share(loss) || !share(backPressure) || !share(copies) || !share(noise)) {
            throw new TransportException(TransportException.Problem.ARGUMENT,
                    "durations >= 0, bytes > 0 and 0 <= shares < 1 must hold", "change them");
        }
    }

    /** Returns this with a latency and jitter. */
    public Conditions delay(Duration newLatency, Duration newJitter) {
        return new Conditions(newLatency, newJitter, loss, retransmission, bytesPerSecond, windowBytes, backPressure,
                copies, noise);
    }

    /** Returns this with a share of transmissions lost. */
    public Conditions loss(double newLoss) {
        return new Conditions(latency, jitter, newLoss, retransmission, bytesPerSecond, windowBytes, backPressure,
                copies, noise);
    }

    /** Returns this with a speed and a window. */
    public Conditions room(long newBytesPerSecond, int newWindowBytes) {
        return new Conditions(latency, jitter, loss, retransmission, newBytesPerSecond, newWindowBytes, backPressure,
                copies, noise);
    }

    /** Returns this with a share of offers refused. */
    public Conditions backPressure(double newBackPressure) {
        return new Conditions(latency, jitter, loss, retransmission, bytesPerSecond, windowBytes, newBackPressure,
                copies, noise);
    }

    /** Returns this with shares of messages copied, and accompanied by mangled ones. */
    public Conditions disturbed(double newCopies, double newNoise) {
        return new Conditions(latency, jitter, loss, retransmission, bytesPerSecond, windowBytes, backPressure,
                newCopies, newNoise);
    }

    private static boolean share(double value) {
        return value >= 0 && value < 1;
    }
}
