package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class TransportConfigTest {
    private static final Secret SECRET = Secret.random();

    @Test
    void isNotChangedByTheCopiesMadeFromIt() {
        TransportConfig config = TransportConfig.of("local", SECRET);
        TransportConfig copy = config.at("host", 4000).directory(Path.of("files")).sharedMemory(false)
                .livenessTimeout(Duration.ofSeconds(3)).protection(Protection.AUTHENTICATED).option("name", "value");
        assertThat(copy).isEqualTo(new TransportConfig("local", SECRET, "host", 4000, Path.of("files"), false,
                Duration.ofSeconds(3), Protection.AUTHENTICATED, Map.of("name", "value")));
        assertThat(config).isEqualTo(new TransportConfig("local", SECRET, "127.0.0.1", 0, null, true,
                Duration.ofSeconds(10), Protection.ENCRYPTED, Map.of()));
    }

    @Test
    void choosesTheWireThatSuitsTheHost() {
        TransportConfig config = TransportConfig.of(TransportConfig.AUTOMATIC, SECRET);
        assertThat(config.wireName()).isEqualTo("aeron");
        assertThat(config.at("::1", 0).wireName()).isEqualTo("aeron");
        assertThat(config.at("10.78.0.1", 0).wireName()).isEqualTo("tcp");
        assertThat(config.at("0.0.0.0", 0).wireName()).isEqualTo("tcp");
        assertThat(TransportConfig.of("ucx", SECRET).wireName()).isEqualTo("ucx");
    }

    @Test
    void copiesItsOptions() {
        Map<String, String> options = new HashMap<>(Map.of("name", "value"));
        TransportConfig config = new TransportConfig("local", SECRET, "host", 0, null, true, Duration.ofSeconds(1),
                Protection.PLAIN, options);
        options.put("other", "value");
        assertThat(config.options()).containsOnlyKeys("name");
    }

    @Test
    void refusesPortsAndTimeoutsOutOfRange() {
        TransportConfig config = TransportConfig.of("local", SECRET);
        assertThatThrownBy(() -> config.at("host", 65_536)).isInstanceOf(TransportException.class)
                .hasMessageContaining("0 <= port < 65536").hasMessageContaining("65536");
        assertThatThrownBy(() -> config.livenessTimeout(Duration.ZERO)).isInstanceOf(TransportException.class)
                .hasMessageContaining("the liveness timeout must be positive").hasMessageContaining("got 0 s");
        assertThat(config.livenessTimeout(Duration.ofDays(365)).livenessTimeout()).hasDays(365);
        for (Duration endless : new Duration[] {Duration.ofDays(36_500), Duration.ofSeconds(Long.MAX_VALUE)}) {
            assertThatThrownBy(() -> config.livenessTimeout(endless)).isInstanceOf(TransportException.class)
                    .hasMessageContaining("must be at most 31536000 s, got " + endless.toSeconds() + " s");
        }
    }
}
