package dev.starling.transport;

import dev.starling.transport.frame.Frame;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Seals and opens small frames until the JVM has compiled the algorithm. The JVM counts calls, not bytes: before it
 * uses the processor's instructions, some hundred frames of full size would pass at a hundredth of the speed, and the
 * first steps of a training run would wait for them.
 */
final class SealWarmUp {
    /** The JDK's combined AES-GCM takes no fewer bytes than these. */
    private static final int BODY = 512;
    /** Each is sealed and opened; HotSpot compiles with its second compiler what was called 5,000 times. */
    private static final int FRAMES = 3_000;
    /** More than it takes, for a JVM without that compiler and for a busy machine. */
    private static final Duration AT_MOST = Duration.ofSeconds(2);
    private static final int SECRET = 32;
    private static final Set<Protection> BEGUN = ConcurrentHashMap.newKeySet();

    private SealWarmUp() { }

    /**
     * Starts a thread, which ends by itself, at the first call in this process for a protection that seals frames. What
     * fails in it fails again where it is used, with a reason.
     */
    static void begin(Protection protection) {
        if (protection != Protection.PLAIN && BEGUN.add(protection)) {
            Thread.ofPlatform().daemon().name("starling-seal-warm-up").start(() -> {
                try {
                    run(protection);
                } catch (RuntimeException e) {
                    System.getLogger("dev.starling.transport").log(System.Logger.Level.DEBUG, "cannot prepare "
                            + protection, e);
                }
            });
        }
    }

    /** Returns the number of frames that were sealed and opened. */
    static int run(Protection protection) {
        byte[] secret = new byte[SECRET];
        FrameSeal sealing = FrameSeal.of(protection);
        FrameSeal opening = FrameSeal.of(protection);
        sealing.use(secret);
        opening.use(secret);
        byte[] body = new byte[BODY];
        byte[] frame = new byte[Frame.HEADER + BODY + FrameSeal.TAG];
        byte[] opened = new byte[frame.length];
        long deadline = System.nanoTime() + AT_MOST.toNanos();
        int count = 0;
        while (count < FRAMES && System.nanoTime() - deadline < 0) {
            sealing.seal(body, BODY, count, frame);
            if (!opening.open(frame, frame.length, count, opened)) {
                throw new IllegalStateException("a frame sealed with " + protection + " is not authentic");
            }
            count++;
        }
        return count;
    }
}
