package dev.starling.jmh.cluster;

import dev.starling.transport.Protection;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.time.Duration;

/** The connection of two members. */
public enum Route {
    /** Queues between threads. */
    LOCAL("local", true),
    /** Aeron through shared memory. */
    AERON_IPC("aeron", true),
    /** Aeron over UDP, as between hosts. */
    AERON_UDP("aeron", false);

    private static final Secret SECRET = Secret.ofText("threads of one benchmark");

    private final String provider;
    private final boolean sharedMemory;

    Route(String provider, boolean sharedMemory) {
        this.provider = provider;
        this.sharedMemory = sharedMemory;
    }

    /** Returns a configuration that tolerates a profiler that stops a member for long. */
    TransportConfig config() {
        return TransportConfig.of(provider, SECRET).sharedMemory(sharedMemory).protection(Protection.PLAIN)
            .livenessTimeout(Duration.ofMinutes(10));
    }
}
