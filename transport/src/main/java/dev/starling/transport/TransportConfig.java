package dev.starling.transport;

import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * How a transport is set up. Immutable.
 *
 * @param provider name of the wire: {@code local}, {@code aeron}, {@code ucx} or {@code simulated}
 * @param secret what the members of the cluster prove that they know; 16 bytes or more
 * @param host name or address that peers reach this process at
 * @param port to listen on, 0 for any that is free
 * @param directory where a wire may keep files, or {@code null} for the wire's own choice
 * @param sharedMemory whether peers on the same host write into each other's memory; else all goes over the wire
 * @param silence after which a peer counts as lost
 * @param options of the wire, by name; an unknown one is an error
 */
public record TransportConfig(String provider, Secret secret, String host, int port, Path directory,
        boolean sharedMemory, Duration silence, Map<String, String> options) {
    /** Checks and copies. */
    public TransportConfig {
        require(port >= 0 && port < 65_536, "0 <= port < 65536 must hold, got " + port);
        require(silence.isPositive(), "the silence after which a peer is lost must be positive, got " + silence);
        options = Map.copyOf(options);
    }

    /** Returns a configuration on loopback, with a free port, and 10 s of silence. */
    public static TransportConfig of(String provider, Secret secret) {
        return new TransportConfig(provider, secret, "127.0.0.1", 0, null, true, Duration.ofSeconds(10), Map.of());
    }

    /** Returns this at another host and port. */
    public TransportConfig at(String newHost, int newPort) {
        return new TransportConfig(provider, secret, newHost, newPort, directory, sharedMemory, silence, options);
    }

    /** Returns this with a directory for files. */
    public TransportConfig directory(Path newDirectory) {
        return new TransportConfig(provider, secret, host, port, newDirectory, sharedMemory, silence, options);
    }

    /** Returns this with shared memory allowed or not. */
    public TransportConfig sharedMemory(boolean allowed) {
        return new TransportConfig(provider, secret, host, port, directory, allowed, silence, options);
    }

    /** Returns this with another silence. */
    public TransportConfig silence(Duration newSilence) {
        return new TransportConfig(provider, secret, host, port, directory, sharedMemory, newSilence, options);
    }

    /** Returns this with an option of the wire. */
    public TransportConfig option(String name, String value) {
        Map<String, String> more = new LinkedHashMap<>(options);
        more.put(name, value);
        return new TransportConfig(provider, secret, host, port, directory, sharedMemory, silence, more);
    }

    private static void require(boolean holds, String relation) {
        if (!holds) {
            throw new TransportException(TransportException.Problem.ARGUMENT, relation, "");
        }
    }
}
