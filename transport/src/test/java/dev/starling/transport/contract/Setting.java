package dev.starling.transport.contract;

import dev.starling.transport.Protection;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.simulated.Simulation;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireProvider;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Stream;

/**
 * A configuration of a transport for which the contract holds.
 *
 * @param name for reports
 * @param provider of the wire
 * @param sharedMemory whether processes may write into each other's memory
 * @param protection of frames between hosts; without shared memory, also of those within the host
 * @param options of the wire
 */
record Setting(String name, String provider, boolean sharedMemory, Protection protection,
        Map<String, String> options) {
    /**
     * One thread closes the peers one after the other, so they cannot acknowledge the last messages: do not wait long.
     */
    private static final Map<String, String> QUICK = Map.of("linger", "25", "term", "512k", "ipcTerm", "512k");

    /** Creates a setting with the protection that is the default. */
    Setting(String name, String provider, boolean sharedMemory, Map<String, String> options) {
        this(name, provider, sharedMemory, Protection.ENCRYPTED, options);
    }

    /** Returns all settings. */
    static Stream<Setting> all() {
        return Stream.of(new Setting("local", "local", true, Map.of()),
                new Setting("local without shared memory", "local", false, Map.of()),
                new Setting("simulated", "simulated", true, Map.of()),
                new Setting("aeron", "aeron", true, Map.of()),
                new Setting("aeron over UDP", "aeron", false, QUICK),
                new Setting("aeron over UDP, authenticated", "aeron", false, Protection.AUTHENTICATED, QUICK),
                new Setting("aeron over UDP, plain", "aeron", false, Protection.PLAIN, QUICK),
                new Setting("aeron over UDP in small datagrams", "aeron", false, with(QUICK, "mtu", "1408")),
                new Setting("tcp", "tcp", true, Map.of()),
                new Setting("tcp, encrypted", "tcp", false, Map.of()),
                new Setting("tcp, authenticated", "tcp", false, Protection.AUTHENTICATED, Map.of()),
                new Setting("tcp, plain", "tcp", false, Protection.PLAIN, Map.of()),
                new Setting("tcp, plain, 3 connections", "tcp", false, Protection.PLAIN, Map.of("connections", "3")),
                new Setting("ucx", "ucx", true, Map.of()),
                new Setting("ucx over TCP", "ucx", false, Map.of("tls", "tcp")));
    }

    /** Returns the settings in which messages travel differently, for tests to which their protection is the same. */
    static Stream<Setting> ways() {
        return all().filter(s -> s.protection == Protection.ENCRYPTED || s.options.containsKey("connections"));
    }

    private static Map<String, String> with(Map<String, String> options, String name, String value) {
        Map<String, String> more = new HashMap<>(options);
        more.put(name, value);
        return more;
    }

    /** Returns how frames are protected: processes that share memory are on one host. */
    Protection protectionInUse() {
        return (provider.equals("tcp") || provider.equals("aeron")) && !sharedMemory ? protection : Protection.PLAIN;
    }

    boolean isSimulated() {
        return provider.equals("simulated");
    }

    /** Returns whether the provider is available on this machine. */
    WireProvider.Availability availability() {
        return isSimulated() ? new WireProvider.Availability.Ready("by the test")
                : Transport.providers().get(provider).availability();
    }

    /** Returns an environment in which to open transports. */
    Environment environment() {
        return new Environment(this);
    }

    @Override
    public String toString() {
        return name;
    }

    /** An environment in which transports of a setting can reach each other, with a directory of its own. */
    static final class Environment implements AutoCloseable {
        /** A tenth of it is how long a stranger may take for its proof while many others wait. */
        private static final Duration LIVENESS_TIMEOUT = Duration.ofSeconds(4);

        private final Setting setting;
        private final Path directory;
        private final Simulation simulation;

        private Environment(Setting setting) {
            this.setting = setting;
            simulation = setting.isSimulated() ? Simulation.of(20) : null;
            try {
                directory = Files.createTempDirectory("starling-contract");
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        boolean isSimulated() {
            return simulation != null;
        }

        TransportConfig config(Secret secret) {
            TransportConfig config = TransportConfig.of(setting.provider, secret).sharedMemory(setting.sharedMemory)
                    .protection(setting.protection).directory(directory).livenessTimeout(LIVENESS_TIMEOUT);
            for (Map.Entry<String, String> option : setting.options.entrySet()) {
                config = config.option(option.getKey(), option.getValue());
            }
            return config;
        }

        /** Opens a transport, at a port if that is not 0. */
        Transport open(TransportConfig config) {
            return simulation == null ? Transport.open(config) : Transport.over(wire(config), config);
        }

        /** Opens a wire without a transport, as a stranger would. */
        Wire wire(TransportConfig config) {
            return simulation == null ? Transport.providers().get(setting.provider).open(config.wire())
                    : simulation.wire(config.port() == 0 ? "process" : "port-" + config.port());
        }

        @Override
        public void close() {
            try (Stream<Path> files = Files.walk(directory)) {
                if (files.count() > 1 && !setting.isSimulated()) {
                    try (Stream<Path> left = Files.walk(directory)) {
                        throw new AssertionError("left behind: " + left.toList());
                    }
                }
                Files.delete(directory);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
