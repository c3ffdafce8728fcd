package dev.starling.distributed.coordinator;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class RendezvousTest {
    @ParameterizedTest
    @CsvSource({"node7, node7, 0", "node7:4000, node7, 4000", "10.0.0.1, 10.0.0.1, 0", "10.0.0.1:1, 10.0.0.1, 1",
        "[fe80::1], fe80::1, 0", "[fe80::1]:4000, fe80::1, 4000", "fe80::1, fe80::1, 0", "::1, ::1, 0",
        "[::]:65535, ::, 65535", "fe80::1%eth0, fe80::1%eth0, 0", "[fe80::1%eth0]:4000, fe80::1%eth0, 4000"})
    void separatesHostAndPort(String entry, String host, int port) {
        assertThat(Rendezvous.host(entry)).isEqualTo(host);
        assertThat(Rendezvous.port(entry)).isEqualTo(port);
    }

    @ParameterizedTest
    @ValueSource(strings = {"node7:", "node7:http", "[fe80::1]:", "[fe80::1]:x"})
    void namesAnEntryWithoutAPortAfterItsColon(String entry) {
        assertThatThrownBy(() -> Rendezvous.port(entry)).isInstanceOf(TransportException.class)
                .hasMessageContaining("not a port in " + entry).hasMessageContaining("write host:port");
    }

    @Test
    void requiresThePortOfTheFirstHost() {
        TransportConfig config = TransportConfig.of("local", Secret.random());
        assertThatThrownBy(() -> Rendezvous.join(config, List.of("[::1]", "[::1]"), 0, Coordinator.OnLoss.END, 2))
                .isInstanceOf(TransportException.class).hasMessageContaining("a port in the first entry");
        assertThatThrownBy(() -> Rendezvous.join(config, List.of("host:1", "host"), 0, 2, Coordinator.OnLoss.END, 2))
                .isInstanceOf(TransportException.class).hasMessageContaining("2 servers");
    }
}
