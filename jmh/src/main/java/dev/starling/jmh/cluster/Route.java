package dev.starling.jmh.cluster;

import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.time.Duration;

/** How what two members tell each other travels. */
public enum Route {
    /** Queues between threads. */
    LOCAL("local", true),
    /** Aeron through memory of the host. */
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

    /** A profiler may hold a member up for long. */
    TransportConfig config() {
        return TransportConfig.of(provider, SECRET).sharedMemory(sharedMemory).livenessTimeout(Duration.ofMinutes(10));
    }
}
