package dev.starling.transport;

import static dev.starling.transport.TransportException.require;

import dev.starling.errors.Durations;
import dev.starling.transport.spi.WireConfig;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Configuration of a transport. Immutable: every method returns a new configuration and leaves this one as it is.
 *
 * @param provider name of the wire: {@code local}, {@code aeron}, {@code tcp}, {@code ucx}, {@code simulated} or
 *     {@value #AUTOMATIC}
 * @param secret shared by all members of the cluster, which prove to each other that they have it; 16 bytes or more
 * @param host name or address at which peers reach this process
 * @param port to listen on, 0 for any free port
 * @param directory in which the wire may keep files, or {@code null} for the wire's default
 * @param sharedMemory whether peers on the same host write into each other's memory; otherwise all data travel over the
 *     wire, as between hosts
 * @param livenessTimeout how long a peer may be silent before it counts as lost; at most 365 days
 * @param protection of the frames of connections to other hosts; all members need the same
 * @param options of the wire, by name; an unknown one is an error
 */
public record TransportConfig(String provider, Secret secret, String host, int port, @Nullable Path directory,
        boolean sharedMemory, Duration livenessTimeout, Protection protection, Map<String, String> options) {
    /**
     * Stands for the wire that suits the host: {@code aeron} if that is a loopback address, which only processes of the
     * same host reach, else {@code tcp}, which is faster than {@code aeron} between hosts.
     */
    public static final String AUTOMATIC = "auto";

    /** A few times as many nanoseconds are still a {@code long}. */
    private static final Duration MAX_LIVENESS = Duration.ofDays(365);

    /** Checks the values and copies the options. */
    public TransportConfig {
        require(port >= 0 && port < 65_536, "0 <= port < 65536 must hold, got " + port, "");
        require(livenessTimeout.isPositive(), "the liveness timeout must be positive, got "
                + Durations.text(livenessTimeout), "");
        require(livenessTimeout.compareTo(MAX_LIVENESS) <= 0, "the liveness timeout must be at most "
                + Durations.text(MAX_LIVENESS) + ", got " + Durations.text(livenessTimeout), "");
        options = Map.copyOf(options);
    }

    /** Returns the name of the wire: the provider's, or the one that suits the host. */
    public String wireName() {
        if (!provider.equals(AUTOMATIC)) {
            return provider;
        }
        InetSocketAddress address = new InetSocketAddress(host, port);
        return !address.isUnresolved() && address.getAddress().isLoopbackAddress() ? "aeron" : "tcp";
    }

    /** Returns a configuration for the loopback address, any free port, and a liveness timeout of 10 s. */
    public static TransportConfig of(String provider, Secret secret) {
        return new TransportConfig(provider, secret, "127.0.0.1", 0, null, true, Duration.ofSeconds(10),
                Protection.ENCRYPTED, Map.of());
    }

    /** Returns a copy with another host and port. */
    public TransportConfig at(String newHost, int newPort) {
        return new TransportConfig(provider, secret, newHost, newPort, directory, sharedMemory, livenessTimeout,
                protection, options);
    }

    /** Returns a copy with a directory for files. */
    public TransportConfig directory(Path newDirectory) {
        return new TransportConfig(provider, secret, host, port, newDirectory, sharedMemory, livenessTimeout,
                protection, options);
    }

    /** Returns a copy with shared memory allowed or not. */
    public TransportConfig sharedMemory(boolean allowed) {
        return new TransportConfig(provider, secret, host, port, directory, allowed, livenessTimeout, protection,
                options);
    }

    /** Returns a copy with another liveness timeout. */
    public TransportConfig livenessTimeout(Duration newTimeout) {
        return new TransportConfig(provider, secret, host, port, directory, sharedMemory, newTimeout, protection,
                options);
    }

    /** Returns a copy with another protection of frames between hosts. */
    public TransportConfig protection(Protection newProtection) {
        return new TransportConfig(provider, secret, host, port, directory, sharedMemory, livenessTimeout,
                newProtection, options);
    }

    /** Returns a copy with an option of the wire. */
    public TransportConfig option(String name, String value) {
        Map<String, String> more = new LinkedHashMap<>(options);
        more.put(name, value);
        return new TransportConfig(provider, secret, host, port, directory, sharedMemory, livenessTimeout, protection,
                more);
    }

    /** Returns what the wire is to know of this configuration: all but its name, the secret and the protection. */
    public WireConfig wire() {
        return new WireConfig(host, port, directory, sharedMemory, livenessTimeout, options);
    }
}
