package dev.starling.transport.spi;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What a {@link WireProvider} needs to know. It contains no secret, because a wire does not authenticate.
 *
 * @param host name or address at which peers reach this process
 * @param port to listen on, 0 for any free port
 * @param directory in which the wire may keep files, or {@code null} for the wire's default
 * @param sharedMemory whether data may travel through memory that processes of one host share
 * @param livenessTimeout how long a peer may be silent before the layer above counts it as lost
 * @param options of the wire, by name; an unknown one is an error
 */
public record WireConfig(String host, int port, @Nullable Path directory, boolean sharedMemory,
        Duration livenessTimeout, Map<String, String> options) {
    /** Copies the options. */
    public WireConfig {
        options = Map.copyOf(options);
    }
}
